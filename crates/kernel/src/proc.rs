//! What /proc says of processes, and which of them are in a pid namespace.
//!
//! Invariants: a process is named by its id and its start together, since an id is used again; one that is gone is
//! `None` and no error; nothing that a process chose itself (its name) is taken for a field. Rests on proc(5) and, for
//! the namespace, on ioctl_nsfs(2) ([6.11]), which asks nothing of the process itself: one that shuts itself to
//! tracing is found all the same.

use std::os::fd::{AsFd, AsRawFd as _, FromRawFd as _, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::error::{Asked as _, Error, Result};
use crate::open::retry;
use crate::process::last;

/// `_IO(0xb7, 1)` and `_IOR(0xb7, 9, int)` of linux/nsfs.h.
const NS_GET_USERNS: libc::c_ulong = 0xb701;
const NS_GET_TGID_IN_PIDNS: libc::c_ulong = 0x8004_b709;

/// /proc of our own pid namespace.
#[derive(Debug)]
pub struct Proc(OwnedFd);

/// A process, or one thread of it, at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    /// Its name, which it may choose.
    pub name: Vec<u8>,
    /// `R` running, `S` and `D` asleep, `T` stopped, `t` stopped by a tracer, `Z` ended, …
    pub state: u8,
    /// Its parent.
    pub parent: i32,
    /// Threads that are left.
    pub threads: u32,
    /// When it began, in ticks after the boot.
    pub start: u64,
    /// The signal that stopped it, where we may know; 0 once the parent has heard of it.
    pub stopped_by: i32,
}

impl Stat {
    /// True where nothing of it runs any more.
    pub fn has_ended(&self) -> bool {
        matches!(self.state, b'Z' | b'X') && self.threads <= 1
    }
}

