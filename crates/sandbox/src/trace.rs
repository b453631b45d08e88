//! Calls that are reported for the record: programs that are started, files that are opened, calls that are refused.
//!
//! Runs in the notifier, in the lane's mount namespace. Invariant: nothing here decides. What policy refuses gets the EPERM that
//! the filter would have given, everything else the kernel carries out itself, whatever could be read of the caller.

use std::os::fd::OwnedFd;
use std::time::Instant;

use kernel::Errno;
use kernel::seccomp::{self, Notification, Reply};
use rustix::fs::{Access, AtFlags, FileType, Mode, OFlags};

use crate::filter::{self, EXECS, OPENS};
use crate::rename::{Base, reach};
use crate::seen::Seen;

/// Arguments of one program, and bytes of them, that are told.
const MOST_ARGUMENTS: usize = 200;
const MOST_BYTES: usize = 6 << 10;

const OPEN: i64 = OPENS[0];
const CREAT: i64 = OPENS[3];

/// Answers a call that is no business of anybody else's.
pub(crate) fn answer(proc: &OwnedFd, call: &Notification) -> (Reply, Option<Seen>) {
    if EXECS.contains(&call.call) {
        return (Reply::Continue, exec(proc, call));
    }
    if OPENS.contains(&call.call) {
        return (Reply::Continue, opened(proc, call));
    }
    (Reply::Fail(Errno::PERM), Some(refused(proc, call)))
}

fn base(fd: u64) -> Base {
    // AT_FDCWD
    if fd as i32 == -100 { Base::Cwd } else { Base::Fd(fd as i32) }
}

/// `None` where there is no such program: a shell tries one directory after the other.
fn exec(proc: &OwnedFd, call: &Notification) -> Option<Seen> {
    let tid = call.tid;
    let (base, path_at, argv_at) = match call.call == EXECS[0] {
        true => (Base::Cwd, call.args[0], call.args[1]),
        false => (base(call.args[0]), call.args[1], call.args[2]),
    };
    let path = seccomp::read_path(tid, path_at).ok()?;
    // An empty path means the descriptor itself.
    if !path.is_empty() {
        let (relative, reached) = reach(tid, base, &path);
        let start = if relative { std::os::fd::AsFd::as_fd(proc) } else { rustix::fs::CWD };
        let found = rustix::fs::statat(start, &*reached, AtFlags::empty()).ok()?;
        if !FileType::from_raw_mode(found.st_mode).is_file() {
            return None;
        }
    }
    let (addresses, mut whole) = seccomp::read_addresses(tid, argv_at, MOST_ARGUMENTS).unwrap_or_default();
    let (mut argv, mut bytes) = (Vec::with_capacity(addresses.len()), 0);
    for address in addresses {
        let mut arg = match seccomp::read_path(tid, address) {
            Ok(arg) => arg,
            // Longer than a path can be, or gone.
            Err(_) => {
                whole = false;
                break;
            }
        };
        if bytes + arg.len() > MOST_BYTES {
            arg.truncate(MOST_BYTES - bytes);
            whole = false;
        }
        bytes += arg.len();
        argv.push(arg);
        if bytes >= MOST_BYTES {
            break;
        }
    }
    let parent = stat(proc, tid).map_or(0, |(_, parent)| parent);
    Some(Seen::Exec { pid: tid, parent, path, argv, cut: !whole })
}

