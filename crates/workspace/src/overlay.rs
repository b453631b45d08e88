//! The overlay strategy: the origin is the lower layer, so that a lane costs a few directories however
//! large the project is.
//!
//! Invariant: the merged root looks like the origin's root (the kernel shows the upper's own mode, owner,
//! times and attributes there, so the upper is made like it). As a user the marks are `user.overlay.*`
//! and the work directory is new for each mount; as root redirects and an index are on and it is kept.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use kernel::mountspec::{MountSpec, MountWhat, Overlay};
use kernel::{Errno, meta, node, xattr};
use tree::copy::Progress;
use tree::delta::{DeltaOptions, layer_delta};
use tree::dir::DirTree;
use tree::layer::Format;
use tree::rename::{find_renames, find_renames_recalled};
use tree::union::over_layer_indexed;
use tree::{ChangeSet, LinkIndex, Recall, Source, Stack, TreePath};

use crate::choose::Strategy;
use crate::contract::{Cost, LayerAt, Root, Workspace};
use crate::detach::{Detach, rests_on};
use crate::error::{Doing as _, Result};
use crate::fork::{self, Forked, Making};
use crate::home::{LaneHome, Layers, MountMode, fresh_work, remove_below};
use crate::measure::allocated_below;
use crate::seal::Sealing;

/// One root as an overlay over its origin.
#[derive(Debug)]
pub struct OverlayWorkspace {
    root: Root,
    layers: Layers,
    /// Layers of another lane that it stands on, as they are: whoever made it holds that lane.
    lent: Option<Layers>,
}

impl OverlayWorkspace {
    /// The workspace of `root` in these layers.
    pub fn new(root: Root, layers: Layers) -> OverlayWorkspace {
        OverlayWorkspace { root, layers, lent: None }
    }

    fn format(&self) -> Format {
        match self.root.mode {
            MountMode::User => Format::User,
            MountMode::Root => Format::Root,
        }
    }

    pub(crate) fn root(&self) -> &Root {
        &self.root
    }

    pub(crate) fn layers(&self) -> &Layers {
        &self.layers
    }

    fn upper(&self) -> Result<OwnedFd> {
        self.layers.open_layer(self.layers.open_dir()?, "u")
    }

    pub(crate) fn origin(&self) -> Result<DirTree> {
        DirTree::open(&self.root.origin).doing("open the project", &self.root.origin)
    }

