//! What is put around a command: the lane's trees, the home, credentials, environment and walls become one
//! sandbox plan. Shared by `run`, `exec`, `--show-plan` and the recovery of a rename.
//!
//! Invariant: the state directory and every directory that holds layers are absent inside.

use std::ffi::{OsStr, OsString};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

use kernel::lock::Lock;
use kernel::mountspec::{MountSpec, MountWhat, Overlay};
use kernel::process::Namespaces;
use sandbox::channel;
use sandbox::credentials::Credentials;
use sandbox::environ::{self, Environment, Wish};
use sandbox::limits::Limit;
use sandbox::preset::{self, Preset};
use sandbox::secret::Secret;
use sandbox::view::{self, Home, HostFacts};
use sandbox::{Command, Ground, Mode, Op, Plan, Trace};
use workspace::{LaneHome, MountMode, MountTable};

use crate::engine::Engine;
use crate::error::{Doing as _, EngineError, Result};
use crate::happened::{Happening, Sink};
use crate::lane::{OpenLane, OpenRoot, lexical, mount_mode};
use crate::policy::Policy;
use crate::view::{Level, MountView, Net, PlanView, Strategy};

/// Wishes of the user for one run.
#[derive(Debug, Clone, Default)]
pub struct Wishes {
    /// Where the command starts.
    pub dir: PathBuf,
    /// The command; empty for the user's shell.
    pub argv: Vec<OsString>,
    /// Further paths that are readable inside.
    pub ro: Vec<PathBuf>,
    /// Paths that are written through to the original.
    pub bind: Vec<PathBuf>,
    /// Paths that are absent inside.
    pub hide: Vec<PathBuf>,
    /// Variables: a value, or the caller's own.
    pub env: Vec<(OsString, Option<OsString>)>,
    /// The network.
    pub net: Net,
    /// Agents whose own data is shared; empty finds them by the command's name.
    pub presets: Vec<String>,
    /// The lane is removed at the end: what is written outside the project stays in memory.
    pub passing: bool,
    /// The inside may ask for snapshots.
    pub channel: bool,
    /// Sandboxes may nest inside.
    pub nest: bool,
    /// What is reported for the record beside what is refused.
    pub trace: Traced,
    /// Secrets for the command alone.
    pub secrets: Vec<crate::secrets::Wish>,
    /// Where artifacts are handed out.
    pub out: Option<PathBuf>,
    /// Services of the host that are let in, by name.
    pub doors: Vec<String>,
    /// What the lane may use, and how that is held.
    pub limits: Vec<Limit>,
    /// What the walls add up to.
    pub level: Level,
}

/// What is reported for the record because somebody asked for it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traced {
    /// Programs that are started.
    pub execs: bool,
    /// Files of the project that are opened.
    pub reads: bool,
}

/// The reason of what is hidden because the command line says so.
const BY_WISH: &str = "--hide";

/// A run that is ready to be started.
#[derive(Debug)]
pub struct Launch {
    /// The walls and the view.
    pub plan: Plan,
    /// The command.
    pub command: Command,
    /// The environment, with what stayed outside.
    pub environment: Environment,
    /// Paths that are written through to the original.
    pub direct: Vec<PathBuf>,
    /// The inside may ask for snapshots.
    pub channel: bool,
    /// What presets show, as `(preset, what)`.
    pub shared: Vec<(String, String)>,
    /// Paths that are absent inside, each with the reason.
    pub hidden: Vec<(PathBuf, String)>,
    /// Where artifacts are handed out.
    pub out: Option<PathBuf>,
    /// The network.
    pub net: Net,
}

impl Launch {
    /// Has the ledger told of what the lane asked for and got: the mounts beside those of every lane, and the rules that held.
    pub(crate) fn tell(&self, lane: &OpenLane, sink: &mut Sink<'_>) -> Result<()> {
        sink.keep_out(crate::leaks::needles(&self.command.secrets)?);
        // What is hidden from every lane is the same for all; what is hidden by wish is told.
        let built = self.plan.ops[self.plan.ground..].iter().filter(|op| !matches!(op, Op::Hide { .. }));
        for MountView { target, kind, source, read_only, .. } in built.filter_map(mount_view) {
            sink.take(Happening::Mount { target, kind, source, read_only });
        }
        for (target, _) in self.hidden.iter().filter(|(_, why)| why == BY_WISH) {
            let (target, kind) = (target.clone(), "hidden".to_owned());
            sink.take(Happening::Mount { target, kind, source: None, read_only: true });
        }
        for file in Policy::digests(lane) {
            sink.take(file);
        }
        if self.plan.walls.trace.reads {
            let roots = lane.roots.iter().map(|root| root.view.path.clone()).collect();
            sink.watch_reads(roots, self.hidden.clone());
        }
        self.tell_secrets("mounted", sink);
        Ok(())
    }

