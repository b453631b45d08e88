//! The suite `tax`: what it costs to work inside a lane, against the same work outside in the same rounds.
//!
//! Work outside and work inside have a project of their own each, made alike: a native build would change
//! the files under the lane.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::ground::Ground;
use super::process::{self, Job, Outcome, Trouble};
use super::row::{Leg, Pace, Promise, Rounds, Row, Unit, paired};

/// The ground with the projects that rows share, made when the first row asks.
#[derive(Debug)]
pub(crate) struct Tax<'g> {
    pub(crate) ground: &'g Ground,
    rust: OnceCell<Outcome<Pair>>,
    js: OnceCell<Outcome<Pair>>,
    first_build: OnceCell<Outcome<Rounds>>,
    later_build: OnceCell<Outcome<Rounds>>,
    later_status: OnceCell<Outcome<Rounds>>,
}

/// Two projects made alike.
#[derive(Debug, Clone)]
struct Pair {
    native: PathBuf,
    lane: PathBuf,
}

/// Measures one row.
type Measure = fn(&Tax<'_>, &Promise, Option<usize>) -> Outcome<Row>;

/// The rows: name, words, target on a filesystem that copies, on one that clones, and the way to measure.
pub(crate) const ROWS: [(&str, &str, f64, f64, Measure); 11] = [
    ("noop", "crates compiled by a build of an unchanged project", 0.0, 0.0, noop),
    ("build-first", "cargo build after touching a file, fresh lane", 1.20, 1.10, build_first),
    ("build-bare", "the same against a bare overlay mount", 1.03, 1.03, build_bare),
    ("build-later", "cargo build after touching a file, live lane", 1.02, 1.02, build_later),
    ("build-later-bare", "the same against a bare overlay that stays mounted", 1.03, 1.03, build_later_bare),
    ("build-full", "cargo build from nothing", 1.05, 1.05, build_full),
    ("tsc", "tsc --noEmit, fresh lane", 1.05, 1.05, tsc),
    ("npm-ci", "npm ci, fresh lane", 1.05, 1.05, npm_ci),
    ("status-first", "git status of 80,000 files, fresh lane", 3.5, 3.5, status_first),
    ("status-later", "git status of 80,000 files, live lane", 1.15, 1.15, status_later),
    (
        "status-later-bare",
        "the same against a bare overlay that stays mounted",
        1.03,
        1.03,
        status_later_bare,
    ),
];

const TOUCH_AND_BUILD: &str = "touch crates/core/main.rs && exec cargo build --offline -q";

impl<'g> Tax<'g> {
    pub(crate) fn new(ground: &'g Ground) -> Tax<'g> {
        Tax {
            ground,
            rust: OnceCell::new(),
            js: OnceCell::new(),
            first_build: OnceCell::new(),
            later_build: OnceCell::new(),
            later_status: OnceCell::new(),
        }
    }

    /// Two warm copies of the Rust corpus. A build belongs to its path, so each is built where it stands.
    fn rust(&self) -> Outcome<Pair> {
        self.rust
            .get_or_init(|| {
                self.pair("rust", |at| {
                    let build = || self.ground.shell(at, TOUCH_AND_BUILD).run();
                    process::program("cargo")?;
                    // Twice, so that every fingerprint has settled.
                    build().and_then(|_| build()).map(|_| ())
                })
            })
            .clone()
    }

    /// Two copies of the Node corpus, their dependencies installed through one warm cache.
    fn js(&self) -> Outcome<Pair> {
        self.js.get_or_init(|| self.pair("js", |at| self.npm(at, self.cache()).run().map(|_| ()))).clone()
    }

    fn cache(&self) -> PathBuf {
        self.ground.scratch().join("npm-cache")
    }

    fn npm(&self, at: &Path, cache: PathBuf) -> Job {
        Job::new("npm", at).args(NPM_CI).env("npm_config_cache", cache)
    }

    /// What is in git of a corpus, twice, each made ready by `warm`.
    fn pair(&self, corpus: &str, warm: impl Fn(&Path) -> Outcome<()>) -> Outcome<Pair> {
        let from = self.ground.corpus(corpus)?;
        let top = self.ground.scratch().join(corpus);
        let pair = Pair { native: top.join("native"), lane: top.join("lane") };
        std::fs::create_dir(&top)?;
        for at in [&pair.native, &pair.lane] {
            let git = process::program("git")?;
            Job::new(git, &top).args(["clone", "-q", "--no-hardlinks"]).args([&from, at]).run()?;
            warm(at)?;
        }
        Ok(pair)
    }

    /// Rounds of one touched file built: in a fresh lane, outside, and in a fresh bare overlay.
    fn first_build(&self, wanted: Option<usize>) -> Outcome<&Rounds> {
        let measured = self.first_build.get_or_init(|| {
            let pair = self.rust()?;
            let inside = self.ground.lane(&pair.lane, ["run", "--rm", "--", "sh", "-c", TOUCH_AND_BUILD]);
            let outside = self.ground.shell(&pair.native, TOUCH_AND_BUILD);
            let bare = Bare::new(self.ground)?;
            paired(
                pace(wanted, 15, 300),
                &mut [&mut |_| inside.time(), &mut |_| outside.time(), &mut |_| {
                    bare.time(&pair.lane, TOUCH_AND_BUILD)
                }],
            )
        });
        measured.as_ref().map_err(Clone::clone)
    }

    /// Rounds of one touched file built, second and later: in a live lane, outside, in a bare overlay that stays.
    fn later_build(&self, wanted: Option<usize>) -> Outcome<&Rounds> {
        let measured = self.later_build.get_or_init(|| {
            let pair = self.rust()?;
            let live = self.ground.live(&pair.lane, "bench-build")?;
            let inside = live.exec(["sh", "-c", TOUCH_AND_BUILD]);
            let outside = self.ground.shell(&pair.native, TOUCH_AND_BUILD);
            let standing = Bare::new(self.ground)?.standing(&pair.lane)?;
            let script = format!("cd '{}' && {TOUCH_AND_BUILD}", pair.lane.display());
            let bare = standing.exec(&["sh", "-c", &script])?;
            // The first one copies up; it is another row.
            inside.run()?;
            bare.run()?;
            let mut legs: [Leg<'_>; 3] =
                [&mut |_| inside.time(), &mut |_| outside.time(), &mut |_| bare.time()];
            paired(pace(wanted, 15, 300), &mut legs)
        });
        measured.as_ref().map_err(Clone::clone)
    }

    /// Rounds of `git status`, second and later: in a live lane, outside, in a bare overlay that stays.
    fn later_status(&self, wanted: Option<usize>) -> Outcome<&Rounds> {
        let measured = self.later_status.get_or_init(|| {
            let git = process::program("git")?;
            let project = self.ground.corpus("linux")?;
            let live = self.ground.live(&project, "bench-status")?;
            let inside = live.exec(["git", "status", "--porcelain"]);
            let outside = Job::new(git, &project).args(["status", "--porcelain"]);
            let standing = Bare::new(self.ground)?.standing(&project)?;
            let at = project.to_string_lossy();
            let bare = standing.exec(&["git", "-C", &at, "status", "--porcelain"])?;
            inside.run()?;
            bare.run()?;
            let mut legs: [Leg<'_>; 3] =
                [&mut |_| inside.time(), &mut |_| outside.time(), &mut |_| bare.time()];
            paired(pace(wanted, 31, 180), &mut legs)
        });
        measured.as_ref().map_err(Clone::clone)
    }
}

const NPM_CI: [&str; 7] = [
    "ci",
    "--ignore-scripts",
    "--no-audit",
    "--no-fund",
    "--prefer-offline",
    "--no-update-notifier",
    "--silent",
];

fn pace(wanted: Option<usize>, rounds: usize, secs: u64) -> Pace {
    let rounds = wanted.unwrap_or(rounds);
    Pace { rounds, limit: Duration::from_secs(secs), warm_up: rounds > 5 }
}

/// A bare overlay mount with the options that a lane uses, in namespaces of its own: no other wall, no view.
pub(super) struct Bare<'g> {
    ground: &'g Ground,
    unshare: PathBuf,
}

impl<'g> Bare<'g> {
    pub(super) fn new(ground: &'g Ground) -> Outcome<Bare<'g>> {
        process::program("mount")?;
        Ok(Bare { ground, unshare: process::program("unshare")? })
    }

    /// Runs a script in a fresh mount of its own.
    fn time(&self, project: &Path, script: &str) -> Outcome<f64> {
        let layers = self.layers()?;
        let spent = self.mounted(project, &layers, script).time();
        self.remove()?;
        spent
    }

    /// The mount, for as long as that is held.
    pub(super) fn standing(&self, project: &Path) -> Outcome<Standing<'g>> {
        let layers = self.layers()?;
        let held = self.mounted(project, &layers, "echo up && exec sleep infinity").hold("up")?;
        Ok(Standing { bare: Bare { ground: self.ground, unshare: self.unshare.clone() }, held: Some(held) })
    }

    fn layers(&self) -> Outcome<PathBuf> {
        let layers = self.ground.scratch().join("bare");
        std::fs::create_dir(&layers)?;
        for name in ["u", "w"] {
            std::fs::create_dir(layers.join(name))?;
        }
        Ok(layers)
    }

    fn mounted(&self, project: &Path, layers: &Path, script: &str) -> Job {
        let is_root = rustix::process::geteuid().is_root();
        let options = if is_root { "volatile,redirect_dir=on,index=on" } else { "volatile,userxattr" };
        let mount = format!(
            "mount -t overlay overlay -o 'lowerdir={project},upperdir={u},workdir={w},{options}' '{project}' && \
             cd '{project}' && {script}",
            project = project.display(),
            u = layers.join("u").display(),
            w = layers.join("w").display(),
        );
        // mount(8) works for uid 0 only, so an ordinary user is mapped to it.
        let namespaces: &[&str] = if is_root { &["-m"] } else { &["-U", "-r", "-m"] };
        Job::new(&self.unshare, project).args(namespaces).args(["sh", "-c", &mount])
    }

    fn remove(&self) -> Outcome<()> {
        // overlayfs leaves a directory of mode 0000 there.
        self.ground.shell(self.ground.scratch(), "chmod -R u+rwx bare/w && rm -rf bare").run().map(|_| ())
    }
}

/// A bare overlay that stays mounted until this is dropped.
pub(super) struct Standing<'g> {
    bare: Bare<'g>,
    held: Option<process::Held>,
}

impl Standing<'_> {
    /// A command in it. It starts in the root directory.
    pub(super) fn exec(&self, command: &[&str]) -> Outcome<Job> {
        let pid = self.held.as_ref().map_or(0, process::Held::pid).to_string();
        let namespaces: &[&str] = if rustix::process::geteuid().is_root() {
            &["-m", "-t"]
        } else {
            &["--preserve-credentials", "-U", "-m", "-t"]
        };
        let nsenter = process::program("nsenter")?;
        Ok(Job::new(nsenter, Path::new("/")).args(namespaces).args([&pid]).args(command))
    }
}

impl Drop for Standing<'_> {
    fn drop(&mut self) {
        drop(self.held.take());
        let _ = self.bare.remove();
    }
}

