//! The first states of a history: what a lane was before anything was written in it, and, of one that was forked, what it was
//! then.
//!
//! Invariant: a history is begun once, and whole: whoever undoes everything in a fork comes to where it was forked, and
//! then to the base.

use store::{
    Capture, Item, ItemKind, LaneKey, ManifestId, NewSnapshot, Pass, Quiescence, Record, SnapshotKind,
};
use tree::TreePath;
use tree::layer::Format;

use crate::clock;
use crate::describe;
use crate::error::{Doing as _, Result};
use crate::going_back::Planned;
use crate::history::{LaneHistory, base_of};
use crate::lane::{OpenLane, OpenRoot};
use crate::passes::look;

/// Where a fork's row says what it was forked from.
pub(crate) const FORKED: &str = "forked";

/// True where a lane has something that a first snapshot by itself is worth: an overlay in which something was written. A
/// copy is a whole tree, which is recorded once somebody asks for it.
pub(crate) fn is_worth(lane: &OpenLane) -> Result<bool> {
    for root in &lane.roots {
        let layer = root.workspace.layer()?;
        let names =
            kernel::dir::entries(&layer.fd).doing(|| format!("look at {}", root.view.path.display()))?;
        if !layer.is_whole && (!names.is_empty() || root.workspace.is_stacked()?) {
            return Ok(true);
        }
    }
    Ok(false)
}

impl LaneHistory {
    /// Records what the lane was before anything was written in it, so that every history has a first state to go back to.
    /// A copy is a tree of its own: its first state is what it is when it is first recorded.
    pub(crate) fn begin(&self, lane: &OpenLane) -> Result<()> {
        let mut writer = self.writer(SnapshotKind::Start)?;
        let mut roots = Vec::new();
        for (number, root) in (0u32..).zip(&lane.roots) {
            let (top, entries, bytes) = if root.workspace.layer()?.is_whole {
                let mut capture =
                    Capture::begin(&self.store, &self.key, number, &workspace::base::boot_id()?);
                let pass = Pass { open_closed: false, ..Pass::at_rest(Format::User) };
                look(&mut capture, &mut writer, root, &pass)?;
                let done = capture.finish(&mut writer)?;
                (done.manifest, done.entries, done.bytes)
            } else {
                (nothing(&mut writer, root)?, 1, 0)
            };
            roots.push(store::Root {
                origin: describe::bytes(&root.view.path),
                base: base_of(&lane.row),
                layers: Vec::new(),
                top,
                base_contents: None,
                entries,
                bytes,
            });
        }
        let time_ms = lane.row.created_at;
        writer.finish(&self.key, NewSnapshot { time_ms, ..new(SnapshotKind::Start, roots) })?;
        self.begin_of_fork(lane)
    }

    /// Records what a lane was when it was forked, or others from it: the former layers on which it stands say so still.
    fn begin_of_fork(&self, lane: &OpenLane) -> Result<()> {
        let mut is_fork = false;
        for root in &lane.roots {
            is_fork |= root.workspace.is_stacked()?;
        }
        if !is_fork {
            return Ok(());
        }
        let forked = &lane.row.options[FORKED];
        if let Some(parent) = forked["lane"].as_str() {
            // What is known of the files of the other lane is true of the same files here.
            let roots = u32::try_from(lane.roots.len()).unwrap_or(u32::MAX);
            let _without_it_they_are_read = self.store.share_known(&LaneKey::new(parent)?, &self.key, roots);
        }
        let mut writer = self.writer(SnapshotKind::Fork)?;
        let mut captures = Vec::new();
        for (number, root) in (0u32..).zip(&lane.roots) {
            let layer = root.workspace.layer()?;
            let mut capture = Capture::begin(&self.store, &self.key, number, &workspace::base::boot_id()?);
            if let Some(former) = root.workspace.former()? {
                let pass = Pass { open_closed: false, ..Pass::at_rest(layer.format) };
                capture.pass_over(&mut writer, &former, &*root.workspace.base_tree()?, &pass)?;
            } else {
                let pass = Pass { skip: &everything(&layer)?, ..Pass::at_rest(layer.format) };
                capture.pass(&mut writer, std::os::fd::AsFd::as_fd(&layer.fd), &pass)?;
            }
            captures.push((number, root, capture));
        }
        let taken = self.taken(lane, &mut writer, captures, None)?;
        let message =
            forked["name"].as_str().map(|name| format!("from {name}").into_bytes()).unwrap_or_default();
        let new = NewSnapshot {
            message,
            gaps: taken.gaps,
            credentials: taken.credentials,
            ..new(SnapshotKind::Fork, taken.roots)
        };
        writer.finish(&self.key, new)?;
        self.remember(&taken.captured);
        Ok(())
    }