    /// Has the ledger told of what ended with the command.
    pub(crate) fn tell_end(&self, sink: &mut Sink<'_>) {
        self.tell_secrets("revoked", sink);
    }

    fn tell_secrets(&self, what: &'static str, sink: &mut Sink<'_>) {
        for Secret { name, .. } in &self.command.secrets {
            let at = crate::secrets::at(name).display().to_string();
            sink.take(Happening::Secret { name: name.clone(), what, at });
        }
    }
}

/// What a view rests on, known before the lane is.
#[derive(Debug)]
pub struct Grounds {
    host: HostFacts,
    /// What pid 1 can begin with.
    pub ground: Ground,
}

/// Who enters the lanes of this caller.
pub fn mode() -> Mode {
    match mount_mode() {
        MountMode::User => Mode::User,
        MountMode::Root => Mode::Root,
    }
}

/// Reads the host's facts and plans the ground.
pub fn grounds(net: &Net, level: Level) -> Result<Grounds> {
    let mode = mode();
    let host = HostFacts::read().map_err(EngineError::Sandbox)?;
    if level == Level::LandlockOnly {
        let ground = Ground { mode, namespaces: Namespaces::default(), ops: Vec::new() };
        return Ok(Grounds { host, ground });
    }
    let uid = rustix::process::geteuid().as_raw();
    let ground = view::ground(&host, mode, net.is_own(), uid);
    Ok(Grounds { host, ground })
}

