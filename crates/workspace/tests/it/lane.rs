//! A project, a lane of it in one of the ways that this process can make one, and a shell inside it.
//!
//! Mounting happens in a process that is thrown away (`unshare`, `mount`), so that nothing stays mounted.

use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;

use kernel::lock::Lock;
use kernel::mountspec::MountWhat;
use tree::{ChangeKind, ChangeSet, Kind, Source, TreePath};
use workspace::contract::Root;
use workspace::fork::{Forked, Making};
use workspace::{LaneHome, LayerPlace, MountMode, Strategy, Workspace};

/// A way to make a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    OverlayUser,
    OverlayRoot,
    Copy,
}

/// The ways that this process has: an ordinary user has two of the three.
pub(crate) fn ways() -> Vec<Way> {
    let is_root = rustix::process::geteuid().is_root();
    if is_root {
        vec![Way::OverlayUser, Way::OverlayRoot, Way::Copy]
    } else {
        vec![Way::OverlayUser, Way::Copy]
    }
}

/// A directory of a test, which goes with it even where a plain removal is refused (a work directory has no mode).
pub(crate) struct Scratch(tempfile::TempDir);

impl Scratch {
    pub(crate) fn new() -> Scratch {
        Scratch(tempfile::tempdir().expect("a directory"))
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.0.path().canonicalize().expect("exists")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let path = self.path();
        let above = kernel::open::root_dir(path.parent().expect("above")).expect("opened");
        let name = path.file_name().expect("a name").as_encoded_bytes();
        let removed = tree::remove::remove_tree(std::os::fd::AsFd::as_fd(&above), name).expect("removed");
        assert!(removed.is_complete() || std::thread::panicking(), "{removed:?}");
    }
}

/// One lane of one project.
pub(crate) struct Lane {
    pub(crate) origin: PathBuf,
    pub(crate) home: LaneHome,
    pub(crate) work: Box<dyn Workspace>,
    pub(crate) way: Way,
    pub(crate) root: Root,
    pub(crate) dir: Rc<Scratch>,
    _lock: Lock,
}

/// Makes a project with `script` and a lane of it.
pub(crate) fn lane(way: Way, script: &str) -> Lane {
    lane_at(way, script, |_| LayerPlace::InState)
}

/// As [`lane`], with the layers in a place of their own.
pub(crate) fn lane_beside(way: Way, script: &str) -> Lane {
    lane_at(way, script, |top| LayerPlace::At(top.join("beside")))
}

fn lane_at(way: Way, script: &str, place: impl Fn(&Path) -> LayerPlace) -> Lane {
    let dir = Scratch::new();
    let top = dir.path();
    let (origin, state) = (top.join("project"), top.join("state"));
    std::fs::create_dir(&origin).expect("made");
    std::fs::create_dir(&state).expect("made");
    shell(&origin, script);
    let lane = lane_of(way, &origin, &state, &place(&top), dir);
    lane.work.prepare(&mut |_| ()).expect("prepared");
    lane
}

/// A lane of `origin` that is not prepared yet.
pub(crate) fn lane_of(way: Way, origin: &Path, state: &Path, place: &LayerPlace, dir: Scratch) -> Lane {
    let (home, lock) = LaneHome::create(state, "k3").expect("made");
    home.add_root(0, place).expect("added");
    let root = Root {
        index: 0,
        origin: origin.to_path_buf(),
        strategy: if way == Way::Copy { Strategy::Copy } else { Strategy::Overlay },
        mode: if rustix::process::geteuid().is_root() && way != Way::OverlayUser {
            MountMode::Root
        } else {
            MountMode::User
        },
        ours: vec![state.to_path_buf()],
    };
    let work = workspace::workspace(&home, &root).expect("opened");
    workspace::stamp(&home, &[workspace::base::root_ino(origin).expect("looked")]).expect("stamped");
    Lane { origin: origin.to_path_buf(), home, work, way, root, dir: Rc::new(dir), _lock: lock }
}

/// Runs `script` in a plain directory.
pub(crate) fn shell(dir: &Path, script: &str) {
    let output = Command::new("sh").args(["-euc", script]).current_dir(dir).output().expect("sh starts");
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
}

impl Lane {
    /// Mounts the view and runs `script` in it, at the origin's own path.
    pub(crate) fn run(&self, script: &str) {
        self.work.before_mount().expect("ready");
        let view = self.work.view().expect("a view");
        assert_eq!(view.target, self.origin);
        let mount = match &view.what {
            MountWhat::Overlay(overlay) => {
                let lowers: Vec<String> =
                    overlay.lowers.iter().map(|dir| dir.display().to_string()).collect();
                let mut options = format!(
                    "lowerdir={},upperdir={},workdir={}",
                    lowers.join(":"),
                    overlay.upper.as_ref().expect("an upper").display(),
                    overlay.work.as_ref().expect("a work directory").display()
                );
                let words = [
                    (overlay.user_xattr, ",userxattr"),
                    (overlay.volatile, ",volatile"),
                    (overlay.redirect_dir, ",redirect_dir=on"),
                    (overlay.index, ",index=on"),
                ];
                words.iter().filter(|(is_on, _)| *is_on).for_each(|(_, word)| options.push_str(word));
                vec!["-t".to_owned(), "overlay".to_owned(), "-o".to_owned(), options, "lane".to_owned()]
            }
            MountWhat::Bind { source, .. } => vec!["--bind".to_owned(), source.display().to_string()],
            other => panic!("no view: {other:?}"),
        };
        let namespaces = match self.way {
            Way::OverlayRoot => "-m",
            Way::Copy if rustix::process::geteuid().is_root() => "-m",
            _ => "-Urm",
        };
        let output = Command::new("unshare")
            .arg(namespaces)
            .args([
                "sh",
                "-euc",
                "t=$1; s=$2; shift 2; mount \"$@\" \"$t\"; cd \"$t\"; exec sh -euc \"$s\"",
                "sh",
            ])
            .arg(&view.target)
            .arg(script)
            .args(mount)
            .output()
            .expect("unshare starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{:?}: {script}: {said}", self.way);
    }