    /// Puts a new lane, in which nothing is, to what a record of another lane of the same store says, and begins its history
    /// with that. What could not be put there is listed. The caller holds the store and the lane's lock.
    pub(crate) fn begin_at(
        &self,
        lane: &OpenLane,
        record: &Record,
        message: Vec<u8>,
    ) -> Result<crate::going_back::Restored> {
        let mut writer = self.writer(SnapshotKind::Rescue)?;
        let empty = lane.roots.iter().map(|root| nothing(&mut writer, root)).collect::<Result<Vec<_>>>()?;
        writer.finish_pack()?;
        let mut plans = Vec::new();
        for (number, empty) in empty.iter().enumerate() {
            plans.push(Planned { whole: self.plan_from(*empty, record, number)?, own: None });
        }
        let restored = self.carry(lane, &plans)?;
        // A copy begins with the tree that it is, everything else with the base.
        let (mut start, mut here) = (Vec::new(), Vec::new());
        for ((root, then), empty) in lane.roots.iter().zip(&record.roots).zip(&empty) {
            let then = store::Root { base: base_of(&lane.row), ..then.clone() };
            start.push(match root.workspace.layer()?.is_whole {
                true => then.clone(),
                false => {
                    store::Root { top: *empty, base_contents: None, entries: 1, bytes: 0, ..then.clone() }
                }
            });
            here.push(then);
        }
        let is_copy = start == here;
        let time_ms = lane.row.created_at;
        self.writer(SnapshotKind::Start)?
            .finish(&self.key, NewSnapshot { time_ms, ..new(SnapshotKind::Start, start) })?;
        if !is_copy {
            let fork = NewSnapshot {
                message,
                quiescence: record.quiescence,
                gaps: record.gaps.clone(),
                credentials: record.credentials.clone(),
                ..new(SnapshotKind::Fork, here)
            };
            self.writer(SnapshotKind::Fork)?.finish(&self.key, fork)?;
        }
        Ok(restored)
    }
}

/// The layer of a lane in which nothing was written: the origin's own directory, and nothing in it.
fn nothing(writer: &mut store::Writer<'_>, root: &OpenRoot) -> Result<ManifestId> {
    let doing = || format!("look at {}", root.view.path.display());
    let base = root.workspace.base_tree()?;
    let path = TreePath::root();
    let entry = base.entry(&path).doing(doing)?;
    let xattrs = base.xattrs(&path).doing(doing)?;
    let item = entry.map(|entry| Item {
        kind: ItemKind::Dir { opaque: false, redirect: None },
        mode: entry.mode,
        uid: entry.uid,
        gid: entry.gid,
        mtime: entry.mtime,
        xattrs,
        group: None,
    });
    Ok(writer.manifest(item.map(|item| (path, item)))?)
}

/// Everything at the top of a layer.
fn everything(layer: &workspace::LayerAt) -> Result<Vec<TreePath>> {
    let names = kernel::dir::entries(&layer.fd).doing(|| "look at a layer".to_owned())?;
    Ok(names.into_iter().map(|entry| TreePath::root().join(entry.name)).collect())
}

fn new(kind: SnapshotKind, roots: Vec<store::Root>) -> NewSnapshot {
    NewSnapshot {
        parent: None,
        time_ms: clock::now_ms(),
        kind,
        quiescence: Quiescence::AtRest,
        message: Vec::new(),
        roots,
        gaps: Vec::new(),
        credentials: Vec::new(),
    }
}
