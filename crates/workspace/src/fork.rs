//! The layers of a new lane that shows what another one shows.
//!
//! Of an overlay whose upper may be a lower layer, the upper is sealed and both lanes stand on it, at a cost that does not
//! follow what it holds. Files with several names would part in a lower layer: each lane gets a copy of them in its own.
//! Else the upper is copied, as is a tree that is a copy itself: the kernel takes no lower layer that lies in another.
//!
//! Invariant: a fork that is not recorded yet says so by the file `forking`: nobody can have run anything in it.

use std::collections::HashSet;
use std::os::fd::AsFd as _;
use std::time::Instant;

use kernel::{Errno, meta, node};
use tree::copy::{CopyOptions, Progress, copy_tree};
use tree::layer::Format;
use tree::layer_copy::copy_layer;
use tree::walk::{Visit, walk};
use tree::{DirTree, LinkGroups, TreePath};

use crate::base::{read_stamp, stamp_as};
use crate::contract::Cost;
use crate::error::{Doing as _, Result};
use crate::home::{HOME, LaneHome, Layers, MountMode};
use crate::manifest::{Draft, Manifest, is_same_state};
use crate::overlay::{OverlayWorkspace, make_upper};
use crate::seal::{Sealing, Squashed};

const FORKING: &[u8] = b"forking";

/// What the maker of a fork brings along.
pub struct Making<'m> {
    /// Whether a file of an upper has further names in it, where that is known.
    pub linked: Option<bool>,
    /// Told of what is copied.
    pub progress: &'m mut dyn FnMut(Progress),
}

impl std::fmt::Debug for Making<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Making").field("linked", &self.linked).finish_non_exhaustive()
    }
}

/// How two lanes came to show the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sharing {
    /// They stand on the same layers.
    Sealed,
    /// The new one has a copy.
    Copied(WhyCopied),
}

/// Why a layer was copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum WhyCopied {
    /// Files in it have several names, which a lower layer does not keep together.
    HardLinks,
    /// The directory that holds the layers of lanes lies in the project: the kernel takes no layer within another.
    Inside,
    /// Its filesystem, or the mode of the project's directory, does not let it be moved away.
    NotMovable,
    /// It is a copy of the project, not a layer over it.
    IsCopy,
}

/// What one root of a fork is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forked {
    /// How.
    pub sharing: Sharing,
    /// What it cost. What was left out is not in the fork.
    pub cost: Cost,
    /// Layers that were made one on the way.
    pub squashed: Option<Squashed>,
    /// Entries that had to be looked at to know whether there are hard links.
    pub looked_at: u64,
}

impl LaneHome {
    /// Marks a lane that was just made as a fork in the making.
    pub fn begin_fork(&self) -> Result<()> {
        node::symlink_at(b"unrecorded", &self.dir().fd, FORKING).doing("mark fork", self.path())
    }

    /// True where it is the fork of a lane and was never recorded.
    pub fn is_forking(&self) -> Result<bool> {
        let found = meta::stat_at_if_there(&self.dir().fd, FORKING).doing("look at fork", self.path())?;
        Ok(found.is_some())
    }

    /// The fork is recorded.
    pub fn end_fork(&self) -> Result<()> {
        match node::unlink_at(&self.dir().fd, FORKING) {
            Err(error) if error.is_not_found() => Ok(()),
            other => other.doing("end fork", self.path()),
        }
    }

