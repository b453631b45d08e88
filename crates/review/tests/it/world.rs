//! An origin, a lane and a place for the journal, on one file system.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use review::apply::{
    Faults, KeepReport, KeptRoot, Naming, NoFaults, Options, Places, Root, UndoStep, execute, execute_all,
    undo,
};
use review::plan::{Drifted, KeepPlan, Wish, plan};
use review::select::Selection;
use review::{Error, Result};
use tree::{ChangeSet, DirTree, TreePath};

/// The directories of a test.
pub(crate) struct World {
    pub(crate) top: PathBuf,
    /// Removes everything at the end; `None` where another process owns it.
    _keep: Option<tempfile::TempDir>,
}

pub(crate) fn path(text: &str) -> TreePath {
    TreePath::new(text).expect("a path")
}

impl World {
    /// Makes an origin with `fill`, copies it, and changes the copy with `change`.
    pub(crate) fn new(fill: impl FnOnce(&Path), change: impl FnOnce(&Path)) -> World {
        let keep = tempfile::tempdir().expect("a directory");
        let world = World::at(keep.path(), fill, change);
        World { _keep: Some(keep), ..world }
    }

    pub(crate) fn at(top: &Path, fill: impl FnOnce(&Path), change: impl FnOnce(&Path)) -> World {
        let world = World { top: top.to_owned(), _keep: None };
        for dir in [world.origin(), world.journal(), world.beside()] {
            fs::create_dir_all(dir).expect("made");
        }
        fill(&world.origin());
        let done =
            Command::new("cp").arg("-a").arg(world.origin()).arg(world.lane()).status().expect("cp runs");
        assert!(done.success());
        change(&world.lane());
        world
    }

    pub(crate) fn open(top: &Path) -> World {
        World { top: top.to_owned(), _keep: None }
    }

    pub(crate) fn origin(&self) -> PathBuf {
        self.top.join("origin")
    }

    pub(crate) fn lane(&self) -> PathBuf {
        self.top.join("lane")
    }

    pub(crate) fn journal(&self) -> PathBuf {
        self.top.join("journal")
    }

    pub(crate) fn beside(&self) -> PathBuf {
        self.top.join("beside")
    }

    pub(crate) fn trees(&self) -> (DirTree, DirTree) {
        (DirTree::open(&self.origin()).expect("open"), DirTree::open(&self.lane()).expect("open"))
    }

    pub(crate) fn set(&self) -> ChangeSet {
        let (base, lane) = self.trees();
        let set =
            tree::compare::compare(&base, &lane, tree::compare::CompareOptions::default()).expect("compare");
        tree::rename::find_renames(set, &base, &lane)
    }

    pub(crate) fn plan_of(&self, paths: &[&str], drift: &[Drifted], set_id: bool) -> KeepPlan {
        let (base, lane) = self.trees();
        let set = self.set();
        let selection = Selection::of(paths.iter().map(|text| path(text)).collect());
        plan(&Wish { set: &set, selection: &selection, drift, set_id }, &base, &lane).expect("a plan")
    }

    pub(crate) fn plan(&self, paths: &[&str]) -> KeepPlan {
        self.plan_of(paths, &[], false)
    }

    /// The plan in which everything, guarded or not, was named.
    pub(crate) fn plan_everything(&self) -> KeepPlan {
        let (base, lane) = self.trees();
        let set = self.set();
        let mut paths: Vec<TreePath> = set.changes.iter().map(|change| change.path.clone()).collect();
        paths.extend(set.changes.iter().map(|change| change.old_path().clone()));
        // What only goes along with a renamed directory has no change of its own, but may be guarded.
        for change in
            set.changes.iter().filter(|change| matches!(change.kind, tree::ChangeKind::Rename { .. }))
        {
            below(&self.lane(), &change.path, &mut paths);
            below(&self.origin(), change.old_path(), &mut paths);
        }
        let selection = Selection::of(paths);
        plan(&Wish { set: &set, selection: &selection, drift: &[], set_id: true }, &base, &lane)
            .expect("a plan")
    }

