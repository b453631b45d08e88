//! [`World`]: one project of one person and the lanes of one strategy over it, used through `lane` alone.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use testkit::{Ran, Running, TestEnv, Who};

/// How long a thing that happens at once may take on a busy machine.
pub(crate) const SOON: Duration = Duration::from_secs(30);

/// How lanes are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Made {
    Overlay,
    Copy,
}

impl Made {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Made::Overlay => "overlay",
            Made::Copy => "copy",
        }
    }
}

/// A project and its lanes.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) env: TestEnv,
    pub(crate) project: PathBuf,
    pub(crate) made: Made,
}

/// Does `test` for everybody that this process can be, over every strategy, on a small git project.
pub(crate) fn each(test: impl Fn(&World)) {
    for who in Who::all() {
        for made in [Made::Overlay, Made::Copy] {
            test(&World::git(fresh(who), made));
        }
    }
}

/// Does `test` for everybody, where the strategy makes no difference.
pub(crate) fn everybody(test: impl Fn(&World)) {
    for who in Who::all() {
        test(&World::git(fresh(who), Made::Overlay));
    }
}

/// An empty world.
pub(crate) fn fresh(who: Who) -> TestEnv {
    TestEnv::new(env!("CARGO_BIN_EXE_lane"), who)
}

/// A world in a place that a lane shows: the usual temporary directory is a lane's own inside.
pub(crate) fn in_the_open(who: Who) -> TestEnv {
    let place = if testkit::who::is_root() {
        PathBuf::from("/srv")
    } else {
        std::env::var_os("HOME").unwrap().into()
    };
    TestEnv::inside(&place, env!("CARGO_BIN_EXE_lane"), who)
}

impl World {
    /// A small git project in `env`.
    pub(crate) fn git(env: TestEnv, made: Made) -> World {
        let project = env.make_git("app");
        World { env, project, made }
    }

    /// A project that is there.
    pub(crate) fn over(env: TestEnv, project: PathBuf, made: Made) -> World {
        World { env, project, made }
    }

    pub(crate) fn who(&self) -> Who {
        self.env.who()
    }

    /// Runs `lane` in the project.
    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        self.env.run(&self.project, args)
    }

    /// Runs `lane` in the project and expects success.
    pub(crate) fn ok(&self, args: &[&str]) -> Ran {
        self.env.ok(&self.project, args)
    }

    /// Runs `lane --json` in the project and expects success.
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        self.env.json(&self.project, args)
    }

    /// Starts `lane` in the project.
    pub(crate) fn start(&self, args: &[&str]) -> Running {
        Running::start(self.env.lane(&self.project, args))
    }

    /// Makes a lane of this strategy.
    pub(crate) fn lane(&self, name: &str) {
        self.ok(&["new", name, "--strategy", self.made.word()]);
    }

    /// A shell script in a lane that is there.
    pub(crate) fn try_sh(&self, lane: &str, script: &str) -> Ran {
        self.run(&["run", "-n", lane, "--", "sh", "-ec", script])
    }

    /// A shell script in a lane that is there; it must succeed.
    pub(crate) fn sh(&self, lane: &str, script: &str) -> Ran {
        self.try_sh(lane, script).expect_code(0)
    }

    /// A Python script in a lane that is there; it must succeed.
    pub(crate) fn python(&self, lane: &str, script: &str) -> Ran {
        testkit::require::program("python3");
        self.run(&["run", "-n", lane, "--", "/usr/bin/python3", "-c", script]).expect_code(0)
    }

    /// A Python script outside, in the project.
    pub(crate) fn host_python(&self, script: &str) -> Ran {
        self.env.host(&self.project, "python3", &["-c", script])
    }

    /// Paths of the changes of a lane, as `kind path`.
    pub(crate) fn changes(&self, lane: &str) -> Vec<String> {
        let diff = self.json(&["diff", lane]);
        let files = diff["files"].as_array().unwrap();
        files.iter().map(|file| format!("{} {}", word(&file["kind"]), word(&file["path"]))).collect()
    }

    /// Drift that `diff` tells, as `what path`.
    pub(crate) fn drift(&self, lane: &str) -> Vec<String> {
        let diff = self.json(&["diff", lane]);
        diff["drift"]
            .as_array()
            .unwrap()
            .iter()
            .map(|at| format!("{} {}", word(&at["what"]), word(&at["path"])))
            .collect()
    }

    /// Keeps everything, every guarded path named.
    pub(crate) fn keep_all(&self, lane: &str) -> Ran {
        self.run(&["keep", lane, "--yes"])
    }

    /// Drops a lane for good.
    pub(crate) fn gone(&self, lane: &str) {
        self.ok(&["discard", lane, "--now", "--yes"]);
    }

    /// Content of a file of the original.
    pub(crate) fn content(&self, path: impl AsRef<Path>) -> Option<Vec<u8>> {
        std::fs::read(self.project.join(path)).ok()
    }

    /// Names in a directory below the state directory.
    pub(crate) fn state_names(&self, below: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.env.state().join(below)).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

/// A JSON string.
pub(crate) fn word(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text"))
}

/// What anybody on the host sees mounted that could be a lane's: of this world or of our making. (The rest of
/// the table is other tests' images, which come and go meanwhile.)
pub(crate) fn host_mounts(env: &TestEnv) -> Vec<String> {
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let root = env.root().to_str().unwrap();
    let ours = |line: &&str| line.contains(root) || line.contains("lanekeeper") || line.contains(" lane ");
    table.lines().filter(ours).map(str::to_owned).collect()
}
