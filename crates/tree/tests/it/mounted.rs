//! One overlay mount in a throwaway process, or several, each on the uppers of those before: upper directories as the
//! kernel made them, and a copy of what the last one showed.

use std::os::fd::AsFd as _;
use std::os::unix::fs::chown;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;

use tree::change::{Change, ChangeKind, ChangeSet};
use tree::compare::{CompareOptions, compare};
use tree::delta::{DeltaOptions, layer_delta, overlay_delta};
use tree::flatten::flatten;
use tree::layer::Format;
use tree::layer_copy::copy_layer;
use tree::rename::{find_renames, find_renames_recalled};
use tree::union::over_layer;
use tree::{DirTree, LinkIndex, Recall, Source, Stack, Time, Union};

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

/// Long after whatever a test writes.
const LATER: Time = Time { sec: i64::MAX / 4, nsec: 0 };

/// The ordinary user that tests run as when they are started by root.
const USER: u32 = 1001;

pub(crate) struct Case {
    mode: Mode,
    dir: tempfile::TempDir,
    script: String,
    /// Former uppers that the last one stands on, the topmost first.
    sealed: Vec<String>,
}

impl Case {
    pub(crate) fn run(mode: Mode, base: &str, script: &str) -> Case {
        Case::run_then_change_lower(mode, base, script, "")
    }

    /// `later` is run in the lower directory when the mount is gone.
    pub(crate) fn run_then_change_lower(mode: Mode, base: &str, script: &str, later: &str) -> Case {
        Case::run_all(mode, base, &[script], later)
    }

    /// Each script in a mount of its own, on the uppers of those before.
    pub(crate) fn run_stacked(mode: Mode, base: &str, scripts: &[&str]) -> Case {
        Case::run_all(mode, base, scripts, "")
    }

    fn run_all(mode: Mode, base: &str, scripts: &[&str], later: &str) -> Case {
        let dir = tempfile::tempdir().expect("temporary directory");
        let root = rustix::process::geteuid().is_root();
        assert!(root || mode == Mode::User, "mounting without userxattr needs root");
        let mut sealed: Vec<String> = (1..scripts.len()).map(|n| format!("sealed{n}")).collect();
        let mut dirs: Vec<String> = sealed.clone();
        dirs.extend(["", "lower", "upper", "merged", "snap"].map(str::to_owned));
        for name in &dirs {
            let path = dir.path().join(name);
            if !name.is_empty() {
                std::fs::create_dir(&path).expect("mkdir");
            }
            if root && mode == Mode::User {
                chown(path, Some(USER), Some(USER)).expect("chown");
            }
        }
        let options = options(mode);
        let mut whole = format!("umask 022; cd lower; {{ :; {base}\n}}; cd ..\n");
        let mut lowers = "lower".to_owned();
        for (n, script) in scripts.iter().enumerate() {
            let upper = sealed.get(n).map_or("upper", String::as_str);
            let last = if n + 1 == scripts.len() { "cp -a merged/. snap/ || exit 91" } else { "" };
            whole += &format!(
                "rm -rf work; mkdir work
                mount -t overlay overlay -o lowerdir={lowers},upperdir={upper},workdir=work,{options} merged || exit 90
                cd merged; {{ :; {script}\n}}; cd ..
                {last}
                umount merged || exit 92\n"
            );
            lowers = format!("{upper}:{lowers}");
        }
        sealed.reverse();
        whole += &format!("cd lower; {{ :; {later}\n}}; exit 0");
        in_namespace(mode, &dir, &whole);
        Case {
            mode,
            dir,
            script: format!("--- base\n{base}\n--- lane\n{}", scripts.join("\n--- then\n")),
            sealed,
        }
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
        self.delta_with(None)
    }

    fn delta_with(&self, recall: Option<&Recall>) -> ChangeSet {
        let options = DeltaOptions { index: self.index(), recall, ..DeltaOptions::default() };
        let (upper, lower) = (self.tree("upper"), self.tree("lower"));
        match self.sealed.is_empty() {
            true => overlay_delta(upper.fd(), self.format(), &lower, &options),
            false => layer_delta(&self.stack(), &lower, &options),
        }
        .expect("delta")
    }

    /// The changes as sums count them.
    fn recalled(&self, recall: &Recall) -> ChangeSet {
        find_renames_recalled(self.delta_with(Some(recall)), &self.tree("lower"), &*self.union(), recall)
    }