fn noop(tax: &Tax<'_>, promise: &Promise, _: Option<usize>) -> Outcome<Row> {
    let pair = tax.rust()?;
    let build = ["run", "--rm", "--", "cargo", "build", "--offline", "-v"];
    let said = tax.ground.lane(&pair.lane, build).run()?.err;
    let count = |word: &str| said.lines().filter(|line| line.trim_start().starts_with(word)).count();
    let (compiled, fresh) = (count("Compiling") + count("Dirty"), count("Fresh"));
    if fresh + compiled == 0 {
        return Err(Trouble::Failed(format!("cargo named no crate: {said}")));
    }
    Ok(Row::within(promise, Unit::Count, compiled as f64, 1).note(format!("{fresh} crates are fresh")))
}

fn build_first(tax: &Tax<'_>, promise: &Promise, wanted: Option<usize>) -> Outcome<Row> {
    let rounds = tax.first_build(wanted)?;
    Ok(Row::compared(promise, rounds, "native", Some("bare overlay")))
}

fn build_bare(tax: &Tax<'_>, promise: &Promise, wanted: Option<usize>) -> Outcome<Row> {
    Ok(Row::compared(promise, &turned(tax.first_build(wanted)?), "bare overlay", Some("native")))
}

fn build_later(tax: &Tax<'_>, promise: &Promise, wanted: Option<usize>) -> Outcome<Row> {
    let rounds = tax.later_build(wanted)?;
    Ok(Row::compared(promise, rounds, "native", Some("bare overlay")))
}

