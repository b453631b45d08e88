//! Carries a plan's view out, op by op, inside the new mount namespace. No choices are made here.
//!
//! Invariants: what shows the host is opened by the host's path, before the new root is entered; every target is
//! resolved beneath the new root without following a link (a lane's own home may hold links that an earlier run
//! planted); no file or directory is ever made outside the new root.

use std::ffi::OsStr;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use kernel::mount::{self, Attributes, Detached, OverlayOptions};
use kernel::mountspec::{MountSpec, MountWhat, Overlay};
use kernel::{Errno, Result};
use rustix::fs::{AtFlags, FileType, Mode, OFlags};

use crate::error::{Stage, Step as _};
use crate::mask::Absent;
use crate::plan::Op;

/// A root under construction, in this mount namespace only, until it is entered.
#[derive(Debug)]
pub(crate) struct Rootfs {
    root: OwnedFd,
    /// The directory that was last built in, because ops come in families.
    last: Option<(PathBuf, OwnedFd)>,
    /// A small filesystem in memory: masks, and layers that go with the lane. It stands beneath the first mount that
    /// needs it, where nobody reaches it: one that stood nowhere would be taken down by itself, which the kernel
    /// makes everybody wait for.
    memory: Option<OwnedFd>,
    /// Directories made in it.
    parts: u32,
}

/// Begins a new root. It lies over the host's, where no path of this process, which starts below, leads to it.
pub(crate) fn begin() -> crate::Result<Rootfs> {
    mount::make_private().step(Stage::Mounts, "cut the mounts off from the host")?;
    let no = Attributes { no_suid: true, no_dev: true, ..Attributes::default() };
    let top = Detached::tmpfs(0o755, None, no).step(Stage::Mounts, "make the new root")?;
    let place = mount::place("/").step(Stage::Mounts, "open the host's root")?;
    let root = top.attach_and_hold(&place, b"new root").step(Stage::Mounts, "attach the new root")?;
    Ok(Rootfs { root, last: None, memory: None, parts: 0 })
}

/// What an op shows of the host, opened before it is covered by anything that was built.
enum Held {
    Nothing,
    Clone(Detached),
    Layers(Vec<OwnedFd>, Option<(OwnedFd, OwnedFd)>),
}

impl Rootfs {
    /// Carries out some ops. Sources are opened first: a target may lie over one of them.
    pub(crate) fn build(&mut self, ops: &[Op]) -> crate::Result<()> {
        // Modes are as the plan says, whatever the caller's mask.
        let umask = rustix::process::umask(Mode::empty());
        let built = self.build_all(ops);
        rustix::process::umask(umask);
        built
    }

    fn build_all(&mut self, ops: &[Op]) -> crate::Result<()> {
        let mut held = Vec::with_capacity(ops.len());
        for op in ops {
            held.push(hold(op).step_with(Stage::Mounts, || format!("open the source of: {op}"))?);
        }
        for (op, held) in ops.iter().zip(held) {
            self.carry_out(op, held).step_with(Stage::Mounts, || op.to_string())?;
        }
        Ok(())
    }

    /// Attaches secrets, last of all.
    pub(crate) fn plant(
        &mut self,
        secrets: &[crate::secret::Secret],
    ) -> crate::Result<Option<crate::secret::Planted>> {
        crate::secret::plant(secrets, |made| self.attach(made, Path::new(crate::secret::AT), true))
    }

    /// Makes it the root of this process; the host's is out of reach from here on.
    pub(crate) fn enter(self) -> crate::Result<()> {
        mount::pivot(&self.root).step(Stage::Mounts, "enter the new root")
    }

