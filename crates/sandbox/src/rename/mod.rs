//! Directory renames that overlayfs refuses to an ordinary user (EXDEV), carried out for the caller.
//!
//! A directory that comes from a lower layer cannot be renamed in a user namespace. Its entries can: files
//! and directories that live in the upper layer only. So a new directory is made beside the target, the
//! entries are moved into it one by one (recursing only into lower directories), it takes the old one's
//! mode, times and attributes, and one real rename puts it under its final name. Until that rename the work
//! can be rolled back, after it it can only be finished; a journal outside the lane says which.
//!
//! Invariants: only a call that the kernel itself answered with EXDEV, within one overlay mount, is carried
//! out here; everything else gets the kernel's own answer. One rename at a time. Rests on rename(2),
//! seccomp_unotify(2) and the kernel's overlayfs document.

mod journal;
mod moving;

use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use kernel::seccomp::{self, Notification, Reply};
use kernel::{Errno, Error};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags, StatxFlags};

pub(crate) use journal::Journal;
pub(crate) use moving::recover;

use crate::filter::{RENAME, RENAMEAT, RENAMEAT2};

/// What a rename that was carried out here did.
#[derive(Debug, Clone)]
pub struct Carried {
    /// Path of the source, as the caller gave it.
    pub from: Vec<u8>,
    /// Path of the target, as the caller gave it.
    pub to: Vec<u8>,
    /// Entries moved one by one.
    pub entries: u64,
    /// How long it took, in milliseconds.
    pub millis: u64,
}

/// The call, decoded.
struct Call {
    from: Vec<u8>,
    from_base: Base,
    to: Vec<u8>,
    to_base: Base,
    flags: u32,
}

/// What a relative path starts from.
#[derive(Clone, Copy)]
enum Base {
    Cwd,
    Fd(i32),
}

/// A name in a directory.
struct Place {
    parent: OwnedFd,
    name: Vec<u8>,
}

/// Answers one notification of the rename family. `proc` is the host's /proc, where the caller's thread
/// has the id that the notification carries.
pub(crate) fn answer(
    listener: impl AsFd,
    call: &Notification,
    proc: &OwnedFd,
    journal: &Journal,
) -> (Reply, Option<Carried>) {
    match try_answer(listener, call, proc, journal) {
        Ok(answer) => answer,
        // What we cannot read or resolve the kernel answers itself, with the right errno.
        Err(_) => (Reply::Continue, None),
    }
}

fn try_answer(
    listener: impl AsFd,
    notification: &Notification,
    proc: &OwnedFd,
    journal: &Journal,
) -> kernel::Result<(Reply, Option<Carried>)> {
    let tid = notification.tid;
    let Some(call) = decode(notification)? else { return Ok((Reply::Continue, None)) };
    let exchange = call.flags & RenameFlags::EXCHANGE.bits() != 0;
    // The common case, a file, costs one look.
    if !is_dir(proc, tid, call.from_base, &call.from) && !(exchange && is_dir(proc, tid, call.to_base, &call.to)) {
        return Ok((Reply::Continue, None));
    }
    let Some(from) = place(proc, tid, call.from_base, &call.from)? else { return Ok((Reply::Continue, None)) };
    let Some(to) = place(proc, tid, call.to_base, &call.to)? else { return Ok((Reply::Continue, None)) };
    // Only now is what was read of the caller known to be the caller's.
    if !seccomp::still_waits(listener, notification.id) {
        return Ok((Reply::Continue, None));
    }
    let flags = RenameFlags::from_bits_retain(call.flags);
    match rustix::fs::renameat_with(&from.parent, &*from.name, &to.parent, &*to.name, flags) {
        Ok(()) => return Ok((Reply::Done(0), None)),
        Err(Errno::XDEV) => {}
        Err(errno) => return Ok((Reply::Fail(errno), None)),
    }
    if call.flags & RenameFlags::WHITEOUT.bits() != 0 || !same_overlay(&from.parent, &to.parent)? {
        return Ok((Reply::Fail(Errno::XDEV), None));
    }
    let began = Instant::now();
    let done = if exchange {
        moving::exchange(journal, notification.id, &from, &to)
    } else {
        let keep = call.flags & RenameFlags::NOREPLACE.bits() != 0;
        moving::move_dir(journal, notification.id, &from, &to, keep)
    };
    Ok(match done {
        Ok(entries) => {
            let millis = began.elapsed().as_millis() as u64;
            (Reply::Done(0), Some(Carried { from: call.from, to: call.to, entries, millis }))
        }
        Err(error) => (Reply::Fail(error.errno), None),
    })
}

