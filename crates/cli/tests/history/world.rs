//! [`World`]: one project of one person and the lanes of one strategy over it, used through `lane` alone.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use testkit::{Ran, Running, TestEnv, Who};

/// How long a thing that happens at once may take on a busy machine.
pub(crate) const SOON: Duration = Duration::from_secs(60);

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
    /// Where the state is, if not where it usually is.
    pub(crate) state: Option<PathBuf>,
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

/// Does `test` once: where person and strategy make no difference.
pub(crate) fn once(test: impl Fn(&World)) {
    test(&World::git(fresh(Who::User), Made::Overlay));
}

/// An empty world.
pub(crate) fn fresh(who: Who) -> TestEnv {
    TestEnv::new(env!("CARGO_BIN_EXE_lane"), who)
}

impl World {
    /// A small git project in `env`.
    pub(crate) fn git(env: TestEnv, made: Made) -> World {
        let project = env.make_git("app");
        World { env, project, made, state: None }
    }

    /// A project that is there.
    pub(crate) fn over(env: TestEnv, project: PathBuf, made: Made) -> World {
        World { env, project, made, state: None }
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

    /// Runs `lane --json` in the project; the document and the exit code.
    pub(crate) fn told(&self, args: &[&str]) -> (Value, i32) {
        let mut all = args.to_vec();
        all.push("--json");
        let ran = self.run(&all);
        let told = serde_json::from_slice(&ran.stdout).unwrap_or_else(|error| panic!("{error} in {ran}"));
        (told, ran.code.unwrap_or(-1))
    }

    /// Starts `lane` in the project.
    pub(crate) fn start(&self, args: &[&str]) -> Running {
        Running::start(self.env.lane(&self.project, args))
    }

    /// Makes a lane of this strategy.
    pub(crate) fn lane(&self, name: &str) {
        self.ok(&["new", name, "--strategy", self.made.word()]);
    }

    /// A shell script in a lane that is there, which must succeed; no snapshot is taken by itself.
    pub(crate) fn sh(&self, lane: &str, script: &str) -> Ran {
        self.run(&["run", "-q", "-n", lane, "--checkpoints", "none", "--", "sh", "-ec", script])
            .expect_code(0)
    }

    /// The same in Python.
    pub(crate) fn python(&self, lane: &str, script: &str) -> Ran {
        testkit::require::program("python3");
        let args = ["run", "-q", "-n", lane, "--checkpoints", "none", "--", "/usr/bin/python3", "-c", script];
        self.run(&args).expect_code(0)
    }

    /// The same, with the snapshots that come by themselves.
    pub(crate) fn watched(&self, lane: &str, script: &str) -> Ran {
        self.run(&["run", "-q", "-n", lane, "--", "sh", "-ec", script]).expect_code(0)
    }

    /// Takes a snapshot; its whole id.
    pub(crate) fn snap(&self, lane: &str) -> String {
        word(&self.json(&["snap", lane])["id"]).to_owned()
    }

    /// Goes back to a snapshot, whatever goes with it.
    pub(crate) fn restore(&self, lane: &str, id: &str) {
        self.ok(&["restore", lane, id, "--yes"]);
    }

    /// Ids of every snapshot that `log` lists, the newest first.
    pub(crate) fn ids(&self, lane: &str) -> Vec<String> {
        let log = self.json(&["log", lane, "--all"]);
        log["snapshots"].as_array().unwrap().iter().map(|one| word(&one["id"]).to_owned()).collect()
    }

    /// The state directory.
    pub(crate) fn state(&self) -> PathBuf {
        self.state.clone().unwrap_or_else(|| self.env.state())
    }

    /// The store in the state directory.
    pub(crate) fn store(&self) -> PathBuf {
        self.state().join("store")
    }

    /// The packs of a store, the largest first.
    pub(crate) fn packs(&self) -> Vec<PathBuf> {
        let mut packs: Vec<(u64, PathBuf)> = files(&self.store().join("packs"));
        packs.sort_by_key(|(size, _)| std::cmp::Reverse(*size));
        packs.into_iter().map(|(_, path)| path).collect()
    }

    /// Bytes of the packs.
    pub(crate) fn stored(&self) -> u64 {
        files(&self.store().join("packs")).iter().map(|(size, _)| size).sum()
    }

    /// The test is red unless every snapshot of every lane is whole.
    pub(crate) fn assert_whole(&self, when: &str) {
        let (told, code) = self.told(&["fsck"]);
        assert!(code == 0 && told["clean"] == true, "{when}: {told:#}");
    }

    /// Drops a lane for good.
    pub(crate) fn gone(&self, lane: &str) {
        self.ok(&["discard", lane, "--now", "--yes"]);
    }
}

fn files(dir: &Path) -> Vec<(u64, PathBuf)> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|entry| (entry.metadata().unwrap().len(), entry.path())).collect()
}

/// A JSON string.
pub(crate) fn word(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text"))
}