/// Puts a run together. Makes the layers over the home where they are missing; the caller holds the lock.
pub fn prepare(engine: &Engine, lane: &OpenLane, wishes: &Wishes, grounds: Grounds) -> Result<Launch> {
    if wishes.level == Level::LandlockOnly {
        return crate::bare::prepare(engine, lane, wishes, &grounds.host, grounds.ground.mode);
    }
    let mounts = MountTable::load()?;
    let program = wishes.argv.first().map_or(OsStr::new(""), OsString::as_os_str);
    let presets = presets(program, &wishes.presets)?;
    let granted: Vec<String> = presets.iter().flat_map(|preset| preset.shows.iter().cloned()).collect();
    let open = crate::doors::find(&wishes.doors, home_dir().as_deref())?;
    let credentials = Credentials::built_in().map_err(EngineError::Sandbox)?.without(&granted);
    let credentials = crate::doors::granted(&open, credentials);
    let credentials = crate::hiding::followed(credentials, home_dir().as_deref(), &mounts);
    let Grounds { host, ground } = grounds;
    let mode = ground.mode;
    if wishes.nest && mode == Mode::Root {
        return Err(EngineError::NestAsRoot);
    }
    let ours = crate::lane::ours(engine, &lane.home)?;
    let mut hidden: Vec<(PathBuf, String)> = Vec::new();
    let layering = Layering { granted: &granted, in_memory: wishes.passing };
    let home = home(engine, lane, &credentials, layering, &ours, &mounts, &mut hidden)?;
    let home_at = match &home {
        Home::Overlay { at, .. } | Home::Assembled { at, .. } => Some(at.clone()),
        Home::Parts { .. } | Home::None => None,
    };
    let mut hide: Vec<PathBuf> = Vec::new();
    // What lies in the home is absent by the mask; everything else is covered.
    for dir in &ours {
        if home_at.as_ref().is_none_or(|home| !dir.starts_with(home)) {
            hide.push(dir.clone());
        }
        hidden.push((dir.clone(), "holds the layers of lanes".into()));
    }
    if matches!(home, Home::None)
        && let Some(home) = home_dir()
    {
        // The home is (in) the project: its credentials are covered in the lane's tree.
        hide.extend(
            credentials.in_home().filter(|path| path.applies_in(&home)).map(|path| home.join(&path.at)),
        );
    }
    hide.extend(crate::hiding::in_system(&credentials, mode == Mode::Root, home_dir().as_deref()));
    hide.extend(crate::hiding::aliases_of(ours.iter(), &mounts));
    let dir = std::path::absolute(&wishes.dir).unwrap_or_else(|_| wishes.dir.clone());
    for path in &wishes.hide {
        // Without links, as it stands in the view; what is in the lane alone is named by its letters.
        let path = std::fs::canonicalize(dir.join(path)).unwrap_or_else(|_| lexical(&dir, path));
        hidden.push((path.clone(), BY_WISH.into()));
        hide.push(path);
    }
    let mut roots = Vec::with_capacity(lane.roots.len());
    for root in &lane.roots {
        mountable(root, mode, &mounts)?;
        roots.push(root.workspace.view()?);
        // What is mounted below the origin is shown read-only: it never just vanishes.
        roots.extend(workspace::attached(&mounts.below(&root.view.path)));
    }
    if wishes.channel {
        roots.push(MountSpec {
            what: MountWhat::Bind { source: lane.home.path().join(channel::INSIDE), recursive: false },
            target: PathBuf::from(channel::INSIDE_AT),
            read_only: false,
            no_exec: true,
        });
    }
    roots.extend(crate::doors::mounts(&open));
    // A cargo home in a place that every lane shows, such as /opt.
    let everywhere = crate::tools::cargo_logins().into_iter().filter(|path| {
        home_at.as_ref().is_none_or(|home| !path.starts_with(home))
            && crate::tools::is_shown(path)
            && path.exists()
    });
    hide.extend(everywhere);
    let moved = crate::hiding::moved(lane, &hide)?;
    hide.extend(moved);
    let toolchains = crate::toolchains::shown(lane, &credentials, home_at.as_deref(), &mounts, layering)?;
    let uid = rustix::process::geteuid().as_raw();
    let is_overlay = |spec: &MountSpec| matches!(spec.what, MountWhat::Overlay(_));
    let has_overlay = roots.iter().any(is_overlay) || matches!(home, Home::Overlay { .. });
    let out = match &wishes.out {
        Some(to) => {
            let to = lexical(&dir, to);
            Some((crate::artifacts::prepare(lane, &to)?, to))
        }
        None => None,
    };
    let request = view::Request {
        roots,
        home,
        toolchains,
        read_only: existing(&wishes.dir, &wishes.ro)?,
        read_write: existing(&wishes.dir, &wishes.bind)?,
        hide,
        add_only: out.as_ref().map(|(own, _)| (own.clone(), PathBuf::from(crate::artifacts::AT))),
        trace: Trace { refusals: true, execs: wishes.trace.execs, reads: wishes.trace.reads },
        emulate_rename: mode == Mode::User && has_overlay,
        doors: wishes.net.doors(),
        nest: wishes.nest,
        services: wishes.doors.clone(),
        private: crate::doors::private(&open),
        limits: wishes.limits.clone(),
    };
    let plan = view::plan(&host, ground, &request);
    let cwd = working_directory(lane, &wishes.dir);
    let environment = environment(lane, wishes, &credentials, &presets, &wishes.doors, uid, &cwd)?;
    let argv = if wishes.argv.is_empty() { vec![shell()] } else { wishes.argv.clone() };
    let secrets = crate::secrets::collect(&wishes.secrets, &dir)?;
    let command = Command { argv, env: environment.inside.clone(), cwd, secrets };
    let shared = presets
        .iter()
        .flat_map(|preset| preset.shows.iter().map(|what| (preset.name.clone(), format!("~/{what}"))))
        .filter(|(_, what)| home_dir().is_some_and(|home| home.join(&what[2..]).exists()))
        .chain(crate::doors::told(&open))
        .collect();
    Ok(Launch {
        plan,
        command,
        environment,
        direct: request.read_write,
        channel: wishes.channel,
        shared,
        hidden,
        out: out.map(|(_, to)| to),
        net: wishes.net.clone(),
    })
}