    pub(crate) fn execute(&self, plan: &KeepPlan, faults: &dyn Faults) -> Result<KeepReport> {
        self.execute_with(plan, true, &Options::default(), faults)
    }

    pub(crate) fn execute_with(
        &self,
        plan: &KeepPlan,
        beside: bool,
        options: &Options,
        faults: &dyn Faults,
    ) -> Result<KeepReport> {
        let (base, lane) = self.trees();
        let (staging, journal) = (self.beside(), self.journal());
        let places = Places { staging: beside.then_some(staging.as_path()), journal: &journal };
        execute(plan, &base, &lane, &places, options, faults)
    }

    /// Keeps everything in such a way that it can be undone.
    pub(crate) fn keep_recorded(&self, id: &str, beside: bool, faults: &dyn Faults) -> Result<()> {
        let plan = self.plan_everything();
        self.keep_plan(&plan, id, beside, faults)
    }

    pub(crate) fn keep_plan(
        &self,
        plan: &KeepPlan,
        id: &str,
        beside: bool,
        faults: &dyn Faults,
    ) -> Result<()> {
        let (base, lane) = self.trees();
        let (staging, journal, origin) = (self.beside(), self.journal(), self.origin());
        let places = Places { staging: beside.then_some(staging.as_path()), journal: &journal };
        let root = Root { plan, origin: base.fd(), path: &origin, lane: &lane, places };
        let naming = Naming { id, about: b"about it" };
        execute_all(&[root], Some(naming), &Options::default(), faults, &mut |_| true).map(drop)
    }

    pub(crate) fn undo(&self, id: &str, faults: &dyn Faults) -> Result<Vec<UndoStep>> {
        let (base, _) = self.trees();
        undo(id, &[KeptRoot { origin: base.fd(), journal: &self.journal() }], faults, &mut |_| true)
    }

    pub(crate) fn keep(&self, paths: &[&str]) -> (KeepPlan, KeepReport) {
        let plan = self.plan(paths);
        let report = self.execute(&plan, &NoFaults).expect("kept");
        self.assert_no_residue();
        (plan, report)
    }

    pub(crate) fn keep_everything(&self) -> KeepPlan {
        let plan = self.plan_everything();
        let report = self.execute(&plan, &NoFaults).expect("kept");
        assert_eq!(report.leftover, None);
        self.assert_no_residue();
        plan
    }

    pub(crate) fn fails(&self, plan: &KeepPlan) -> Error {
        self.execute(plan, &NoFaults).expect_err("not kept")
    }

    /// No staging directory, no journal.
    pub(crate) fn assert_no_residue(&self) {
        for dir in [self.beside(), self.journal(), self.origin()] {
            for entry in fs::read_dir(&dir).expect("listed") {
                let name = entry.expect("an entry").file_name();
                let text = name.to_string_lossy().into_owned();
                assert!(
                    !text.starts_with(".lane-stage")
                        && !text.starts_with(".lk-tmp")
                        && !text.starts_with("keep.journal"),
                    "{dir:?}: {text}"
                );
            }
        }
    }

    pub(crate) fn assert_equal(&self) {
        testkit::Plain::of(&self.lane()).assert_same(&testkit::Plain::of(&self.origin()));
    }
}

fn below(top: &Path, at: &TreePath, paths: &mut Vec<TreePath>) {
    let is_dir = fs::symlink_metadata(top.join(at.as_path())).is_ok_and(|meta| meta.is_dir());
    if let Some(Ok(entries)) = is_dir.then(|| fs::read_dir(top.join(at.as_path()))) {
        for entry in entries {
            let name = entry.expect("an entry").file_name();
            let inside = at.join(name.as_bytes());
            below(top, &inside, paths);
            paths.push(inside);
        }
    }
}

/// What must be as before after a keep that failed: names, inodes, modes, times, content.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Shape(BTreeMap<OsString, Facts>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) ino: u64,
    pub(crate) mode: u32,
    pub(crate) mtime: (i64, i64),
    pub(crate) nlink: u64,
    pub(crate) owner: (u32, u32),
    pub(crate) content: Vec<u8>,
}

