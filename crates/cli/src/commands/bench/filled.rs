//! A lane at rest that holds many small files, in a place of its own, with what is done to the same files without a lane.
//!
//! Invariant: nothing is deleted before the benchmark ends. A filesystem that has just deleted many files makes
//! new ones slowly for a while, which would flatter whoever is compared with a copy.

use std::cell::Cell;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use super::ground::Ground;
use super::process::{self, Job, Outcome, Trouble};

/// The lane's name.
pub(crate) const LANE: &str = "bench";

/// A lane at rest, with its own project, state directory and store.
#[derive(Debug)]
pub(crate) struct Filled<'g> {
    pub(crate) ground: &'g Ground,
    dir: PathBuf,
    project: PathBuf,
    state: PathBuf,
    /// The layer with everything that the lane holds.
    pub(crate) upper: PathBuf,
    files: usize,
    copies: Cell<usize>,
    texts: Cell<u64>,
}

impl Filled<'_> {
    /// Makes the lane with `files` new files of 2 KiB of text each, no two alike, all on disk.
    pub(crate) fn new<'g>(ground: &'g Ground, name: &str, files: usize) -> Outcome<Filled<'g>> {
        let dir = ground.scratch().join(name);
        let (project, state) = (dir.join("project"), dir.join("state"));
        fs::create_dir(&dir)?;
        fs::create_dir(&project)?;
        fs::DirBuilder::new().mode(0o700).create(&state)?;
        fs::write(project.join("README"), b"A project.\n")?;
        let run = ["run", "-n", LANE, "--strategy", "overlay", "--checkpoints", "none", "--", "true"];
        ground.lane(&project, run).env("LANE_STATE", &state).run()?;
        let lane = fs::read_dir(state.join("lanes"))?.flatten().next();
        let upper = lane.map(|lane| lane.path().join("0.u")).filter(|upper| upper.is_dir());
        let upper = upper
            .ok_or_else(|| Trouble::Failed("the layer of the lane is not beside its state".to_owned()))?;
        let filled =
            Filled { ground, dir, project, state, upper, files, copies: Cell::new(0), texts: Cell::new(1) };
        for number in 0..files {
            let at = filled.file(number);
            if number % PER_DIRECTORY == 0 {
                fs::create_dir(at.parent().unwrap_or(&filled.upper))?;
            }
            fs::write(at, filled.text())?;
        }
        filled.settle()?;
        Ok(filled)
    }

    /// `lane` in the project.
    pub(crate) fn lane<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Job {
        self.ground.lane(&self.project, args).env("LANE_STATE", &self.state)
    }

    /// `lane snap`.
    pub(crate) fn snap(&self) -> Job {
        self.lane(["snap", LANE])
    }

    /// Takes a snapshot and gives its id.
    pub(crate) fn snapshot(&self) -> Outcome<String> {
        Ok(self.snap().run()?.out.trim().to_owned())
    }

    /// Rewrites `count` files in place, far from one another, with texts that nobody has seen. `shift` picks others.
    pub(crate) fn change(&self, count: usize, shift: usize) -> Outcome<()> {
        for n in 0..count {
            fs::write(self.file((n * self.files / count + shift) % self.files), self.text())?;
        }
        Ok(())
    }

    /// Brings to the disk what was written, so that no side of a comparison does it for another.
    pub(crate) fn settle(&self) -> Outcome<()> {
        Job::new("sync", &self.dir).args(["-f", "."]).run().map(drop)
    }

    /// The last snapshot must hold every file.
    pub(crate) fn holds(&self, files: usize) -> Outcome<()> {
        // The top counts too.
        let wanted = files + files.div_ceil(PER_DIRECTORY) + 1;
        let said = self.lane(["log", LANE, "--json"]).run()?.out;
        let log: serde_json::Value =
            serde_json::from_str(&said).map_err(|error| Trouble::Failed(format!("log --json: {error}")))?;
        match log["snapshots"][0]["entries"].as_u64() {
            Some(entries) if entries == wanted as u64 => Ok(()),
            other => {
                Err(Trouble::Failed(format!("the snapshot holds {other:?} entries instead of {wanted}")))
            }
        }
    }

    /// The project.
    pub(crate) fn project(&self) -> &Path {
        &self.project
    }

    /// The state directory.
    pub(crate) fn state(&self) -> &Path {
        &self.state
    }

    /// The store.
    pub(crate) fn store(&self) -> PathBuf {
        self.state.join("store")
    }

    /// A copy of everything that the lane holds, which stays: cloned where files are cloned. In milliseconds.
    pub(crate) fn copy(&self) -> Outcome<f64> {
        let number = self.copies.replace(self.copies.get() + 1);
        let to = self.dir.join(format!("copy-{number}"));
        let how: &[&str] = if self.ground.clones() { &["-a", "--reflink=always"] } else { &["-r"] };
        Job::new("cp", &self.dir).args(how).args([&self.upper, &to]).time()
    }

    /// A repository beside the lane whose work tree is what the lane holds, as tools keep one for their checkpoints.
    pub(crate) fn shadow(&self) -> Outcome<Job> {
        process::program("git")?;
        let git = |script: &str| {
            self.ground
                .shell(&self.upper, script)
                .env("GIT_DIR", self.dir.join("shadow"))
                .env("GIT_WORK_TREE", &self.upper)
                .env("GIT_CONFIG_GLOBAL", "/dev/null")
                .env("GIT_CONFIG_NOSYSTEM", "1")
        };
        // No cleaning in the background of a round.
        git("git init -q && git config user.name bench && git config user.email bench@localhost && git config gc.auto 0")
            .run()?;
        Ok(git("git add -A && git commit -q -m checkpoint"))
    }

    /// A file of the lane.
    pub(crate) fn file(&self, number: usize) -> PathBuf {
        self.upper.join(self.name(number))
    }

    /// Its path below the project.
    pub(crate) fn name(&self, number: usize) -> String {
        format!("d{:04}/f{number:06}.txt", number / PER_DIRECTORY)
    }

    /// 2 KiB of words and numbers.
    fn text(&self) -> String {
        let seed = self.texts.replace(self.texts.get() + 1);
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut text = String::with_capacity(2100);
        while text.len() < 2048 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let _ = writeln!(
                text,
                "let {}_{:x} = {};",
                WORDS[state as usize % WORDS.len()],
                state >> 40,
                state >> 52
            );
        }
        text.truncate(2048);
        text
    }
}

const PER_DIRECTORY: usize = 50;
const WORDS: [&str; 8] = ["value", "index", "buffer", "length", "entry", "path", "state", "result"];

/// A file of `size` bytes in which nothing repeats, on disk.
pub(crate) fn large_file(at: &Path, size: u64) -> Outcome<()> {
    let mut file = fs::File::create(at)?;
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut block = vec![0_u8; 1 << 20];
    for _ in 0..size >> 20 {
        for word in block.chunks_exact_mut(8) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            word.copy_from_slice(&state.to_le_bytes());
        }
        file.write_all(&block)?;
    }
    Ok(file.sync_all()?)
}