fn opened(proc: &OwnedFd, call: &Notification) -> Option<Seen> {
    let began = Instant::now();
    let tid = call.tid;
    let (base, path_at, flags) = match call.call {
        OPEN => (Base::Cwd, call.args[0], call.args[1] as u32),
        CREAT => (Base::Cwd, call.args[0], OFlags::WRONLY.bits() | OFlags::CREATE.bits()),
        // openat2 has its flags behind a pointer, as the first word.
        number if number == OPENS[2] => {
            let how = seccomp::read_addresses(tid, call.args[2], 1).unwrap_or_default().0;
            (base(call.args[0]), call.args[1], how.first().copied().unwrap_or_default() as u32)
        }
        _ => (base(call.args[0]), call.args[1], call.args[2] as u32),
    };
    let written = seccomp::read_path(tid, path_at).ok()?;
    let flags = OFlags::from_bits_retain(flags);
    let write = flags.intersects(OFlags::WRONLY | OFlags::RDWR);
    let (relative, reached) = reach(tid, base, &written);
    let start = if relative { std::os::fd::AsFd::as_fd(proc) } else { rustix::fs::CWD };
    let found = rustix::fs::statat(start, &*reached, AtFlags::empty());
    let errno = match found {
        Ok(stat) if FileType::from_raw_mode(stat.st_mode).is_dir() => return None,
        Ok(_) if write => rustix::fs::accessat(start, &*reached, Access::WRITE_OK, AtFlags::empty())
            .err()
            .map_or(0, |e| e.raw_os_error()),
        Ok(_) => 0,
        Err(Errno::NOENT) if flags.contains(OFlags::CREATE) => 0,
        Err(errno) => errno.raw_os_error(),
    };
    let path = match written.starts_with(b"/") {
        true => written,
        false => {
            let from = match base {
                Base::Cwd => format!("{tid}/cwd"),
                Base::Fd(fd) => format!("{tid}/fd/{fd}"),
            };
            let from = rustix::fs::readlinkat(proc, &*from, Vec::new()).ok()?;
            [from.as_bytes(), b"/", &written].concat()
        }
    };
    let waited = u32::try_from(began.elapsed().as_micros()).unwrap_or(u32::MAX);
    Some(Seen::Opened { pid: tid, path: plain(&path), write, errno, waited })
}

/// A path without `.`, `..` and doubled slashes, by its letters.
fn plain(path: &[u8]) -> Vec<u8> {
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in path.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.iter().flat_map(|part| [&b"/"[..], part]).collect::<Vec<_>>().concat()
}

fn refused(proc: &OwnedFd, call: &Notification) -> Seen {
    let known = filter::call(call.call);
    let (name, class) = known.map_or(("?", "?"), |known| (known.name, known.class));
    // Where the path stands among the arguments.
    let at = match name {
        "mount" | "move_mount" => Some(1),
        "umount2" | "pivot_root" | "chroot" | "swapon" | "swapoff" | "acct" | "uselib" => Some(0),
        "open_tree" | "open_tree_attr" | "fspick" | "mount_setattr" => Some(1),
        _ => None,
    };
    let target =
        at.and_then(|at| seccomp::read_path(call.tid, call.args[at]).ok()).filter(|path| !path.is_empty());
    let program = stat(proc, call.tid).map(|(name, _)| name).unwrap_or_default();
    Seen::Refused { pid: call.tid, program, call: name.to_owned(), class: class.to_owned(), target }
}

/// Name and parent of a process.
fn stat(proc: &OwnedFd, tid: u32) -> Option<(Vec<u8>, u32)> {
    let file =
        rustix::fs::openat(proc, format!("{tid}/stat"), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
            .ok()?;
    let mut buffer = [0u8; 512];
    let n = rustix::io::read(&file, &mut buffer).ok()?;
    let text = buffer.get(..n)?;
    let (open, close) = (text.iter().position(|b| *b == b'(')?, text.iter().rposition(|b| *b == b')')?);
    let name = text.get(open + 1..close)?.to_vec();
    let behind = std::str::from_utf8(text.get(close + 2..)?).ok()?;
    Some((name, behind.split(' ').nth(1)?.parse().ok()?))
}

/// True where a call is reported and nothing else: neither a rename nor a connect.
pub(crate) fn is_ours(call: &Notification) -> bool {
    !filter::RENAMES.contains(&call.call) && !matches!(call.call, filter::CONNECT | filter::SENDTO)
}