    /// The upper and what it stands on as one layer.
    pub(crate) fn stack(&self) -> Stack<'static> {
        let open = |name: &str| kernel::open::root_dir(&self.at(name)).expect("open");
        let below = self.sealed.iter().map(|name| open(name)).collect();
        Stack::of_dirs(open("upper"), below, self.format()).expect("layers")
    }

    pub(crate) fn union(&self) -> Box<dyn Source> {
        let (upper, lower) = (kernel::open::root_dir(&self.at("upper")).expect("open"), self.tree("lower"));
        match self.sealed.is_empty() {
            true => Box::new(Union::over_indexed(upper, Box::new(lower), self.format(), self.index())),
            false => over_layer(Box::new(self.stack()), Box::new(lower)),
        }
    }

    /// The delta with renames found, a line for each change.
    pub(crate) fn lines(&self) -> Vec<String> {
        let set = find_renames(self.delta(), &self.tree("lower"), &*self.union());
        assert!(set.gaps.is_empty(), "{:?}", set.gaps);
        set.changes.iter().map(line).collect()
    }

    /// Delta, renames, union and comparison against the kernel's own view.
    pub(crate) fn check(&self) {
        let base = Model::read(&self.at("lower"));
        let shown = Model::read(&self.at("snap"));
        let told = self.said();
        let union = self.union();
        let same = Model::of_source(&*union);
        assert_eq!(same.difference(&shown), Vec::<String>::new(), "the union of {told}");

        let naive = naive_changes(&base, &shown);
        let full = compare(&self.tree("lower"), &*union, CompareOptions::default()).expect("compare");
        assert_eq!(full.changes.iter().map(line).collect::<Vec<_>>(), naive, "the comparison of {told}");

        let delta = self.delta();
        sound(&delta);
        let result = base.after(&delta, &*union);
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

        let renamed = find_renames(delta, &self.tree("lower"), &*union);
        sound(&renamed);
        let result = base.after(&renamed, &*union);
        assert_eq!(
            result.difference(&shown),
            Vec::<String>::new(),
            "the renames of {told}\n{:#?}",
            texts(&renamed)
        );
        assert_eq!(base.noise(&renamed, &shown), Vec::<String>::new(), "noise in the renames of {told}");

        // Sums count the same changes, also where everything is remembered.
        let recall = Recall::empty(LATER);
        assert_eq!(self.recalled(&recall), renamed, "what is counted of {told}");
        let recall = Recall::from_bytes(&recall.to_bytes(), LATER).expect("written just now");
        assert_eq!(self.recalled(&recall), renamed, "what is remembered of {told}");
        assert_eq!(recall.bytes_read(), 0, "bytes read again of {told}");
    }

    /// The layers that the upper stands on made one: what is told must stay, and the kernel must see it so too.
    pub(crate) fn check_flattened(&self) {
        let told = self.said();
        let below = self.sealed.iter().map(|name| kernel::open::root_dir(&self.at(name)).expect("open"));
        let mut below: Vec<_> = below.collect();
        let stack = Stack::of_dirs(below.remove(0), below, self.format()).expect("layers");
        for name in ["flat", "snap2"] {
            std::fs::create_dir(self.at(name)).expect("mkdir");
        }
        let flat = || kernel::open::root_dir(&self.at("flat")).expect("open");
        flatten(&stack, &self.tree("lower"), flat().as_fd(), self.format(), &mut |_| {}).expect("flatten");
        assert_eq!(Model::of_layer(&stack), Model::of_layer(&self.layer(flat())), "flat: {told}");

        let upper = kernel::open::root_dir(&self.at("upper")).expect("open");
        let all = Stack::of_dirs(upper, vec![flat()], self.format()).expect("layers");
        let set = layer_delta(&all, &self.tree("lower"), &DeltaOptions::default()).expect("delta");
        assert_eq!(texts(&set), texts(&self.delta()), "flat: {told}");

        if rustix::process::geteuid().is_root() && self.mode == Mode::User {
            chown(self.at("snap2"), Some(USER), Some(USER)).expect("chown");
        }
        let options = if self.mode == Mode::User { "userxattr" } else { "redirect_dir=follow,metacopy=off" };
        let script = format!(
            "mount -t overlay overlay -o lowerdir=upper:flat:lower,{options} merged || exit 90
            cp -a merged/. snap2/ || exit 91; umount merged"
        );
        in_namespace(self.mode, &self.dir, &script);
        let (shown, again) = (Model::read(&self.at("snap")), Model::read(&self.at("snap2")));
        assert_eq!(again.difference(&shown), Vec::<String>::new(), "flat, mounted: {told}");
    }

    /// A copy of the upper, with the index, mounted over the same lower tree: the kernel must show the same, hard links
    /// included.
    pub(crate) fn check_copied(&self) {
        let told = self.said();
        for name in ["copy", "work2", "snap2"] {
            std::fs::create_dir(self.at(name)).expect("mkdir");
            if rustix::process::geteuid().is_root() && self.mode == Mode::User {
                chown(self.at(name), Some(USER), Some(USER)).expect("chown");
            }
        }
        let open = |name: &str| kernel::open::root_dir(&self.at(name)).expect("open");
        let index = self.at("work/index").is_dir().then(|| {
            std::fs::create_dir(self.at("work2/index")).expect("mkdir");
            (open("work/index"), open("work2/index"))
        });
        let index = index.as_ref().map(|(from, to)| (from.as_fd(), to.as_fd()));
        let (from, to) = (open("upper"), open("copy"));
        let copied = copy_layer((from.as_fd(), to.as_fd()), index, self.format(), &mut |_| {}).expect("copy");
        assert!(copied.skipped.is_empty(), "{:?}: {told}", copied.skipped);
        let options = self.options();
        let script = format!(
            "mount -t overlay overlay -o lowerdir=lower,upperdir=copy,workdir=work2,{options} merged || exit 90
            cp -a merged/. snap2/ || exit 91; umount merged"
        );
        in_namespace(self.mode, &self.dir, &script);
        let (shown, again) = (Model::read(&self.at("snap")), Model::read(&self.at("snap2")));
        assert_eq!(again.difference(&shown), Vec::<String>::new(), "copied, mounted: {told}");
        assert_eq!(groups(&self.at("snap2")), groups(&self.at("snap")), "links: {told}");
    }

    fn options(&self) -> &'static str {
        options(self.mode)
    }

    fn layer(&self, fd: std::os::fd::OwnedFd) -> Stack<'static> {
        Stack::of_dirs(fd, Vec::new(), self.format()).expect("one layer")
    }

    fn said(&self) -> String {
        format!("{:?}\n{}", self.mode, self.script)
    }
}

