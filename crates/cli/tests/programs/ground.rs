//! [`Ground`]: one person's project and the lanes over it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use testkit::{Pty, Ran, Running, TestEnv, Who};

/// How long a thing that happens at once may take on a busy machine.
pub(crate) const SOON: Duration = Duration::from_secs(60);

/// How long a build or an installation may take on a busy machine.
pub(crate) const LONG: Duration = Duration::from_secs(300);

/// A project and its lanes.
#[derive(Debug)]
pub(crate) struct Ground {
    pub(crate) env: TestEnv,
    pub(crate) project: PathBuf,
}

/// Does `test` for everybody that this process can be, in a small git project.
pub(crate) fn each(test: impl Fn(&Ground)) {
    for who in Who::all() {
        let env = in_the_open(who);
        let project = env.make_git("app");
        test(&Ground { env, project });
    }
}

/// Does `test` for everybody, over the corpus `name` where it lies, with the toolchain at hand.
pub(crate) fn each_over(name: &str, test: impl Fn(&Ground)) {
    for who in Who::all() {
        let mut env = in_the_open(who);
        env.with_rust();
        let project = testkit::corpora::corpus(name, who);
        test(&Ground { env, project });
    }
}

/// A world in a place that a lane shows: the usual temporary directory is a lane's own inside.
pub(crate) fn in_the_open(who: Who) -> TestEnv {
    let place = if testkit::who::is_root() { PathBuf::from("/srv") } else { std::env::home_dir().unwrap() };
    TestEnv::inside(&place, env!("CARGO_BIN_EXE_lane"), who)
}

impl Ground {
    pub(crate) fn who(&self) -> Who {
        self.env.who()
    }

    /// `lane` in the project, to its end.
    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        Running::start(self.env.lane(&self.project, args)).wait(LONG)
    }

    /// `lane` in the project, started.
    pub(crate) fn start(&self, args: &[&str]) -> Running {
        Running::start(self.env.lane(&self.project, args))
    }

    /// `lane` in the project on a terminal.
    pub(crate) fn terminal(&self, args: &[&str]) -> Pty {
        Pty::start(&self.env.lane(&self.project, args), self.who(), 24, 100)
    }

    /// A command in the lane `lane`; it must succeed.
    pub(crate) fn inside(&self, lane: &str, command: &[&str]) -> Ran {
        let mut args = vec!["run", "-n", lane, "--"];
        args.extend(command);
        self.run(&args).expect_code(0)
    }

    /// A shell script in the lane `lane`; it must succeed.
    pub(crate) fn sh(&self, lane: &str, script: &str) -> Ran {
        self.inside(lane, &["sh", "-ec", script])
    }

    /// Names of what the lane changed, a line each.
    pub(crate) fn changed(&self, lane: &str) -> String {
        self.run(&["diff", lane, "--name-only"]).expect_code(0).out()
    }

    /// Drops a lane for good.
    pub(crate) fn gone(&self, lane: &str) {
        self.run(&["discard", lane, "--now", "--yes"]).expect_code(0);
    }

    /// Writes a file of the project.
    pub(crate) fn write(&self, path: impl AsRef<Path>, content: &str) {
        self.env.write(&self.project.join(path), content.as_bytes());
    }
}
