//! The copy strategy: the lane's tree is a copy of the origin (clones where the filesystem has them).
//!
//! Two manifests make it comparable without reading it all: `manifest.<i>` is the origin as it was before
//! the copy, `copied.<i>` the copy as it was made. A file of the copy that still has the state recorded
//! there was not touched; what the host changed meanwhile shows in the first and is drift, not a change
//! of the lane.
//!
//! Invariant: the origin is recorded before it is copied, so that an edit between the two shows as drift
//! and is never taken for the base. A copy without its `copied.<i>` is half made.

use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use kernel::mountspec::{MountSpec, MountWhat};
use kernel::{node, open};
use rustix::fs::MemfdFlags;
use tree::compare::{CompareOptions, compare};
use tree::copy::{CopyOptions, Progress, copy_tree};
use tree::dir::DirTree;
use tree::layer::Format;
use tree::rename::find_renames;
use tree::source::Xattr;
use tree::{ChangeSet, Entry, Source, TreePath};

use crate::choose::Strategy;
use crate::contract::{Cost, LayerAt, Root, Workspace};
use crate::error::{Doing as _, Error, Result};
use crate::fork::{self, Forked, Making};
use crate::home::{HomeDir, LaneHome, Layers, MountMode, remove_below};
use crate::manifest::{self, Draft, Manifest, RecordOptions, is_same_state, record};
use crate::measure::allocated_below;

/// One root as a copy of its origin.
#[derive(Debug)]
pub struct CopyWorkspace {
    root: Root,
    layers: Layers,
    home: HomeDir,
}

impl CopyWorkspace {
    /// The workspace of `root` in these layers.
    pub fn new(root: Root, layers: Layers, home: &LaneHome) -> Result<CopyWorkspace> {
        let fd = open::dir_beneath(&home.dir().fd, b"").doing("open lane directory", home.path())?;
        Ok(CopyWorkspace { root, layers, home: HomeDir { path: home.path().to_path_buf(), fd } })
    }

    fn copied_name(&self) -> String {
        format!("copied.{}", self.root.index)
    }

    fn copy(&self) -> Result<DirTree> {
        self.layers.open_layer(self.layers.open_dir()?, "c").map(DirTree::from_fd)
    }

    fn origin(&self) -> Result<DirTree> {
        DirTree::open(&self.root.origin).doing("open the project", &self.root.origin)
    }

    fn load(&self, name: &str) -> Result<Manifest> {
        let gone = || Error::LayersGone { path: self.home.path.join(name) };
        Manifest::load_named(&self.home, name)?.ok_or_else(gone)
    }

    fn base(&self) -> Result<CopyBase> {
        let manifest = self.load(&manifest::file_name(self.root.index))?;
        Ok(CopyBase { manifest, origin: self.origin()? })
    }
}

impl Workspace for CopyWorkspace {
    fn strategy(&self) -> Strategy {
        Strategy::Copy
    }

    fn prepare(&self, progress: &mut dyn FnMut(Progress)) -> Result<Cost> {
        let began = Instant::now();
        let dir = self.layers.open_dir()?;
        // What an interrupted copy left is not trusted.
        remove_below(&dir, &self.layers.name("c"), &self.layers.copy)?;
        node::mkdir_at(&dir, &self.layers.name("c"), 0o700).doing("make copy", &self.layers.copy)?;
        let to = self.copy()?;
        let origin = self.origin()?;
        let skip = self.root.skipped();
        let go_on = AtomicBool::new(false);
        let options = RecordOptions { skip: &skip, ..RecordOptions::default() };
        record(origin.fd(), &options, &self.home, &manifest::file_name(self.root.index), &go_on)?;
        let options = CopyOptions { skip, ..CopyOptions::default() };
        let copied = copy_tree(origin.fd(), to.fd(), &options, progress);
        let copied = match copied {
            Ok(copied) => copied,
            Err(error) => {
                // A full disk must not stay full because of us.
                remove_below(&dir, &self.layers.name("c"), &self.layers.copy)?;
                return Err(error).doing("copy the project", &self.root.origin);
            }
        };
        let left_out: Vec<TreePath> = copied.skipped.iter().map(|(path, _)| path.clone()).collect();
        let all_cloned = copied.reflinked > 0 && copied.ranged == 0 && copied.read_written == 0;
        let options = RecordOptions { unread: &left_out, all_cloned, ..RecordOptions::default() };
        record(to.fd(), &options, &self.home, &self.copied_name(), &go_on)?;
        Ok(Cost {
            elapsed: began.elapsed(),
            allocated: copied.allocated,
            files: copied.files,
            cloned: copied.reflinked,
            left_out: copied.skipped,
        })
    }

    fn before_mount(&self) -> Result<()> {
        self.copy().map(|_| ())
    }

    fn view(&self) -> Result<MountSpec> {
        Ok(MountSpec {
            what: MountWhat::Bind { source: self.layers.copy.clone(), recursive: false },
            target: self.root.origin.clone(),
            read_only: false,
            no_exec: false,
        })
    }

