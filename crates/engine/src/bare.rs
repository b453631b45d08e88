//! Level `landlock-only`: a copy of the project in the lane's own directory, behind Landlock and the filter, for machines
//! that refuse namespaces.
//!
//! Invariants: nothing is granted below which something lies that is to be absent, because a rule only adds; what the
//! level cannot do and was asked for stops the run.

use std::ffi::OsString;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use kernel::landlock::{Access, Domain};
use kernel::mountspec::MountWhat;
use sandbox::credentials::Credentials;
use sandbox::environ::{self, Wish};
use sandbox::view::HostFacts;
use sandbox::{Command, Mode, Plan, Walls};

use crate::engine::Engine;
use crate::error::{EngineError, Result};
use crate::lane::OpenLane;
use crate::launch::{self, Launch, Wishes, home_dir};
use crate::view::{Level, Strategy};

/// What of the system is read and executed, where it is there.
const SYSTEM: [&str; 11] =
    ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix", "/snap"];
/// Devices; of terminals only the lane's own, which is open already.
const DEVICES: [&str; 6] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];
/// Directories of the lane's own beside the copy.
const OWN: [&str; 3] = ["home", "tmp", "run"];

/// Said before such a run begins: what the level does not do.
pub(crate) const WARNING: &str = "level landlock-only: processes may survive if this run is killed; caches are cold; names, modes and times of your other files \
     are not hidden, and modes, times and attributes of your own are not protected";

fn refuse<T>(wish: impl Into<String>, why: &'static str) -> Result<T> {
    Err(EngineError::Level { level: Level::LandlockOnly.word(), wish: wish.into(), why })
}

/// Refuses what the level cannot do, before a lane is made.
pub(crate) fn check(wishes: &Wishes, detach: bool, strategy: Option<Strategy>) -> Result<()> {
    if wishes.level != Level::LandlockOnly {
        return Ok(());
    }
    if !kernel::landlock::has_scopes(kernel::landlock::abi()) {
        return refuse("anything here", "this kernel has no Landlock with scopes (6.12 and newer)");
    }
    if wishes.net.is_own() {
        let wish = format!("--net {}", wishes.net.text());
        return refuse(
            wish,
            "a wall around the network needs a namespace; `--net host` says that there is none",
        );
    }
    if wishes.nest {
        return refuse("--nest", "sandboxes of their own need namespaces");
    }
    if let Some(door) = wishes.doors.first() {
        return refuse(format!("--door {door}"), "unix sockets are all shut, or none is");
    }
    if !wishes.secrets.is_empty() {
        return refuse("--secret", "its place would be seen by your other programs");
    }
    if wishes.out.is_some() {
        return refuse("--out", "the place for it is a mount");
    }
    if wishes.trace != launch::Traced::default() {
        return refuse("--trace-exec and --trace-reads", "who listens stands in the lane's namespaces");
    }
    if !wishes.hide.is_empty() {
        return refuse("--hide", "a rule of Landlock only adds; a part of the project cannot be taken away");
    }
    if detach {
        return refuse("--detach", "a lane that stays is joined through its namespaces");
    }
    match strategy {
        None | Some(Strategy::Copy) => Ok(()),
        Some(other) => {
            refuse(format!("--strategy {}", other.word()), "nothing can be mounted; it works in a copy")
        }
    }
}