    fn carry_out(&mut self, op: &Op, held: Held) -> Result<()> {
        match op {
            Op::Dir { at, mode } => {
                let (parent, name) = self.parent_of(at)?;
                mkdir(parent, name, *mode)
            }
            Op::Symlink { at, target } => {
                let (parent, name) = self.parent_of(at)?;
                match rustix::fs::symlinkat(target, parent, name) {
                    Ok(()) | Err(Errno::EXIST) => Ok(()),
                    Err(errno) => Err(kernel::Error::new("symlinkat", kernel::error::path_bytes(at), errno)),
                }
            }
            Op::File { at, bytes, mode } => self.write_file(at, bytes, *mode),
            Op::Device { name } => {
                let no = Attributes { no_suid: true, no_exec: true, ..Attributes::default() };
                self.bind(held, &Path::new("/dev").join(name), no)
            }
            Op::Over { from, at } => {
                let clone =
                    Detached::clone_of(self.target_of(from)?, false, kernel::error::path_bytes(from))?;
                clone.restrict(
                    Attributes { read_only: true, no_suid: true, no_dev: true, no_exec: true },
                    false,
                )?;
                clone.attach(self.target_of(at)?, kernel::error::path_bytes(at))
            }
            Op::Hide { at } => self.hide(at),
            Op::ReadOnly { at } => {
                let target = match self.target_of(at) {
                    Ok(target) => target,
                    // What this kernel does not have needs no protection.
                    Err(error) if error.is_not_found() => return Ok(()),
                    Err(error) => return Err(error),
                };
                let clone = Detached::clone_of(&target, true, kernel::error::path_bytes(at))?;
                clone.restrict(Attributes { read_only: true, ..Attributes::default() }, true)?;
                clone.attach(&target, kernel::error::path_bytes(at))
            }
            Op::Mount(spec) => self.mount(spec, held, None),
            Op::Masked { mount, absent, in_memory } => self.masked(mount, absent, *in_memory, held),
        }
    }

    /// The filesystem in memory holds the mask and, where that is wanted, the writable layer.
    fn masked(
        &mut self,
        mount: &MountSpec,
        absent: &[Absent],
        in_memory: bool,
        mut held: Held,
    ) -> Result<()> {
        let mask = self.part(0o755, &mount.target)?;
        crate::mask::build(&mask, absent)?;
        if let (true, Held::Layers(lowers, upper)) = (in_memory, &mut held) {
            // The merged root looks like the upper's.
            let like = lowers.first().map(rustix::fs::fstat).transpose();
            let like = like.map_err(|errno| kernel::Error::new("fstat", "lower", errno))?;
            let mode = like.map_or(0o755, |stat| stat.st_mode & 0o7777);
            *upper = Some((self.part(mode, &mount.target)?, self.part(0o700, &mount.target)?));
        }
        self.mount(mount, held, Some(&mask))
    }

    /// A new directory in the filesystem in memory, for what is to cover `at`.
    fn part(&mut self, mode: u32, at: &Path) -> Result<OwnedFd> {
        let memory = match self.memory.take() {
            Some(memory) => memory,
            None => {
                let made = Detached::tmpfs(0o755, None, Attributes::default())?;
                let (parent, name) = self.parent_of(at)?;
                mkdir(parent, name, 0o755)?;
                made.attach_and_hold(self.target_of(at)?, kernel::error::path_bytes(at))?
            }
        };
        self.parts += 1;
        let name = self.parts.to_string();
        mkdir(memory.as_fd(), OsStr::new(&name), mode)?;
        let part = mount::place_beneath(&memory, Path::new(&name));
        self.memory = Some(memory);
        part
    }

    fn mount(&mut self, spec: &MountSpec, held: Held, mask: Option<&OwnedFd>) -> Result<()> {
        let attributes =
            Attributes { read_only: spec.read_only, no_suid: true, no_dev: true, no_exec: spec.no_exec };
        let made = match (&spec.what, held) {
            (MountWhat::Bind { .. }, held) => return self.bind(held, &spec.target, attributes),
            (MountWhat::Overlay(overlay), Held::Layers(lowers, upper)) => {
                stack(overlay, &lowers, upper.as_ref(), mask, attributes)?
            }
            (MountWhat::Tmpfs { mode, size }, _) => Detached::tmpfs(*mode, *size, attributes)?,
            (MountWhat::Proc, _) => Detached::plain(c"proc", &[], attributes)?,
            (MountWhat::Mqueue, _) => Detached::plain(c"mqueue", &[], attributes)?,
            (MountWhat::Devpts, _) => {
                let attributes = Attributes { no_dev: false, ..attributes };
                Detached::plain(c"devpts", &[("mode", "620"), ("ptmxmode", "666")], attributes)?
            }
            (MountWhat::Overlay(_), _) => {
                return Err(kernel::Error::new("overlay", "no layers", Errno::INVAL));
            }
        };
        self.attach(made, &spec.target, true)
    }