    /// Copies what `parent` has written to the home; what could not be copied, with the reason.
    pub fn take_home(
        &self,
        parent: &LaneHome,
        mode: MountMode,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Cost> {
        let began = Instant::now();
        let mut cost = Cost::default();
        let is_home = |name: &[u8]| {
            name.starts_with(HOME.as_bytes()) && (name.ends_with(b".u") || name.ends_with(b".aside"))
        };
        for name in parent.names()?.iter().filter(|name| is_home(name)) {
            let path = || self.path().join(String::from_utf8_lossy(name).as_ref());
            node::mkdir_at(&self.dir().fd, name, 0o700).doing("make layer", path())?;
            let open =
                |home: &LaneHome| kernel::open::dir_beneath(&home.dir().fd, name).doing("open layer", path());
            let (from, to) = (open(parent)?, open(self)?);
            let copied = copy_layer((from.as_fd(), to.as_fd()), None, format(mode), progress)
                .doing("copy layer", path())?;
            cost.files += copied.files;
            cost.allocated += copied.allocated;
            cost.left_out.extend(copied.skipped);
        }
        cost.elapsed = began.elapsed();
        Ok(cost)
    }

    /// Takes the base of `parent`, with what is recorded of it. From here on this is a lane.
    pub fn take_base(&self, parent: &LaneHome) -> Result<()> {
        // None of them is ever written to, only replaced: both lanes may have the file.
        let is_shared = |name: &[u8]| {
            [b"manifest.".as_slice(), b"recall.", b"index."].iter().any(|front| name.starts_with(front))
        };
        for name in parent.names()?.iter().filter(|name| is_shared(name)) {
            node::link_at(&parent.dir().fd, name, &self.dir().fd, name)
                .doing("share record", self.path().join(String::from_utf8_lossy(name).as_ref()))?;
        }
        crate::old_contents::share(parent, self)?;
        let (base, boot) = (read_stamp(parent)?, parent.last_boot()?);
        if boot != base.boot_id {
            self.set_last_boot(&boot)?;
        }
        stamp_as(self, &base)
    }
}

fn format(mode: MountMode) -> Format {
    match mode {
        MountMode::User => Format::User,
        MountMode::Root => Format::Root,
    }
}

/// The fork of one root that is an overlay.
pub(crate) fn overlay(
    parent: &OverlayWorkspace,
    child: &LaneHome,
    making: &mut Making<'_>,
) -> Result<Forked> {
    let began = Instant::now();
    let (layers, origin) = (parent.layers(), parent.origin()?);
    let to = child.layers(parent.root().index)?;
    let format = format(parent.root().mode);
    let mut looked_at = 0;
    let mut sealing = Sealing::begin(layers, &origin, format)?;
    let squashed = sealing.squash_if_many(making.progress)?;
    let (mut why, mut groups) = (None, None);
    if sealing.place().starts_with(&parent.root().origin) {
        why = Some(WhyCopied::Inside);
    } else if parent.index()?.is_some() {
        why = Some(WhyCopied::HardLinks);
    } else if making.linked != Some(false) {
        let upper = layers.open_layer(layers.open_dir()?, "u")?;
        let found = LinkGroups::of(upper.as_fd(), format);
        looked_at = found.looked_at;
        // Where nothing else is in it, there is nothing to share.
        if !found.can_part || !found.is_empty() && found.others == 0 {
            why = Some(WhyCopied::HardLinks);
        }
        groups = Some(found).filter(|found| !found.is_empty());
    }
    let stack = if why.is_none() { sealing.seal(groups.as_ref())? } else { None };
    let mut cost = cost_of(std::mem::take(&mut sealing.carried));
    let sharing = match stack {
        Some(ids) => {
            // Its root looks as the one before it did.
            let upper = layers.open_layer(layers.open_dir()?, "u")?;
            make_upper(to.open_dir()?.as_fd(), upper.as_fd(), &to)?;
            if groups.is_some() {
                let into = to.open_layer(to.open_dir()?, "u")?;
                let copied = copy_layer((upper.as_fd(), into.as_fd()), None, format, making.progress)
                    .doing("copy hard links", &to.upper)?;
                let carried = cost_of(copied);
                cost.files += carried.files;
                cost.allocated += carried.allocated;
                cost.left_out.extend(carried.left_out);
            }
            to.set_sealed(&ids)?;
            Sharing::Sealed
        }
        None => {
            let ids = layers.sealed_ids()?;
            to.set_sealed(&ids)?;
            cost = copy_upper(layers, &to, format, making.progress)?;
            Sharing::Copied(why.unwrap_or(WhyCopied::NotMovable))
        }
    };
    sealing.end()?;
    cost.elapsed = began.elapsed();
    Ok(Forked { sharing, cost, squashed, looked_at })
}

fn copy_upper(
    from: &Layers,
    to: &Layers,
    format: Format,
    progress: &mut dyn FnMut(Progress),
) -> Result<Cost> {
    let (old, new) = (from.open_dir()?, to.open_dir()?);
    let upper = from.open_layer(&old, "u")?;
    make_upper(new.as_fd(), upper.as_fd(), to)?;
    let into = to.open_layer(&new, "u")?;
    // Where hard links of the origin are kept together, the index says which; it goes with the upper.
    let index_of = |dir, layers: &Layers| {
        let name = [layers.name("w").as_slice(), b"/index"].concat();
        match kernel::open::dir_beneath(dir, &name) {
            Err(error) if error.is_not_found() => Ok(None),
            other => other.map(Some).doing("open index", &layers.work),
        }
    };
    let mut index = None;
    if format == Format::Root
        && let Some(known) = index_of(&old, from)?
    {
        let work = to.name("w");
        for name in [work.clone(), [work.as_slice(), b"/index"].concat()] {
            let (parent, name) = kernel::open::parent_beneath(&new, &name).doing("make index", &to.work)?;
            match node::mkdir_at(&parent, &name, 0o700) {
                Err(error) if error.errno == Errno::EXIST => {}
                other => other.doing("make index", &to.work)?,
            }
        }
        index = index_of(&new, to)?.map(|new| (known, new));
    }
    let index = index.as_ref().map(|(old, new)| (old.as_fd(), new.as_fd()));
    let copied = copy_layer((upper.as_fd(), into.as_fd()), index, format, progress)
        .doing("copy the upper layer", &from.upper)?;
    Ok(cost_of(copied))
}

fn cost_of(copied: tree::copy::Copied) -> Cost {
    Cost {
        allocated: copied.allocated,
        files: copied.files,
        cloned: copied.reflinked,
        left_out: copied.skipped,
        ..Cost::default()
    }
}

/// The fork of one root that is a copy: a copy of it, in which what was never touched still counts as that.
pub(crate) fn copy(
    from: &DirTree,
    copied: &Manifest,
    (child, layers): (&LaneHome, &Layers),
    name: &str,
    progress: &mut dyn FnMut(Progress),
) -> Result<Forked> {
    let began = Instant::now();
    let dir = layers.open_dir()?;
    node::mkdir_at(&dir, &layers.name("c"), 0o700).doing("make copy", &layers.copy)?;
    let to = layers.open_layer(&dir, "c")?;
    let mut touched: HashSet<TreePath> = HashSet::new();
    let as_made = |path: &TreePath, now: &tree::Entry| {
        copied.get(path).is_ok_and(|made| made.is_some_and(|made| is_same_state(&made.entry, now)))
    };
    let root = TreePath::root();
    let here = tree::dir::entry_of(&meta::stat_fd(from).doing("look at copy", &layers.copy)?);
    if !as_made(&root, &here) {
        touched.insert(root.clone());
    }
    let _gaps = walk(from.fd(), &mut |path, entry| {
        if !as_made(path, entry) {
            touched.insert(path.clone());
        }
        Visit::Enter
    });
    let done = copy_tree(from.fd(), to.as_fd(), &CopyOptions::default(), progress)
        .doing("copy the lane", &layers.copy)?;
    let mut draft = Draft::begin(child.dir())?;
    draft.all_cloned(copied.is_all_cloned() && done.ranged == 0 && done.read_written == 0);
    let mut failed = None;
    let here = tree::dir::entry_of(&meta::stat_fd(&to).doing("look at copy", &layers.copy)?);
    if !touched.contains(&root) {
        draft.push(&root, &here, false)?;
    }
    let gaps = walk(to.as_fd(), &mut |path, entry| {
        if !touched.contains(path)
            && let Err(error) = draft.push(path, entry, false)
        {
            failed = Some(error);
            return Visit::Stop;
        }
        Visit::Enter
    });
    if let Some(error) = failed {
        return Err(error);
    }
    let unread = copied.unread().chain(gaps.into_iter().map(|(path, _)| path));
    unread.chain(done.skipped.iter().map(|(path, _)| path.clone())).for_each(|path| draft.push_unread(&path));
    draft.publish(name)?;
    let cost = Cost { elapsed: began.elapsed(), ..cost_of(done) };
    Ok(Forked { sharing: Sharing::Copied(WhyCopied::IsCopy), cost, squashed: None, looked_at: 0 })
}
