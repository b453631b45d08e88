//! The one place where `bench` starts programs: the lane binary, its peers, and what prepares a round.
//!
//! Invariant: both legs of a comparison are started in the same way with the same streams, and a program
//! that fails is never a figure.

use std::ffi::{OsStr, OsString};
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Why a row has no figure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// Something that it needs is not here.
    Missing {
        /// What.
        what: String,
        /// The command that brings it.
        get: String,
    },
    /// It was tried and went wrong.
    Failed(String),
}

impl From<std::io::Error> for Trouble {
    fn from(error: std::io::Error) -> Trouble {
        Trouble::Failed(error.to_string())
    }
}

/// Result of a part of a row.
pub(crate) type Outcome<T> = Result<T, Trouble>;

/// A command that can be started again and again.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    argv: Vec<OsString>,
    dir: PathBuf,
    env: Vec<(OsString, OsString)>,
    /// The exit code that means success.
    code: i32,
}

/// What a command printed on its two streams.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Job {
    /// A program, started in `dir`.
    pub(crate) fn new(program: impl AsRef<OsStr>, dir: &Path) -> Job {
        Job { argv: vec![program.as_ref().to_owned()], dir: dir.to_path_buf(), env: Vec::new(), code: 0 }
    }

    /// More arguments.
    #[must_use]
    pub(crate) fn args(mut self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Job {
        self.argv.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// A variable beside the caller's own.
    #[must_use]
    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Job {
        self.env.push((name.into(), value.as_ref().to_owned()));
        self
    }

    /// Success is another exit code than 0.
    #[must_use]
    pub(crate) fn answers(mut self, code: i32) -> Job {
        self.code = code;
        self
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.argv[0]);
        command.args(&self.argv[1..]).current_dir(&self.dir).stdin(Stdio::null());
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Milliseconds from the start to the end, its output thrown away.
    pub(crate) fn time(&self) -> Outcome<f64> {
        let mut command = self.command();
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let began = Instant::now();
        let status = command.status().map_err(|error| self.failed(&error.to_string()))?;
        let spent = millis(began.elapsed());
        if status.code() == Some(self.code) {
            Ok(spent)
        } else {
            Err(self.failed(&self.why(&status.to_string())))
        }
    }

    /// Milliseconds from the line `word` on its stdout to its end: what it takes to leave.
    pub(crate) fn time_after(&self, word: &str) -> Outcome<f64> {
        let mut command = self.command();
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(|error| self.failed(&error.to_string()))?;
        let mut seen = None;
        if let Some(out) = child.stdout.take() {
            let mut out = BufReader::new(out);
            let mut line = String::new();
            while out.read_line(&mut line)? > 0 {
                if line.trim_end() == word {
                    seen = Some(Instant::now());
                }
                line.clear();
            }
        }
        let status = child.wait()?;
        match seen {
            Some(seen) if status.code() == Some(self.code) => Ok(millis(seen.elapsed())),
            Some(_) => Err(self.failed(&self.why(&status.to_string()))),
            None => Err(self.failed(&format!("it never said `{word}` ({status})"))),
        }
    }

    /// Runs it to its end and gives what it said; another end than the expected one is a failure.
    pub(crate) fn run(&self) -> Outcome<Said> {
        let output = self.command().output().map_err(|error| self.failed(&error.to_string()))?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let said = Said { out: text(&output.stdout), err: text(&output.stderr) };
        if output.status.code() == Some(self.code) {
            return Ok(said);
        }
        // What a command inside a lane said, not what the lane said about it.
        let is_talk = |line: &&str| line.is_empty() || line.starts_with("lane ") || line.starts_with("next:");
        let last =
            said.err.lines().map(str::trim).rev().find(|line| !is_talk(line)).unwrap_or_default().to_owned();
        Err(self.failed(&format!("{}: {last}", output.status)))
    }

    /// Runs it with the caller's own streams and gives its exit code.
    pub(crate) fn hand_over(&self) -> Outcome<u8> {
        let mut command = self.command();
        command.stdin(Stdio::inherit());
        let status = command.status().map_err(|error| self.failed(&error.to_string()))?;
        Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(crate::exit_code::NOT_DONE))
    }

    /// Runs it and looks at `/proc` meanwhile: the highest resident size of the started process, in bytes.
    pub(crate) fn peak_memory(&self) -> Outcome<u64> {
        let mut command = self.command();
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(|error| self.failed(&error.to_string()))?;
        let id = i32::try_from(child.id()).unwrap_or(i32::MAX);
        let mut peak = 0;
        loop {
            // The mark only rises while the process lives; of one that has ended nothing is left to read.
            peak = peak.max(high_water(id).unwrap_or(0));
            if let Some(status) = child.try_wait()? {
                return if status.code() == Some(self.code) {
                    Ok(peak)
                } else {
                    Err(self.failed(&status.to_string()))
                };
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Starts it and comes back once it has said `word` on a line of its own; it is killed when that is dropped.
    pub(crate) fn hold(&self, word: &str) -> Outcome<Held> {
        let (held, line) = self.first_line()?;
        if line == word { Ok(held) } else { Err(self.failed(&format!("it never said `{word}`"))) }
    }

    /// Starts it with a terminal for its streams; it is killed when that is dropped.
    pub(crate) fn on(&self, terminal: &OwnedFd) -> Outcome<Held> {
        let mut command = self.command();
        command.stdin(terminal.try_clone()?).stdout(terminal.try_clone()?).stderr(terminal.try_clone()?);
        command.env("TERM", "xterm-256color");
        Ok(Held { child: command.spawn().map_err(|error| self.failed(&error.to_string()))? })
    }

    /// Starts it and gives the first line that it says; it is killed when that is dropped.
    pub(crate) fn first_line(&self) -> Outcome<(Held, String)> {
        let mut command = self.command();
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut held = Held { child: command.spawn().map_err(|error| self.failed(&error.to_string()))? };
        let mut line = String::new();
        if let Some(out) = held.child.stdout.take() {
            BufReader::new(out).read_line(&mut line)?;
        }
        Ok((held, line.trim_end().to_owned()))
    }

    /// The same command once more, for the words of its failure.
    fn why(&self, status: &str) -> String {
        match self.run() {
            Err(Trouble::Failed(words)) => words,
            _ => status.to_owned(),
        }
    }

    fn failed(&self, why: &str) -> Trouble {
        let words: Vec<_> = self.argv.iter().take(6).map(|word| word.to_string_lossy()).collect();
        Trouble::Failed(format!("`{}`: {why}", words.join(" ")))
    }
}

/// A process that runs until this is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    child: Child,
}

impl Held {
    /// Its number.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn millis(spent: Duration) -> f64 {
    spent.as_secs_f64() * 1000.0
}

/// The highest resident size that a process had so far, in bytes.
pub(crate) fn high_water(pid: i32) -> Option<u64> {
    let mut text = String::new();
    std::fs::File::open(format!("/proc/{pid}/status")).ok()?.read_to_string(&mut text).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib << 10)
}

/// The processes that a process started and that still have their number.
pub(crate) fn children(pid: i32) -> Vec<i32> {
    let listed = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    listed.split_whitespace().filter_map(|child| child.parse().ok()).collect()
}

/// True where `below` is `pid`, or one of those that it started, at any depth.
pub(crate) fn is_below(pid: i32, below: i32) -> bool {
    pid == below || children(pid).into_iter().any(|child| is_below(child, below))
}

/// Processor time that a living process spent so far, in milliseconds.
pub(crate) fn processor_time(pid: i32) -> Option<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before may hold anything, and of a process that has ended nothing counts.
    if stat.rsplit_once(')')?.1.trim_start().starts_with('Z') {
        return None;
    }
    // To the nanosecond, where `stat` counts in ticks.
    let spent = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).ok()?;
    spent.split(' ').next()?.parse::<f64>().ok().map(|nanos| nanos / 1e6)
}

