//! What a capture leaves to the next one: for each entry of a manifest the inode and status time that it had.
//!
//! ```text
//! "LKSTAMP1", boot (16), manifest (32), device (u64), trusted before: seconds (i64), nanoseconds (u32), count (u64);
//! for each entry of the manifest, in order: inode (u64), status time: seconds (i64), nanoseconds (u32); then a hash of all
//! ```
//!
//! Invariant: derived, and never needed. A file that is damaged, or speaks of a manifest that cannot be read whole, is as
//! good as none; and so is one of another boot, since after a power failure a file may have the times of its last
//! change without the content.

use std::os::fd::AsFd as _;
use std::sync::Arc;

use kernel::publish::{self, TEMP_PREFIX};
use kernel::{bytes, dir, node, open};
use tree::Time;

use super::{Known, Seen, Stamp};
use crate::encode::{hash_at, u32_at, u64_at};
use crate::error::{Result, Stepping as _};
use crate::history::LaneKey;
use crate::id::ManifestId;
use crate::steps::Step;
use crate::store::Store;

const MAGIC: &[u8; 8] = b"LKSTAMP1";
const HEADER: usize = 84;
const RECORD: usize = 20;

/// Which run of the machine it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Boot([u8; 16]);

impl Boot {
    /// Stands for a boot id in the kernel's words.
    pub(super) fn of(id: &str) -> Boot {
        let mut boot = Boot([0; 16]);
        boot.0.copy_from_slice(&blake3::hash(id.trim().as_bytes()).as_bytes()[..16]);
        boot
    }
}

fn name(lane: &LaneKey, root: u32) -> String {
    format!("{}.{root}", lane.as_str())
}

/// What is known of a root, with the manifest that it is known of.
pub(super) fn load(store: &Store, lane: &LaneKey, root: u32, boot: Boot) -> Option<(ManifestId, Known)> {
    let fd = open::file_beneath(&store.stamps, name(lane, root).as_bytes()).ok()?;
    let file = bytes::read_all(&fd).ok()?;
    let (stamps, hash) = file.split_at_checked(file.len().checked_sub(32)?)?;
    if stamps.len() < HEADER
        || &stamps[..8] != MAGIC
        || stamps[8..24] != boot.0
        || blake3::hash(stamps).as_bytes()[..] != *hash
    {
        return None;
    }
    let manifest = ManifestId(hash_at(stamps, 24));
    let records = stamps[HEADER..].chunks_exact(RECORD);
    if u64_at(stamps, 76) != records.len() as u64 {
        return None;
    }
    let mut known = Known { dev: u64_at(stamps, 56), trusted_before: time(stamps, 64), seen: Vec::new() };
    known.seen.reserve(records.len());
    let mut entries = store.manifest(manifest).iter().ok()?;
    for record in records {
        let (path, item) = entries.next()?.ok()?;
        let stamp = Stamp { ino: u64_at(record, 0), ctime: time(record, 8) };
        known.seen.push(Seen { path, stamp, item: Arc::new(item) });
    }
    entries.next().is_none().then_some((manifest, known))
}

pub(super) fn save(
    store: &Store,
    lane: &LaneKey,
    root: u32,
    boot: Boot,
    manifest: ManifestId,
    known: &Known,
) -> Result<()> {
    let mut out = Vec::with_capacity(HEADER + known.seen.len() * RECORD + 32);
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&boot.0);
    out.extend_from_slice(&manifest.0);
    out.extend_from_slice(&known.dev.to_le_bytes());
    put_time(&mut out, known.trusted_before);
    out.extend_from_slice(&(known.seen.len() as u64).to_le_bytes());
    for seen in &known.seen {
        out.extend_from_slice(&seen.stamp.ino.to_le_bytes());
        put_time(&mut out, seen.stamp.ctime);
    }
    let hash = blake3::hash(&out);
    out.extend_from_slice(hash.as_bytes());
    let name = name(lane, root);
    store.steps.at(Step::StampsWrite).stepping("write stamps", &name)?;
    // Not synced: what a power failure makes of it shows by its hash.
    let (fd, temp) = publish::temp_file(&store.stamps, 0o600).stepping("write stamps", &name)?;
    let written = bytes::write_all_at(&fd, &out, 0)
        .and_then(|()| publish::rename_replace(&store.stamps, &temp, &store.stamps, name.as_bytes()));
    if written.is_err() {
        let _ = node::unlink_at(&store.stamps, &temp);
    }
    written.stepping("write stamps", &name)
}

impl Store {
    /// Lets a lane know what another one knows of the same files; what it knows already stays. It is never written in place,
    /// so that both may have one file.
    pub fn share_known(&self, from: &LaneKey, to: &LaneKey, roots: u32) -> Result<()> {
        for root in 0..roots {
            let (old, new) = (name(from, root), name(to, root));
            match node::link_at(&self.stamps, old.as_bytes(), &self.stamps, new.as_bytes()) {
                Err(error) if error.is_not_found() || error.errno == kernel::Errno::EXIST => {}
                other => other.stepping("link stamps", &new)?,
            }
        }
        Ok(())
    }
}

/// Removes the stamps of all roots of a lane.
pub(crate) fn forget(store: &Store, lane: &LaneKey) -> Result<()> {
    for item in dir::entries(&store.stamps).stepping("list", b"stamps")? {
        let root = item.name.strip_prefix(lane.as_str().as_bytes()).and_then(|rest| rest.strip_prefix(b"."));
        if root.is_some() && !item.name.starts_with(TEMP_PREFIX) {
            crate::index::forget(store.stamps.as_fd(), &item.name).stepping("remove", &item.name)?;
        }
    }
    Ok(())
}

fn put_time(out: &mut Vec<u8>, time: Time) {
    out.extend_from_slice(&time.sec.to_le_bytes());
    out.extend_from_slice(&time.nsec.to_le_bytes());
}

fn time(bytes: &[u8], at: usize) -> Time {
    Time { sec: u64_at(bytes, at) as i64, nsec: u32_at(bytes, at + 8) }
}
