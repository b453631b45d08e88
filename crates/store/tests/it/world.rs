//! `World`: a store, a layer and a stage in one directory, with snapshots taken and restored as a verb does it.

use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use store::{
    Capture, Captured, LaneKey, NewSnapshot, Pass, Quiescence, Root, Snapshot, SnapshotId, SnapshotKind,
    Store, restore,
};
use tree::TreePath;
use tree::layer::Format;

use crate::model::{self, Model};

/// A boot id.
pub(crate) const BOOT: &str = "6c2a1f0e-3d5b-4b57-9a55-0e8f8f1f3a11";

/// A day in the past.
const TIME: i64 = 1_700_000_000_000;

pub(crate) struct World {
    _temp: Option<tempfile::TempDir>,
    pub(crate) dir: PathBuf,
    pub(crate) store: Store,
    pub(crate) lane: LaneKey,
    /// The kind of the snapshots that are taken.
    pub(crate) kind: SnapshotKind,
    /// When they are taken, by the clock of a person.
    pub(crate) time_ms: i64,
    /// Which run of the machine this is.
    pub(crate) boot: String,
}

/// The format of the layers that this process can mark.
pub(crate) fn format() -> Format {
    if rustix::process::geteuid().is_root() { Format::Root } else { Format::User }
}

pub(crate) fn open(path: &Path) -> OwnedFd {
    kernel::open::root_dir(path).expect("open directory")
}

impl World {
    pub(crate) fn new() -> World {
        // On a disk: in memory every file is read every time.
        let usual = std::env::temp_dir();
        let memory = kernel::meta::is_in_memory(open(&usual)).expect("a filesystem");
        let place = if memory { Path::new("/var/tmp") } else { &usual };
        let temp = tempfile::tempdir_in(place).expect("temporary directory");
        let mut world = World::at(temp.path());
        world._temp = Some(temp);
        world
    }

    pub(crate) fn at(dir: &Path) -> World {
        for name in ["store", "layer", "stage"] {
            std::fs::create_dir_all(dir.join(name)).expect("mkdir");
        }
        let store = Store::create(open(&dir.join("store"))).expect("create");
        World {
            _temp: None,
            dir: dir.to_path_buf(),
            store,
            lane: LaneKey::new("lane").expect("valid"),
            kind: SnapshotKind::Asked,
            time_ms: TIME,
            boot: BOOT.to_owned(),
        }
    }

    /// Another lane in the same store.
    pub(crate) fn beside(&self, lane: &str) -> World {
        let dir = self.dir.join(lane);
        for name in ["layer", "stage"] {
            std::fs::create_dir_all(dir.join(name)).expect("mkdir");
        }
        let store = Store::open(open(&self.dir.join("store"))).expect("open");
        let lane = LaneKey::new(lane).expect("valid");
        let (kind, time_ms, boot) = (self.kind, self.time_ms, self.boot.clone());
        World { _temp: None, dir, store, lane, kind, time_ms, boot }
    }

    pub(crate) fn layer(&self) -> PathBuf {
        self.dir.join("layer")
    }

    pub(crate) fn model(&self) -> Model {
        model::read(&self.layer())
    }

    /// Returns when the filesystem's clock is so far on that what happened until now can be told from what
    /// happens next.
    pub(crate) fn grow_older(&self) {
        let begun = self.store.now().expect("time");
        let since = |now: tree::Time| {
            (now.sec - begun.sec) * 1_000_000_000 + i64::from(now.nsec) - i64::from(begun.nsec)
        };
        while since(self.store.now().expect("time")) < 25_000_000 {
            std::thread::yield_now();
        }
    }

    pub(crate) fn try_snap(&self) -> store::Result<(Snapshot, Captured)> {
        let mut writer = self.store.begin()?;
        let mut capture = Capture::begin(&self.store, &self.lane, 0, &self.boot);
        capture.pass(&mut writer, open(&self.layer()).as_fd(), &Pass::at_rest(format()))?;
        let captured = capture.finish(&mut writer)?;
        let snapshot = writer.finish(
            &self.lane,
            NewSnapshot { kind: self.kind, time_ms: self.time_ms, ..new_snapshot(&captured) },
        )?;
        captured.remember(&self.store)?;
        Ok((snapshot, captured))
    }

    pub(crate) fn snap(&self) -> SnapshotId {
        self.try_snap().expect("snapshot").0.id
    }

    /// Takes a rescue snapshot, plans, executes, and says so in the history.
    pub(crate) fn try_restore(&self, to: SnapshotId) -> store::Result<(restore::Plan, restore::Report)> {
        let _held = self.store.hold()?;
        let (_, now) = self.try_snap()?;
        let history = self.store.history(&self.lane)?;
        let record = history.get(to).expect("known").clone();
        let target = self.store.manifest(record.roots[0].top);
        let gaps: Vec<TreePath> = record.gaps.iter().map(|gap| gap.path.clone()).collect();
        let plan = restore::plan(&self.store.manifest(now.manifest), &target, &gaps)?;
        let (layer, stage) = (open(&self.layer()), open(&self.dir.join("stage")));
        let report = restore::execute(&self.store, layer.as_fd(), stage.as_fd(), format(), &plan)?;
        self.store.record_move(&self.lane, to, 1, b"restore")?;
        Ok((plan, report))
    }

    pub(crate) fn restore(&self, to: SnapshotId) -> restore::Plan {
        let (plan, report) = self.try_restore(to).expect("restore");
        assert_eq!(report.left, [], "{plan:#?}");
        plan
    }
}

pub(crate) fn new_snapshot(captured: &Captured) -> NewSnapshot {
    NewSnapshot {
        parent: None,
        time_ms: TIME,
        kind: SnapshotKind::Asked,
        quiescence: Quiescence::AtRest,
        message: Vec::new(),
        roots: vec![Root {
            origin: b"/project".to_vec(),
            base: b"live".to_vec(),
            layers: Vec::new(),
            top: captured.manifest,
            base_contents: None,
            entries: captured.entries,
            bytes: captured.bytes,
        }],
        gaps: captured
            .gaps
            .iter()
            .map(|(path, reason)| store::Gap { root: 0, path: path.clone(), reason: reason.clone() })
            .collect(),
        credentials: Vec::new(),
    }
}