    fn bind(&mut self, held: Held, at: &Path, attributes: Attributes) -> Result<()> {
        let Held::Clone(clone) = held else {
            return Err(kernel::Error::new("bind", kernel::error::path_bytes(at), Errno::INVAL));
        };
        clone.restrict(attributes, true)?;
        let stat = rustix::fs::fstat(clone.root())
            .map_err(|errno| kernel::Error::new("fstat", kernel::error::path_bytes(at), errno))?;
        self.attach(clone, at, FileType::from_raw_mode(stat.st_mode).is_dir())
    }

    /// Attaches at a place that is made where it is not there.
    fn attach(&mut self, made: Detached, at: &Path, is_dir: bool) -> Result<()> {
        let (parent, name) = self.parent_of(at)?;
        if is_dir {
            mkdir(parent, name, 0o755)?;
        } else {
            match rustix::fs::mknodat(parent, name, FileType::RegularFile, Mode::from_raw_mode(0o644), 0) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => {
                    return Err(kernel::Error::new("mknodat", kernel::error::path_bytes(at), errno));
                }
            }
        }
        made.attach_in(parent, name.as_bytes())?;
        if self.last.as_ref().is_some_and(|(last, _)| last.starts_with(at)) {
            // It names what has just been covered.
            self.last = None;
        }
        Ok(())
    }

    /// Hides what is there: an empty, unreadable, unwritable directory or file in its place. Nothing there
    /// needs no hiding, nor does what a command, with less power than this, could not reach.
    fn hide(&mut self, at: &Path) -> Result<()> {
        let target = match self.target_of(at) {
            Ok(target) => target,
            Err(error) if error.is_not_found() || error.errno == Errno::ACCESS => return Ok(()),
            Err(error) => return Err(error),
        };
        self.last = None;
        let name = kernel::error::path_bytes(at);
        let stat = rustix::fs::fstat(&target).map_err(|errno| kernel::Error::new("fstat", name, errno))?;
        let attributes = Attributes { read_only: true, no_suid: true, no_dev: true, no_exec: true };
        let empty = Detached::tmpfs(0, Some(4096), Attributes { read_only: false, ..attributes })?;
        if FileType::from_raw_mode(stat.st_mode).is_dir() {
            empty.restrict(attributes, false)?;
            return empty.attach(&target, name);
        }
        let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
        // The tmpfs root has mode 0: an ordinary user in its own namespace owns it and may still look it up
        // only with a mode, so it is opened up for the moment.
        rustix::fs::fchmod(empty_root(&empty)?, Mode::from_raw_mode(0o700))
            .map_err(|e| kernel::Error::new("fchmod", name, e))?;
        rustix::fs::openat(empty.root(), "f", flags, Mode::empty())
            .map_err(|e| kernel::Error::new("openat", name, e))?;
        let file = rustix::fs::openat(empty.root(), "f", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
            .map_err(|e| kernel::Error::new("openat", name, e))?;
        // The clone of one file keeps the filesystem alive after `empty` goes.
        let clone = Detached::clone_of(&file, false, name)?;
        clone.restrict(attributes, false)?;
        clone.attach(&target, name)
    }

    fn target_of(&self, at: &Path) -> Result<OwnedFd> {
        mount::place_beneath(&self.root, relative(at))
    }

    /// The directory above a place, made where it is not there, and the place's name in it.
    fn parent_of<'p>(&mut self, at: &'p Path) -> Result<(BorrowedFd<'_>, &'p OsStr)> {
        let (Some(name), Some(parent)) = (at.file_name(), at.parent()) else {
            return Err(kernel::Error::new("open", kernel::error::path_bytes(at), Errno::INVAL));
        };
        if relative(parent).as_os_str().is_empty() {
            return Ok((self.root.as_fd(), name));
        }
        if self.last.as_ref().is_none_or(|(last, _)| last != parent) {
            self.last = Some((parent.to_path_buf(), make_dirs(&self.root, relative(parent))?));
        }
        match &self.last {
            Some((_, dir)) => Ok((dir.as_fd(), name)),
            None => Err(kernel::Error::new("open", kernel::error::path_bytes(at), Errno::NOENT)),
        }
    }

    fn write_file(&mut self, at: &Path, bytes: &[u8], mode: u32) -> Result<()> {
        let (parent, name) = self.parent_of(at)?;
        let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let asked = |errno| kernel::Error::new("openat", kernel::error::path_bytes(at), errno);
        let file = rustix::fs::openat(parent, name, flags, Mode::from_raw_mode(mode)).map_err(asked)?;
        let mut rest = bytes;
        while !rest.is_empty() {
            let n = rustix::io::write(&file, rest).map_err(asked)?;
            rest = &rest[n..];
        }
        Ok(())
    }
}