/// Puts a run together. The caller holds the lane's lock.
pub(crate) fn prepare(
    engine: &Engine,
    lane: &OpenLane,
    wishes: &Wishes,
    host: &HostFacts,
    mode: Mode,
) -> Result<Launch> {
    let mut copies = Vec::new();
    for root in &lane.roots {
        let spec = root.workspace.view()?;
        match (root.view.strategy, spec.what) {
            (Strategy::Copy, MountWhat::Bind { source, .. }) => copies.push((root.view.path.clone(), source)),
            (other, _) => {
                return refuse(
                    format!("a lane that is {}", other.word()),
                    "it works in a copy; name a new lane",
                );
            }
        }
    }
    let own = lane.home.path().join("bare");
    for name in OWN {
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(own.join(name));
        made.map_err(|error| EngineError::Kernel {
            doing: format!("make {}", own.join(name).display()),
            source: kernel::Error::from_io("mkdir", kernel::error::path_bytes(&own), &error),
        })?;
    }
    let credentials = Credentials::built_in().map_err(EngineError::Sandbox)?;
    let hidden = hidden(engine, lane, &credentials, mode)?;
    let mut rules: Vec<(PathBuf, Access)> = Vec::new();
    rules.extend(copies.iter().map(|(_, source)| (source.clone(), Access::Write)));
    rules.extend(OWN.iter().map(|name| (own.join(name), Access::Write)));
    rules.extend(DEVICES.iter().map(|at| (PathBuf::from(at), Access::Devices)));
    // Uid 0 needs no capability to write what is in /proc/sys.
    let proc = if mode == Mode::Root { Access::Read } else { Access::Touch };
    rules.push((PathBuf::from("/proc"), proc));
    let mut read: Vec<PathBuf> = SYSTEM.iter().map(PathBuf::from).collect();
    read.extend(host.sys.iter().cloned());
    read.extend([&host.resolv_conf, &host.hosts].into_iter().flatten().map(|(real, _)| real.clone()));
    read.extend(crate::tools::find(std::env::vars_os(), &[]).into_iter().map(|dir| dir.at));
    read.extend(rustup_home());
    for dir in read.iter().filter(|path| path.exists() && !is_link(path)) {
        grant_around(dir, &hidden, &mut rules);
    }
    for path in launch::existing(&wishes.dir, &wishes.ro)? {
        grant_around(&path, &hidden, &mut rules);
    }
    let direct = launch::existing(&wishes.dir, &wishes.bind)?;
    rules.extend(direct.iter().map(|path| (path.clone(), Access::Write)));
    let fence = Domain { files: true, abstract_sockets: true, signals: true, rules };
    let walls = Walls { bare: true, fence, limits: wishes.limits.clone(), ..Walls::default() };
    let cwd = working_directory(&copies, &wishes.dir);
    let uid_names = [
        ("LANE", OsString::from(&lane.row.name)),
        ("HOME", own.join("home").into()),
        ("TMPDIR", own.join("tmp").into()),
        ("XDG_RUNTIME_DIR", own.join("run").into()),
        ("PWD", cwd.as_os_str().to_owned()),
    ];
    let mut fixed: Vec<(&str, OsString)> = uid_names.into();
    // The toolchain manager looks in the home else, which is another one.
    fixed.extend(rustup_home().map(|home| ("RUSTUP_HOME", home.into_os_string())));
    let wanted: Vec<Wish> =
        wishes.env.iter().map(|(name, value)| Wish { name: name.clone(), value: value.clone() }).collect();
    // Directories of the home under their own names would be looked for outside.
    let host_variables = std::env::vars_os()
        .filter(|(name, _)| !name.to_string_lossy().starts_with("XDG_") && name != "CARGO_HOME");
    let environment = environ::environment(host_variables, &credentials.variables, &[], &wanted, &fixed);
    let argv = if wishes.argv.is_empty() { vec![launch::shell()] } else { wishes.argv.clone() };
    let command = Command { argv, env: environment.inside.clone(), cwd, secrets: Vec::new() };
    let plan = Plan {
        mode,
        namespaces: kernel::process::Namespaces::default(),
        ops: Vec::new(),
        ground: 0,
        walls,
        doors: None,
    };
    let (shared, hidden) = (Vec::new(), Vec::new());
    Ok(Launch {
        plan,
        command,
        environment,
        direct,
        channel: false,
        shared,
        hidden,
        out: None,
        net: wishes.net.clone(),
    })
}

/// What must not come to be granted: the state, the originals, credentials.
fn hidden(engine: &Engine, lane: &OpenLane, credentials: &Credentials, mode: Mode) -> Result<Vec<PathBuf>> {
    let mut hidden = crate::lane::ours(engine, &lane.home)?;
    hidden.push(engine.state().path().to_path_buf());
    hidden.extend(lane.roots.iter().map(|root| root.view.path.clone()));
    let home = home_dir();
    if let Some(home) = &home {
        hidden.extend(
            credentials.in_home().filter(|path| path.applies_in(home)).map(|path| home.join(&path.at)),
        );
    }
    hidden.extend(crate::tools::cargo_logins());
    hidden.extend(crate::hiding::in_system(credentials, mode == Mode::Root, home.as_deref()));
    Ok(hidden)
}

/// Grants reading of a directory, or, where something below it is hidden, of what stands around that.
fn grant_around(at: &Path, hidden: &[PathBuf], rules: &mut Vec<(PathBuf, Access)>) {
    if hidden.iter().any(|path| at.starts_with(path)) {
        return;
    }
    if !hidden.iter().any(|path| path.starts_with(at) && path.exists()) {
        rules.push((at.to_path_buf(), Access::Read));
        return;
    }
    let Ok(entries) = std::fs::read_dir(at) else { return };
    for entry in entries.flatten().map(|entry| entry.path()).filter(|path| !is_link(path)) {
        grant_around(&entry, hidden, rules);
    }
}

/// A link needs no grant: what it leads to is granted, or not.
fn is_link(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|meta| meta.is_symlink())
}

fn rustup_home() -> Option<PathBuf> {
    let named = std::env::var_os("RUSTUP_HOME").map(PathBuf::from);
    named.or_else(|| Some(home_dir()?.join(".rustup"))).filter(|path| path.is_dir())
}

/// Where the command starts: in the copy where the user stands in the original, else at its top.
fn working_directory(copies: &[(PathBuf, PathBuf)], dir: &Path) -> PathBuf {
    let dir = std::fs::canonicalize(dir).unwrap_or_default();
    // Joined with nothing a path would end with a slash.
    let inner = copies.iter().find_map(|(origin, copy)| {
        let below = dir.strip_prefix(origin).ok()?;
        Some(if below.as_os_str().is_empty() { copy.clone() } else { copy.join(below) })
    });
    inner.filter(|inner| inner.is_dir()).unwrap_or_else(|| copies[0].1.clone())
}