fn options(mode: Mode) -> &'static str {
    match mode {
        Mode::User => "userxattr",
        Mode::Root => "redirect_dir=on,index=off,metacopy=off",
        Mode::RootIndexed => "redirect_dir=on,index=on,metacopy=off",
        Mode::RootMetacopy => "redirect_dir=on,index=off,metacopy=on",
    }
}

/// The names of each file that has several, as `find` tells them.
fn groups(root: &std::path::Path) -> Vec<Vec<String>> {
    let mut find = Command::new("find");
    find.arg(root).args(["-links", "+1", "!", "-type", "d", "-printf", "%i %P\n"]);
    let mut groups = std::collections::BTreeMap::<String, Vec<String>>::new();
    let said = find.output().expect("find").stdout;
    for line in String::from_utf8_lossy(&said).lines() {
        let (inode, path) = line.split_once(' ').expect("two words");
        groups.entry(inode.to_owned()).or_default().push(path.to_owned());
    }
    let mut groups: Vec<Vec<String>> = groups.into_values().collect();
    groups.iter_mut().for_each(|group| group.sort());
    groups.sort();
    groups
}

/// Runs a script in a mount namespace of its own, as whoever can mount in this mode.
fn in_namespace(mode: Mode, dir: &tempfile::TempDir, script: &str) {
    let root = rustix::process::geteuid().is_root();
    let (uid, gid) = (format!("--reuid={USER}"), format!("--regid={USER}"));
    let words: Vec<&str> = match mode {
        Mode::User if root => vec!["setpriv", &uid, &gid, "--clear-groups", "unshare", "-Urm"],
        Mode::User => vec!["unshare", "-Urm"],
        _ => vec!["unshare", "-m"],
    };
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).args(["bash", "-c", script]);
    let output = command.stdin(Stdio::null()).current_dir(dir.path()).output().expect("start");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{mode:?}: {}\n{said}", output.status);
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
