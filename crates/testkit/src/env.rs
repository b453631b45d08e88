//! [`TestEnv`]: a closed world for one test. Own home, own state directory, own git identity, and no
//! variable of the surrounding shell.
//!
//! Invariant: when the world is dropped, nothing below it is mounted and no process of it is left, else
//! the test is red; then its files are removed, whatever their modes.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::procs;
use crate::require::PATH;
use crate::running::{Ran, Running};
use crate::who::{Who, is_root};

/// How long a command may take before the test is red.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// A closed world for one test.
#[derive(Debug)]
pub struct TestEnv {
    dir: tempfile::TempDir,
    lane: PathBuf,
    who: Who,
    extra: Vec<(String, String)>,
    expect_remnants: bool,
}

impl TestEnv {
    /// A world in the usual temporary directory. `lane` is the built program
    /// (`env!("CARGO_BIN_EXE_lane")` in a test of the package that builds it).
    pub fn new(lane: impl AsRef<Path>, who: Who) -> TestEnv {
        TestEnv::inside(&std::env::temp_dir(), lane, who)
    }

    /// A world inside `place`, for instance on a [`crate::LoopFs`].
    pub fn inside(place: &Path, lane: impl AsRef<Path>, who: Who) -> TestEnv {
        // Short, because sockets and their 108 bytes are part of what is tested.
        let dir = tempfile::Builder::new()
            .prefix("lt")
            .rand_bytes(6)
            .tempdir_in(place)
            .expect("a temporary directory");
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("a mode");
        let lane = lane.as_ref();
        let reachable = if who.reaches(lane).expect("the built program") {
            lane.to_path_buf()
        } else {
            let copy = dir.path().join("lane");
            fs::copy(lane, &copy).expect("a copy of the built program");
            copy
        };
        let env = TestEnv { dir, lane: reachable, who, extra: Vec::new(), expect_remnants: false };
        for made in [env.home(), env.state_home(), env.root().join("p"), env.tmp()] {
            fs::create_dir(&made).expect("a directory");
            who.own(&made);
        }
        who.own(env.root());
        env
    }

    /// As whom commands run here.
    pub fn who(&self) -> Who {
        self.who
    }

    /// The directory that holds this world.
    pub fn root(&self) -> &Path {
        self.dir.path()
    }

    /// `$HOME`.
    pub fn home(&self) -> PathBuf {
        self.root().join("h")
    }

    /// `$XDG_STATE_HOME`; lanes keep their state in `lanekeeper` below it.
    pub fn state_home(&self) -> PathBuf {
        self.root().join("s")
    }

    /// The state directory of `lane`.
    pub fn state(&self) -> PathBuf {
        self.state_home().join("lanekeeper")
    }

    /// `$TMPDIR`.
    pub fn tmp(&self) -> PathBuf {
        self.root().join("t")
    }

    /// Where the project `name` lies (or will lie).
    pub fn project(&self, name: &str) -> PathBuf {
        self.root().join("p").join(name)
    }

    /// The program under test.
    pub fn lane_program(&self) -> &Path {
        &self.lane
    }

    /// Sets a variable for every later command.
    pub fn set(&mut self, name: &str, value: impl Into<String>) {
        self.extra.push((name.to_owned(), value.into()));
    }

    /// Says that this test leaves processes or mounts behind on purpose and cleans them up itself.
    pub fn allow_remnants(&mut self) {
        self.expect_remnants = true;
    }

    /// A command of this world: closed environment, this person, own process group, no input.
    pub fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        command
            .env_clear()
            .envs([
                ("PATH", PATH),
                ("LC_ALL", "C"),
                ("TZ", "UTC"),
                ("USER", "tester"),
                ("LOGNAME", "tester"),
                ("SHELL", "/bin/sh"),
                ("GIT_CONFIG_NOSYSTEM", "1"),
                ("GIT_AUTHOR_NAME", "Tester"),
                ("GIT_AUTHOR_EMAIL", "tester@example.org"),
                ("GIT_COMMITTER_NAME", "Tester"),
                ("GIT_COMMITTER_EMAIL", "tester@example.org"),
                ("GIT_AUTHOR_DATE", "2024-01-01T00:00:00Z"),
                ("GIT_COMMITTER_DATE", "2024-01-01T00:00:00Z"),
            ])
            .env("HOME", self.home())
            .env("XDG_STATE_HOME", self.state_home())
            .env("TMPDIR", self.tmp())
            .envs(self.extra.iter().map(|(name, value)| (name, value)))
            .current_dir(self.root())
            .stdin(Stdio::null());
        self.who.apply(&mut command);
        command
    }

    /// `lane` with these arguments, to be run in `dir`.
    pub fn lane(&self, dir: impl AsRef<Path>, args: &[&str]) -> Command {
        let mut command = self.command(&self.lane);
        command.args(args).current_dir(dir);
        command
    }

    /// Runs `lane` in `dir` to its end, whatever that is.
    pub fn run(&self, dir: impl AsRef<Path>, args: &[&str]) -> Ran {
        Running::start(self.lane(dir, args)).wait(PATIENCE)
    }

    /// Runs `lane` in `dir`; the test is red unless it exits with 0.
    pub fn ok(&self, dir: impl AsRef<Path>, args: &[&str]) -> Ran {
        self.run(dir, args).expect_code(0)
    }

    /// Runs `lane` in `dir` with `--json` added before any `--`, expects 0, and reads what it printed.
    pub fn json(&self, dir: impl AsRef<Path>, args: &[&str]) -> serde_json::Value {
        let end = args.iter().position(|arg| *arg == "--").unwrap_or(args.len());
        let mut all = args.to_vec();
        all.insert(end, "--json");
        let ran = self.ok(dir, &all);
        serde_json::from_slice(&ran.stdout).unwrap_or_else(|error| panic!("{error} in {ran}"))
    }

    /// Runs any program of the machine in `dir`; the test is red unless it exits with 0.
    pub fn host(&self, dir: impl AsRef<Path>, program: &str, args: &[&str]) -> Ran {
        let mut command = self.command(crate::require::program(program));
        command.args(args).current_dir(dir);
        Running::start(command).wait(PATIENCE).expect_code(0)
    }

    /// The test is red where something below this world is mounted or a process of it is alive.
    pub fn assert_nothing_is_left(&self) {
        let left = self.remnants();
        assert!(left.is_empty(), "left behind in {}:\n{}", self.root().display(), left.join("\n"));
    }

    /// What lives or is mounted below this world, a line each.
    pub fn remnants(&self) -> Vec<String> {
        let mounts = procs::mounts_below(self.root()).into_iter().map(|place| format!("mount {place}"));
        let alive = procs::processes_of(self.root())
            .into_iter()
            .map(|found| format!("process {} {}", found.pid, found.command));
        mounts.chain(alive).collect()
    }
}

