//! One overlay mount in a throwaway process: an upper directory as the kernel made it, and a copy of what it showed.

use std::os::unix::fs::chown;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;

use tree::change::{Change, ChangeKind, ChangeSet};
use tree::compare::{CompareOptions, compare};
use tree::delta::{DeltaOptions, overlay_delta};
use tree::layer::Format;
use tree::rename::find_renames;
use tree::{DirTree, LinkIndex, Union};

use crate::model::{Model, naive_changes};

/// How the overlay is mounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// By an ordinary user in a user namespace, with `userxattr`.
    User,
    /// By root with redirected directories.
    Root,
    /// The same with `index=on`, which keeps hard links together.
    RootIndexed,
    /// With `metacopy=on`, which no lane has, but which a kernel may have as its default.
    RootMetacopy,
}

/// The ordinary user that tests run as when they are started by root.
const USER: u32 = 1001;

pub(crate) struct Case {
    mode: Mode,
    dir: tempfile::TempDir,
    script: String,
}

impl Case {
    pub(crate) fn run(mode: Mode, base: &str, script: &str) -> Case {
        Case::run_then_change_lower(mode, base, script, "")
    }

    /// `later` is run in the lower directory when the mount is gone.
    pub(crate) fn run_then_change_lower(mode: Mode, base: &str, script: &str, later: &str) -> Case {
        let dir = tempfile::tempdir().expect("temporary directory");
        let root = rustix::process::geteuid().is_root();
        assert!(root || mode == Mode::User, "mounting without userxattr needs root");
        for name in ["lower", "upper", "work", "merged", "snap"] {
            std::fs::create_dir(dir.path().join(name)).expect("mkdir");
        }
        if root && mode == Mode::User {
            for name in ["", "lower", "upper", "work", "merged", "snap"] {
                chown(dir.path().join(name), Some(USER), Some(USER)).expect("chown");
            }
        }
        let options = match mode {
            Mode::User => "userxattr",
            Mode::Root => "redirect_dir=on,index=off,metacopy=off",
            Mode::RootIndexed => "redirect_dir=on,index=on,metacopy=off",
            Mode::RootMetacopy => "redirect_dir=on,index=off,metacopy=on",
        };
        let whole = format!(
            "umask 022; cd lower; {{ :; {base}\n}}; cd ..
            mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work,{options} merged || exit 90
            cd merged; {{ :; {script}\n}}; cd ..
            cp -a merged/. snap/ || exit 91
            umount merged || exit 92
            cd lower; {{ :; {later}\n}}; exit 0"
        );
        let mut command = match mode {
            Mode::User if root => {
                let mut command = Command::new("setpriv");
                let (uid, gid) = (format!("--reuid={USER}"), format!("--regid={USER}"));
                command.args([uid.as_str(), gid.as_str(), "--clear-groups", "unshare", "-Urm", "bash", "-c"]);
                command
            }
            Mode::User => {
                let mut command = Command::new("unshare");
                command.args(["-Urm", "bash", "-c"]);
                command
            }
            _ => {
                let mut command = Command::new("unshare");
                command.args(["-m", "bash", "-c"]);
                command
            }
        };
        let output =
            command.arg(&whole).stdin(Stdio::null()).current_dir(dir.path()).output().expect("start");
        assert!(
            output.status.success(),
            "{mode:?}: {}\n{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
        Case { mode, dir, script: format!("--- base\n{base}\n--- lane\n{script}") }
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn tree(&self, name: &str) -> DirTree {
        DirTree::open(&self.at(name)).expect("open")
    }

    fn format(&self) -> Format {
        if self.mode == Mode::User { Format::User } else { Format::Root }
    }

    fn index(&self) -> Option<Arc<LinkIndex>> {
        let index = LinkIndex::read(self.tree("work").fd(), self.tree("lower").fd()).expect("index");
        assert!(index.is_none() || self.mode == Mode::RootIndexed);
        index.map(Arc::new)
    }

    pub(crate) fn delta(&self) -> ChangeSet {
        let options = DeltaOptions { format: self.format(), index: self.index(), unread: false };
        overlay_delta(self.tree("upper").fd(), &self.tree("lower"), options).expect("delta")
    }

    pub(crate) fn union(&self) -> Union {
        let upper = kernel::open::root_dir(&self.at("upper")).expect("open");
        Union::over_indexed(upper, Box::new(self.tree("lower")), self.format(), self.index())
    }

    /// The delta with renames found, a line for each change.
    pub(crate) fn lines(&self) -> Vec<String> {
        let set = find_renames(self.delta(), &self.tree("lower"), &self.union());
        assert!(set.gaps.is_empty(), "{:?}", set.gaps);
        set.changes.iter().map(line).collect()
    }

    /// Delta, renames, union and comparison against the kernel's own view.
    pub(crate) fn check(&self) {
        let base = Model::read(&self.at("lower"));
        let shown = Model::read(&self.at("snap"));
        let told = self.said();
        let union = self.union();
        let same = Model::of_source(&union);
        assert_eq!(same.difference(&shown), Vec::<String>::new(), "the union of {told}");

        let naive = naive_changes(&base, &shown);
        let full = compare(&self.tree("lower"), &union, CompareOptions::default()).expect("compare");
        assert_eq!(full.changes.iter().map(line).collect::<Vec<_>>(), naive, "the comparison of {told}");

        let delta = self.delta();
        sound(&delta);
        let result = base.after(&delta, &union);
        assert_eq!(
            result.difference(&shown),
            Vec::<String>::new(),
            "the delta of {told}\n{:#?}",
            texts(&delta)
        );
        assert_eq!(base.noise(&delta, &shown), Vec::<String>::new(), "noise in the delta of {told}");
        if self.mode == Mode::User {
            assert_eq!(texts(&delta), naive, "the delta of {told}");
        }

        let renamed = find_renames(delta, &self.tree("lower"), &union);
        sound(&renamed);
        let result = base.after(&renamed, &union);
        assert_eq!(
            result.difference(&shown),
            Vec::<String>::new(),
            "the renames of {told}\n{:#?}",
            texts(&renamed)
        );
        assert_eq!(base.noise(&renamed, &shown), Vec::<String>::new(), "noise in the renames of {told}");
    }

    fn said(&self) -> String {
        format!("{:?}\n{}", self.mode, self.script)
    }
}

fn texts(set: &ChangeSet) -> Vec<String> {
    set.changes.iter().map(line).collect()
}

/// Sorted, and each path once.
fn sound(set: &ChangeSet) {
    for two in set.changes.windows(2) {
        assert!(two[0].path < two[1].path, "{:#?}", texts(set));
    }
}

/// A change as a line.
pub(crate) fn line(change: &Change) -> String {
    let path = change.path.as_bytes().escape_ascii();
    match &change.kind {
        ChangeKind::Add => format!("add {path}"),
        ChangeKind::Modify => format!("modify {path}"),
        ChangeKind::Delete => format!("delete {path}"),
        ChangeKind::Mode => format!("mode {path}"),
        ChangeKind::Retype => format!("retype {path}"),
        ChangeKind::Rename { from, modified } => {
            let modified = if *modified { " modified" } else { "" };
            format!("rename {path} from {}{modified}", from.as_bytes().escape_ascii())
        }
    }
}