impl Shape {
    pub(crate) fn of(top: &Path) -> Shape {
        let mut shape = Shape(BTreeMap::new());
        shape.add(top, Path::new(""));
        shape
    }

    pub(crate) fn get(&self, path: &str) -> &Facts {
        self.0.get(&OsString::from(path)).unwrap_or_else(|| panic!("no {path}"))
    }

    fn add(&mut self, top: &Path, at: &Path) {
        let full = if at.as_os_str().is_empty() { top.to_owned() } else { top.join(at) };
        let meta = fs::symlink_metadata(&full).expect("stat");
        let content = if meta.is_file() {
            fs::read(&full).expect("read")
        } else if meta.is_symlink() {
            fs::read_link(&full).expect("read").into_os_string().into_vec()
        } else {
            Vec::new()
        };
        let facts = Facts {
            ino: meta.ino(),
            mode: meta.mode(),
            mtime: (meta.mtime(), meta.mtime_nsec()),
            nlink: if meta.is_dir() { 0 } else { meta.nlink() },
            owner: (meta.uid(), meta.gid()),
            content,
        };
        self.0.insert(at.as_os_str().to_owned(), facts);
        if meta.is_dir() {
            for entry in fs::read_dir(&full).expect("list") {
                self.add(top, &at.join(entry.expect("an entry").file_name()));
            }
        }
    }

    /// `self` is what was there before a keep that was undone: all of it is there again. A file that the keep had changed
    /// or taken away has another time, and where only copies could be held (`copies`) is another inode.
    pub(crate) fn assert_undone(&self, now: &Shape, kept: &Shape, copies: bool, when: &str) {
        let stayed: std::collections::BTreeSet<u64> = kept.0.values().map(|facts| facts.ino).collect();
        let eased = |shape: &Shape| {
            let mut eased = Shape(BTreeMap::new());
            for (path, facts) in &shape.0 {
                let was = self.0.get(path);
                let mut facts = facts.clone();
                let stays_here = |was: &Facts| kept.0.get(path).is_some_and(|kept| kept.ino == was.ino);
                if was.is_some_and(|was| !stayed.contains(&was.ino) || copies && !stays_here(was)) {
                    let is_file = facts.mode & 0o170_000 == 0o100_000;
                    facts.mtime = if is_file { (0, 0) } else { facts.mtime };
                    facts.ino = if copies { 0 } else { facts.ino };
                }
                if copies {
                    // A name that was one of several of a file stands for itself.
                    facts.nlink = 0;
                }
                eased.0.insert(path.clone(), facts);
            }
            eased
        };
        eased(self).assert_same(&eased(now), when);
    }

    pub(crate) fn assert_same(&self, other: &Shape, when: &str) {
        for (path, facts) in &self.0 {
            assert_eq!(other.0.get(path), Some(facts), "{when}: {path:?}");
        }
        for path in other.0.keys() {
            assert!(self.0.contains_key(path), "{when}: {path:?} is new");
        }
    }
}

pub(crate) fn write(path: PathBuf, content: impl AsRef<[u8]>) {
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir).expect("made");
    }
    fs::write(path, content).expect("written");
}

pub(crate) fn chmod(path: PathBuf, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("chmod");
}

pub(crate) fn fifo(path: PathBuf) {
    rustix::fs::mknodat(
        rustix::fs::CWD,
        path,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o640),
        0,
    )
    .expect("a pipe");
}

pub(crate) fn xattr(path: PathBuf, name: &str, value: &str) {
    rustix::fs::setxattr(path, name, value.as_bytes(), rustix::fs::XattrFlags::empty())
        .expect("an attribute");
}

