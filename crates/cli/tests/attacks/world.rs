//! [`World`]: one person's project and what lies around it on the host, in a place that a lane shows.

use std::path::PathBuf;
use std::time::Duration;

use testkit::{Ran, Running, TestEnv, Who};

/// How long a thing that happens at once may take on a busy machine.
pub(crate) const SOON: Duration = Duration::from_secs(60);

/// A project, and files beside it that no lane may touch.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) env: TestEnv,
    pub(crate) project: PathBuf,
}

/// Does `test` for everybody that this process can be.
pub(crate) fn everybody(test: impl Fn(&World)) {
    for who in Who::all() {
        test(&World::new(who));
    }
}

impl World {
    pub(crate) fn new(who: Who) -> World {
        // The usual temporary directory is a lane's own inside.
        let place = if testkit::who::is_root() {
            PathBuf::from("/srv")
        } else {
            std::env::var_os("HOME").unwrap().into()
        };
        let env = TestEnv::inside(&place, env!("CARGO_BIN_EXE_lane"), who);
        let project = env.make_git("app");
        env.write(&project.join("README.md"), b"read me\n");
        env.write(&env.root().join("out/secret"), b"PRECIOUS\n");
        env.write(&env.home().join(".ssh/id"), b"PRECIOUS\n");
        env.write(&env.home().join("notes"), b"notes\n");
        World { env, project }
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        Running::start(self.env.lane(&self.project, args)).wait(SOON)
    }

    pub(crate) fn ok(&self, args: &[&str]) -> Ran {
        self.run(args).expect_code(0)
    }

    /// Runs Python in a lane.
    pub(crate) fn python(&self, verb: &[&str], script: &str) -> Ran {
        self.run(&[verb, &["--", "/usr/bin/python3", "-c", script]].concat())
    }
}