fn hold(op: &Op) -> Result<Held> {
    Ok(match op {
        Op::Mount(MountSpec { what: MountWhat::Bind { source, recursive }, .. }) => {
            Held::Clone(Detached::clone_at(source, *recursive)?)
        }
        Op::Device { name } => Held::Clone(Detached::clone_at(&Path::new("/dev").join(name), false)?),
        Op::Mount(MountSpec { what: MountWhat::Overlay(overlay), .. })
        | Op::Masked { mount: MountSpec { what: MountWhat::Overlay(overlay), .. }, .. } => {
            let lowers = overlay.lowers.iter().map(mount::place).collect::<Result<Vec<_>>>()?;
            let upper = match (&overlay.upper, &overlay.work) {
                (Some(upper), Some(work)) => Some((mount::place(upper)?, mount::place(work)?)),
                _ => None,
            };
            Held::Layers(lowers, upper)
        }
        _ => Held::Nothing,
    })
}

fn stack(
    overlay: &Overlay,
    lowers: &[OwnedFd],
    upper: Option<&(OwnedFd, OwnedFd)>,
    mask: Option<&OwnedFd>,
    attributes: Attributes,
) -> Result<Detached> {
    let options = OverlayOptions {
        user_xattr: overlay.user_xattr,
        volatile: overlay.volatile,
        redirect_dir: overlay.redirect_dir,
        index: overlay.index,
    };
    let lowers: Vec<_> = mask.into_iter().chain(lowers).map(|fd| fd.as_fd()).collect();
    let upper = upper.map(|(upper, work)| (upper.as_fd(), work.as_fd()));
    overlay_when_free(|| Detached::overlay(&lowers, upper, options, attributes))
}

/// We hold the lane's lock, so a layer that is in use is one of a mount that is just going: the kernel takes it
/// down a moment after the last process of the lane before has ended.
fn overlay_when_free(mount: impl Fn() -> Result<Detached>) -> Result<Detached> {
    const TRIES: u32 = 400;
    let pause = rustix::thread::Timespec { tv_sec: 0, tv_nsec: 5_000_000 };
    for _ in 0..TRIES {
        match mount() {
            Err(error) if error.errno == Errno::BUSY => {
                let _ = rustix::thread::nanosleep(&pause);
            }
            other => return other,
        }
    }
    mount()
}

fn mkdir(parent: BorrowedFd<'_>, name: &OsStr, mode: u32) -> Result<()> {
    match rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(mode)) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(errno) => Err(kernel::Error::new("mkdirat", name.as_bytes(), errno)),
    }
}

/// The directory at a place beneath `root`, made, with those above it, where it is not there.
fn make_dirs(root: &OwnedFd, at: &Path) -> Result<OwnedFd> {
    match mount::place_beneath(root, at) {
        Err(error) if error.errno == Errno::NOENT => {}
        other => return other,
    }
    let (Some(name), Some(parent)) = (at.file_name(), at.parent()) else {
        return Err(kernel::Error::new("open", kernel::error::path_bytes(at), Errno::INVAL));
    };
    let above = if parent.as_os_str().is_empty() { None } else { Some(make_dirs(root, parent)?) };
    let above = above.as_ref().unwrap_or(root);
    mkdir(above.as_fd(), name, 0o755)?;
    mount::place_beneath(above, Path::new(name))
}

fn empty_root(mount: &Detached) -> Result<OwnedFd> {
    rustix::fs::openat(mount.root(), ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .map_err(|errno| kernel::Error::new("openat", ".", errno))
}

fn relative(at: &Path) -> &Path {
    at.strip_prefix("/").unwrap_or(at)
}

/// True where `path` exists beneath this process's root; for a working directory that may be gone.
pub(crate) fn is_dir_inside(path: &Path) -> bool {
    rustix::fs::statat(rustix::fs::CWD, path, AtFlags::empty())
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_dir())
}