/// Refuses, with the mount's name, what the kernel would refuse with EINVAL: an overlay of a user over a tree
/// below which something was mounted since the lane was made.
fn mountable(root: &OpenRoot, mode: Mode, mounts: &MountTable) -> Result<()> {
    let below = mounts.below(&root.view.path);
    if below.is_empty() || mode == Mode::Root || root.view.strategy != Strategy::Overlay {
        return Ok(());
    }
    let reason = workspace::choose::Reason::Submounts(below).to_string();
    Err(EngineError::Refused { path: root.view.path.clone(), reasons: vec![(Strategy::Overlay, reason)] })
}

/// The user's home, without links; `None` where there is none.
pub fn home_dir() -> Option<PathBuf> {
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty())?;
    let home = std::fs::canonicalize(home).ok()?;
    (home.is_dir() && home != Path::new("/")).then_some(home)
}

fn presets(program: &OsStr, named: &[String]) -> Result<Vec<Preset>> {
    if named.is_empty() {
        return Ok(preset::of_program(program).map_err(EngineError::Sandbox)?.into_iter().collect());
    }
    let all = preset::all().map_err(EngineError::Sandbox)?;
    let find = |name: &String| {
        let have = || all.iter().map(|preset| preset.name.clone()).collect();
        let found = all.iter().find(|preset| preset.name == *name).cloned();
        found.ok_or_else(|| EngineError::NoSuchPreset { name: name.clone(), have: have() })
    };
    named.iter().map(find).collect()
}

/// How the home appears: an overlay with the mask between, else put together from its entries.
fn home(
    engine: &Engine,
    lane: &OpenLane,
    credentials: &Credentials,
    layering: Layering<'_>,
    ours: &[PathBuf],
    mounts: &MountTable,
    hidden: &mut Vec<(PathBuf, String)>,
) -> Result<Home> {
    let Some(at) = home_dir() else { return Ok(Home::None) };
    if lane.roots.iter().any(|root| at.starts_with(&root.view.path)) {
        return Ok(Home::None);
    }
    let mut absent: Vec<PathBuf> = Vec::new();
    for path in credentials.in_home().filter(|path| path.applies_in(&at)) {
        absent.push(PathBuf::from(&path.at));
        hidden.push((at.join(&path.at), path.reason.clone()));
    }
    for path in crate::tools::cargo_logins().iter().filter_map(|path| path.strip_prefix(&at).ok()) {
        if !absent.iter().any(|other| path.starts_with(other)) {
            absent.push(path.to_path_buf());
            hidden.push((at.join(path), "publish token of cargo".into()));
        }
    }
    absent.extend(ours.iter().filter_map(|dir| dir.strip_prefix(&at).ok()).map(Path::to_path_buf));
    let state_on_overlay =
        mounts.mount_of(engine.state().path()).is_some_and(|mount| mount.fs_type == "overlay");
    if state_on_overlay || !mounts.below(&at).is_empty() {
        return assembled(lane, &at, &absent, layering, mounts, state_on_overlay);
    }
    let absent = sandbox::mask::facts(&at, &absent).doing(|| format!("look at {}", at.display()))?;
    let overlay = overlay(lane, "0", &at, Some(Path::new("")), layering)?;
    Ok(Home::Overlay { overlay, at, absent, in_memory: layering.in_memory })
}

/// How the layers beside the project are made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layering<'a> {
    /// Logins of agents that are granted.
    pub(crate) granted: &'a [String],
    /// The writable layers are in memory: the lane is removed at the end.
    pub(crate) in_memory: bool,
}

/// The lane's own layer over one directory of the home or of a toolchain. `logins`: where the directory lies below
/// the home, where it may hold logins of agents.
pub(crate) fn overlay(
    lane: &OpenLane,
    part: &str,
    over: &Path,
    logins: Option<&Path>,
    layering: Layering<'_>,
) -> Result<Overlay> {
    let mode = mount_mode();
    let is_user = mode == MountMode::User;
    let mut overlay = Overlay {
        lowers: vec![over.to_path_buf()],
        upper: None,
        work: None,
        user_xattr: is_user,
        volatile: true,
        redirect_dir: !is_user,
        // Another mask is another lower: an index would refuse it as stale.
        index: false,
    };
    let lent = lane.lent_home.as_deref().map(|home| LaneHome::home_upper_in(home, part));
    if let Some(upper) = lent.filter(|upper| upper.is_dir()) {
        overlay.lowers.insert(0, upper);
    }
    if layering.in_memory {
        return Ok(overlay);
    }
    let dir = kernel::open::root_dir(over).doing(|| format!("open {}", over.display()))?;
    let layers = lane.home.home_layers(part, dir.as_fd())?;
    if let Some(below) = logins {
        crate::grants::settle(&layers, below, layering.granted)?;
    }
    lane.home.fresh_work(&layers, mode)?;
    (overlay.upper, overlay.work) = (Some(layers.upper), Some(layers.work));
    Ok(overlay)
}