    /// The directory of the test.
    pub(crate) fn dir(&self) -> PathBuf {
        self.dir.path()
    }

    /// A new lane that shows what this one shows.
    pub(crate) fn fork(&self, id: &str) -> (Lane, Forked) {
        let (child, forked) = self.fork_unfinished(id);
        child.home.end_fork().expect("recorded");
        (child, forked)
    }

    /// The same, as it is before it is recorded.
    pub(crate) fn fork_unfinished(&self, id: &str) -> (Lane, Forked) {
        let state = self.dir().join("state");
        let (home, lock) = LaneHome::create(&state, id).expect("made");
        home.begin_fork().expect("marked");
        home.add_root(0, &self.home.place_of(0).expect("a place")).expect("added");
        let mut making = Making { linked: None, progress: &mut |_| () };
        let forked = self.work.fork(&home, &mut making).expect("forked");
        home.take_base(&self.home).expect("shared");
        let work = workspace::workspace(&home, &self.root).expect("opened");
        let (origin, root, dir) = (self.origin.clone(), self.root.clone(), Rc::clone(&self.dir));
        (Lane { origin, home, work, way: self.way, root, dir, _lock: lock }, forked)
    }

    /// Removes it from the disk.
    pub(crate) fn remove(&self) {
        let state = self.dir().join("state");
        LaneHome::open(&state, self.home.id()).expect("there").remove().expect("removed");
    }

    pub(crate) fn changes(&self) -> ChangeSet {
        self.work.changes().expect("compared")
    }
}

/// A change set as lines: `A path`, `M`, `D`, `P` (mode), `T` (type), `R from -> path`, with a star where
/// content differs too; gaps as `? path`.
pub(crate) fn lines(set: &ChangeSet) -> Vec<String> {
    let text = |path: &TreePath| path.as_bytes().escape_ascii().to_string();
    let mut lines: Vec<String> = set
        .changes
        .iter()
        .map(|change| match &change.kind {
            ChangeKind::Add => format!("A {}", text(&change.path)),
            ChangeKind::Modify => format!("M {}", text(&change.path)),
            ChangeKind::Delete => format!("D {}", text(&change.path)),
            ChangeKind::Mode => format!("P {}", text(&change.path)),
            ChangeKind::Retype => format!("T {}", text(&change.path)),
            ChangeKind::Rename { from, modified } => {
                format!("R{} {} -> {}", if *modified { "*" } else { "" }, text(from), text(&change.path))
            }
        })
        .collect();
    lines.extend(set.gaps.iter().map(|(path, _)| format!("? {}", text(path))));
    lines
}

/// What a tree shows: for every path its type, mode and content or target.
pub(crate) type Shown = BTreeMap<TreePath, (Kind, u32, Vec<u8>)>;

/// Reads a tree through its [`Source`].
pub(crate) fn shown(tree: &dyn Source) -> Shown {
    let mut shown = Shown::new();
    let mut todo = vec![TreePath::root()];
    while let Some(path) = todo.pop() {
        let entry = tree.entry(&path).expect("looked").expect("there");
        let content = match entry.kind {
            Kind::File => {
                let mut bytes = Vec::new();
                let mut file = std::fs::File::from(tree.open(&path).expect("opened"));
                std::io::Read::read_to_end(&mut file, &mut bytes).expect("read");
                bytes
            }
            Kind::Dir => {
                todo.extend(tree.list(&path).expect("listed").iter().map(|name| path.join(name)));
                Vec::new()
            }
            _ => entry.target.clone(),
        };
        let mode = if entry.kind == Kind::Symlink { 0 } else { entry.mode };
        shown.insert(path, (entry.kind, mode, content));
    }
    shown
}

/// Everything about a directory on disk that a lane must not change.
pub(crate) fn fingerprint(dir: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    let mut todo = vec![dir.to_path_buf()];
    while let Some(path) = todo.pop() {
        let meta = std::fs::symlink_metadata(&path).expect("there");
        let times = (meta.mtime(), meta.mtime_nsec(), meta.ctime(), meta.ctime_nsec());
        lines.push(format!(
            "{path:?} {} {:o} {times:?} {}",
            meta.ino(),
            meta.permissions().mode(),
            meta.nlink()
        ));
        if meta.is_dir() {
            todo.extend(
                std::fs::read_dir(&path).expect("listed").map(|entry| entry.expect("an entry").path()),
            );
        }
    }
    lines.sort();
    lines
}
