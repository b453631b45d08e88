//! Where a benchmark stands: the corpora, a scratch directory of its own with a state directory in it, and
//! the lanes that it leaves live for a while.
//!
//! Invariant: corpora are only read; everything else that a benchmark makes lies in its scratch directory,
//! which is removed at the end.

use std::cell::OnceCell;
use std::ffi::OsString;
use std::fs;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::process::{self, Job, Outcome, Trouble};

/// The ground of one suite on one filesystem.
#[derive(Debug)]
pub(crate) struct Ground {
    lane: PathBuf,
    corpora: PathBuf,
    scratch: PathBuf,
    clones: OnceCell<bool>,
}

/// A lane that is live until this is dropped, and then gone.
#[derive(Debug)]
pub(crate) struct Live<'g> {
    ground: &'g Ground,
    project: PathBuf,
    name: String,
    /// Its supervisor.
    pub(crate) supervisor: i32,
}

impl Ground {
    /// Makes a scratch directory in `above`.
    pub(crate) fn new(corpora: &Path, above: &Path) -> Outcome<Ground> {
        let lane = std::env::current_exe()?;
        let above = fs::canonicalize(above)
            .map_err(|error| Trouble::Failed(format!("{}: {error}", above.display())))?;
        let scratch = above.join(format!("lane-bench-{}", std::process::id()));
        fs::DirBuilder::new()
            .mode(0o755)
            .create(&scratch)
            .map_err(|error| Trouble::Failed(format!("{}: {error}", scratch.display())))?;
        fs::DirBuilder::new().mode(0o700).create(scratch.join("state"))?;
        Ok(Ground { lane, corpora: corpora.to_path_buf(), scratch, clones: OnceCell::new() })
    }

    /// The directory for what is made.
    pub(crate) fn scratch(&self) -> &Path {
        &self.scratch
    }

    /// Where the corpora are.
    pub(crate) fn corpora(&self) -> &Path {
        &self.corpora
    }

    /// The state directory of the benchmark's lanes.
    pub(crate) fn state(&self) -> PathBuf {
        self.scratch.join("state")
    }

    /// A corpus of the caller's own.
    pub(crate) fn corpus(&self, name: &str) -> Outcome<PathBuf> {
        let get = format!("scripts/corpora {name} (with LANE_CORPORA={})", self.corpora.display());
        let missing = |what: String| Trouble::Missing { what, get: get.clone() };
        let at = self.corpora.join(name);
        let is_made = self.corpora.join(format!(".{name}.done")).symlink_metadata().is_ok();
        let Some(meta) = fs::metadata(&at).ok().filter(|_| is_made) else {
            return Err(missing(format!("the corpus {name}")));
        };
        if meta.uid() != rustix::process::geteuid().as_raw() {
            return Err(missing(format!("the corpus {name} as a project of the caller's own")));
        }
        Ok(fs::canonicalize(at)?)
    }

    /// This very binary, started in a project, with the benchmark's state directory.
    pub(crate) fn lane<'a>(&self, project: &Path, args: impl IntoIterator<Item = &'a str>) -> Job {
        Job::new(&self.lane, project).args(args).env("LANE_STATE", self.state())
    }

    /// A shell command, started in a directory.
    pub(crate) fn shell(&self, dir: &Path, script: &str) -> Job {
        Job::new("sh", dir).args(["-c", script])
    }

    /// Makes a lane that stays live.
    pub(crate) fn live(&self, project: &Path, name: &str) -> Outcome<Live<'_>> {
        self.lane(project, ["run", "-d", "-n", name, "--", "sleep", "infinity"]).run()?;
        let mut live =
            Live { ground: self, project: project.to_path_buf(), name: name.to_owned(), supervisor: 0 };
        let said = self.lane(project, ["show", name, "--json"]).run()?.out;
        let shown: serde_json::Value =
            serde_json::from_str(&said).map_err(|error| Trouble::Failed(format!("show --json: {error}")))?;
        let pid = shown["runs"].as_array().and_then(|runs| runs.iter().find_map(|run| run["pid"].as_i64()));
        live.supervisor = pid
            .and_then(|pid| i32::try_from(pid).ok())
            .ok_or_else(|| Trouble::Failed(format!("no supervisor is told: {said}")))?;
        Ok(live)
    }

    /// Deletes a lane at once. One that is not there is no trouble.
    pub(crate) fn gone(&self, project: &Path, name: &str) -> Outcome<()> {
        match self.lane(project, ["discard", name, "--now", "--yes"]).run() {
            Err(Trouble::Failed(words)) if words.contains("no lane") => Ok(()),
            other => other.map(|_| ()),
        }
    }

    /// True where the scratch directory's filesystem clones files.
    pub(crate) fn clones(&self) -> bool {
        *self.clones.get_or_init(|| {
            let copy = "head -c 8192 /dev/urandom >clone.a && cp --reflink=always clone.a clone.b";
            self.shell(&self.scratch, copy).run().is_ok()
        })
    }

    /// The name of the scratch directory's filesystem.
    pub(crate) fn filesystem(&self) -> String {
        let said = Job::new("stat", &self.scratch).args(["-f", "-c", "%T", "."]).run();
        said.map_or_else(|_| "?".to_owned(), |said| said.out.trim().replace("ext2/ext3", "ext4"))
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        let (Some(above), Some(name)) = (self.scratch.parent(), self.scratch.file_name()) else { return };
        // What cannot be removed stays under a name that says whose it is.
        if let Ok(above) = fs::File::open(above) {
            let _ = tree::remove::remove_tree(above.as_fd(), name.as_bytes());
        }
    }
}

impl Live<'_> {
    /// A process inside that runs `sleep`, by its number outside.
    pub(crate) fn process(&self) -> Outcome<i32> {
        // `run -d` may answer before the command has its own name.
        for _ in 0..500 {
            if let Some(pid) = process::descendant(self.supervisor, "sleep") {
                return Ok(pid);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Err(Trouble::Failed("the live lane's command is not found in /proc".to_owned()))
    }

    /// `exec` in it.
    pub(crate) fn exec<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Job {
        self.ground.lane(&self.project, ["exec", self.name.as_str(), "--"]).args(args)
    }
}

impl Drop for Live<'_> {
    fn drop(&mut self) {
        let _ = self.ground.lane(&self.project, ["stop", self.name.as_str()]).run();
        let _ = self.ground.gone(&self.project, &self.name);
    }
}

/// Bytes that a tree takes on disk, leaving out one name at its top. What cannot be read counts nothing.
pub(crate) fn on_disk(top: &Path, leave_out: Option<&str>) -> u64 {
    let Ok(entries) = fs::read_dir(top) else { return 0 };
    entries
        .flatten()
        .filter(|entry| leave_out.is_none_or(|name| entry.file_name() != name))
        .filter_map(|entry| entry.path().symlink_metadata().ok().map(|meta| (entry.path(), meta)))
        .map(|(path, meta)| meta.blocks() * 512 + if meta.is_dir() { on_disk(&path, None) } else { 0 })
        .sum()
}

/// Where `scripts/corpora` puts things.
pub(crate) fn default_corpora() -> PathBuf {
    let set =
        |name: &str| std::env::var_os(name).filter(|value: &OsString| !value.is_empty()).map(PathBuf::from);
    match set("LANE_CORPORA") {
        Some(given) => given,
        None if rustix::process::geteuid().is_root() => PathBuf::from("/var/cache/lane-corpora"),
        None => set("HOME").unwrap_or_default().join(".cache/lane-corpora"),
    }
}
