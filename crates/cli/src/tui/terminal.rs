//! [`Screen`]: the terminal while it is ours. Raw keys, the other screen, the mouse; and all of it given back, however
//! this process ends.
//!
//! Invariant: whoever gets the terminal after us, at the end, at a stop or after a panic, finds it as it was.

use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::Once;
use std::time::Duration;

use engine::signals::{self, Signals};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{self, Event};
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::crossterm::{cursor, execute};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::Signal;

use super::app::App;

/// What would end or stop us, and what says that the terminal has another size.
const WATCHED: [Signal; 6] =
    [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT, Signal::TSTP, Signal::WINCH];

/// Buttons and the wheel, in the form that knows no limit of columns. Not the mouse's way: nothing here follows it.
const MOUSE_ON: &[u8] = b"\x1b[?1000h\x1b[?1006h";
const MOUSE_OFF: &[u8] = b"\x1b[?1006l\x1b[?1000l";

/// Something that has to be looked at.
#[derive(Debug)]
pub(crate) enum Came {
    /// A key, a click.
    Input(Event),
    /// The terminal has another size.
    Resized,
    /// A signal wants us to stop for a while.
    Stop,
    /// A signal wants us to end.
    End(Signal),
    /// The terminal is gone.
    Gone,
}

/// The terminal while it is ours.
pub(crate) struct Screen {
    terminal: Terminal<CrosstermBackend<io::Stdout>>,
    signals: Signals,
    ours: bool,
}

impl std::fmt::Debug for Screen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Screen").field("ours", &self.ours).finish_non_exhaustive()
    }
}

impl Screen {
    /// Takes the terminal.
    pub(crate) fn take() -> crate::error::Result<Screen> {
        let signals = Signals::watch(&WATCHED)?;
        restore_on_panic();
        let terminal = Terminal::new(CrosstermBackend::new(io::stdout()))?;
        let mut screen = Screen { terminal, signals, ours: false };
        screen.enter()?;
        Ok(screen)
    }

    /// Watches again: a command that was run in passing takes signals for itself and lets them go afterwards.
    pub(crate) fn watch_again(&mut self) -> crate::error::Result<()> {
        self.signals = Signals::watch(&WATCHED)?;
        Ok(())
    }

    fn enter(&mut self) -> io::Result<()> {
        self.ours = true;
        enable_raw_mode()?;
        execute!(io::stdout(), EnterAlternateScreen, cursor::Hide)?;
        io::stdout().write_all(MOUSE_ON)?;
        io::stdout().flush()?;
        self.forget()
    }

    /// Gives the terminal back.
    pub(crate) fn leave(&mut self) {
        if std::mem::take(&mut self.ours) {
            give_back();
        }
    }

    /// Draws a frame.
    pub(crate) fn draw(&mut self, app: &mut App) -> io::Result<()> {
        self.terminal.draw(|frame| {
            let area = frame.area();
            app.draw(frame.buffer_mut(), area);
        })?;
        Ok(())
    }

    /// Everything is drawn anew with the next frame.
    pub(crate) fn forget(&mut self) -> io::Result<()> {
        // Not `clear`: that asks the terminal where its cursor is, and waits for an answer.
        let size = self.terminal.size()?;
        self.terminal.resize(size.into())
    }

    /// Stops with our whole process group, as Ctrl-Z does, and takes the terminal again when we go on.
    pub(crate) fn suspend(&mut self) -> crate::error::Result<()> {
        self.leave();
        signals::suspend()?;
        self.enter()?;
        Ok(())
    }

    /// What comes next; `None` where nothing came within `patience`, or `bell` became readable.
    pub(crate) fn wait(
        &mut self,
        patience: Option<Duration>,
        bell: Option<BorrowedFd<'_>>,
    ) -> crate::error::Result<Option<Came>> {
        loop {
            if let Some(signal) = self.signals.next()? {
                match signal {
                    Signal::WINCH => return Ok(Some(Came::Resized)),
                    Signal::TSTP => return Ok(Some(Came::Stop)),
                    signal => return Ok(Some(Came::End(signal))),
                }
            }
            if event::poll(Duration::ZERO)? {
                return Ok(Some(Came::Input(event::read()?)));
            }
            let stdin = io::stdin();
            let mut fds = vec![PollFd::new(&stdin, PollFlags::IN), PollFd::new(&self.signals, PollFlags::IN)];
            fds.extend(bell.map(|bell| PollFd::from_borrowed_fd(bell, PollFlags::IN)));
            let timeout = patience.map(|patience| Timespec {
                tv_sec: patience.as_secs().cast_signed(),
                tv_nsec: i64::from(patience.subsec_nanos()),
            });
            match rustix::event::poll(&mut fds, timeout.as_ref()) {
                Ok(0) => return Ok(None),
                Ok(_) if fds[0].revents().intersects(PollFlags::HUP | PollFlags::ERR) => {
                    return Ok(Some(Came::Gone));
                }
                Ok(_) if fds[..2].iter().all(|fd| fd.revents().is_empty()) => return Ok(None),
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(io::Error::from(errno).into()),
            }
            // Bytes that are the beginning of something: the rest of it follows.
            if fds_ready(&stdin)
                && !event::poll(Duration::from_millis(1))?
                && patience == Some(Duration::ZERO)
            {
                return Ok(None);
            }
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.leave();
    }
}

fn fds_ready(stdin: &io::Stdin) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(rustix::event::poll(&mut fds, Some(&now)), Ok(1))
}

fn give_back() {
    // Each for itself: what fails does not keep the rest.
    let _ = io::stdout().write_all(MOUSE_OFF);
    let _ = execute!(io::stdout(), LeaveAlternateScreen, cursor::Show);
    let _ = disable_raw_mode();
    let _ = io::stdout().flush();
}

/// A panic is told on the terminal as it was, and not on our own screen, which goes.
fn restore_on_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            give_back();
            before(info);
        }));
    });
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::Duration;

    use testkit::{Pty, Who, until};

    use super::Screen;

    const SOON: Duration = Duration::from_secs(60);

    /// Not a fact by itself: the other half of the next test, which runs it on a terminal of its own.
    #[test]
    #[ignore = "it panics with the terminal in its hands"]
    fn the_half_that_panics() {
        let _screen = Screen::take().expect("a terminal");
        panic!("something is wrong");
    }

    #[test]
    fn a_panic_is_told_on_the_terminal_as_it_was() {
        let mut command = Command::new("/bin/sh");
        let test = "tui::terminal::tests::the_half_that_panics";
        command.args(["-c", "stty -g > \"$T\"; \"$0\" --exact --ignored --nocapture \"$1\"; stty -g | cmp - \"$T\" && echo as-be\"\"fore"]);
        command.arg(std::env::current_exe().expect("this test")).arg(test);
        let modes = tempfile::NamedTempFile::new().expect("a file");
        command.env("PATH", testkit::require::PATH).env("T", modes.path());
        let who = if rustix::process::geteuid().is_root() { Who::Root } else { Who::User };
        let terminal = Pty::start(&command, who, 24, 100);
        terminal.wait_for("as-before", SOON);
        until("the screen is left", SOON, || !terminal.is_full_screen());
        // It is on the screen that stays, and not on the one that went.
        assert!(terminal.screen().contains("something is wrong"), "{}", terminal.screen());
        assert!(terminal.raw().windows(8).any(|part| part == b"\x1b[?1049h"), "the terminal was never taken");
        assert_eq!(terminal.wait(SOON), 0);
    }
}