/// A process below `pid` that runs the program called `name`.
pub(crate) fn descendant(pid: i32, name: &str) -> Option<i32> {
    children(pid).into_iter().find_map(|child| {
        let is_it =
            std::fs::read_to_string(format!("/proc/{child}/comm")).is_ok_and(|comm| comm.trim_end() == name);
        if is_it { Some(child) } else { descendant(child, name) }
    })
}

/// Where a program is: along PATH, then where administrators' programs are.
pub(crate) fn program(name: &str) -> Outcome<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs = std::env::split_paths(&path).chain(["/usr/sbin", "/sbin"].map(PathBuf::from));
    let found = dirs
        .map(|dir| dir.join(name))
        .find(|at| rustix::fs::access(at, rustix::fs::Access::EXEC_OK).is_ok() && at.is_file());
    found.ok_or_else(|| Trouble::Missing {
        what: format!("the program {name}"),
        get: install(name).to_owned(),
    })
}

fn install(program: &str) -> &'static str {
    match program {
        "bwrap" => "apt-get install bubblewrap",
        "nsenter" | "unshare" | "mount" => "apt-get install util-linux mount",
        "git" => "apt-get install git",
        "rsync" => "apt-get install rsync",
        "node" | "npm" => "apt-get install nodejs npm",
        "mkfs.btrfs" => "apt-get install btrfs-progs",
        "mkfs.xfs" => "apt-get install xfsprogs",
        "cargo" => "scripts/corpora toolchain, and its bin directory in PATH",
        _ => "apt-get install coreutils",
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Job, Trouble, program};

    #[test]
    fn a_program_that_fails_is_no_figure_and_its_last_words_are_told() {
        let job = Job::new("sh", Path::new("/")).args(["-c", "echo broken >&2; exit 3"]);
        let Err(Trouble::Failed(words)) = job.time() else { panic!("it passed") };
        assert!(words.contains("broken"), "{words}");
    }

    #[test]
    fn leaving_is_measured_from_the_word_and_needs_it() {
        assert!(Job::new("sh", Path::new("/")).args(["-c", "echo end"]).time_after("end").is_ok());
        assert!(Job::new("sh", Path::new("/")).args(["-c", "echo other"]).time_after("end").is_err());
    }

    #[test]
    fn a_missing_program_comes_with_the_command_that_brings_it() {
        let Err(Trouble::Missing { get, .. }) = program("no-such-program-anywhere") else { panic!("found") };
        assert!(!get.is_empty());
        assert!(program("sh").is_ok());
    }
}
