//! [`LaneHome`]: the directory of one lane below the state directory.
//!
//! ```text
//! <state>/lanes/<id>/lock          held by whoever makes, runs or removes the lane
//!                    base          the stamp: its ctime is the base time; a lane without it is half made
//!                    boot          boot id of the last mount, where it is not the one in `base`
//!                    <i>.u <i>.w   upper and work directory of root i (0 is the origin), or
//!                    <i>.c         its copy
//!                    <i>.at        a link to the directory that holds these, where they stand elsewhere
//!                    manifest.<i>  what the base of root i was (see `manifest`)
//!                    copied.<i>    what its copy was when it was made
//!                    index.<i>     the index of its repository, as it was then (see `git/staged`)
//!                    old.<i>       what files held that a copy has changed (see `old_contents`)
//!                    noted.<i>     what keeps brought of it into the original (see `kept`)
//!                    kept.<keep>.<i> noted.<keep>.<i> took.<keep>.<i>   what is undone with that keep
//!                    recall.<i>    what was read of content for sums of root i; may go at any time
//!                    home-<part>.u home-<part>.w   layers over parts of the home directory
//!                    stack.<i>     the sealed layers that root i stands on (see `pool`)
//!                    links         whether an upper holds hard links (see `links`)
//!                    forking       it is the fork of a lane and not recorded yet (see `fork`)
//! <state>/trash/<id>               the same, discarded
//! <state>/spare/<id>               an empty one, to make the next lane of (see `spare`)
//! ```
//!
//! It is flat because every directory costs a lane about 0.1 ms of its life on ext4, most of it when it is
//! removed.
//!
//! Invariant: an upper is used by one holder of the lock at a time, because the kernel only warns when
//! one upper is mounted twice. Making a lane is a handful of calls and syncs nothing: until a lane has
//! run there is nothing in it to lose.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use kernel::error::Asked as _;
use kernel::lock::Lock;
use kernel::{Errno, node, open};
use rustix::fs::FlockOperation;
use tree::walk::{Visit, walk};
use tree::{Recall, Time};

use crate::error::{Doing as _, Error, Result};
use crate::layer_place::{self, LayerPlace, mkdir_if_absent};
use crate::manifest::{Manifest, is_same_state};
use crate::origin::open_dir;
use crate::pool::{self, Pool};

/// Name of the directory of lanes in the state directory.
pub const LANES: &str = "lanes";
/// Name of the directory of discarded lanes in the state directory.
pub const TRASH: &str = "trash";
const LOCK: &[u8] = b"lock";
const BOOT: &[u8] = b"boot";
const AT: &str = ".at";
pub(crate) const HOME: &str = "home-";

/// The directory of one lane.
#[derive(Debug)]
pub struct LaneHome {
    id: String,
    dir: HomeDir,
    above: OwnedFd,
}

/// A lane's own directory, for what is kept in it beside the layers.
#[derive(Debug)]
pub struct HomeDir {
    /// Its path, for messages.
    pub path: PathBuf,
    /// The directory.
    pub fd: OwnedFd,
}

/// The layers of one root, or of one part of the home directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layers {
    /// The directory that holds them; never a link.
    pub dir: PathBuf,
    /// What their names begin with.
    pub stem: String,
    /// The writable layer.
    pub upper: PathBuf,
    /// The overlay's work directory, beside the upper.
    pub work: PathBuf,
    /// The copy, where the strategy is a copy.
    pub copy: PathBuf,
    /// The lane's own directory, which says what they stand on.
    pub(crate) lane: PathBuf,
}

impl Layers {
    fn of(lane: &Path, dir: PathBuf, stem: String) -> Layers {
        let path = |end: &str| dir.join(format!("{stem}.{end}"));
        Layers { upper: path("u"), work: path("w"), copy: path("c"), dir, stem, lane: lane.to_path_buf() }
    }

    /// The place that they stand in.
    pub(crate) fn place(&self) -> LayerPlace {
        match self.dir.parent() {
            Some(place) if self.dir != self.lane => LayerPlace::At(place.to_path_buf()),
            _ => LayerPlace::InState,
        }
    }