fn decode(notification: &Notification) -> kernel::Result<Option<Call>> {
    let args = notification.args;
    let read = |address| seccomp::read_path(notification.tid, address);
    let base = |arg: u64| if arg as i32 == rustix_at_fdcwd() { Base::Cwd } else { Base::Fd(arg as i32) };
    let call = match notification.call {
        RENAME => Call { from: read(args[0])?, from_base: Base::Cwd, to: read(args[1])?, to_base: Base::Cwd, flags: 0 },
        RENAMEAT | RENAMEAT2 => Call {
            from: read(args[1])?,
            from_base: base(args[0]),
            to: read(args[3])?,
            to_base: base(args[2]),
            flags: if notification.call == RENAMEAT2 { args[4] as u32 } else { 0 },
        },
        _ => return Ok(None),
    };
    Ok((!call.from.is_empty() && !call.to.is_empty()).then_some(call))
}

/// AT_FDCWD as the caller's C library passes it.
fn rustix_at_fdcwd() -> i32 {
    -100
}

/// The caller's path as one that this process can use: absolute ones as they are (same root), relative
/// ones through the caller's /proc entry.
fn reach(tid: u32, base: Base, path: &[u8]) -> (bool, Vec<u8>) {
    if path.starts_with(b"/") {
        return (false, path.to_vec());
    }
    let mut through = match base {
        Base::Cwd => format!("{tid}/cwd/"),
        Base::Fd(fd) => format!("{tid}/fd/{fd}/"),
    }
    .into_bytes();
    through.extend_from_slice(path);
    (true, through)
}

fn is_dir(proc: &OwnedFd, tid: u32, base: Base, path: &[u8]) -> bool {
    let (relative, path) = reach(tid, base, path);
    let start = if relative { proc.as_fd() } else { rustix::fs::CWD };
    rustix::fs::statat(start, &*path, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_dir())
}

/// The directory and the last name of a path; `None` where the last name is no plain name.
fn place(proc: &OwnedFd, tid: u32, base: Base, path: &[u8]) -> kernel::Result<Option<Place>> {
    let end = path.iter().rposition(|b| *b != b'/').map_or(0, |last| last + 1);
    let path = &path[..end];
    let cut = path.iter().rposition(|b| *b == b'/');
    let name = &path[cut.map_or(0, |cut| cut + 1)..];
    if name.is_empty() || name == b"." || name == b".." {
        return Ok(None);
    }
    let parent = match cut {
        None => b"." as &[u8],
        Some(0) => b"/",
        Some(cut) => &path[..cut],
    };
    let (relative, parent) = reach(tid, base, parent);
    let start = if relative { proc.as_fd() } else { rustix::fs::CWD };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let parent = rustix::fs::openat(start, &*parent, flags, Mode::empty())
        .map_err(|errno| Error::new("openat", &parent, errno))?;
    // An O_PATH descriptor of /proc/TID/cwd names the magic link's target, as wanted.
    Ok(Some(Place { parent, name: name.to_vec() }))
}

/// True where both directories stand in one and the same overlay mount.
fn same_overlay(one: &OwnedFd, other: &OwnedFd) -> kernel::Result<bool> {
    let mount = |fd: &OwnedFd| {
        rustix::fs::statx(fd, "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID)
            .map(|stat| stat.stx_mnt_id)
            .map_err(|errno| Error::new("statx", "", errno))
    };
    let kind = rustix::fs::fstatfs(one).map_err(|errno| Error::new("fstatfs", "", errno))?.f_type;
    Ok(kind == 0x794c_7630 && mount(one)? == mount(other)?) // OVERLAYFS_SUPER_MAGIC
}
