//! Carries a plan's view out, op by op, inside the new mount namespace. No choices are made here.
//!
//! Invariants: every source is opened before the first mount, by the host's path; every target is resolved
//! beneath the new root without following a link (a lane's own home may hold links that an earlier run
//! planted); no file or directory is ever made outside the new root.

use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use kernel::mount::{self, Attributes, Detached, OverlayOptions};
use kernel::mountspec::{MountSpec, MountWhat};
use kernel::{Errno, Result};
use rustix::fs::{AtFlags, Mode, OFlags};

use crate::error::{Stage, Step as _};
use crate::mask::Absent;
use crate::plan::{Op, Plan};

/// Sources of one op, opened before anything is mounted.
enum Held {
    Nothing,
    Clone(Detached),
    Layers(Vec<OwnedFd>, Option<(OwnedFd, OwnedFd)>),
}

/// Builds the plan's view and makes it the root of this process.
pub(crate) fn build(plan: &Plan) -> crate::Result<()> {
    mount::make_private().step(Stage::Mounts, "cut the mounts off from the host")?;
    let mut held = Vec::with_capacity(plan.ops.len());
    for op in &plan.ops {
        held.push(hold(op).step(Stage::Mounts, format!("open the source of: {op}"))?);
    }
    let at = mount::place(&plan.root_at).step(Stage::Mounts, "open the place of the new root")?;
    let no = Attributes { no_suid: true, no_dev: true, ..Attributes::default() };
    let top = Detached::tmpfs(0o755, None, no).step(Stage::Mounts, "make the new root")?;
    top.attach(&at, b"new root").step(Stage::Mounts, "attach the new root")?;
    // `at` still names the directory below the mount: open the mount itself.
    let root = mount::place(&plan.root_at).step(Stage::Mounts, "open the new root")?;
    for (op, held) in plan.ops.iter().zip(held) {
        carry_out(&root, op, held).step(Stage::Mounts, op.to_string())?;
    }
    mount::pivot(&root).step(Stage::Mounts, "enter the new root")
}

