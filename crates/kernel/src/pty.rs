//! Pseudo-terminals and terminal modes (pty(7), tty_ioctl(2)).

use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::pty::OpenptFlags;
use rustix::termios::{OptionalActions, Termios, Winsize};

use crate::error::{Asked as _, Result};
use crate::process::last;

/// Opens a new pair from the devpts that is mounted at `ptmx` (normally `/dev/pts/ptmx`): (master, slave).
pub fn open(ptmx: &str) -> Result<(OwnedFd, OwnedFd)> {
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let master = rustix::fs::open(ptmx, flags, Mode::empty()).asked("open", ptmx)?;
    rustix::pty::unlockpt(&master).asked("ioctl", "TIOCSPTLCK")?;
    let slave = rustix::pty::ioctl_tiocgptpeer(
        &master,
        OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC,
    )
    .asked("ioctl", "TIOCGPTPEER")?;
    Ok((master, slave))
}

/// Makes `terminal` the controlling terminal of this session leader.
pub fn take_control(terminal: impl AsFd) -> Result<()> {
    rustix::process::ioctl_tiocsctty(terminal).asked("ioctl", "TIOCSCTTY")
}

/// Makes `group` the foreground process group of `terminal`.
pub fn set_foreground(terminal: impl AsFd, group: i32) -> Result<()> {
    // SAFETY: tcsetpgrp(3) takes a descriptor and an id by value.
    let answer = unsafe { libc::tcsetpgrp(terminal.as_fd().as_raw_fd(), group) };
    if answer == 0 { Ok(()) } else { Err(last("tcsetpgrp", format!("{group}"))) }
}

/// True where `fd` is a terminal.
pub fn is_terminal(fd: impl AsFd) -> bool {
    rustix::termios::isatty(fd)
}

/// Rows and columns (and pixels) of a terminal.
pub fn size(terminal: impl AsFd) -> Result<Winsize> {
    rustix::termios::tcgetwinsize(terminal).asked("ioctl", "TIOCGWINSZ")
}

/// Sets rows and columns; the kernel sends SIGWINCH where they change.
pub fn set_size(terminal: impl AsFd, size: Winsize) -> Result<()> {
    rustix::termios::tcsetwinsize(terminal, size).asked("ioctl", "TIOCSWINSZ")
}

/// The modes of a terminal, to be put back with [`set_modes`].
pub fn modes(terminal: impl AsFd) -> Result<Termios> {
    rustix::termios::tcgetattr(terminal).asked("ioctl", "TCGETS")
}

/// Sets modes after pending output has drained.
pub fn set_modes(terminal: impl AsFd, modes: &Termios) -> Result<()> {
    rustix::termios::tcsetattr(terminal, OptionalActions::Drain, modes).asked("ioctl", "TCSETSW")
}

/// Raw modes made from `modes`: every byte goes through untouched.
pub fn raw(modes: &Termios) -> Termios {
    let mut raw = modes.clone();
    raw.make_raw();
    raw
}
