//! Directory renames that overlayfs refuses to an ordinary user (EXDEV), carried out for the caller.
//!
//! A directory that comes from a lower layer cannot be renamed in a user namespace. Its entries can: files
//! and directories that live in the upper layer only. So a new directory is made beside the target, the
//! entries are moved into it one by one (recursing only into lower directories), it takes the old one's
//! mode, times and attributes, and one real rename puts it under its final name. Until that rename the work
//! can be rolled back, after it it can only be finished; a journal outside the lane says which.
//!
//! Whoever is killed on the way leaves that journal to the next start, and the caller's call on the desk.
//!
//! A file with several names may have an inode for each of them there, so that the kernel does not see that a
//! rename of one to another is to do nothing: that is answered here.
//!
//! Invariants: only a call that the kernel itself answered with EXDEV, within one overlay mount, is carried
//! out here; everything else but the above gets the kernel's own answer. One rename at a time. Rests on rename(2),
//! seccomp_unotify(2) and the kernel's overlayfs document.

mod carry;
mod fault;
mod journal;
mod moving;
mod place;
mod recovery;

use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use kernel::desk::{Desk, Noted};
use kernel::seccomp::{self, Notification, Reply};
use kernel::{Errno, Error};
use rustix::fs::{AtFlags, RenameFlags, StatxFlags};
use rustix::thread::CapabilitySet;

pub(crate) use journal::{End, Journal, NAME};
pub(crate) use place::{Base, reach};
use place::{Place, is_dir, look, may_be_one_file, place, stat};
pub(crate) use recovery::recover;

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

/// A listener's place on the desk, seen from one call.
pub(crate) struct Slot<'d> {
    pub(crate) desk: &'d Desk,
    pub(crate) number: u32,
}

/// What directories that their owner closed need while their entries are moved.
pub(crate) const POWER: CapabilitySet = CapabilitySet::DAC_OVERRIDE;

/// Answers one notification of the rename family. `proc` is the host's /proc, where the caller's thread
/// has the id that the notification carries. The journal is left for [`Journal::clear`] after the reply.
pub(crate) fn answer(
    listener: impl AsFd,
    call: &Notification,
    slot: &Slot<'_>,
    journal: &Journal,
) -> (Reply, Option<Carried>) {
    // What we cannot read or resolve the kernel answers itself, with the right errno.
    try_answer(listener, call, slot, journal).unwrap_or((Reply::Continue, None))
}

fn try_answer(
    listener: impl AsFd,
    notification: &Notification,
    slot: &Slot<'_>,
    journal: &Journal,
) -> kernel::Result<(Reply, Option<Carried>)> {
    let Some((call, from, to)) = resolve(notification, journal.proc())? else {
        return Ok((Reply::Continue, None));
    };
    // Only now is what was read of the caller known to be the caller's.
    if !seccomp::still_waits(listener, notification.id) {
        return Ok((Reply::Continue, None));
    }
    // A later notifier sees by it whether the kernel has carried the call out.
    slot.desk.mark(slot.number, from.inode())?;
    let flags = RenameFlags::from_bits_retain(call.flags);
    let one_file = one_file(&from, &to);
    if one_file == OneFile::Yes && (flags.is_empty() || flags == RenameFlags::EXCHANGE) {
        return Ok((Reply::Done(0), None));
    }
    match rustix::fs::renameat_with(&from.parent, &*from.written(), &to.parent, &*to.written(), flags) {
        Ok(()) => return Ok((Reply::Done(0), None)),
        Err(Errno::XDEV) => {}
        // Both rest on one inode of the upper, which overlayfs takes for a fault.
        Err(Errno::STALE) if one_file == OneFile::Perhaps => return Ok((Reply::Done(0), None)),
        Err(errno) => return Ok((Reply::Fail(errno), None)),
    }
    if call.flags & RenameFlags::WHITEOUT.bits() != 0 || !same_overlay(&from.parent, &to.parent)? {
        return Ok((Reply::Fail(Errno::XDEV), None));
    }
    let began = Instant::now();
    let done = kernel::privilege::raise(POWER).and_then(|_raised| {
        let id = (notification.id, notification.tid);
        if flags.contains(RenameFlags::EXCHANGE) {
            moving::exchange(journal, id, &from, &to)
        } else {
            moving::move_dir(journal, id, &from, &to, flags.contains(RenameFlags::NOREPLACE))
        }
    });
    Ok(match done {
        Ok(entries) => {
            let millis = began.elapsed().as_millis() as u64;
            (Reply::Done(0), Some(Carried { from: call.from, to: call.to, entries, millis }))
        }
        Err(error) => (Reply::Fail(error.errno), None),
    })
}