impl Proc {
    /// Opens /proc.
    pub fn open() -> Result<Proc> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::open("/proc", flags, Mode::empty()).asked("open", "/proc").map(Proc)
    }

    /// The descriptor behind it, which a child has to keep.
    pub fn fd(&self) -> &OwnedFd {
        &self.0
    }

    /// Every process that there is.
    pub fn pids(&self) -> Result<Vec<i32>> {
        numbers(&self.0)
    }

    /// The threads of a process; none where it is gone.
    pub fn threads(&self, pid: i32) -> Vec<i32> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = retry(|| rustix::fs::openat(&self.0, format!("{pid}/task"), flags, Mode::empty()));
        dir.ok().and_then(|dir| numbers(&dir).ok()).unwrap_or_default()
    }

    /// A process as a whole.
    pub fn stat(&self, pid: i32) -> Option<Stat> {
        parse_stat(&self.read_short(&format!("{pid}/stat"))?)
    }

    /// One thread of a process.
    pub fn thread_stat(&self, pid: i32, thread: i32) -> Option<Stat> {
        parse_stat(&self.read_short(&format!("{pid}/task/{thread}/stat"))?)
    }

    /// The effective user of a process, as our user namespace names it.
    pub fn user(&self, pid: i32) -> Option<u32> {
        let status = self.read_short(&format!("{pid}/status"))?;
        field(&status, b"Uid:")?.split(u8::is_ascii_whitespace).nth(1).and_then(number)
    }

    /// Signals that wait to be acted on by a process as a whole, a bit each: bit 0 is signal 1.
    pub fn waiting_signals(&self, pid: i32) -> u64 {
        let read = || {
            let status = self.read_short(&format!("{pid}/status"))?;
            let text = std::str::from_utf8(field(&status, b"ShdPnd:")?).ok()?;
            u64::from_str_radix(text, 16).ok()
        };
        read().unwrap_or(0)
    }

    /// True where a thread waits for the child to which it has lent its memory (vfork(2)). Needs the right to trace it.
    pub fn lends_its_memory(&self, pid: i32, thread: i32) -> bool {
        let read = || {
            let text = self.read_short(&format!("{pid}/task/{thread}/syscall"))?;
            let mut words = text.split(|byte| *byte == b' ');
            let call: i64 = number(words.next()?)?;
            let flags = std::str::from_utf8(words.next()?.strip_prefix(b"0x")?).ok()?;
            let flags = u64::from_str_radix(flags, 16).ok()?;
            Some(
                call == libc::SYS_vfork || (call == libc::SYS_clone && flags & libc::CLONE_VFORK as u64 != 0),
            )
        };
        read().unwrap_or(false)
    }

    /// The whole text of /proc/PID/maps. Needs the right to look into the process.
    pub fn maps(&self, pid: i32) -> Result<Vec<u8>> {
        let name = format!("{pid}/maps");
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let fd = retry(|| rustix::fs::openat(&self.0, &*name, flags, Mode::empty())).asked("open", &name)?;
        let mut all = Vec::new();
        let mut piece = [0; 16 << 10];
        loop {
            match retry(|| rustix::io::read(&fd, &mut piece)).asked("read", &name)? {
                0 => return Ok(all),
                n => all.extend_from_slice(&piece[..n]),
            }
        }
    }

    /// Bytes of memory that are resident in a process; 0 where it is gone.
    pub fn resident(&self, pid: i32) -> u64 {
        let pages = || -> Option<u64> {
            let text = self.read_short(&format!("{pid}/statm"))?;
            number(text.split(|byte| *byte == b' ').nth(1)?)
        };
        pages().unwrap_or(0) * rustix::param::page_size() as u64
    }

    /// Its share of memory in bytes: what it has alone, and its part of what it has with others. Needs the right to look
    /// into the process; what is resident, where there is no such right.
    pub fn share(&self, pid: i32) -> u64 {
        let share = || -> Option<u64> {
            let text = self.read_short(&format!("{pid}/smaps_rollup"))?;
            let line = field(&text, b"Pss:")?;
            let kib: u64 = number(line.trim_ascii().split(|byte| *byte == b' ').next()?)?;
            Some(kib * 1024)
        };
        share().unwrap_or_else(|| self.resident(pid))
    }

    /// Bytes in the filesystems in memory that a process sees as its root and its /var/tmp; `None` where its root cannot
    /// be looked into.
    pub fn temporary_files(&self, pid: i32) -> Option<u64> {
        let used = |place: &str| {
            let dir = rustix::fs::openat(
                &self.0,
                format!("{pid}/root/{place}"),
                OFlags::PATH | OFlags::CLOEXEC,
                Mode::empty(),
            );
            let stat = rustix::fs::fstatvfs(dir.ok()?).ok()?;
            Some((stat.f_blocks - stat.f_bfree) * stat.f_frsize)
        };
        Some(used("")? + used("var/tmp").unwrap_or(0))
    }

    /// The name of a process.
    pub fn name(&self, pid: i32) -> Option<Vec<u8>> {
        let mut name = self.read_short(&format!("{pid}/comm"))?;
        name.truncate(name.trim_ascii_end().len());
        Some(name)
    }

    /// A file of one piece.
    fn read_short(&self, name: &str) -> Option<Vec<u8>> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let fd = retry(|| rustix::fs::openat(&self.0, name, flags, Mode::empty())).ok()?;
        let mut piece = [0; 4096];
        let n = retry(|| rustix::io::read(&fd, &mut piece)).ok()?;
        (n > 0).then(|| piece[..n].to_vec())
    }
}

/// The id that a process of ours has in a pid namespace; `None` where it is not in it (or gone).
pub fn id_in(pid_namespace: impl AsFd, pid: i32) -> Result<Option<i32>> {
    // SAFETY: the ioctl takes a descriptor and a number by value and touches no memory.
    let id = unsafe {
        libc::ioctl(
            pid_namespace.as_fd().as_raw_fd(),
            NS_GET_TGID_IN_PIDNS,
            libc::c_ulong::from(pid.unsigned_abs()),
        )
    };
    if id > 0 {
        return Ok(Some(id));
    }
    let error = last("ioctl", format!("NS_GET_TGID_IN_PIDNS, {pid}"));
    if error.errno == Errno::SRCH { Ok(None) } else { Err(error) }
}

/// The user namespace that owns a namespace.
pub fn owner_of(namespace: impl AsFd) -> Result<OwnedFd> {
    // SAFETY: the ioctl takes a descriptor, touches no memory, and returns a new descriptor.
    let fd = unsafe { libc::ioctl(namespace.as_fd().as_raw_fd(), NS_GET_USERNS) };
    if fd < 0 {
        return Err(last("ioctl", "NS_GET_USERNS"));
    }
    // SAFETY: the kernel has just opened it for us (close-on-exec), and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn numbers(dir: &OwnedFd) -> Result<Vec<i32>> {
    let names = crate::dir::entries(dir)?;
    Ok(names.iter().filter_map(|entry| number(&entry.name)).collect())
}

fn number<T: std::str::FromStr>(bytes: &[u8]) -> Option<T> {
    std::str::from_utf8(bytes).ok()?.parse().ok()
}

