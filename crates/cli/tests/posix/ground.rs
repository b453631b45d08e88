//! [`Ground`]: a project of one person, its lane of one strategy, and a plain directory of equal content.

use std::fmt;
use std::path::PathBuf;

use testkit::running::Running;
use testkit::{Ran, TestEnv, Who};

/// The interpreter of every program here.
pub(crate) const PYTHON: &str = "/usr/bin/python3";

/// A way in which lanes are made, and for whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Way {
    pub(crate) who: Who,
    pub(crate) strategy: &'static str,
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let who = if self.who == Who::Root { "root" } else { "user" };
        write!(f, "{} as {who}", self.strategy)
    }
}

/// Every way that this process can try.
pub(crate) fn ways() -> Vec<Way> {
    let all = Who::all();
    all.iter().flat_map(|who| ["overlay", "copy"].map(|strategy| Way { who: *who, strategy })).collect()
}

/// An overlay of an ordinary user: where directory renames are carried out by us.
pub(crate) fn user_overlay() -> Way {
    Way { who: Who::User, strategy: "overlay" }
}

/// A project with its lane `l`.
#[derive(Debug)]
pub(crate) struct Ground {
    pub(crate) env: TestEnv,
    pub(crate) way: Way,
    pub(crate) project: PathBuf,
    pub(crate) plain: PathBuf,
}

impl Ground {
    /// Empty directories, no lane yet.
    pub(crate) fn new(way: Way) -> Ground {
        let env = TestEnv::new(env!("CARGO_BIN_EXE_lane"), way.who);
        let (project, plain) = (env.make_dir("app"), env.make_dir("plain"));
        Ground { env, way, project, plain }
    }

    /// A project with what `program`, run on the host, makes in it; the same in the plain directory.
    pub(crate) fn with(way: Way, program: &str) -> Ground {
        let ground = Ground::new(way);
        for dir in [&ground.project, &ground.plain] {
            ground.env.host(dir, PYTHON, &["-c", program]);
        }
        ground.make_lane();
        ground
    }

    /// Makes the lane.
    pub(crate) fn make_lane(&self) {
        self.env.ok(&self.project, &["new", "l", "--strategy", self.way.strategy]);
    }

    /// Runs a program in the lane, whatever comes of it.
    pub(crate) fn try_inside(&self, program: &str, args: &[&str]) -> Ran {
        let all = [&["run", "-n", "l", "-q", "--", PYTHON, "-c", program], args].concat();
        self.env.run(&self.project, &all)
    }

    /// Runs a program in the lane; it must exit with 0.
    pub(crate) fn inside(&self, program: &str) -> Ran {
        self.try_inside(program, &[]).expect_code(0)
    }

    /// Starts a program in the lane and goes on.
    pub(crate) fn start(&self, program: &str) -> Running {
        Running::start(self.env.lane(&self.project, &["run", "-n", "l", "-q", "--", PYTHON, "-c", program]))
    }

    /// Runs a program in the plain directory.
    pub(crate) fn natively(&self, program: &str) -> Ran {
        self.env.host(&self.plain, PYTHON, &["-c", program])
    }

    /// The lane's own directory on the host.
    pub(crate) fn home(&self) -> PathBuf {
        let shown = self.env.json(&self.project, &["show", "l"]);
        PathBuf::from(shown["lane"]["dir"].as_str().expect("a directory"))
    }

    /// What a user sees in the lane: a line for each entry with type, mode, content, time, attributes.
    pub(crate) fn tree(&self) -> String {
        self.inside(LISTING).out()
    }

    /// The same of the plain directory.
    pub(crate) fn plain_tree(&self) -> String {
        self.natively(LISTING).out()
    }
}

/// Lists the working directory; times are told where they are a fixture's, which is old.
pub(crate) const LISTING: &str = r#"
import os, stat, hashlib
def look(path, name):
    info = os.lstat(path)
    more = b""
    if stat.S_ISREG(info.st_mode):
        with open(path, "rb") as file: more = hashlib.sha256(file.read()).hexdigest().encode()
    elif stat.S_ISLNK(info.st_mode): more = os.readlink(path)
    attrs = [] if stat.S_ISLNK(info.st_mode) else [(a, os.getxattr(path, a)) for a in sorted(os.listxattr(path)) if a.startswith("user.")]
    when = info.st_mtime_ns if info.st_mtime_ns < 1_500_000_000_000_000_000 else "now"
    print(name, oct(info.st_mode), when, more, attrs)
    if stat.S_ISDIR(info.st_mode):
        for below in sorted(os.listdir(path)):
            look(os.path.join(path, below), os.path.join(name, below))
for name in sorted(os.listdir(b".")): look(name, name)
"#;
