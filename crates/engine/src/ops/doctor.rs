//! `doctor`: tries what lanes need on this machine and on this very filesystem.

use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

use workspace::{Abilities, LayerPlace, MountMode, MountTable, OriginFacts};

use crate::engine::Engine;
use crate::error::Result;
use crate::lane;
use crate::probe;
use crate::recover;

/// What was tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckId {
    /// The version of the kernel.
    Kernel,
    /// The state directory.
    State,
    /// The ledger in it.
    Ledger,
    /// A user namespace of one's own.
    UserNamespace,
    /// Mount, pid, ipc, uts, cgroup and network namespaces.
    Namespaces,
    /// An overlay mount with layers where they would go.
    Overlay,
    /// Copy-on-write copies on the project's filesystem.
    Reflink,
    /// A seccomp filter.
    Seccomp,
    /// Everything at once: the view and the walls of a lane, with nothing run in them.
    View,
    /// The rename listener.
    SeccompNotify,
    /// Landlock.
    Landlock,
    /// What stands below the project.
    Project,
    /// The strategy that a lane would get.
    Strategy,
    /// Lanes that a crash left behind.
    Remnants,
}

/// How it went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It works.
    Ok,
    /// It works with less.
    Degraded,
    /// It does not work.
    Missing,
}

impl Verdict {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Ok => "ok",
            Verdict::Degraded => "degraded",
            Verdict::Missing => "missing",
        }
    }
}

/// One probe and its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// What was tried.
    pub id: CheckId,
    /// How it went.
    pub verdict: Verdict,
    /// What was found.
    pub found: String,
}

/// Which directory to try on.
#[derive(Debug, Clone, Default)]
pub struct DoctorRequest {
    /// A directory of the project.
    pub dir: PathBuf,
}

/// Tries everything.
pub fn doctor(engine: &Engine, request: &DoctorRequest) -> Result<Vec<Check>> {
    let project = engine.project(&request.dir)?;
    let mut checks = vec![kernel_version(), state(engine), ledger(engine)];
    checks.push(tried(CheckId::UserNamespace, probe::user_namespace()?, "made"));
    checks.push(tried(
        CheckId::Namespaces,
        probe::namespaces()?,
        "mount, pid, ipc, uts, cgroup, network made",
    ));
    checks.push(tried(CheckId::Seccomp, probe::seccomp(false)?, "a filter was installed"));
    checks.push(tried(CheckId::SeccompNotify, probe::seccomp(true)?, "a listener was installed"));
    checks.push(tried(CheckId::View, probe::view()?, "a view was built behind every wall"));
    checks.push(landlock());
    checks.extend(of_project(engine, &project.top)?);
    checks.push(remnants(engine)?);
    if kernel::privilege::is_root() {
        // Root makes the other namespaces without it.
        for check in checks.iter_mut().filter(|check| check.id == CheckId::UserNamespace) {
            if check.verdict == Verdict::Missing {
                check.verdict = Verdict::Degraded;
            }
        }
    }
    Ok(checks)
}

fn check(id: CheckId, verdict: Verdict, found: impl Into<String>) -> Check {
    Check { id, verdict, found: found.into() }
}

fn tried(id: CheckId, answer: std::result::Result<(), String>, works: &str) -> Check {
    match answer {
        Ok(()) => check(id, Verdict::Ok, works),
        Err(why) => {
            check(id, if id == CheckId::SeccompNotify { Verdict::Degraded } else { Verdict::Missing }, why)
        }
    }
}

fn kernel_version() -> Check {
    let uname = rustix::system::uname();
    let release = uname.release().to_string_lossy().into_owned();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse::<u32>().unwrap_or(0));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    // 5.11: overlayfs in a user namespace. 5.6: openat2 and the pidfd calls that everything stands on.
    let verdict = match version {
        version if version >= (5, 11) => Verdict::Ok,
        version if version >= (5, 6) => Verdict::Degraded,
        _ => Verdict::Missing,
    };
    check(CheckId::Kernel, verdict, format!("Linux {release}"))
}

fn state(engine: &Engine) -> Check {
    let path = engine.state().path();
    let shown = path.display();
    let name = format!(".probe-{}", crate::clock::new_id());
    match kernel::open::root_dir(path) {
        Ok(dir) => {
            let wrote = kernel::publish::write_file(&dir, name.as_bytes(), b"probe", 0o600);
            let _ = kernel::node::unlink_at(&dir, name.as_bytes());
            match wrote {
                Ok(()) => check(CheckId::State, Verdict::Ok, format!("{shown}, {}", free(&dir))),
                Err(error) => check(CheckId::State, Verdict::Missing, format!("{shown}: {error}")),
            }
        }
        Err(error) => check(CheckId::State, Verdict::Missing, format!("{shown}: {error}")),
    }
}