/// The rest of the line that begins with `name`, without blanks around it.
fn field<'t>(text: &'t [u8], name: &[u8]) -> Option<&'t [u8]> {
    let line = text.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(name))?;
    Some(line.trim_ascii())
}

fn parse_stat(text: &[u8]) -> Option<Stat> {
    // The name stands in parentheses and may hold some itself.
    let (from, to) =
        (text.iter().position(|byte| *byte == b'(')?, text.iter().rposition(|byte| *byte == b')')?);
    let rest = text.get(to + 2..)?.trim_ascii_end();
    let fields: Vec<&[u8]> = rest.split(|byte| *byte == b' ').collect();
    // The state is field 3 of proc_pid_stat(5).
    let at = |field: usize| fields.get(field - 3).copied();
    let exit_code: i32 = at(52).and_then(number).unwrap_or(0);
    Some(Stat {
        name: text.get(from + 1..to)?.to_vec(),
        state: *at(3)?.first()?,
        parent: number(at(4)?)?,
        threads: number(at(20)?)?,
        start: number(at(22)?)?,
        stopped_by: exit_code & 0x7f,
    })
}

/// A descriptor of a process by its id.
pub fn open_process(pid: i32) -> Result<OwnedFd> {
    let asked = || format!("{pid}");
    let id =
        rustix::process::Pid::from_raw(pid).ok_or_else(|| Error::new("pidfd_open", asked(), Errno::INVAL))?;
    rustix::process::pidfd_open(id, rustix::process::PidfdFlags::empty()).asked("pidfd_open", asked())
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_name_with_parentheses_and_blanks_is_not_taken_for_fields() {
        let tail = ["0"; 32].join(" ");
        let text = format!("7 (a) S 1 (b) T 5 5 5 0 -1 0 0 0 0 0 0 0 0 0 20 0 3 0 99 {tail}\n");
        let stat = parse_stat(text.as_bytes()).expect("a line");
        assert_eq!((stat.name.as_slice(), stat.state, stat.parent), (&b"a) S 1 (b"[..], b'T', 5));
        assert_eq!((stat.threads, stat.start), (3, 99));
        assert_eq!(parse_stat(b"7 (a"), None);
        assert_eq!(parse_stat(b""), None);
    }

    #[test]
    fn a_child_is_found_with_its_parent_and_where_it_was_stopped_so_it_says() {
        let proc = Proc::open().expect("open");
        let mut child = Command::new("sleep").arg("100").stdin(Stdio::null()).spawn().expect("a child");
        let pid = child.id() as i32;
        assert!(proc.pids().expect("a list").contains(&pid));
        let fd = open_process(pid).expect("open");
        crate::process::kill_pidfd(&fd, rustix::process::Signal::STOP).expect("stopped");
        let stat = loop {
            let stat = proc.stat(pid).expect("there");
            if stat.state == b'T' {
                break stat;
            }
            std::thread::yield_now();
        };
        assert_eq!((stat.parent, stat.threads), (std::process::id() as i32, 1));
        assert_eq!(stat.stopped_by, rustix::process::Signal::STOP.as_raw());
        assert_eq!(proc.threads(pid), [pid]);
        assert_eq!(proc.user(pid), Some(rustix::process::geteuid().as_raw()));
        assert_eq!(proc.waiting_signals(pid), 0);
        rustix::process::kill_process(
            rustix::process::Pid::from_raw(pid).expect("a number"),
            rustix::process::Signal::TSTP,
        )
        .expect("sent");
        assert_eq!(proc.waiting_signals(pid), 1 << (rustix::process::Signal::TSTP.as_raw() - 1));
        assert!(!proc.maps(pid).expect("readable").is_empty());
        child.kill().expect("killed");
        child.wait().expect("gone");
        assert_eq!(proc.stat(pid), None);
    }

    #[test]
    fn a_pid_namespace_knows_who_is_in_it() {
        let ours = rustix::fs::open("/proc/self/ns/pid", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
        let ours = ours.expect("open");
        let own = std::process::id() as i32;
        assert_eq!(id_in(&ours, own).expect("asked"), Some(own));
        assert_eq!(id_in(&ours, i32::MAX).expect("asked"), None);
        let user = rustix::fs::stat("/proc/self/ns/user").expect("stat").st_ino;
        assert_eq!(rustix::fs::fstat(owner_of(&ours).expect("asked")).expect("stat").st_ino, user);
    }
}