fn build_later_bare(tax: &Tax<'_>, promise: &Promise, wanted: Option<usize>) -> Outcome<Row> {
    Ok(Row::compared(promise, &turned(tax.later_build(wanted)?), "bare overlay", Some("native")))
}

/// The same rounds with the bare overlay as the one to compare with, and the outside as the floor.
fn turned(rounds: &Rounds) -> Rounds {
    Rounds(vec![rounds.0[0].clone(), rounds.0[2].clone(), rounds.0[1].clone()])
}

fn build_full(tax: &Tax<'_>, promise: &Promise, wanted: Option<usize>) -> Outcome<Row> {
    let pair = tax.rust()?;
    let build = "exec cargo build --offline -q --target-dir bench-full";
    let outside = || {
        let spent = tax.ground.shell(&pair.native, build).time()?;
        tax.ground.shell(&pair.native, "rm -rf bench-full").run()?;
        Ok(spent)
    };
    let inside = tax.ground.lane(&pair.lane, ["run", "--rm", "--", "sh", "-c", build]);
    let rounds = paired(pace(wanted, 3, 600), &mut [&mut |_| inside.time(), &mut |_| outside()])?;
    Ok(Row::compared(promise, &rounds, "native", None))
}

fn tsc(tax: &Tax<'_>, promise: &Promise, wanted: Option<usize>) -> Outcome<Row> {
    process::program("node")?;
    let project = tax.ground.corpus("js")?;
    let command = ["node", "node_modules/typescript/bin/tsc", "--noEmit"];
    let inside = tax.ground.lane(&project, ["run", "--rm", "--"].into_iter().chain(command));
    let outside = Job::new(command[0], &project).args(&command[1..]);
    let rounds = paired(pace(wanted, 9, 200), &mut [&mut |_| inside.time(), &mut |_| outside.time()])?;
    Ok(Row::compared(promise, &rounds, "native", None))
}