/// One of everything: an origin.
pub(crate) fn fill_rich(o: &Path) {
    write(o.join("src/edit.txt"), "one\ntwo\nthree\n");
    write(o.join("src/gone.txt"), "gone");
    write(o.join("src/keep.txt"), "keep");
    write(o.join("src/mode.sh"), "#!/bin/sh\n");
    for i in 0..4 {
        write(o.join(format!("lib/part{i}.rs")), format!("part {i}\n").repeat(20));
    }
    write(o.join("lib/inner/x.rs"), "x".repeat(100));
    write(o.join("lib/lost.rs"), "lost");
    write(o.join("f2d"), "a file");
    write(o.join("d2f/a/b"), "b");
    write(o.join("d2f/c"), "c");
    write(o.join("gen/old1"), "1");
    write(o.join("gen/old2"), "2");
    write(o.join("tree/a/b/c/d"), "deep");
    write(o.join("tree/a/e"), "e");
    fs::create_dir_all(o.join("emptied/empty")).expect("made");
    std::os::unix::fs::symlink("src/edit.txt", o.join("link")).expect("linked");
    std::os::unix::fs::symlink("src", o.join("l2d")).expect("linked");
    fifo(o.join("pipe"));
    write(o.join("hard1"), "hard");
    fs::hard_link(o.join("hard1"), o.join("hard2")).expect("linked");
    fs::hard_link(o.join("hard1"), o.join("hard3")).expect("linked");
    write(o.join("moved.bin"), "moved content that is long enough");
    write(o.join("attr"), "attr");
    xattr(o.join("attr"), "user.old", "1");
    write(o.join("tight/in"), "in");
    chmod(o.join("tight"), 0o555);
    write(o.join(".envrc"), "export A=1\n");
}

/// One of every change: a lane.
pub(crate) fn change_rich(l: &Path) {
    write(l.join("src/edit.txt"), "one\nTWO\nthree\n");
    fs::remove_file(l.join("src/gone.txt")).expect("removed");
    chmod(l.join("src/mode.sh"), 0o755);
    fs::rename(l.join("lib"), l.join("lib2")).expect("renamed");
    write(l.join("lib2/part1.rs"), "other\n");
    chmod(l.join("lib2/part2.rs"), 0o600);
    fs::remove_file(l.join("lib2/lost.rs")).expect("removed");
    write(l.join("lib2/new/file.rs"), "new");
    fs::remove_file(l.join("f2d")).expect("removed");
    write(l.join("f2d/q/r"), "r");
    fs::remove_dir_all(l.join("d2f")).expect("removed");
    write(l.join("d2f"), "now a file");
    fs::remove_dir_all(l.join("gen")).expect("removed");
    write(l.join("gen/new"), "n");
    fs::remove_dir_all(l.join("tree")).expect("removed");
    fs::remove_dir(l.join("emptied/empty")).expect("removed");
    fs::create_dir_all(l.join("made/empty")).expect("made");
    chmod(l.join("made"), 0o500);
    fs::remove_file(l.join("link")).expect("removed");
    std::os::unix::fs::symlink("src/keep.txt", l.join("link")).expect("linked");
    fs::remove_file(l.join("l2d")).expect("removed");
    write(l.join("l2d/file"), "in a directory now");
    fs::remove_file(l.join("pipe")).expect("removed");
    fifo(l.join("pipe2"));
    fs::remove_file(l.join("hard2")).expect("removed");
    fs::remove_file(l.join("hard1")).expect("removed");
    write(l.join("hard1"), "no longer hard");
    fs::create_dir_all(l.join("to/there")).expect("made");
    fs::rename(l.join("moved.bin"), l.join("to/there/moved.bin")).expect("renamed");
    write(l.join("twin1"), "twins");
    fs::hard_link(l.join("twin1"), l.join("twin2")).expect("linked");
    write(l.join("attr"), "attr");
    xattr(l.join("attr"), "user.new", "2");
    rustix::fs::removexattr(l.join("attr"), "user.old").expect("removed");
    chmod(l.join("tight"), 0o755);
    write(l.join("tight/more"), "more");
    chmod(l.join("tight"), 0o555);
    write(l.join(".envrc"), "export A=2\n");
    write(l.join("sparse"), "");
    fs::File::options().write(true).open(l.join("sparse")).expect("open").set_len(1 << 20).expect("a hole");
}