impl Drop for TestEnv {
    fn drop(&mut self) {
        // A process that was told to end may need a moment to be gone.
        let mut left = self.remnants();
        for _ in 0..100 {
            if left.is_empty() || std::thread::panicking() {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
            left = self.remnants();
        }
        if !self.expect_remnants && !left.is_empty() && !std::thread::panicking() {
            panic!("left behind in {}:\n{}", self.root().display(), left.join("\n"));
        }
        if procs::mounts_below(self.root()).is_empty() {
            remove(self.root()).ok();
        }
    }
}

/// Removes a tree whatever its modes are; stays on its filesystem and follows no link.
pub fn remove(top: &Path) -> io::Result<()> {
    let meta = fs::symlink_metadata(top)?;
    if !meta.is_dir() {
        return fs::remove_file(top);
    }
    if !is_root() && meta.mode() & 0o700 != 0o700 {
        fs::set_permissions(top, fs::Permissions::from_mode(0o700))?;
    }
    for entry in fs::read_dir(top)? {
        let below = entry?.path();
        if fs::symlink_metadata(&below)?.dev() == meta.dev() {
            remove(&below)?;
        }
    }
    fs::remove_dir(top)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::time::Duration;

    use super::TestEnv;
    use crate::running::Running;
    use crate::who::Who;
    use crate::{Listing, until};

    #[test]
    fn a_command_sees_its_own_home_and_nothing_of_the_surrounding_shell() {
        for who in Who::all() {
            let env = TestEnv::new("/bin/sh", who);
            let ran = env.run(env.root(), &["-c", "id -u; echo $HOME; env | grep -c CARGO; id -G"]);
            let expected = format!("{}\n{}\n0\n{}\n", who.uid(), env.home().display(), who.gid());
            assert_eq!(
                ran.out().lines().take(3).collect::<Vec<_>>(),
                expected.lines().take(3).collect::<Vec<_>>()
            );
            if crate::who::is_root() && who == Who::User {
                assert_eq!(ran.out(), expected);
            }
        }
    }

    #[test]
    fn a_program_in_a_closed_directory_is_copied_to_where_the_user_reaches_it() {
        let closed = tempfile::tempdir().expect("a directory");
        let program = closed.path().join("sh");
        fs::copy("/bin/sh", &program).expect("copied");
        for who in Who::all() {
            let env = TestEnv::new(&program, who);
            assert_eq!(env.ok(env.root(), &["-c", "echo here"]).out(), "here\n");
        }
    }

    #[test]
    fn projects_belong_to_the_person_and_hold_what_was_asked() {
        for who in Who::all() {
            let env = TestEnv::new("/bin/sh", who);
            let top = env.make_git("p");
            env.host(&top, "git", &["diff", "--exit-code", "HEAD"]);
            let odd = env.make_odd("o");
            assert!(Listing::of(&odd).items().values().all(|item| item.owner == (who.uid(), who.gid())));
            env.fifo(&odd.join("pipe"));
            env.chmod(&odd.join("dir"), 0o000);
        }
    }

    #[test]
    fn a_process_left_behind_is_named_and_a_deadline_ends_the_group() {
        let env = TestEnv::new("/bin/sh", Who::User);
        let running = Running::start(env.lane(env.root(), &["-c", "sleep 300 & sleep 300"]));
        until("both sleep", Duration::from_secs(10), || running.descendants().len() == 2);
        assert!(env.remnants().iter().any(|line| line.contains("sleep")), "{:?}", env.remnants());
        let late = std::thread::spawn(move || running.wait(Duration::from_millis(1)));
        assert!(late.join().is_err());
        until("all gone", Duration::from_secs(10), || env.remnants().is_empty());
        assert!(Path::new(env.root()).exists());
    }
}