    fn changes(&self) -> Result<ChangeSet> {
        let copied = self.load(&self.copied_name())?;
        let base = self.base()?;
        let lane = self.copy()?;
        let mut skip = self.root.skipped();
        skip.extend(copied.unread());
        let is_untouched = |path: &TreePath, _: &Entry, now: &Entry| {
            copied.get(path).is_ok_and(|made| made.is_some_and(|made| is_same_state(&made.entry, now)))
        };
        // A user's copy of somebody else's file is his own; that is no change of the lane's.
        let ignore_owner = self.root.mode == MountMode::User;
        let options = CompareOptions {
            skip: &skip,
            quick_equal: Some(&is_untouched),
            ignore_owner,
            ..CompareOptions::default()
        };
        let set = compare(&base, &lane, options).doing("compare the copy", &self.layers.copy)?;
        Ok(find_renames(set, &base, &lane))
    }

    fn lane_tree(&self) -> Result<Box<dyn Source>> {
        Ok(Box::new(self.copy()?))
    }

    fn base_tree(&self) -> Result<Box<dyn Source>> {
        Ok(Box::new(self.base()?))
    }

    fn layer(&self) -> Result<LayerAt> {
        let dir = self.layers.open_dir()?;
        let fd = self.layers.open_layer(&dir, "c")?;
        Ok(LayerAt { fd, format: Format::User, is_whole: true, dir, stem: self.layers.stem.clone() })
    }

    fn fork(&self, child: &LaneHome, making: &mut Making<'_>) -> Result<Forked> {
        let (copied, name) = (self.load(&self.copied_name())?, self.copied_name());
        let layers = child.layers(self.root.index)?;
        fork::copy(&self.copy()?, &copied, (child, &layers), &name, making.progress)
    }

    fn lend(&self, child: &LaneHome, making: &mut Making<'_>) -> Result<(Box<dyn Workspace>, Cost)> {
        let cost = self.fork(child, making)?.cost;
        let layers = child.layers(self.root.index)?;
        Ok((Box::new(CopyWorkspace::new(self.root.clone(), layers, child)?), cost))
    }

    fn begin_in(&self, child: &LaneHome) -> Result<()> {
        let copied = self.load(&self.copied_name())?;
        let layers = child.layers(self.root.index)?;
        let dir = layers.open_dir()?;
        node::mkdir_at(&dir, &layers.name("c"), 0o700).doing("make copy", &layers.copy)?;
        // Nothing in it is as it was copied: what comes is compared with the base by its content.
        let mut draft = Draft::begin(child.dir())?;
        copied.unread().for_each(|path| draft.push_unread(&path));
        draft.publish(&self.copied_name())
    }

    fn exclusive_bytes(&self, _is_shared: &dyn Fn(&str) -> bool) -> Result<u64> {
        let copied = self.load(&self.copied_name())?;
        // A clone that nobody wrote to still shares its bytes.
        let mut counts = |path: &TreePath, entry: &Entry| {
            let is_shared = copied.is_all_cloned()
                && entry.is_file()
                && copied
                    .get(path)
                    .is_ok_and(|made| made.is_some_and(|made| is_same_state(&made.entry, entry)));
            !is_shared
        };
        Ok(allocated_below(self.copy()?.fd(), &mut counts))
    }

    fn remove(self: Box<Self>) -> Result<()> {
        match self.layers.open_dir() {
            Err(error) if error.is_not_found() => Ok(()),
            other => remove_below(&other?, &self.layers.name("c"), &self.layers.copy),
        }
    }
}

/// The origin as it was when it was copied: what there was says the manifest, content comes from the
/// origin of today (where a file has changed since, drift says so).
#[derive(Debug)]
struct CopyBase {
    manifest: Manifest,
    origin: DirTree,
}

impl Source for CopyBase {
    fn entry(&self, path: &TreePath) -> kernel::Result<Option<Entry>> {
        Ok(self.manifest.get(path).map_err(of_kernel)?.map(|recorded| recorded.entry))
    }

    fn list(&self, path: &TreePath) -> kernel::Result<Vec<Vec<u8>>> {
        self.manifest.names_in(path).map_err(of_kernel)
    }

    fn open(&self, path: &TreePath) -> kernel::Result<OwnedFd> {
        use kernel::error::Asked as _;
        match self.origin.open(path) {
            // The host deleted it since. It differs from whatever the lane has; drift names it.
            Err(error) if error.is_not_found() => {
                rustix::fs::memfd_create(c"gone", MemfdFlags::CLOEXEC).asked("memfd_create", path.as_bytes())
            }
            other => other,
        }
    }

    fn xattrs(&self, path: &TreePath) -> kernel::Result<Vec<Xattr>> {
        match self.origin.xattrs(path) {
            Err(error) if error.is_not_found() => Ok(Vec::new()),
            other => other,
        }
    }
}

/// An error of the record as one of reading the tree that it stands for.
fn of_kernel(error: Error) -> kernel::Error {
    match error {
        Error::Kernel { source, .. } => source,
        other => kernel::Error::new("read", other.to_string(), kernel::Errno::BADMSG),
    }
}
