//! The overlay strategy: the origin is the lower layer, so that a lane costs a few directories however
//! large the project is.
//!
//! Invariant: the merged root looks like the origin's root (the kernel shows the upper's own mode, owner,
//! times and attributes there, so the upper is made like it). As a user the marks are `user.overlay.*`
//! and the work directory is new for each mount; as root redirects and an index are on and it is kept.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

use kernel::mountspec::{MountSpec, MountWhat, Overlay};
use kernel::{Errno, meta, node, xattr};
use tree::copy::Progress;
use tree::delta::{DeltaOptions, overlay_delta};
use tree::dir::DirTree;
use tree::layer::Format;
use tree::rename::{find_renames, find_renames_recalled};
use tree::union::Union;
use tree::{ChangeSet, LinkIndex, Recall, Source, TreePath};

use crate::choose::Strategy;
use crate::contract::{Cost, LayerAt, Root, Workspace};
use crate::detach::Detach;
use crate::error::{Doing as _, Result};
use crate::home::{Layers, MountMode, fresh_work, remove_below};
use crate::measure::allocated_below;

/// One root as an overlay over its origin.
#[derive(Debug)]
pub struct OverlayWorkspace {
    root: Root,
    layers: Layers,
}

impl OverlayWorkspace {
    /// The workspace of `root` in these layers.
    pub fn new(root: Root, layers: Layers) -> OverlayWorkspace {
        OverlayWorkspace { root, layers }
    }

    fn format(&self) -> Format {
        match self.root.mode {
            MountMode::User => Format::User,
            MountMode::Root => Format::Root,
        }
    }

    fn upper(&self) -> Result<OwnedFd> {
        self.layers.open_layer(self.layers.open_dir()?, "u")
    }

    fn origin(&self) -> Result<DirTree> {
        DirTree::open(&self.root.origin).doing("open the project", &self.root.origin)
    }

    fn delta(&self, origin: &DirTree, options: DeltaOptions<'_>) -> Result<ChangeSet> {
        let upper = self.upper()?;
        overlay_delta(upper.as_fd(), self.format(), origin, &options)
            .doing("read the upper layer", &self.layers.upper)
    }

    fn union(&self, index: Option<Arc<LinkIndex>>) -> Result<Union> {
        Ok(Union::over_indexed(self.upper()?, Box::new(self.origin()?), self.format(), index))
    }

    /// The hard links that a mount as root keeps together.
    fn index(&self) -> Result<Option<Arc<LinkIndex>>> {
        if self.root.mode == MountMode::User {
            return Ok(None);
        }
        let work = match self.layers.open_layer(self.layers.open_dir()?, "w") {
            Err(error) if error.is_not_found() => return Ok(None),
            other => other?,
        };
        let index =
            LinkIndex::read(work.as_fd(), self.origin()?.fd()).doing("read the index", &self.layers.work)?;
        Ok(index.map(Arc::new))
    }
}

impl Workspace for OverlayWorkspace {
    fn strategy(&self) -> Strategy {
        Strategy::Overlay
    }

    fn prepare(&self, _progress: &mut dyn FnMut(Progress)) -> Result<Cost> {
        let began = Instant::now();
        make_upper(self.layers.open_dir()?.as_fd(), self.origin()?.fd(), &self.layers)?;
        Ok(Cost { elapsed: began.elapsed(), ..Cost::default() })
    }

    fn before_mount(&self) -> Result<()> {
        fresh_work(self.layers.open_dir()?.as_fd(), &self.layers, self.root.mode)
    }

    fn view(&self) -> MountSpec {
        let is_user = self.root.mode == MountMode::User;
        MountSpec {
            what: MountWhat::Overlay(Overlay {
                lowers: vec![self.root.origin.clone()],
                upper: Some(self.layers.upper.clone()),
                work: Some(self.layers.work.clone()),
                user_xattr: is_user,
                // What a lane wrote is made durable by whoever promises it, not by unmounting.
                volatile: true,
                redirect_dir: !is_user,
                index: !is_user,
            }),
            target: self.root.origin.clone(),
            read_only: false,
            no_exec: false,
        }
    }