fn npm_ci(tax: &Tax<'_>, promise: &Promise, wanted: Option<usize>) -> Outcome<Row> {
    process::program("npm")?;
    let pair = tax.js()?;
    let cache = tax.cache();
    let shared = cache.to_string_lossy().into_owned();
    let bound = ["run", "--rm", "--bind", shared.as_str(), "--", "npm"];
    let inside = tax.ground.lane(&pair.lane, bound.into_iter().chain(NPM_CI)).env("npm_config_cache", &cache);
    let outside = tax.npm(&pair.native, cache.clone());
    let rounds = paired(pace(wanted, 3, 600), &mut [&mut |_| inside.time(), &mut |_| outside.time()])?;
    Ok(Row::compared(promise, &rounds, "native", None)
        .note("over an installed node_modules, from a warm cache"))
}

fn status_first(tax: &Tax<'_>, promise: &Promise, wanted: Option<usize>) -> Outcome<Row> {
    let git = process::program("git")?;
    let project = tax.ground.corpus("linux")?;
    let inside = tax.ground.lane(&project, ["run", "--rm", "--", "git", "status", "--porcelain"]);
    let outside = Job::new(git, &project).args(["status", "--porcelain"]);
    let rounds = paired(pace(wanted, 15, 120), &mut [&mut |_| inside.time(), &mut |_| outside.time()])?;
    Ok(Row::compared(promise, &rounds, "native", None))
}

fn status_later(tax: &Tax<'_>, promise: &Promise, wanted: Option<usize>) -> Outcome<Row> {
    let rounds = tax.later_status(wanted)?;
    Ok(Row::compared(promise, rounds, "native", Some("bare overlay")))
}

fn status_later_bare(tax: &Tax<'_>, promise: &Promise, wanted: Option<usize>) -> Outcome<Row> {
    Ok(Row::compared(promise, &turned(tax.later_status(wanted)?), "bare overlay", Some("native")))
}