/// A home that cannot be one layer: its directories are overlays of their own where they can, everything
/// else is shown read-only; what is absent is not shown at all.
fn assembled(
    lane: &OpenLane,
    at: &Path,
    absent: &[PathBuf],
    layering: Layering<'_>,
    mounts: &MountTable,
    no_overlay: bool,
) -> Result<Home> {
    use std::os::unix::ffi::OsStrExt as _;
    let dir = kernel::open::root_dir(at).doing(|| format!("open {}", at.display()))?;
    let mut parts = Vec::new();
    for entry in kernel::dir::entries(&dir).doing(|| format!("list {}", at.display()))? {
        let name = Path::new(OsStr::from_bytes(&entry.name));
        if absent.iter().any(|path| path == name) {
            continue;
        }
        let path = at.join(name);
        let Ok(meta) = path.symlink_metadata() else { continue };
        let inner: Vec<PathBuf> =
            absent.iter().filter_map(|path| path.strip_prefix(name).ok()).map(Path::to_path_buf).collect();
        let is_mount = mounts.below(at).contains(&path);
        if meta.is_dir() && !no_overlay && !is_mount && mounts.below(&path).is_empty() {
            let part = format!("{:x}", fingerprint(&entry.name));
            let what = MountWhat::Overlay(overlay(lane, &part, &path, Some(name), layering)?);
            let absent =
                sandbox::mask::facts(&path, &inner).doing(|| format!("look at {}", path.display()))?;
            let mount = MountSpec { what, target: path, read_only: false, no_exec: false };
            parts.push(Op::Masked { mount, absent, in_memory: layering.in_memory });
        } else if meta.is_dir() && !inner.is_empty() {
            // Entry by entry, so that the absent ones are left out; deeper ones are taken with their directory.
            let tops: Vec<&OsStr> = inner.iter().filter_map(|path| path.iter().next()).collect();
            let Ok(sub) = kernel::open::root_dir(&path) else { continue };
            for inside in kernel::dir::entries(&sub).unwrap_or_default() {
                if !tops.contains(&OsStr::from_bytes(&inside.name)) {
                    parts.extend(read_only(path.join(OsStr::from_bytes(&inside.name))).map(Op::Mount));
                }
            }
        } else if meta.is_symlink() {
            let target =
                kernel::meta::read_link_at(&dir, &entry.name).doing(|| format!("read {}", path.display()))?;
            parts.push(Op::Symlink { at: path, target: PathBuf::from(OsStr::from_bytes(&target)) });
        } else {
            parts.extend(read_only(path).map(Op::Mount));
        }
    }
    Ok(Home::Assembled { at: at.to_path_buf(), parts })
}

/// A read-only view of a file or directory; links and special files are left out.
pub(crate) fn read_only(path: PathBuf) -> Option<MountSpec> {
    let meta = path.symlink_metadata().ok()?;
    (meta.is_dir() || meta.is_file()).then(|| MountSpec {
        what: MountWhat::Bind { source: path.clone(), recursive: true },
        target: path,
        read_only: true,
        no_exec: false,
    })
}