    pub(crate) fn name(&self, end: &str) -> Vec<u8> {
        format!("{}.{end}", self.stem).into_bytes()
    }

    /// Opens the directory that holds them.
    pub(crate) fn open_dir(&self) -> Result<OwnedFd> {
        self.found(open::root_dir(&self.dir), &self.dir)
    }

    /// Opens one of them.
    pub(crate) fn open_layer(&self, dir: impl AsFd, end: &str) -> Result<OwnedFd> {
        let name = self.name(end);
        self.found(open::dir_beneath(dir, &name), &self.dir.join(OsStr::from_bytes(&name)))
    }

    fn found(&self, opened: kernel::Result<OwnedFd>, path: &Path) -> Result<OwnedFd> {
        match opened {
            Err(error) if error.is_not_found() => Err(Error::LayersGone { path: path.to_path_buf() }),
            other => other.doing("open layer directory", path),
        }
    }
}

/// In which way an overlay of this lane is mounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MountMode {
    /// In a user namespace: `userxattr,volatile`, a fresh work directory for each mount.
    User,
    /// In the initial namespaces: redirects and index, the work directory is kept (with an index, a
    /// fresh one loses what was written through hard links).
    Root,
}

impl LaneHome {
    /// Makes the directory of a new lane and takes its lock. Until [`crate::base::stamp`] the lane counts
    /// as half made.
    pub fn create(state: &Path, id: &str) -> Result<(LaneHome, Lock)> {
        let path = state.join(LANES).join(id);
        let above = match open_dir(&state.join(LANES)) {
            Err(error) if error.is_not_found() => {
                mkdir_if_absent(&open_dir(state)?, LANES.as_bytes(), state)?;
                open_dir(&state.join(LANES))?
            }
            other => other?,
        };
        // Until the directory has its lock file: see `has_maker`. The kernel lets go when we are killed.
        let gate = open_dir(&state.join(LANES))?;
        rustix::fs::flock(&gate, FlockOperation::LockShared)
            .asked("flock", LANES)
            .doing("make lane", &path)?;
        if !crate::spare::take(state, &above, id)? {
            match node::mkdir_at(&above, id.as_bytes(), 0o700) {
                Err(error) if error.errno == Errno::EXIST => return Err(Error::Exists { path }),
                other => other.doing("make lane directory", &path)?,
            }
        }
        let dir = open::dir_beneath(&above, id.as_bytes()).doing("open lane directory", &path)?;
        let home = LaneHome { id: id.to_owned(), dir: HomeDir { path, fd: dir }, above };
        // A sweep may meet the directory before it has its lock: then it is gone, or held to be removed.
        let lock = match home.try_lock() {
            Ok(Some(lock)) => lock,
            Err(error) if !error.is_not_found() => return Err(error),
            Ok(None) | Err(_) => return Err(Error::Exists { path: home.path().to_path_buf() }),
        };
        drop(gate);
        Ok((home, lock))
    }

    /// Opens the directory of a lane.
    pub fn open(state: &Path, id: &str) -> Result<LaneHome> {
        LaneHome::open_below(&state.join(LANES), id)
    }

    /// Opens the directory of a discarded lane.
    pub fn open_trashed(state: &Path, id: &str) -> Result<LaneHome> {
        LaneHome::open_below(&state.join(TRASH), id)
    }

    fn open_below(above_path: &Path, id: &str) -> Result<LaneHome> {
        let path = above_path.join(id);
        let missing = |error: kernel::Error| match error.is_not_found() {
            true => Error::Missing { path: path.clone() },
            false => Error::Kernel { step: "open lane directory", path: path.clone(), source: error },
        };
        let above = open::root_dir(above_path).map_err(missing)?;
        let dir = open::dir_beneath(&above, id.as_bytes()).map_err(missing)?;
        Ok(LaneHome { id: id.to_owned(), dir: HomeDir { path, fd: dir }, above })
    }

    /// The lane's id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Its directory.
    pub fn path(&self) -> &Path {
        &self.dir.path
    }

    /// The directory that it stands in.
    pub(crate) fn above(&self) -> &OwnedFd {
        &self.above
    }