/// The call with both its places; `None` where the kernel can carry it out itself: no directory is in it, nor
/// two names of one file.
fn resolve(notification: &Notification, proc: &OwnedFd) -> kernel::Result<Option<(Call, Place, Place)>> {
    let tid = notification.tid;
    let Some(call) = decode(notification)? else { return Ok(None) };
    let exchange = call.flags & RenameFlags::EXCHANGE.bits() != 0;
    // The common case, a file of one name, costs one look.
    let Some(from) = look(proc, tid, call.from_base, &call.from) else { return Ok(None) };
    let with_target = || {
        let to = look(proc, tid, call.to_base, &call.to);
        to.is_some_and(|to| exchange && is_dir(&to) || may_be_one_file(&from, &to))
    };
    if !(is_dir(&from) || (exchange || from.st_nlink > 1) && with_target()) {
        return Ok(None);
    }
    let Some(from) = place(proc, tid, call.from_base, &call.from)? else { return Ok(None) };
    let Some(to) = place(proc, tid, call.to_base, &call.to)? else { return Ok(None) };
    Ok(Some((call, from, to)))
}

/// Whether a call has two names of one file in it. Then rename(2) does nothing, and says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OneFile {
    Yes,
    /// Each has an inode number of its own: the kernel's answer tells.
    Perhaps,
    No,
}

fn one_file(from: &Place, to: &Place) -> OneFile {
    let (Ok(one), Ok(other)) = (stat(&from.parent, &from.name), stat(&to.parent, &to.name)) else {
        return OneFile::No;
    };
    if from.slashes || to.slashes || !may_be_one_file(&one, &other) {
        return OneFile::No;
    }
    if (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino) { OneFile::Yes } else { OneFile::Perhaps }
}

/// Answers a call whose notifier was killed before it wrote a journal: it was carried out by the kernel, or
/// nothing has happened yet.
pub(crate) fn answer_again(
    listener: impl AsFd,
    noted: &Noted,
    slot: &Slot<'_>,
    journal: &Journal,
) -> (Reply, Option<Carried>) {
    if let Some(inode) = noted.mark
        && let Ok(Some(from)) = source(&noted.call, journal.proc())
        && from.inode() != inode
    {
        return (Reply::Done(0), None);
    }
    answer(listener, &noted.call, slot, journal)
}

/// Where the source of a call stands, or stood.
fn source(notification: &Notification, proc: &OwnedFd) -> kernel::Result<Option<Place>> {
    let Some(call) = decode(notification)? else { return Ok(None) };
    place(proc, notification.tid, call.from_base, &call.from)
}

fn decode(notification: &Notification) -> kernel::Result<Option<Call>> {
    let args = notification.args;
    let read = |address| seccomp::read_path(notification.tid, address);
    let base = |arg: u64| if arg as i32 == AT_FDCWD { Base::Cwd } else { Base::Fd(arg as i32) };
    let call = match notification.call {
        RENAME => Call {
            from: read(args[0])?,
            from_base: Base::Cwd,
            to: read(args[1])?,
            to_base: Base::Cwd,
            flags: 0,
        },
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
const AT_FDCWD: i32 = -100;

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
