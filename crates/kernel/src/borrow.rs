//! A descriptor of another process, borrowed.
//!
//! Rests on pidfd_getfd(2). Invariant: a borrowed descriptor is the other process's own open file, so that what is done
//! to it is done there, whatever that process puts under the same number meanwhile.

use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags};

use crate::error::{Asked as _, Error, Result};

/// The table of descriptors of another thread.
#[derive(Debug)]
pub struct Table<'p> {
    proc: BorrowedFd<'p>,
    tid: i32,
    pidfd: OwnedFd,
}

impl<'p> Table<'p> {
    /// The table of thread `tid`, which is seen in `proc`.
    pub fn of(proc: BorrowedFd<'p>, tid: u32) -> Result<Table<'p>> {
        let tid = tid as i32;
        let pid =
            Pid::from_raw(tid).ok_or_else(|| Error::new("pidfd_open", format!("{tid}"), Errno::SRCH))?;
        // PIDFD_THREAD, Linux 6.9: a thread may have a table of its own.
        let thread = PidfdFlags::from_bits_retain(OFlags::EXCL.bits());
        let pidfd = match rustix::process::pidfd_open(pid, thread) {
            Err(Errno::INVAL) => {
                let leader = leader(proc, tid).unwrap_or(pid);
                rustix::process::pidfd_open(leader, PidfdFlags::empty())
            }
            other => other,
        };
        Ok(Table { proc, tid, pidfd: pidfd.asked("pidfd_open", format!("{tid}"))? })
    }

    /// A descriptor of ours for the open file behind `number`.
    pub fn borrow(&self, number: i32) -> Result<OwnedFd> {
        rustix::process::pidfd_getfd(&self.pidfd, number, PidfdGetfdFlags::empty())
            .asked("pidfd_getfd", format!("{number}"))
    }

    fn read(&self, name: &str) -> Result<Vec<u8>> {
        let path = format!("{}/{name}", self.tid);
        let file = rustix::fs::openat(self.proc, &path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
            .asked("open", &path)?;
        crate::bytes::read_all(&file)
    }

    /// The name of the program.
    pub fn program(&self) -> String {
        let name = self.read("comm").unwrap_or_default();
        String::from_utf8_lossy(name.strip_suffix(b"\n").unwrap_or(&name)).into_owned()
    }
}

fn leader(proc: BorrowedFd<'_>, tid: i32) -> Option<Pid> {
    let path = format!("{tid}/status");
    let file = rustix::fs::openat(proc, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let status = crate::bytes::read_all(&file).ok()?;
    Pid::from_raw(field(&status, b"Tgid:")?.parse().ok()?)
}

/// The first word after `name` at the beginning of a line.
fn field<'t>(text: &'t [u8], name: &[u8]) -> Option<&'t str> {
    let line = text.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(name))?;
    std::str::from_utf8(line).ok()?.split_whitespace().next()
}

#[cfg(test)]
mod tests {
    use std::os::fd::{AsFd as _, AsRawFd as _};

    use super::Table;

    #[test]
    fn a_borrowed_descriptor_is_the_very_same_open_file() {
        let proc = crate::open::root_dir(std::path::Path::new("/proc")).expect("/proc");
        let me = rustix::process::getpid().as_raw_nonzero().get() as u32;
        let table = Table::of(proc.as_fd(), me).expect("a table");
        let (one, other) = std::os::unix::net::UnixStream::pair().expect("a pair");
        let borrowed = table.borrow(one.as_raw_fd()).expect("borrowed");
        rustix::io::write(&borrowed, b"x").expect("written");
        drop(one);
        let mut byte = [0];
        assert_eq!(std::io::Read::read(&mut &other, &mut byte).expect("read"), 1);
        assert!(!table.program().is_empty());
        assert!(table.borrow(1 << 20).is_err());
    }
}