    /// Its directory, opened.
    pub fn dir(&self) -> &HomeDir {
        &self.dir
    }

    /// Takes the lane for this process; `None` where somebody else has it.
    pub fn try_lock(&self) -> Result<Option<Lock>> {
        kernel::lock::try_exclusive(&self.dir.fd, LOCK).doing("lock lane", self.path())
    }

    /// Keeps the lane as it is, together with others who only look: nobody can run it, keep from it or drop it
    /// meanwhile. `None` where somebody has it for himself.
    pub fn try_share(&self) -> Result<Option<Lock>> {
        kernel::lock::try_shared(&self.dir.fd, LOCK).doing("share lane", self.path())
    }

    /// The pid of the process that holds the lane, where it is told.
    pub fn holder(&self) -> Result<Option<i32>> {
        kernel::lock::holder_pid(&self.dir.fd, LOCK).doing("look at lock", self.path())
    }

    /// Makes the place for the layers of root `index`.
    pub fn add_root(&self, index: usize, place: &LayerPlace) -> Result<Layers> {
        let LayerPlace::At(place) = place else {
            return Ok(self.own_layers(index.to_string()));
        };
        let target = place.join(&self.id);
        // The link first: a place elsewhere is never made that could not be found again.
        let name = format!("{index}{AT}");
        match node::symlink_at(target.as_os_str().as_bytes(), &self.dir.fd, name.as_bytes()) {
            Err(error) if error.errno == Errno::EXIST => {}
            other => other.doing("note layer directory", &target)?,
        }
        layer_place::make_at(place, &self.id)?;
        Ok(Layers::of(self.path(), target, index.to_string()))
    }

    /// Where the layers of root `index` stand.
    pub fn place_of(&self, index: usize) -> Result<LayerPlace> {
        Ok(self.layers(index)?.place())
    }

    fn own_layers(&self, stem: String) -> Layers {
        Layers::of(self.path(), self.path().to_path_buf(), stem)
    }

    /// The layers of root `index`.
    pub fn layers(&self, index: usize) -> Result<Layers> {
        let name = format!("{index}{AT}");
        match kernel::meta::read_link_at(&self.dir.fd, name.as_bytes()) {
            Ok(target) => {
                let dir = PathBuf::from(std::ffi::OsString::from_vec(target));
                if dir.is_dir() {
                    Ok(Layers::of(self.path(), dir, index.to_string()))
                } else {
                    Err(Error::LayersGone { path: dir })
                }
            }
            Err(error) if error.is_not_found() => Ok(self.own_layers(index.to_string())),
            Err(error) => Err(error).doing("find layers", self.path().join(name)),
        }
    }

    /// How many roots the lane has, by what stands in its directory.
    pub fn root_count(&self) -> Result<usize> {
        let index = |name: &[u8]| -> Option<usize> {
            let (stem, end) = std::str::from_utf8(name).ok()?.split_once('.')?;
            let index = stem.parse().ok()?;
            matches!(end, "u" | "c" | "at").then_some(index)
        };
        Ok(self.names()?.iter().filter_map(|name| index(name)).max().map_or(0, |last| last + 1))
    }

    /// Layers over one part of the home directory; `part` is a short name of the caller's choice. They are
    /// made where they are not there, the upper like `like` (mode, times, attributes of the lower).
    pub fn home_layers(&self, part: &str, like: BorrowedFd<'_>) -> Result<Layers> {
        let layers = self.own_layers(format!("{HOME}{part}"));
        crate::overlay::make_upper(self.dir.fd.as_fd(), like, &layers)?;
        Ok(layers)
    }

    /// The upper over one part of the home directory, in the lane directory `lane`; it may not be there.
    pub fn home_upper_in(lane: &Path, part: &str) -> PathBuf {
        lane.join(format!("{HOME}{part}.u"))
    }

    /// The uppers over parts of the home directory, opened: what was written to the home inside.
    pub fn home_uppers(&self) -> Result<Vec<OwnedFd>> {
        let is_upper = |name: &Vec<u8>| name.starts_with(HOME.as_bytes()) && name.ends_with(b".u");
        let open =
            |name: &Vec<u8>| open::dir_beneath(&self.dir.fd, name).doing("open upper layer", self.path());
        self.names()?.iter().filter(|name| is_upper(name)).map(open).collect()
    }

