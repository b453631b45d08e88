//! [`Digest`]: what a change was when it was looked at, in 32 bytes, so that later it can be told whether it is still the
//! same. Reads both sides.
//!
//! Invariant: two changes with one digest have the same paths, kind, modes, attributes and content on both sides.
//! Content that is too large to be shown by lines goes in by identity (inode, size, times): that says no less,
//! but may say "another" where only the inode is another one. The format has no version: a digest is compared with
//! those of the same release, and with others it is just not equal.

use std::fmt;

use tree::source::Xattr;
use tree::{Change, ChangeKind, Entry, Kind, Source, TreePath};

use crate::error::{Reading as _, Result};
use crate::read::{TEXT_LIMIT, pieces};

/// Says what the bytes are the digest of, so that they are that of nothing else.
const CONTEXT: &str = "lanekeeper 2026 review: a change";

/// A BLAKE3 digest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Digest {
    /// Stands for one that was not taken yet. No change has it, so that nothing is ever taken for it.
    pub const UNKNOWN: Digest = Digest([0; 32]);

    /// Reads it as it is printed; `None` for anything else.
    pub fn parse(text: &str) -> Option<Digest> {
        let nibble = |byte: &u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        let mut bytes = [0; 32];
        let text = text.as_bytes();
        if text.len() != 64 {
            return None;
        }
        for (to, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
            *to = nibble(&pair[0])? << 4 | nibble(&pair[1])?;
        }
        Some(Digest(bytes))
    }
}

/// The digest of one change.
pub fn of_change(change: &Change, base: &dyn Source, lane: &dyn Source) -> Result<Digest> {
    let mut feed = Feed(blake3::Hasher::new_derive_key(CONTEXT));
    let kind = match &change.kind {
        ChangeKind::Add => 0,
        ChangeKind::Modify => 1,
        ChangeKind::Delete => 2,
        ChangeKind::Mode => 3,
        ChangeKind::Retype => 4,
        ChangeKind::Rename { modified: false, .. } => 5,
        ChangeKind::Rename { modified: true, .. } => 6,
    };
    feed.number(kind);
    feed.bytes(change.path.as_bytes());
    feed.bytes(change.old_path().as_bytes());
    // What the set vouches for as equal need not be read twice.
    let same = matches!(change.kind, ChangeKind::Mode | ChangeKind::Rename { modified: false, .. });
    feed.side(base, "base", change.old_path(), change.old.as_ref(), true)?;
    feed.side(lane, "lane", &change.path, change.new.as_ref(), !same)?;
    Ok(feed.finish())
}

/// The digest of a list of changes, each with the place that its path is relative to.
pub fn of_list<'d>(list: impl Iterator<Item = (&'d [u8], &'d TreePath, Digest)>) -> Digest {
    let mut all: Vec<_> = list.collect();
    all.sort();
    let mut feed = Feed(blake3::Hasher::new_derive_key(CONTEXT));
    feed.number(all.len() as u64);
    for (place, path, digest) in all {
        feed.bytes(place);
        feed.bytes(path.as_bytes());
        feed.bytes(&digest.0);
    }
    feed.finish()
}

struct Feed(blake3::Hasher);

impl Feed {
    fn number(&mut self, number: u64) {
        self.0.update(&number.to_le_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.update(bytes);
    }

    fn attributes(&mut self, xattrs: Vec<Xattr>) {
        for (name, value) in xattrs {
            self.bytes(&name);
            self.bytes(&value);
        }
    }

    fn side(
        &mut self,
        source: &dyn Source,
        side: &'static str,
        path: &TreePath,
        entry: Option<&Entry>,
        content: bool,
    ) -> Result<()> {
        let Some(entry) = entry else {
            self.number(0);
            return Ok(());
        };
        self.number(1 + entry.kind as u64);
        self.number(u64::from(entry.mode));
        self.bytes(&entry.target);
        let is_read = entry.kind == Kind::File && content;
        if !is_read || entry.size > TEXT_LIMIT {
            self.attributes(source.xattrs(path).reading(side, path)?);
        }
        if !is_read {
            return Ok(());
        }
        if entry.size > TEXT_LIMIT {
            self.number(entry.size);
            for number in [entry.ino, entry.dev, entry.ctime.sec as u64, u64::from(entry.ctime.nsec)] {
                self.number(number);
            }
            self.number(entry.mtime.sec as u64);
            self.number(u64::from(entry.mtime.nsec));
            return Ok(());
        }
        let opened = source.open_seen(path).reading(side, path)?;
        self.attributes(opened.xattrs);
        self.number(entry.size);
        // By itself, so that it cannot run into what follows however long it turns out to be.
        let mut inner = blake3::Hasher::new();
        pieces(&opened.file, opened.entry.size, side, path, &mut |piece| {
            inner.update(piece);
            Ok(())
        })?;
        self.0.update(inner.finalize().as_bytes());
        Ok(())
    }

    fn finish(self) -> Digest {
        Digest(*self.0.finalize().as_bytes())
    }
}
