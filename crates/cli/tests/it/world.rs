//! [`World`]: one project of one person, with lanes of one strategy whose layers can be written by hand.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::Value;
use testkit::{Ran, TestEnv, Who};

/// How lanes are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Made {
    Overlay,
    Copy,
}

/// A project and its lanes.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) env: TestEnv,
    pub(crate) project: PathBuf,
    pub(crate) made: Made,
}

/// Does `test` for everybody that this process can be, over every strategy.
pub(crate) fn each(test: impl Fn(&World)) {
    for who in Who::all() {
        for made in [Made::Overlay, Made::Copy] {
            test(&World::new(who, made));
        }
    }
}

/// Does `test` once: where person and strategy make no difference.
pub(crate) fn once(test: impl Fn(&World)) {
    test(&World::new(Who::User, Made::Overlay));
}

impl World {
    /// One for this person and strategy.
    pub(crate) fn of(who: Who, made: Made) -> World {
        World::new(who, made)
    }

    fn new(who: Who, made: Made) -> World {
        let env = TestEnv::new(env!("CARGO_BIN_EXE_lane"), who);
        let project = env.make_git("app");
        World { env, project, made }
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

    /// Makes a lane.
    pub(crate) fn lane(&self, name: &str) {
        let strategy = match self.made {
            Made::Overlay => "overlay",
            Made::Copy => "copy",
        };
        self.ok(&["new", name, "--strategy", strategy]);
    }

    /// The directory that holds what the lane wrote.
    pub(crate) fn layer(&self, name: &str) -> PathBuf {
        let shown = self.json(&["show", name]);
        let home = Path::new(shown["lane"]["dir"].as_str().expect("a directory"));
        // Layers that stand elsewhere are found by a link.
        let dir = fs::canonicalize(home.join("0.at")).unwrap_or_else(|_| home.to_owned());
        let layer = dir.join(if self.made == Made::Overlay { "0.u" } else { "0.c" });
        assert!(layer.is_dir(), "no layer at {}", layer.display());
        layer
    }

    /// Makes the directories above `path` in the lane as the kernel would: like those of the origin.
    fn parents(&self, layer: &Path, path: &Path) {
        let mut inner = PathBuf::new();
        for part in path.parent().into_iter().flat_map(Path::components) {
            inner.push(part);
            if layer.join(&inner).symlink_metadata().is_err() {
                self.env.mkdir(&layer.join(&inner));
                if let Ok(meta) = fs::metadata(self.project.join(&inner)) {
                    self.env.chmod(&layer.join(&inner), meta.permissions().mode() & 0o7777);
                }
            }
        }
    }

    /// Writes a file in the lane, with the mode that it has in the origin.
    pub(crate) fn write(&self, lane: &str, path: impl AsRef<OsStr>, bytes: &[u8]) {
        let (layer, path) = (self.layer(lane), Path::new(path.as_ref()));
        self.parents(&layer, path);
        self.env.write(&layer.join(path), bytes);
        if let Ok(meta) = fs::symlink_metadata(self.project.join(path)) {
            self.env.chmod(&layer.join(path), meta.permissions().mode() & 0o7777);
        }
    }

    /// Makes a link in the lane.
    pub(crate) fn link(&self, lane: &str, target: impl AsRef<Path>, path: &str) {
        let layer = self.layer(lane);
        self.parents(&layer, Path::new(path));
        self.env.link(target, &layer.join(path));
    }

    /// Deletes a file of the origin in the lane.
    pub(crate) fn delete(&self, lane: &str, path: &str) {
        let layer = self.layer(lane);
        self.parents(&layer, Path::new(path));
        let place = layer.join(path);
        match self.made {
            Made::Overlay => {
                let kind = rustix::fs::FileType::CharacterDevice;
                rustix::fs::mknodat(rustix::fs::CWD, &place, kind, 0o000.into(), 0).expect("a whiteout");
                self.env.who().own(&place);
            }
            Made::Copy => fs::remove_file(&place).expect("removed"),
        }
    }

    /// Content of a file in the origin; `None` where there is none.
    pub(crate) fn content(&self, path: impl AsRef<OsStr>) -> Option<Vec<u8>> {
        fs::read(self.project.join(Path::new(path.as_ref()))).ok()
    }
}

/// A name of any bytes.
pub(crate) fn raw(bytes: &[u8]) -> &OsStr {
    OsStr::from_bytes(bytes)
}