    fn stack(&self) -> Result<Stack<'static>> {
        let mut opened = self.layers.open_all()?;
        if let Some(lent) = &self.lent {
            let below = lent.open_all()?;
            opened.sealed.push(below.upper);
            opened.sealed.extend(below.sealed);
        }
        opened.into_stack(self.format()).doing("read layers", &self.layers.upper)
    }

    fn delta(&self, origin: &DirTree, options: DeltaOptions<'_>) -> Result<ChangeSet> {
        layer_delta(&self.stack()?, origin, &options).doing("read the upper layer", &self.layers.upper)
    }

    fn union(&self, index: Option<Arc<LinkIndex>>) -> Result<Box<dyn Source>> {
        let (layer, origin) = (Box::new(self.stack()?), Box::new(self.origin()?));
        Ok(over_layer_indexed(layer, origin, index))
    }

    /// The hard links that a mount as root keeps together.
    pub(crate) fn index(&self) -> Result<Option<Arc<LinkIndex>>> {
        // Over sealed layers there is none: the kernel would take it for that of another lower layer.
        if self.root.mode == MountMode::User || self.lent.is_some() || !self.layers.sealed_ids()?.is_empty() {
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

    fn view(&self) -> Result<MountSpec> {
        let is_user = self.root.mode == MountMode::User;
        let mut lowers = self.layers.sealed_paths()?;
        if let Some(lent) = &self.lent {
            lowers.push(lent.upper.clone());
            lowers.extend(lent.sealed_paths()?);
        }
        let index = !is_user && lowers.is_empty();
        lowers.push(self.root.origin.clone());
        Ok(MountSpec {
            what: MountWhat::Overlay(Overlay {
                lowers,
                upper: Some(self.layers.upper.clone()),
                work: Some(self.layers.work.clone()),
                user_xattr: is_user,
                // What a lane wrote is made durable by whoever promises it, not by unmounting.
                volatile: true,
                redirect_dir: !is_user,
                index,
            }),
            target: self.root.origin.clone(),
            read_only: false,
            no_exec: false,
        })
    }

    fn changes(&self) -> Result<ChangeSet> {
        let (origin, index) = (self.origin()?, self.index()?);
        let set = self.delta(&origin, DeltaOptions { index: index.clone(), ..DeltaOptions::default() })?;
        Ok(find_renames(set, &origin, &*self.union(index)?))
    }

    fn touched(&self) -> Result<ChangeSet> {
        // Nothing of the base can be in a new directory where directories of the base cannot be moved into it.
        let new_tops = self.root.mode == MountMode::User;
        let options =
            DeltaOptions { index: self.index()?, unread: true, new_tops, ..DeltaOptions::default() };
        self.delta(&self.origin()?, options)
    }

    fn sums(&self, recall: &Recall, plain: &mut dyn FnMut(&ChangeSet)) -> Result<ChangeSet> {
        let (origin, index) = (self.origin()?, self.index()?);
        let options = DeltaOptions { index: index.clone(), recall: Some(recall), ..DeltaOptions::default() };
        let set = self.delta(&origin, options)?;
        plain(&set);
        Ok(find_renames_recalled(set, &origin, &*self.union(index)?, recall))
    }

    fn sees_origin(&self) -> bool {
        true
    }

    fn lane_tree(&self) -> Result<Box<dyn Source>> {
        self.union(self.index()?)
    }

    fn base_tree(&self) -> Result<Box<dyn Source>> {
        Ok(Box::new(self.origin()?))
    }

    fn stand_alone(&self, touched: &[TreePath], may_write: bool) -> Result<bool> {
        if self.root.mode == MountMode::User {
            return Ok(true);
        }
        if self.is_stacked()? {
            // Former uppers are not written: what rests on a path that changes is brought into the own one.
            if !rests_on(&self.stack()?, touched).doing("read marks", &self.layers.upper)? {
                return Ok(true);
            }
            if !may_write {
                return Ok(false);
            }
            self.unite(&mut |_| {})?;
        }
        let (origin, index) = (self.origin()?, self.index()?);
        let lane = self.union(index.clone())?;
        let layers = &self.layers;
        let work =
            Detach { layers, origin: &origin, lane: &*lane, index: index.as_deref(), touched, may_write };
        work.run(self.upper()?.as_fd())
    }

    fn layer(&self) -> Result<LayerAt> {
        let dir = self.layers.open_dir()?;
        let fd = self.layers.open_layer(&dir, "u")?;
        Ok(LayerAt { fd, format: self.format(), is_whole: false, dir, stem: self.layers.stem.clone() })
    }

    fn fork(&self, child: &LaneHome, making: &mut Making<'_>) -> Result<Forked> {
        fork::overlay(self, child, making)
    }

    fn lend(&self, child: &LaneHome, making: &mut Making<'_>) -> Result<(Box<dyn Workspace>, Cost)> {
        let layers = child.layers(self.root.index)?;
        if self.layers.dir.starts_with(&self.root.origin) {
            // The kernel takes no layer within another; such a one is copied and not sealed.
            let cost = self.fork(child, making)?.cost;
            return Ok((Box::new(OverlayWorkspace::new(self.root.clone(), layers)), cost));
        }
        make_upper(layers.open_dir()?.as_fd(), self.upper()?.as_fd(), &layers)?;
        let lent = Some(self.layers.clone());
        Ok((Box::new(OverlayWorkspace { root: self.root.clone(), layers, lent }), Cost::default()))
    }

    fn begin_in(&self, child: &LaneHome) -> Result<()> {
        let layers = child.layers(self.root.index)?;
        make_upper(layers.open_dir()?.as_fd(), self.origin()?.fd(), &layers)
    }

    fn stacked(&self) -> Result<Option<Stack<'static>>> {
        let opened = self.layers.open_all()?;
        if opened.sealed.is_empty() {
            return Ok(None);
        }
        opened.into_stack(self.format()).map(Some).doing("read layers", &self.layers.upper)
    }

    fn former(&self) -> Result<Option<Stack<'static>>> {
        let mut sealed = self.layers.open_all()?.sealed.into_iter();
        let Some(top) = sealed.next() else { return Ok(None) };
        let former = Stack::of_dirs(top, sealed.collect(), self.format());
        former.map(Some).doing("read layers", &self.layers.upper)
    }

    fn unite(&self, progress: &mut dyn FnMut(Progress)) -> Result<bool> {
        if !self.is_stacked()? {
            return Ok(false);
        }
        let origin = self.origin()?;
        let mut sealing = Sealing::begin(&self.layers, &origin, self.format())?;
        let united = sealing.unite(progress)?;
        sealing.end()?;
        Ok(united)
    }

    fn is_stacked(&self) -> Result<bool> {
        Ok(!self.layers.sealed_ids()?.is_empty())
    }

    fn exclusive_bytes(&self, is_shared: &dyn Fn(&str) -> bool) -> Result<u64> {
        let mut sum = allocated_below(self.upper()?.as_fd(), &mut |_, _| true);
        for id in self.layers.sealed_ids()?.iter().filter(|id| !is_shared(id)) {
            let path = self.layers.pool().layer(id)?;
            let layer = kernel::open::root_dir(&path).doing("open layer", path)?;
            sum += allocated_below(layer.as_fd(), &mut |_, _| true);
        }
        Ok(sum)
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
    look_like(layers.open_layer(dir, "u")?.as_fd(), like, path)
}

/// Gives the root of a layer owner, mode, attributes and times of the directory `like`.
pub(crate) fn look_like(made: BorrowedFd<'_>, like: BorrowedFd<'_>, path: &Path) -> Result<()> {
    let wanted = meta::stat_fd(like).doing("look at the project", path)?;
    let before = meta::stat_fd(made).doing("look at layer", path)?;
    if (before.uid, before.gid) != (wanted.uid, wanted.gid) {
        match meta::set_owner_fd(made, wanted.uid, wanted.gid) {
            // A user cannot give a directory away; such a project is not the overlay's in user mode.
            Err(error) if error.errno == Errno::PERM => {}
            other => other.doing("set owner of layer", path)?,
        }
    }
    meta::set_mode_fd(made, wanted.permissions()).doing("set mode of layer", path)?;
    for (name, value) in tree::dir::xattrs_at(like, b"").doing("read attributes of the project", path)? {
        xattr::set_at(made, b"", &name, &value).doing("set attributes of layer", path)?;
    }
    meta::set_times_fd(made, wanted.mtime).doing("set times of layer", path)
}
