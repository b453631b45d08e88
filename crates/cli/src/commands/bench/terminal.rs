//! A terminal of the benchmark's own, with a program on it: what stands on its screen, and how long that took.
//!
//! Invariant: a screen counts once every word that is waited for stands on it; one that never comes is a failure and no
//! figure.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::num::NonZero;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use super::process::{Held, Job, Outcome, Trouble};

/// Rows and columns.
const SIZE: (u16, u16) = (40, 120);

/// How long anything is waited for.
const PATIENCE: Duration = Duration::from_secs(20);

/// A program on a terminal.
pub(crate) struct Terminal {
    master: File,
    screen: vt100::Parser,
    /// Ends the program when the terminal goes.
    _program: Held,
}

impl Terminal {
    /// Starts the program; with the moment at which it was started.
    pub(crate) fn start(job: &Job) -> Outcome<(Terminal, Instant)> {
        let made = || -> rustix::io::Result<_> {
            let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
            grantpt(&master)?;
            unlockpt(&master)?;
            let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
            let slave = ioctl_tiocgptpeer(&master, flags)?;
            let size = Winsize { ws_row: SIZE.0, ws_col: SIZE.1, ws_xpixel: 0, ws_ypixel: 0 };
            tcsetwinsize(&master, size)?;
            Ok((master, slave))
        };
        let (master, slave) = made().map_err(|errno| Trouble::Failed(format!("a terminal: {errno}")))?;
        let began = Instant::now();
        let program = job.on(&slave)?;
        let some = |size: u16| NonZero::new(size).unwrap_or(NonZero::<u16>::MIN);
        let screen = vt100::Parser::new(some(SIZE.0), some(SIZE.1), 0);
        Ok((Terminal { master: File::from(master), screen, _program: program }, began))
    }

    /// Waits until the screen shows all of these words and none of `gone`. Milliseconds since `began`.
    pub(crate) fn shows(&mut self, began: Instant, words: &[&str], gone: &[&str]) -> Outcome<f64> {
        let mut piece = [0; 64 << 10];
        loop {
            let text = self.screen.screen().contents();
            if words.iter().all(|word| text.contains(word)) && !gone.iter().any(|word| text.contains(word)) {
                return Ok(began.elapsed().as_secs_f64() * 1000.0);
            }
            let left = PATIENCE.saturating_sub(began.elapsed());
            let timeout = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: 0 };
            let ready = rustix::event::poll(&mut [PollFd::new(&self.master, PollFlags::IN)], Some(&timeout));
            if left.is_zero() || ready != Ok(1) {
                return Err(Trouble::Failed(format!("{words:?} never stood on the screen:\n{text}")));
            }
            let length = self.master.read(&mut piece)?;
            self.screen.process(&piece[..length]);
        }
    }

    /// Types, and waits as [`Terminal::shows`] does. Milliseconds from the key to the screen.
    pub(crate) fn answers(&mut self, keys: &[u8], words: &[&str], gone: &[&str]) -> Outcome<f64> {
        let began = Instant::now();
        self.master.write_all(keys)?;
        self.shows(began, words, gone)
    }
}
