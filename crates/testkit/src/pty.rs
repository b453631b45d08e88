//! [`Pty`]: a program on a terminal of its own, whose screen a test can read.
//!
//! The program is started through `setsid --ctty`, which makes the terminal its controlling one, so that
//! Ctrl-C, Ctrl-Z and resizes reach it as they would from a person.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::num::NonZero;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::require::program;

/// A program on its own terminal.
pub struct Pty {
    child: Child,
    master: File,
    screen: Arc<Mutex<vt100::Parser>>,
    raw: Arc<Mutex<Vec<u8>>>,
}

impl std::fmt::Debug for Pty {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pty").field("pid", &self.child.id()).finish_non_exhaustive()
    }
}

impl Pty {
    /// Starts `command` (program, arguments, environment, directory and person are kept) on a terminal of
    /// `rows` × `cols`.
    pub fn start(command: &Command, who: crate::Who, rows: u16, cols: u16) -> Pty {
        let (master, slave) = pair(rows, cols);
        let mut outer = Command::new(program("setsid"));
        outer.arg("--ctty").arg(command.get_program()).args(command.get_args()).env_clear();
        for (name, value) in command.get_envs() {
            if let Some(value) = value {
                outer.env(name, value);
            }
        }
        outer.env("TERM", "xterm-256color");
        if let Some(dir) = command.get_current_dir() {
            outer.current_dir(dir);
        }
        who.apply(&mut outer);
        if who.uid() != rustix::process::geteuid().as_raw() {
            let (uid, gid) = (rustix::fs::Uid::from_raw(who.uid()), rustix::fs::Gid::from_raw(who.gid()));
            rustix::fs::fchown(&slave, Some(uid), Some(gid)).expect("a terminal of this person");
        }
        let end = |slave: &OwnedFd| Stdio::from(slave.try_clone().expect("a descriptor"));
        outer.stdin(end(&slave)).stdout(end(&slave)).stderr(Stdio::from(slave));
        let child = outer.spawn().unwrap_or_else(|error| panic!("start {outer:?}: {error}"));
        // The ends that `outer` holds would keep the terminal open after the program is gone.
        drop(outer);

        let screen = Arc::new(Mutex::new(vt100::Parser::new(some(rows), some(cols), 1000)));
        let raw = Arc::new(Mutex::new(Vec::new()));
        let (seen, all) = (Arc::clone(&screen), Arc::clone(&raw));
        let mut reader = master.try_clone().expect("a descriptor");
        std::thread::spawn(move || {
            let mut piece = [0; 8192];
            while let Ok(length) = reader.read(&mut piece) {
                if length == 0 {
                    break;
                }
                seen.lock().expect("no reader panicked").process(&piece[..length]);
                all.lock().expect("no reader panicked").extend_from_slice(&piece[..length]);
            }
        });
        Pty { child, master, screen, raw }
    }

    /// Number of the program.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Types bytes.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.master.write_all(bytes.as_ref()).expect("typed");
    }

    /// Gives the terminal another size, as a person does by pulling at the window.
    pub fn resize(&mut self, rows: u16, cols: u16) {
        self.screen.lock().expect("no reader panicked").screen_mut().set_size(some(rows), some(cols));
        tcsetwinsize(&self.master, size(rows, cols)).expect("resized");
    }

    /// The screen as text, a line a row.
    pub fn screen(&self) -> String {
        self.screen.lock().expect("no reader panicked").screen().contents()
    }

    /// Everything that was ever printed, escape sequences included.
    pub fn raw(&self) -> Vec<u8> {
        self.raw.lock().expect("no reader panicked").clone()
    }

    /// Row and column of the cursor.
    pub fn cursor(&self) -> (u16, u16) {
        self.screen.lock().expect("no reader panicked").screen().cursor_position()
    }

    /// True while a full-screen program has the alternate screen.
    pub fn is_full_screen(&self) -> bool {
        self.screen.lock().expect("no reader panicked").screen().alternate_screen()
    }

    /// Waits until the screen shows `text`.
    pub fn wait_for(&self, text: &str, patience: Duration) {
        let end = Instant::now() + patience;
        while !self.screen().contains(text) {
            assert!(Instant::now() < end, "{text:?} did not come; the screen:\n{}", self.screen());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Waits for the end; the exit code, or 128 + the signal.
    pub fn wait(mut self, patience: Duration) -> i32 {
        let end = Instant::now() + patience;
        loop {
            if let Some(status) = self.child.try_wait().expect("a child of ours") {
                return status.code().or_else(|| status.signal().map(|number| 128 + number)).unwrap_or(-1);
            }
            assert!(Instant::now() < end, "still running after {patience:?}; the screen:\n{}", self.screen());
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Pty {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.child.kill().ok();
            self.child.wait().ok();
        }
    }
}

fn pair(rows: u16, cols: u16) -> (File, OwnedFd) {
    use rustix::fs::{Mode, OFlags};
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("a terminal");
    grantpt(&master).expect("granted");
    unlockpt(&master).expect("unlocked");
    tcsetwinsize(&master, size(rows, cols)).expect("sized");
    let name = ptsname(&master, Vec::new()).expect("its name");
    let slave = rustix::fs::open(&name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())
        .expect("its other end");
    (File::from(master), slave)
}

fn some(cells: u16) -> NonZero<u16> {
    NonZero::new(cells).expect("a terminal with rows and columns")
}

fn size(rows: u16, cols: u16) -> Winsize {
    Winsize { ws_row: rows, ws_col: cols, ws_xpixel: 0, ws_ypixel: 0 }
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::Duration;

    use super::Pty;
    use crate::who::Who;

    const SOON: Duration = Duration::from_secs(10);

    #[test]
    fn a_program_sees_a_terminal_its_size_and_control_c() {
        for who in Who::all() {
            let mut command = Command::new("/bin/sh");
            command.args([
                "-c",
                "stty size; trap 'stty size; exit 7' INT; echo ready; while :; do sleep 1; done",
            ]);
            command.env("PATH", crate::require::PATH);
            let mut pty = Pty::start(&command, who, 30, 90);
            pty.wait_for("ready", SOON);
            assert!(pty.screen().starts_with("30 90"), "{}", pty.screen());
            pty.resize(40, 100);
            pty.send(b"\x03");
            pty.wait_for("40 100", SOON);
            assert_eq!(pty.wait(SOON), 7);
        }
    }
}