pub(crate) fn fingerprint(name: &[u8]) -> u64 {
    name.iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

/// Paths of the command line, absolute and without links; each must be there.
pub(crate) fn existing(dir: &Path, paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    paths
        .iter()
        .map(|path| {
            std::fs::canonicalize(dir.join(path))
                .map_err(|error| EngineError::NoSuchPath { path: path.clone(), why: error.to_string() })
        })
        .collect()
}

/// Where the command starts: where the user stands, where that is in the lane, else the origin's top.
fn working_directory(lane: &OpenLane, dir: &Path) -> PathBuf {
    let top = lane.roots[0].view.path.clone();
    match std::fs::canonicalize(dir) {
        Ok(dir) if lane.roots.iter().any(|root| dir.starts_with(&root.view.path)) => dir,
        _ => top,
    }
}

pub(crate) fn shell() -> OsString {
    std::env::var_os("SHELL").filter(|shell| !shell.is_empty()).unwrap_or_else(|| "/bin/sh".into())
}

fn environment(
    lane: &OpenLane,
    wishes: &Wishes,
    credentials: &Credentials,
    presets: &[Preset],
    doors: &[String],
    uid: u32,
    cwd: &Path,
) -> Result<Environment> {
    let mut passes: Vec<String> = presets.iter().flat_map(|preset| preset.passes.iter().cloned()).collect();
    passes.extend(crate::doors::variables(doors)?);
    let wanted: Vec<Wish> =
        wishes.env.iter().map(|(name, value)| Wish { name: name.clone(), value: value.clone() }).collect();
    let files: Vec<String> = wishes.secrets.iter().map(|wish| format!("{}_FILE", wish.name)).collect();
    let mut fixed = vec![
        ("LANE", OsString::from(&lane.row.name)),
        ("XDG_RUNTIME_DIR", OsString::from(format!("/run/user/{uid}"))),
        ("PWD", cwd.as_os_str().to_owned()),
    ];
    fixed.extend(wishes.out.iter().map(|_| ("LANE_OUT", OsString::from(crate::artifacts::AT))));
    let at = wishes.secrets.iter().map(|wish| crate::secrets::at(&wish.name).into_os_string());
    fixed.extend(files.iter().map(String::as_str).zip(at));
    // A temporary directory of the host is not there inside; /tmp is.
    let host = std::env::vars_os().filter(|(name, _)| name != "TMPDIR");
    Ok(environ::environment(host, &credentials.variables, &passes, &wanted, &fixed))
}

/// A command that joins a live lane: the walls stand already, only environment and directory are made.
pub fn prepare_join(lane: &OpenLane, wishes: &Wishes, live: &sandbox::control::Joined) -> Result<Launch> {
    let program = wishes.argv.first().map_or(OsStr::new(""), OsString::as_os_str);
    let presets = presets(program, &wishes.presets)?;
    let credentials = Credentials::built_in().map_err(EngineError::Sandbox)?;
    let uid = rustix::process::geteuid().as_raw();
    let cwd = working_directory(lane, &wishes.dir);
    let environment = environment(lane, wishes, &credentials, &presets, &live.walls.doors, uid, &cwd)?;
    let argv = if wishes.argv.is_empty() { vec![shell()] } else { wishes.argv.clone() };
    let command = Command { argv, env: environment.inside.clone(), cwd, secrets: Vec::new() };
    let namespaces =
        live.handles.fds.iter().fold(Namespaces::default(), |all, (namespace, _)| all.with(*namespace));
    let walls = live.walls.clone();
    let doors = walls.report_connects.then(sandbox::gate::Doors::default);
    let plan = Plan { mode: live.mode, namespaces, ops: Vec::new(), ground: 0, walls, doors };
    Ok(Launch {
        plan,
        command,
        environment,
        direct: Vec::new(),
        channel: false,
        shared: Vec::new(),
        hidden: Vec::new(),
        out: None,
        net: crate::network::of_lane(lane.home.path()),
    })
}

/// Finishes or rolls back a directory rename that was in flight when the lane was killed: mounts the lane
/// once more, without a command.
pub fn settle_renames(engine: &Engine, lane: &OpenLane, lock: &Lock) -> Result<()> {
    let dir = &lane.home.dir().fd;
    if !sandbox::notify::has_journal(dir) {
        return Ok(());
    }
    let wishes = Wishes { dir: lane.roots[0].view.path.clone(), net: Net::none(), ..Wishes::default() };
    let launch = prepare(engine, lane, &wishes, grounds(&wishes.net, wishes.level)?)?;
    lane.home.forget_links()?;
    for root in &lane.roots {
        root.workspace.before_mount()?;
    }
    let (streams, _ends) = sandbox::supervise::detached().map_err(EngineError::Sandbox)?;
    let inside =
        sandbox::spawn::spawn(&launch.plan, None, streams, &[lock.as_fd()]).map_err(EngineError::Sandbox)?;
    let settled = inside
        .ready(&launch.plan)
        .and_then(|handles| sandbox::notify::recover_renames(&handles, dir))
        .map_err(EngineError::Sandbox);
    inside.tell(sandbox::message::ToInside::Kill);
    inside.reap();
    settled
}

/// What a run would do: the plan of a lane that is there, or of one that would be made. Nothing is written
/// but the caches of probes.
pub fn show(engine: &Engine, making: &crate::ops::new::NewRequest, wishes: &Wishes) -> Result<PlanView> {
    let there = match &making.name {
        Some(name) => crate::find::by_name(engine, &making.dir, name)?,
        None => None,
    };
    let (lane, lock, rejected, temporary) = match there {
        Some(row) => {
            let lane = crate::lane::open(engine, row)?;
            let lock = lane.lock()?;
            (lane, lock, Vec::new(), false)
        }
        None => {
            let plans = crate::ops::new::plan_roots(engine, making, None)?;
            let rejected = plans.first().map(|plan| plan.choice.rejected.clone()).unwrap_or_default();
            let made = crate::ops::new::make(engine, making, None, &mut crate::monitor::Silent)?;
            (made.lane, made.lock, rejected, true)
        }
    };
    let launch =
        grounds(&wishes.net, wishes.level).and_then(|grounds| prepare(engine, &lane, wishes, grounds));
    let (name, strategy, why) = (lane.row.name.clone(), lane.row.strategy.clone(), lane.row.why.clone());
    if temporary {
        let id = lane.row.id.clone();
        drop(lane.roots);
        lane.home.remove()?;
        engine.ledger()?.act(|act| act.delete_lane(&id))?;
    }
    drop(lock);
    let launch = launch?;
    Ok(PlanView {
        lane: (!temporary || making.name.is_some()).then_some(name),
        strategy,
        why,
        rejected: rejected
            .into_iter()
            .map(|(strategy, why)| (strategy.word().to_owned(), why.to_string()))
            .collect(),
        mounts: launch.plan.ops.iter().filter_map(mount_view).collect(),
        hidden: launch.hidden.clone(),
        walls: crate::drive::walls(&launch),
        env: launch
            .environment
            .inside
            .iter()
            .map(|(name, value)| {
                use std::os::unix::ffi::OsStrExt as _;
                [name.as_bytes(), b"=", value.as_bytes()].concat()
            })
            .collect(),
        argv: launch
            .command
            .argv
            .iter()
            .map(|arg| std::os::unix::ffi::OsStrExt::as_bytes(arg.as_os_str()).to_vec())
            .collect(),
        net: wishes.net.clone(),
    })
}

fn mount_view(op: &sandbox::Op) -> Option<MountView> {
    let view = |target: &Path, kind: &str, source: Option<PathBuf>, read_only| {
        Some(MountView {
            target: target.to_path_buf(),
            kind: kind.into(),
            source,
            read_only,
            why: String::new(),
        })
    };
    match op {
        Op::Mount(spec) => {
            let (kind, source) = match &spec.what {
                MountWhat::Overlay(overlay) => ("overlay", overlay.lowers.last().cloned()),
                MountWhat::Bind { source, .. } => ("bind", Some(source.clone())),
                MountWhat::Tmpfs { .. } => ("tmpfs", None),
                MountWhat::Proc => ("proc", None),
                MountWhat::Devpts => ("devpts", None),
                MountWhat::Mqueue => ("mqueue", None),
            };
            view(&spec.target, kind, source, spec.read_only)
        }
        Op::Masked { mount, .. } => mount_view(&Op::Mount(mount.clone())),
        Op::Device { name } => view(&Path::new("/dev").join(name), "device", None, false),
        Op::Over { from, at } => view(at, "own file", Some(from.clone()), true),
        Op::Hide { at } => view(at, "hidden", None, true),
        Op::ReadOnly { at } => view(at, "read-only", None, true),
        // In the root of the lane, which is in memory.
        Op::Dir { at, .. } => view(at, "directory", None, false),
        Op::Symlink { .. } | Op::File { .. } => None,
    }
}
