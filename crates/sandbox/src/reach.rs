//! Directories of a live lane's view, as descriptors for who stands outside.
//!
//! Invariant: what is opened is what the lane's processes see at that path, and no link leads to it. Rests on setns(2)
//! and openat2(2).

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use kernel::process::{self, Forked, Namespaces, Which};
use kernel::{Errno, fdpass};
use rustix::fs::{Mode, OFlags, ResolveFlags};

use crate::error::{Error, Result, Stage, Step as _};
use crate::spawn::Handles;

/// Opens each of these directories in the view.
pub fn dirs(handles: &Handles, paths: &[&Path]) -> Result<Vec<OwnedFd>> {
    let (ours, theirs) = fdpass::pair().step(Stage::Supervise, "make a channel")?;
    match process::fork().step(Stage::Supervise, "fork who enters the view")? {
        Forked::Child => {
            drop(ours);
            let answer = match enter_and_open(handles, paths) {
                Ok(dirs) => {
                    let fds: Vec<BorrowedFd<'_>> = dirs.iter().map(|dir| dir.as_fd()).collect();
                    fdpass::send(&theirs, b"+", &fds)
                }
                Err(error) => fdpass::send(&theirs, &error.errno.raw_os_error().to_le_bytes(), &[]),
            };
            process::exit_now(if answer.is_ok() { 0 } else { 1 })
        }
        Forked::Parent(child) => {
            drop(theirs);
            let mut buffer = [0u8; 8];
            let heard = fdpass::receive(&ours, &mut buffer);
            let _ = process::wait(Which::Pidfd(child.pidfd.as_fd()), true, false);
            match heard.step(Stage::Supervise, "open the lane's view")? {
                Some((1, dirs)) if dirs.len() == paths.len() => Ok(dirs),
                Some((4, _)) => {
                    let errno = i32::from_le_bytes([buffer[0], buffer[1], buffer[2], buffer[3]]);
                    let name = paths.first().map_or(b"".as_slice(), |path| kernel::error::path_bytes(path));
                    Err(kernel::Error::new("openat2", name, Errno::from_raw_os_error(errno)))
                        .step(Stage::Supervise, "open the lane's view")
                }
                _ => Err(Error::Vanished("nobody could enter the lane's view".into())),
            }
        }
    }
}

fn enter_and_open(handles: &Handles, paths: &[&Path]) -> kernel::Result<Vec<OwnedFd>> {
    process::die_with_parent()?;
    for (kind, fd) in &handles.fds {
        if *kind == Namespaces::USER || *kind == Namespaces::MOUNT {
            process::join_namespace(fd, *kind)?;
        }
    }
    kernel::privilege::not_dumpable()?;
    kernel::privilege::drop_capabilities()?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let open = |path: &&Path| {
        rustix::fs::openat2(rustix::fs::CWD, *path, flags, Mode::empty(), resolve)
            .map_err(|errno| kernel::Error::new("openat2", kernel::error::path_bytes(path), errno))
    };
    paths.iter().map(open).collect()
}