    fn changes(&self) -> Result<ChangeSet> {
        let (origin, index) = (self.origin()?, self.index()?);
        let set = self.delta(&origin, DeltaOptions { index: index.clone(), ..DeltaOptions::default() })?;
        Ok(find_renames(set, &origin, &self.union(index)?))
    }

    fn touched(&self) -> Result<ChangeSet> {
        let options = DeltaOptions { index: self.index()?, unread: true, ..DeltaOptions::default() };
        self.delta(&self.origin()?, options)
    }

    fn sums(&self, recall: &Recall) -> Result<ChangeSet> {
        let (origin, index) = (self.origin()?, self.index()?);
        let options = DeltaOptions { index: index.clone(), recall: Some(recall), ..DeltaOptions::default() };
        let set = self.delta(&origin, options)?;
        Ok(find_renames_recalled(set, &origin, &self.union(index)?, recall))
    }

    fn lane_tree(&self) -> Result<Box<dyn Source>> {
        Ok(Box::new(self.union(self.index()?)?))
    }

    fn base_tree(&self) -> Result<Box<dyn Source>> {
        Ok(Box::new(self.origin()?))
    }

    fn stand_alone(&self, touched: &[TreePath], may_write: bool) -> Result<bool> {
        if self.root.mode == MountMode::User {
            return Ok(true);
        }
        let (origin, index) = (self.origin()?, self.index()?);
        let lane = self.union(index.clone())?;
        let layers = &self.layers;
        let work =
            Detach { layers, origin: &origin, lane: &lane, index: index.as_deref(), touched, may_write };
        work.run(self.upper()?.as_fd())
    }

    fn layer(&self) -> Result<LayerAt> {
        let dir = self.layers.open_dir()?;
        let fd = self.layers.open_layer(&dir, "u")?;
        Ok(LayerAt { fd, format: self.format(), is_whole: false, dir, stem: self.layers.stem.clone() })
    }

    fn exclusive_bytes(&self) -> Result<u64> {
        Ok(allocated_below(self.upper()?.as_fd(), &mut |_, _| true))
    }

    fn remove(self: Box<Self>) -> Result<()> {
        let dir = match self.layers.open_dir() {
            Err(error) if error.is_not_found() => return Ok(()),
            other => other?,
        };
        remove_below(&dir, &self.layers.name("w"), &self.layers.work)?;
        remove_below(&dir, &self.layers.name("u"), &self.layers.upper)
    }
}

/// Makes the upper in `dir` look like the lower root `like`; finds it made is success.
pub(crate) fn make_upper(dir: BorrowedFd<'_>, like: BorrowedFd<'_>, layers: &Layers) -> Result<()> {
    let path = &layers.upper;
    match node::mkdir_at(dir, &layers.name("u"), 0o700) {
        Err(error) if error.errno == Errno::EXIST => {}
        other => other.doing("make upper layer", path)?,
    }
    let upper = layers.open_layer(dir, "u")?;
    let wanted = meta::stat_fd(like).doing("look at the project", path)?;
    let made = meta::stat_fd(&upper).doing("look at upper layer", path)?;
    if (made.uid, made.gid) != (wanted.uid, wanted.gid) {
        match meta::set_owner_fd(&upper, wanted.uid, wanted.gid) {
            // A user cannot give a directory away; such a project is not the overlay's in user mode.
            Err(error) if error.errno == Errno::PERM => {}
            other => other.doing("set owner of upper layer", path)?,
        }
    }
    meta::set_mode_fd(&upper, wanted.permissions()).doing("set mode of upper layer", path)?;
    for (name, value) in tree::dir::xattrs_at(like, b"").doing("read attributes of the project", path)? {
        xattr::set_at(&upper, b"", &name, &value).doing("set attributes of upper layer", path)?;
    }
    meta::set_times_fd(&upper, wanted.mtime).doing("set times of upper layer", path)
}