fn hold(op: &Op) -> Result<Held> {
    Ok(match op {
        Op::Mount(MountSpec { what: MountWhat::Bind { source, recursive }, .. }) => Held::Clone(
            Detached::clone_of(mount::place(source)?, *recursive, kernel::error::path_bytes(source))?,
        ),
        Op::Device { name } => {
            let path = Path::new("/dev").join(name);
            Held::Clone(Detached::clone_of(mount::place(&path)?, false, kernel::error::path_bytes(&path))?)
        }
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

fn carry_out(root: &OwnedFd, op: &Op, held: Held) -> Result<()> {
    match op {
        Op::Dir { at, mode } => make_dirs(root, at, *mode).map(|_| ()),
        Op::Symlink { at, target } => {
            let (parent, name) = parent_of(root, at)?;
            match rustix::fs::symlinkat(target, &parent, name) {
                Ok(()) | Err(Errno::EXIST) => Ok(()),
                Err(errno) => Err(kernel::Error::new("symlinkat", kernel::error::path_bytes(at), errno)),
            }
        }
        Op::File { at, bytes, mode } => write_file(root, at, bytes, *mode),
        Op::Device { name } => {
            let at = Path::new("/dev").join(name);
            write_file(root, &at, b"", 0o666)?;
            attach(root, held, &at, Attributes { no_suid: true, no_exec: true, ..Attributes::default() })
        }
        Op::Over { from, at } => {
            let clone = Detached::clone_of(target_of(root, from)?, false, kernel::error::path_bytes(from))?;
            clone.restrict(
                Attributes { read_only: true, no_suid: true, no_dev: true, no_exec: true },
                false,
            )?;
            clone.attach(target_of(root, at)?, kernel::error::path_bytes(at))
        }
        Op::Hide { at } => hide(root, at),
        Op::ReadOnly { at } => {
            let target = match target_of(root, at) {
                Ok(target) => target,
                // What this kernel does not have needs no protection.
                Err(error) if error.is_not_found() => return Ok(()),
                Err(error) => return Err(error),
            };
            let clone = Detached::clone_of(&target, true, kernel::error::path_bytes(at))?;
            clone.restrict(Attributes { read_only: true, ..Attributes::default() }, true)?;
            clone.attach(&target, kernel::error::path_bytes(at))
        }
        Op::Mount(spec) => mount_spec(root, spec, held, None),
        Op::Masked { mount, absent, in_memory } => masked(root, mount, absent, *in_memory, held),
    }
}

/// One small filesystem in memory holds the mask and, where that is wanted, the writable layer.
fn masked(
    root: &OwnedFd,
    mount: &MountSpec,
    absent: &[Absent],
    in_memory: bool,
    mut held: Held,
) -> Result<()> {
    let memory = Detached::tmpfs(0o755, None, Attributes::default())?;
    let part = |name: &str, mode: u32| -> Result<OwnedFd> {
        let asked = |errno| kernel::Error::new("mkdirat", name, errno);
        rustix::fs::mkdirat(memory.root(), name, Mode::from_raw_mode(0o700)).map_err(asked)?;
        rustix::fs::chmodat(memory.root(), name, Mode::from_raw_mode(mode), AtFlags::empty())
            .map_err(asked)?;
        mount::place_beneath(memory.root(), Path::new(name))
    };
    let mask = part("m", 0o755)?;
    crate::mask::build(&mask, absent)?;
    if let (true, Held::Layers(lowers, upper)) = (in_memory, &mut held) {
        // The merged root looks like the upper's.
        let like = lowers.first().map(rustix::fs::fstat).transpose();
        let like = like.map_err(|errno| kernel::Error::new("fstat", "lower", errno))?;
        let mode = like.map_or(0o755, |stat| stat.st_mode & 0o7777);
        *upper = Some((part("u", mode)?, part("w", 0o700)?));
    }
    mount_spec(root, mount, held, Some(&mask))
}

fn mount_spec(root: &OwnedFd, spec: &MountSpec, held: Held, mask: Option<&OwnedFd>) -> Result<()> {
    let attributes =
        Attributes { read_only: spec.read_only, no_suid: true, no_dev: true, no_exec: spec.no_exec };
    let made = match (&spec.what, held) {
        (MountWhat::Bind { .. }, held) => return attach(root, held, &spec.target, attributes),
        (MountWhat::Overlay(overlay), Held::Layers(lowers, upper)) => {
            let options = OverlayOptions {
                user_xattr: overlay.user_xattr,
                volatile: overlay.volatile,
                redirect_dir: overlay.redirect_dir,
                index: overlay.index,
            };
            let lowers: Vec<_> =
                mask.iter().map(|mask| mask.as_fd()).chain(lowers.iter().map(|fd| fd.as_fd())).collect();
            let upper = upper.as_ref().map(|(upper, work)| (upper.as_fd(), work.as_fd()));
            overlay_when_free(|| Detached::overlay(&lowers, upper, options, attributes))?
        }
        (MountWhat::Tmpfs { mode, size }, _) => Detached::tmpfs(*mode, *size, attributes)?,
        (MountWhat::Proc, _) => Detached::plain(c"proc", &[], attributes)?,
        (MountWhat::Mqueue, _) => Detached::plain(c"mqueue", &[], attributes)?,
        (MountWhat::Devpts, _) => {
            let attributes = Attributes { no_dev: false, ..attributes };
            Detached::plain(c"devpts", &[("mode", "620"), ("ptmxmode", "666")], attributes)?
        }
        (MountWhat::Overlay(_), _) => return Err(kernel::Error::new("overlay", "no layers", Errno::INVAL)),
    };
    made.attach(make_dirs(root, &spec.target, 0o755)?, kernel::error::path_bytes(&spec.target))
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

fn attach(root: &OwnedFd, held: Held, at: &Path, attributes: Attributes) -> Result<()> {
    let Held::Clone(clone) = held else {
        return Err(kernel::Error::new("bind", kernel::error::path_bytes(at), Errno::INVAL));
    };
    clone.restrict(attributes, true)?;
    let stat = rustix::fs::fstat(clone.root())
        .map_err(|errno| kernel::Error::new("fstat", kernel::error::path_bytes(at), errno))?;
    let is_dir = rustix::fs::FileType::from_raw_mode(stat.st_mode).is_dir();
    let target = if is_dir {
        make_dirs(root, at, 0o755)?
    } else {
        match target_of(root, at) {
            Err(error) if error.is_not_found() => {
                write_file(root, at, b"", 0o644)?;
                target_of(root, at)?
            }
            other => other?,
        }
    };
    clone.attach(target, kernel::error::path_bytes(at))
}

/// Hides what is there: an empty, unreadable, unwritable directory or file in its place. Nothing there
/// needs no hiding, nor does what a command, with less power than this, could not reach.
fn hide(root: &OwnedFd, at: &Path) -> Result<()> {
    let target = match target_of(root, at) {
        Ok(target) => target,
        Err(error) if error.is_not_found() || error.errno == Errno::ACCESS => return Ok(()),
        Err(error) => return Err(error),
    };
    let name = kernel::error::path_bytes(at);
    let stat = rustix::fs::fstat(&target).map_err(|errno| kernel::Error::new("fstat", name, errno))?;
    let attributes = Attributes { read_only: true, no_suid: true, no_dev: true, no_exec: true };
    let empty = Detached::tmpfs(0, Some(4096), Attributes { read_only: false, ..attributes })?;
    if rustix::fs::FileType::from_raw_mode(stat.st_mode).is_dir() {
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

fn empty_root(mount: &Detached) -> Result<OwnedFd> {
    rustix::fs::openat(mount.root(), ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .map_err(|errno| kernel::Error::new("openat", ".", errno))
}

fn relative(at: &Path) -> &Path {
    at.strip_prefix("/").unwrap_or(at)
}

fn target_of(root: &OwnedFd, at: &Path) -> Result<OwnedFd> {
    mount::place_beneath(root, relative(at))
}

fn parent_of<'p>(root: &OwnedFd, at: &'p Path) -> Result<(OwnedFd, &'p std::ffi::OsStr)> {
    let name = at
        .file_name()
        .ok_or_else(|| kernel::Error::new("open", kernel::error::path_bytes(at), Errno::INVAL))?;
    let parent = at.parent().unwrap_or(Path::new("/"));
    Ok((make_dirs(root, parent, 0o755)?, name))
}

/// The directory at a place beneath the root, made where it is not there.
fn make_dirs(root: &OwnedFd, at: &Path, mode: u32) -> Result<OwnedFd> {
    match target_of(root, at) {
        Err(error) if error.errno == Errno::NOENT => {}
        other => return other,
    }
    let all = relative(at);
    let mut so_far = PathBuf::new();
    let mut dir: Option<OwnedFd> = None;
    for name in all.components() {
        so_far.push(name);
        let mode = if so_far == all { mode } else { 0o755 };
        let above = dir.as_ref().unwrap_or(root);
        match rustix::fs::mkdirat(above, name.as_os_str(), Mode::from_raw_mode(mode)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => {
                return Err(kernel::Error::new("mkdirat", kernel::error::path_bytes(&so_far), errno));
            }
        }
        dir = Some(mount::place_beneath(above, name.as_ref())?);
    }
    dir.map_or_else(|| target_of(root, at), Ok)
}

fn write_file(root: &OwnedFd, at: &Path, bytes: &[u8], mode: u32) -> Result<()> {
    let (parent, name) = parent_of(root, at)?;
    let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let asked = |errno| kernel::Error::new("openat", kernel::error::path_bytes(at), errno);
    let file = rustix::fs::openat(&parent, name, flags, Mode::from_raw_mode(mode)).map_err(asked)?;
    rustix::fs::fchmod(&file, Mode::from_raw_mode(mode)).map_err(asked)?;
    let mut rest = bytes;
    while !rest.is_empty() {
        let n = rustix::io::write(&file, rest).map_err(asked)?;
        rest = &rest[n..];
    }
    Ok(())
}

/// True where `path` exists beneath this process's root; for a working directory that may be gone.
pub(crate) fn is_dir_inside(path: &Path) -> bool {
    rustix::fs::statat(rustix::fs::CWD, path, AtFlags::empty())
        .is_ok_and(|stat| rustix::fs::FileType::from_raw_mode(stat.st_mode).is_dir())
}
