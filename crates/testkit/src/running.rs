//! [`Running`]: a child process of a test, its own process group, with a deadline. [`Ran`]: how it ended.
//!
//! Invariant: a signal goes only to a child that this value started and has not reaped yet, so that a
//! number that was given to somebody else meanwhile is never met.

use std::fmt;
use std::io::{Read, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::procs;

/// Waits until `condition` holds; the test is red with `what` when it does not within `patience`.
pub fn until(what: &str, patience: Duration, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + patience;
    while !condition() {
        assert!(Instant::now() < end, "waited {patience:?} in vain: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// How a command ended and what it printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ran {
    /// The command, for messages.
    pub what: String,
    /// Exit code; `None` where a signal ended it.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Everything on stdout.
    pub stdout: Vec<u8>,
    /// Everything on stderr.
    pub stderr: Vec<u8>,
}

impl Ran {
    /// The test is red unless the command exited with `code`.
    pub fn expect_code(self, code: i32) -> Ran {
        assert!(self.code == Some(code), "expected exit code {code} of {self}");
        self
    }

    /// Stdout as text.
    pub fn out(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Stderr as text.
    pub fn err(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }
}

impl fmt::Display for Ran {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\ncode {:?} signal {:?}", self.what, self.code, self.signal)?;
        writeln!(f, "--- stdout\n{}--- stderr\n{}---", self.out(), self.err())
    }
}

type Gathered = Arc<Mutex<Vec<u8>>>;

/// A child that runs.
#[derive(Debug)]
pub struct Running {
    what: String,
    child: Child,
    stdout: Gathered,
    stderr: Gathered,
    readers: Vec<JoinHandle<()>>,
    reaped: bool,
}

impl Running {
    /// Starts `command` in a process group of its own and gathers what it prints.
    pub fn start(mut command: Command) -> Running {
        let what = format!("{command:?}");
        command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("start {what}: {error}"));
        let (stdout, stderr) = (Gathered::default(), Gathered::default());
        let mut readers = Vec::new();
        if let Some(pipe) = child.stdout.take() {
            readers.push(gather(pipe, Arc::clone(&stdout)));
        }
        if let Some(pipe) = child.stderr.take() {
            readers.push(gather(pipe, Arc::clone(&stderr)));
        }
        Running { what, child, stdout, stderr, readers, reaped: false }
    }

    /// Its process number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its standard input, where the command was given a pipe.
    pub fn stdin(&mut self) -> Option<&mut ChildStdin> {
        self.child.stdin.as_mut()
    }

    /// Writes to its standard input and closes it.
    pub fn feed(&mut self, bytes: &[u8]) {
        let mut pipe = self.child.stdin.take().expect("a command with piped input");
        pipe.write_all(bytes).expect("input taken");
    }

    /// What it has printed on stdout so far.
    pub fn out_so_far(&self) -> String {
        String::from_utf8_lossy(&self.stdout.lock().expect("no reader panicked")).into_owned()
    }

    /// What it has printed on stderr so far.
    pub fn err_so_far(&self) -> String {
        String::from_utf8_lossy(&self.stderr.lock().expect("no reader panicked")).into_owned()
    }

    /// Waits until `text` was printed on stdout or stderr.
    pub fn wait_for(&mut self, text: &str, patience: Duration) {
        let end = Instant::now() + patience;
        loop {
            let over = self.over();
            if self.out_so_far().contains(text) || self.err_so_far().contains(text) {
                return;
            }
            assert!(
                !over && Instant::now() < end,
                "{text:?} did not come from {}\n--- stdout\n{}--- stderr\n{}",
                self.what,
                self.out_so_far(),
                self.err_so_far()
            );
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// True where it has ended.
    pub fn over(&mut self) -> bool {
        self.reaped = self.reaped || self.child.try_wait().expect("a child of ours").is_some();
        self.reaped
    }

    /// Sends a signal to it alone.
    pub fn signal(&mut self, signal: Signal) {
        if !self.over() {
            kill_process(self.raw_pid(), signal)
                .unwrap_or_else(|error| panic!("kill {}: {error}", self.what));
        }
    }

    /// SIGKILL to it alone.
    pub fn kill9(&mut self) {
        self.signal(Signal::KILL);
    }

    /// All its descendants now, by number.
    pub fn descendants(&self) -> Vec<u32> {
        procs::descendants(self.pid())
    }

    /// Waits for its end. Past the deadline its group is killed and the test is red.
    pub fn wait(mut self, patience: Duration) -> Ran {
        let end = Instant::now() + patience;
        while !self.over() {
            if Instant::now() >= end {
                self.kill_group();
                panic!(
                    "still running after {patience:?}: {}\n--- stdout\n{}--- stderr\n{}",
                    self.what,
                    self.out_so_far(),
                    self.err_so_far()
                );
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let status = self.child.wait().expect("a child of ours");
        // A grandchild may hold the pipes open; what it prints later is not this command's.
        for reader in &self.readers {
            while !reader.is_finished() && Instant::now() < end {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        let take = |gathered: &Gathered| std::mem::take(&mut *gathered.lock().expect("no reader panicked"));
        Ran {
            what: self.what.clone(),
            code: status.code(),
            signal: status.signal(),
            stdout: take(&self.stdout),
            stderr: take(&self.stderr),
        }
    }

    fn kill_group(&mut self) {
        if !self.over() {
            kill_process_group(self.raw_pid(), Signal::KILL).ok();
        }
    }

    fn raw_pid(&self) -> Pid {
        i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).expect("a process number")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.over() {
            self.kill_group();
            self.child.wait().ok();
        }
    }
}

fn gather(mut pipe: impl Read + Send + 'static, into: Gathered) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut piece = [0; 8192];
        while let Ok(length) = pipe.read(&mut piece) {
            if length == 0 {
                break;
            }
            into.lock().expect("no reader panicked").extend_from_slice(&piece[..length]);
        }
    })
}