fn free(dir: &std::os::fd::OwnedFd) -> String {
    rustix::fs::fstatvfs(dir).map_or_else(
        |error| error.to_string(),
        |stat| format!("{} MiB free", stat.f_bavail.saturating_mul(stat.f_frsize) >> 20),
    )
}

fn ledger(engine: &Engine) -> Check {
    match engine.ledger().and_then(|ledger| Ok(ledger.check()?)) {
        Ok(()) => check(CheckId::Ledger, Verdict::Ok, "every page is sound"),
        Err(error) => check(CheckId::Ledger, Verdict::Missing, error.with_causes()),
    }
}

fn landlock() -> Check {
    let modules = std::fs::read_to_string("/sys/kernel/security/lsm").unwrap_or_default();
    if modules.split(',').any(|name| name.trim() == "landlock") {
        return check(CheckId::Landlock, Verdict::Ok, "active");
    }
    let found = if modules.is_empty() { "the list of security modules cannot be read" } else { "not active" };
    check(CheckId::Landlock, Verdict::Degraded, found)
}

/// What can be told only on the project's own filesystem.
fn of_project(engine: &Engine, top: &Path) -> Result<Vec<Check>> {
    let facts = OriginFacts::gather(top, &MountTable::load()?)?;
    let placed = workspace::place(&facts, engine.state().path(), None)?;
    let layers = match &placed.place {
        LayerPlace::InState => engine.state().path(),
        LayerPlace::At(dir) if dir.is_dir() => dir,
        LayerPlace::At(dir) => dir.parent().unwrap_or(dir),
    };
    let mode = lane::mount_mode();
    let answer = probe::overlay(top, layers, mode)?;
    let who = if mode == MountMode::Root { "as root" } else { "as an ordinary user" };
    let works = format!("mounted {who}, over {} with layers in {}", facts.fs_type, layers.display());
    let mut checks = vec![match &answer {
        Ok(()) => check(CheckId::Overlay, Verdict::Ok, works),
        Err(why) => {
            check(CheckId::Overlay, Verdict::Degraded, format!("{why} ({who}, over {})", facts.fs_type))
        }
    }];
    let clones = placed.reflinks.unwrap_or_else(|| {
        kernel::open::root_dir(layers).is_ok_and(|dir| workspace::layer_place::clones_files(dir.as_fd()))
    });
    checks.push(match clones {
        true => {
            check(CheckId::Reflink, Verdict::Ok, format!("{} shares blocks between copies", facts.fs_type))
        }
        false => check(CheckId::Reflink, Verdict::Degraded, format!("{} copies in full", facts.fs_type)),
    });
    checks.push(project_facts(&facts));
    let untried = Err("not tried".to_owned());
    let (overlay_user, overlay_root) =
        if mode == MountMode::Root { (untried, answer) } else { (answer, untried) };
    let can = Abilities { is_root: mode == MountMode::Root, overlay_user, overlay_root, reflink: clones };
    checks.push(match workspace::choose(&facts, &can, None) {
        Ok(choice) => {
            let verdict =
                if choice.strategy == workspace::Strategy::Overlay { Verdict::Ok } else { Verdict::Degraded };
            check(CheckId::Strategy, verdict, format!("{} ({})", choice.strategy.word(), choice.why))
        }
        Err(refusal) => {
            let why: Vec<String> = refusal.reasons.iter().map(ToString::to_string).collect();
            check(CheckId::Strategy, Verdict::Missing, why.join("; "))
        }
    });
    Ok(checks)
}

fn project_facts(facts: &OriginFacts) -> Check {
    let mut found = Vec::new();
    if facts.read_only {
        found.push("it is read-only, so that nothing can be kept".to_owned());
    }
    if !facts.submounts.is_empty() {
        let points: Vec<String> = facts.submounts.iter().map(|at| at.display().to_string()).collect();
        found.push(format!("mounted below it: {}", points.join(", ")));
    }
    if facts.foreign.found() {
        let examples: Vec<String> =
            facts.foreign.examples.iter().map(|at| at.display().to_string()).collect();
        found.push(format!("of other owners: {}", examples.join(", ")));
    }
    if facts.on_overlay {
        found.push("it stands on an overlay itself".to_owned());
    }
    let shown = format!("{} on {}", facts.path.display(), facts.fs_type);
    if found.is_empty() {
        return check(CheckId::Project, Verdict::Ok, shown);
    }
    check(CheckId::Project, Verdict::Degraded, format!("{shown}; {}", found.join("; ")))
}

fn remnants(engine: &Engine) -> Result<Check> {
    let found = recover::remnants(engine)?;
    if found.is_empty() {
        return Ok(check(CheckId::Remnants, Verdict::Ok, "none"));
    }
    let shown: Vec<String> = found.iter().map(|(id, what)| format!("{id}: {what}")).collect();
    Ok(check(CheckId::Remnants, Verdict::Degraded, shown.join("; ")))
}