    /// The same with the name of the part that each lies over; the home itself is `0`.
    pub fn home_parts(&self) -> Result<Vec<(String, OwnedFd)>> {
        let mut parts = Vec::new();
        for name in self.names()? {
            let part = name.strip_prefix(HOME.as_bytes()).and_then(|part| part.strip_suffix(b".u"));
            if let Some(part) = part {
                let dir = open::dir_beneath(&self.dir.fd, &name).doing("open upper layer", self.path())?;
                parts.push((String::from_utf8_lossy(part).into_owned(), dir));
            }
        }
        Ok(parts)
    }

    /// True where nothing was written in the lane: every copy is as it was made, nothing is in any upper, and it stands
    /// on no former upper.
    pub fn is_unused(&self) -> Result<bool> {
        if !pool::stacks(&self.dir.fd).doing("look at lane", self.path())?.is_empty() {
            return Ok(false);
        }
        let is_empty = |dir: OwnedFd| {
            kernel::dir::entries(&dir).map(|names| names.is_empty()).doing("list", self.path())
        };
        for index in 0..self.root_count()? {
            let copied = format!("copied.{index}");
            if let Some(copied) = Manifest::load_named(&self.dir, &copied)?
                && !self.is_as_copied(index, &copied)?
            {
                return Ok(false);
            }
            let layers = match self.layers(index) {
                Err(error) if error.is_not_found() => continue,
                other => other?,
            };
            match layers.open_dir().and_then(|dir| layers.open_layer(&dir, "u")) {
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error),
                Ok(upper) => {
                    if !is_empty(upper)? {
                        return Ok(false);
                    }
                }
            }
        }
        for upper in self.home_uppers()? {
            if !is_empty(upper)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// True where a copy holds exactly what was recorded when it was made.
    fn is_as_copied(&self, index: usize, copied: &Manifest) -> Result<bool> {
        let layers = self.layers(index)?;
        let copy = layers.open_layer(layers.open_dir()?, "c")?;
        let (mut seen, mut same) = (0, true);
        let gaps = walk(copy.as_fd(), &mut |path, entry| {
            seen += 1;
            same &=
                copied.get(path).is_ok_and(|made| made.is_some_and(|made| is_same_state(&made.entry, entry)));
            if same { Visit::Enter } else { Visit::Stop }
        });
        // The root is recorded too.
        Ok(same && seen + 1 == copied.len() && gaps.is_empty())
    }

    /// What is remembered of the content in root `index`; nothing where that is not there or damaged. `now` is the
    /// time of day.
    pub fn recall(&self, index: usize, now: Time) -> Recall {
        let bytes = read_file(&self.dir.fd, recall_name(index).as_bytes()).ok().flatten();
        bytes.and_then(|bytes| Recall::from_bytes(&bytes, now)).unwrap_or_else(|| Recall::empty(now))
    }

    /// Keeps what was learned. Best effort: without it sums take longer.
    pub fn remember(&self, index: usize, recall: &Recall) {
        if recall.has_news() {
            let name = recall_name(index);
            let _only_time_is_lost =
                kernel::publish::write_passing_file(&self.dir.fd, name.as_bytes(), &recall.to_bytes(), 0o600);
        }
    }

    pub(crate) fn names(&self) -> Result<Vec<Vec<u8>>> {
        let entries = kernel::dir::entries(&self.dir.fd).doing("list lane directory", self.path())?;
        Ok(entries.into_iter().map(|entry| entry.name).collect())
    }

    /// Makes the work directory ready for one more mount.
    pub fn fresh_work(&self, layers: &Layers, mode: MountMode) -> Result<()> {
        fresh_work(layers.open_dir()?.as_fd(), layers, mode)
    }

    /// After the mounts are gone: work directories that the next mount would make anew anyway, and layers over the
    /// home in which nothing was written, go. What a lane at rest takes is then its changes and a few directories.
    pub fn shrink(&self, mode: MountMode) -> Result<()> {
        let names = self.names()?;
        for name in &names {
            let is_home = name.starts_with(HOME.as_bytes());
            if name.ends_with(b".w") && (is_home || mode == MountMode::User) {
                remove_below(&self.dir.fd, name, self.path())?;
            }
        }
        for name in names.iter().filter(|name| name.starts_with(HOME.as_bytes()) && name.ends_with(b".u")) {
            match node::rmdir_at(&self.dir.fd, name) {
                Err(error) if !matches!(error.errno, Errno::NOTEMPTY | Errno::EXIST | Errno::NOENT) => {
                    return Err(error).doing("remove an empty layer", self.path());
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Notes the boot in which the lane is mounted now, and answers the boot of its last mount before.
    pub fn note_boot(&self) -> Result<String> {
        let now = crate::base::boot_id()?;
        let last = self.last_boot()?;
        if last != now {
            kernel::publish::write_file(&self.dir.fd, BOOT, now.as_bytes(), 0o600)
                .doing("note boot", self.path())?;
        }
        Ok(last)
    }

    /// A lane that was made of another one's layers was last written when that was.
    pub(crate) fn set_last_boot(&self, boot: &str) -> Result<()> {
        let (file, temp) = kernel::publish::temp_file(&self.dir.fd, 0o600).doing("note boot", self.path())?;
        kernel::bytes::write_all_at(&file, boot.as_bytes(), 0).doing("note boot", self.path())?;
        kernel::publish::rename_replace(&self.dir.fd, &temp, &self.dir.fd, BOOT)
            .doing("note boot", self.path())
    }

    /// The boot in which the lane was last mounted (or made).
    pub fn last_boot(&self) -> Result<String> {
        match read_file(&self.dir.fd, BOOT).doing("read boot", self.path())? {
            Some(bytes) => Ok(String::from_utf8_lossy(&bytes).trim().to_owned()),
            None => Ok(crate::base::read_stamp(self)?.boot_id),
        }
    }

    /// Moves a lane to the trash: one rename. Its layers stay where they are.
    pub fn trash(&self, state: &Path) -> Result<()> {
        let state_dir = open_dir(state)?;
        mkdir_if_absent(&state_dir, TRASH.as_bytes(), state)?;
        let trash = open_dir(&state.join(TRASH))?;
        kernel::publish::rename_noreplace(&self.above, self.id.as_bytes(), &trash, self.id.as_bytes())
            .doing("move lane to trash", self.path())
    }

    /// Brings a discarded lane back.
    pub fn restore(state: &Path, id: &str) -> Result<LaneHome> {
        // Whoever looks for the users of a layer looks at the lanes first and at the trash then.
        let _held = Pool::of(state).hold()?;
        let trashed = LaneHome::open_trashed(state, id)?;
        let lanes = open_dir(&state.join(LANES))?;
        kernel::publish::rename_noreplace(&trashed.above, id.as_bytes(), &lanes, id.as_bytes())
            .doing("bring lane back", trashed.path())?;
        LaneHome::open(state, id)
    }

    /// Takes the lane's stamp from it: without it the lane is a remnant, whatever interrupts its removal from here on.
    pub fn doom(&self) -> Result<()> {
        match node::unlink_at(&self.dir.fd, crate::base::STAMP) {
            Err(error) if error.is_not_found() => Ok(()),
            other => other.doing("remove lane", self.path()),
        }
    }

    /// Deletes the lane with all its layers, sealed ones that nobody else stands on included. The holder of the lock
    /// calls it.
    pub fn remove(self) -> Result<()> {
        self.remove_but(&|_| false)
    }

    /// The same, keeping sealed layers that are `needed` for another reason than a lane that stands on them.
    pub fn remove_but(self, needed: &dyn Fn(&str) -> bool) -> Result<()> {
        let sealed: Vec<String> =
            pool::stacks(&self.dir.fd).doing("look at lane", self.path())?.into_iter().flatten().collect();
        let pool = Pool::of(self.path().ancestors().nth(2).unwrap_or(self.path()));
        self.doom()?;
        for place in self.places_elsewhere()? {
            layer_place::remove_at(&place, &self.id)?;
        }
        remove_below(&self.above, self.id.as_bytes(), self.path())?;
        pool.release(&sealed, needed)
    }

    /// The same for a lane that goes with its run, as a user: where nothing was written in it, its directory is put
    /// by for the next one. Its mounts are gone. `emptied` where [`LaneHome::empty_in_passing`] was done.
    pub fn remove_in_passing(self, state: &Path, mode: MountMode, emptied: bool) -> Result<()> {
        if !emptied && !self.empty_in_passing(mode)? {
            return self.remove();
        }
        match crate::spare::put_by(self, state)? {
            Some(lane) => lane.remove(),
            None => Ok(()),
        }
    }

    /// The first half of it, which needs no process in the lane but the mounts may still stand: false where the lane
    /// has anything of its own.
    pub fn empty_in_passing(&self, mode: MountMode) -> Result<bool> {
        Ok(mode == MountMode::User && crate::spare::empty(self)?)
    }

    /// Directories outside the lane's own that hold layers of it, each once.
    pub fn places_elsewhere(&self) -> Result<Vec<PathBuf>> {
        let mut places = Vec::new();
        for name in self.names()?.iter().filter(|name| name.ends_with(AT.as_bytes())) {
            if let Ok(target) = kernel::meta::read_link_at(&self.dir.fd, name) {
                places.extend(Path::new(OsStr::from_bytes(&target)).parent().map(Path::to_path_buf));
            }
        }
        places.sort();
        places.dedup();
        Ok(places)
    }
}

/// True where somebody may stand between making a lane's directory and taking its lock.
pub(crate) fn has_maker(lanes: &Path) -> bool {
    let taken = |gate: OwnedFd| rustix::fs::flock(&gate, FlockOperation::NonBlockingLockExclusive);
    open_dir(lanes).is_ok_and(|gate| taken(gate).is_err())
}

pub(crate) fn fresh_work(dir: BorrowedFd<'_>, layers: &Layers, mode: MountMode) -> Result<()> {
    let name = layers.name("w");
    match (node::mkdir_at(dir, &name, 0o700), mode) {
        (Ok(()), _) => Ok(()),
        (Err(error), MountMode::User) if error.errno == Errno::EXIST => {
            let made = layers.open_layer(dir, "w")?;
            if kernel::dir::entries(&made).is_ok_and(|names| names.is_empty()) {
                return Ok(());
            }
            if node::rmdir_at(dir, &name).is_err() {
                remove_below(&dir, &name, &layers.work)?;
            }
            node::mkdir_at(dir, &name, 0o700).doing("make work directory", &layers.work)
        }
        (Err(error), MountMode::Root) if error.errno == Errno::EXIST => {
            match open::dir_beneath(dir, &[name.as_slice(), b"/work/incompat"].concat()) {
                Ok(incompat) => remove_below(&incompat, b"volatile", &layers.work),
                Err(error) if error.is_not_found() => Ok(()),
                Err(error) => Err(error).doing("look at work directory", &layers.work),
            }
        }
        (Err(error), _) => Err(error).doing("make work directory", &layers.work),
    }
}

fn recall_name(index: usize) -> String {
    format!("recall.{index}")
}

/// Removes a tree of ours; that it is gone already is success.
pub(crate) fn remove_below(above: &impl AsFd, name: &[u8], path: &Path) -> Result<()> {
    match tree::remove::remove_tree(above.as_fd(), name) {
        Ok(removed) if removed.left.is_empty() => Ok(()),
        Ok(removed) => Err(Error::NotRemoved { path: path.to_path_buf(), count: removed.left.len() }),
        Err(error) if error.is_not_found() => Ok(()),
        Err(error) => Err(error).doing("remove", path),
    }
}

/// A small file of ours; `None` where it is not there.
pub(crate) fn read_file(dir: impl AsFd, name: &[u8]) -> kernel::Result<Option<Vec<u8>>> {
    use std::io::Read as _;

    let file = match open::file_beneath(dir, name) {
        Err(error) if error.is_not_found() => return Ok(None),
        other => other?,
    };
    let mut bytes = Vec::new();
    std::fs::File::from(file).read_to_end(&mut bytes).asked("read", name)?;
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests;
