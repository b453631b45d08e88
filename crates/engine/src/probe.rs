//! What this machine can do for a lane here, found by doing it: an overlay is really mounted, in a child
//! with namespaces of its own, over layers on the filesystem where the lane's would stand.
//!
//! Invariant: only a success is remembered (for one boot and one filesystem), so that a refusal is tried
//! again when its cause may be gone. Nothing of a probe is left behind.

use std::os::fd::AsFd as _;
use std::path::Path;

use kernel::mount::{Attributes, Detached, OverlayOptions};
use kernel::process::{self, Forked, Namespaces, Status, Which};
use kernel::{node, open, publish};
use workspace::{Abilities, MountMode, OriginFacts};

use crate::clock;
use crate::engine::Engine;
use crate::error::{Doing as _, Result};
use crate::lane;

/// What the kernel answered in the child, as an exit code: 0 for success.
const ODD: i32 = 255;

/// The abilities for a lane of this origin with layers in `layers`; remembered ones are good enough.
pub fn abilities(engine: &Engine, facts: &OriginFacts, layers: &Path, reflink: bool) -> Result<Abilities> {
    let mode = lane::mount_mode();
    let key = key(facts, layers, mode);
    let memory = engine.state().path().join("probes");
    if memory.join(&key).symlink_metadata().is_ok() {
        return Ok(made_of(mode, Ok(()), reflink));
    }
    let answer = overlay(&facts.path, layers, mode)?;
    if answer.is_ok() {
        remember(engine, &key)?;
    }
    Ok(made_of(mode, answer, reflink))
}

fn made_of(mode: MountMode, answer: std::result::Result<(), String>, reflink: bool) -> Abilities {
    let other = Err("not tried".to_owned());
    let (overlay_user, overlay_root) = match mode {
        MountMode::User => (answer, other),
        MountMode::Root => (other, answer),
    };
    Abilities { is_root: mode == MountMode::Root, overlay_user, overlay_root, reflink }
}

/// Who mounts, over what, with layers where, in which boot.
fn key(facts: &OriginFacts, layers: &Path, mode: MountMode) -> String {
    use std::os::unix::fs::MetadataExt as _;
    let dev = std::fs::metadata(layers).map(|meta| meta.dev()).unwrap_or(0);
    let boot = workspace::base::boot_id().unwrap_or_default();
    let boot = boot.get(..8).unwrap_or("0");
    let who = if mode == MountMode::Root { "root" } else { "user" };
    format!("overlay-{who}-{}-{dev:x}-{boot}", facts.fs_id)
}

fn remember(engine: &Engine, key: &str) -> Result<()> {
    let state = open::root_dir(engine.state().path()).doing(|| "open the state directory".to_owned())?;
    let doing = || "note what was probed".to_owned();
    match node::mkdir_at(&state, b"probes", 0o700) {
        Err(error) if error.errno == kernel::Errno::EXIST => {}
        other => other.doing(doing)?,
    }
    let probes = open::dir_beneath(&state, b"probes").doing(doing)?;
    publish::write_file(&probes, key.as_bytes(), b"ok\n", 0o600).doing(doing)
}

/// Mounts an overlay over `lower` with a fresh upper below `layers`; the kernel's answer in words.
pub fn overlay(lower: &Path, layers: &Path, mode: MountMode) -> Result<std::result::Result<(), String>> {
    let above = open::root_dir(layers).doing(|| format!("open {}", layers.display()))?;
    let name = format!(".probe-{}", clock::new_id());
    let doing = || format!("make a probe in {}", layers.display());
    node::mkdir_at(&above, name.as_bytes(), 0o700).doing(doing)?;
    let tried = (|| -> kernel::Result<std::result::Result<(), String>> {
        let dir = open::dir_beneath(&above, name.as_bytes())?;
        node::mkdir_at(&dir, b"u", 0o700)?;
        node::mkdir_at(&dir, b"w", 0o700)?;
        let at = layers.join(&name);
        let is_user = mode == MountMode::User;
        let options =
            OverlayOptions { user_xattr: is_user, volatile: true, redirect_dir: !is_user, index: !is_user };
        in_namespaces(is_user, || {
            // Opened in there: the kernel takes only layers of the mount namespace that mounts.
            let (lower, dir) = (open::root_dir(lower)?, open::root_dir(&at)?);
            let (upper, work) = (open::dir_beneath(&dir, b"u")?, open::dir_beneath(&dir, b"w")?);
            let layers = Some((upper.as_fd(), work.as_fd()));
            Detached::overlay(&[lower.as_fd()], layers, options, Attributes::default()).map(|_| ())
        })
    })();
    // Whatever came out of it: the child is gone, and its mount with it.
    let removed = tree::remove::remove_tree(above.as_fd(), name.as_bytes());
    let answer = tried.doing(doing)?;
    removed.doing(|| format!("remove a probe in {}", layers.display()))?;
    Ok(answer)
}

/// Makes a user namespace of one's own.
pub fn user_namespace() -> Result<std::result::Result<(), String>> {
    in_namespaces(true, || Ok(())).doing(|| "start a probe".to_owned())
}

/// Makes every further namespace that a lane has.
pub fn namespaces() -> Result<std::result::Result<(), String>> {
    let all = [Namespaces::PID, Namespaces::IPC, Namespaces::UTS, Namespaces::CGROUP, Namespaces::NET];
    let all = all.into_iter().fold(Namespaces::default(), Namespaces::with);
    let is_user = !kernel::privilege::is_root();
    in_namespaces(is_user, || process::unshare(all)).doing(|| "start a probe".to_owned())
}

/// Installs a seccomp filter, one with a listener where `listen`.
pub fn seccomp(listen: bool) -> Result<std::result::Result<(), String>> {
    let install = || {
        kernel::privilege::no_new_privs()?;
        let filter = kernel::seccomp::Filter::compile(&[], kernel::seccomp::Answer::Allow);
        filter.install(listen).map(|_| ())
    };
    in_child(Namespaces::default(), install).doing(|| "start a probe".to_owned())
}

/// Builds a lane's view over the bare system and raises the walls of pid 1, as for a run, and runs nothing in it.
pub fn view() -> Result<std::result::Result<(), String>> {
    use kernel::mountspec::{MountSpec, MountWhat};
    use sandbox::{Mode, Op, Plan};
    let mount = |what, target: &str, read_only| {
        Op::Mount(MountSpec { what, target: target.into(), read_only, no_exec: false })
    };
    let all = [
        Namespaces::MOUNT,
        Namespaces::PID,
        Namespaces::IPC,
        Namespaces::UTS,
        Namespaces::CGROUP,
        Namespaces::NET,
    ];
    let mode = if kernel::privilege::is_root() { Mode::Root } else { Mode::User };
    let all = all.into_iter().fold(Namespaces::default(), Namespaces::with);
    let plan = Plan {
        mode,
        namespaces: if mode == Mode::User { all.with(Namespaces::USER) } else { all },
        ops: vec![
            mount(MountWhat::Bind { source: "/usr".into(), recursive: true }, "/usr", true),
            mount(MountWhat::Tmpfs { mode: 0o1777, size: None }, "/tmp", false),
            mount(MountWhat::Proc, "/proc", false),
            mount(MountWhat::Devpts, "/dev/pts", false),
            Op::Device { name: "null".into() },
        ],
        ground: 0,
        walls: sandbox::Walls::default(),
        doors: Some(sandbox::gate::Doors::default()),
    };
    let tried = (|| -> sandbox::Result<()> {
        let (streams, _ends) = sandbox::supervise::detached()?;
        let inside = sandbox::spawn::spawn(&plan, None, streams, &[])?;
        let ready = inside.ready(&plan);
        inside.tell(sandbox::message::ToInside::Kill);
        inside.reap();
        ready.map(drop)
    })();
    Ok(tried.map_err(|error| error.to_string()))
}

/// Does `body` in a child with a mount namespace (and a user namespace) of its own.
fn in_namespaces(
    user: bool,
    body: impl FnOnce() -> kernel::Result<()>,
) -> kernel::Result<std::result::Result<(), String>> {
    let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    let wanted = if user { Namespaces::MOUNT.with(Namespaces::USER) } else { Namespaces::MOUNT };
    in_child(wanted, || if user { identity(uid, gid).and_then(|()| body()) } else { body() })
}

fn in_child(
    namespaces: Namespaces,
    body: impl FnOnce() -> kernel::Result<()>,
) -> kernel::Result<std::result::Result<(), String>> {
    let child = match process::fork_into(namespaces) {
        Ok(Forked::Parent(child)) => child,
        Ok(Forked::Child) => {
            let done = body();
            process::exit_now(done.map_or_else(|error| error.errno.raw_os_error().clamp(1, ODD), |()| 0));
        }
        // Without the namespace there is no child either.
        Err(error) => return Ok(Err(error.to_string())),
    };
    let status = loop {
        if let Some((_, status)) = process::wait(Which::Pidfd(child.pidfd.as_fd()), true, false)? {
            break status;
        }
    };
    Ok(match status {
        Status::Exited(0) => Ok(()),
        Status::Exited(code) => Err(kernel::Errno::from_raw_os_error(code).to_string()),
        other => Err(format!("the probe ended with {other:?}")),
    })
}

/// The caller is itself inside: one id, no setgroups.
fn identity(uid: u32, gid: u32) -> kernel::Result<()> {
    use kernel::error::Asked as _;
    let write = |path: &str, text: String| std::fs::write(path, text).asked("write", path);
    write("/proc/self/setgroups", "deny".to_owned())?;
    write("/proc/self/uid_map", format!("{uid} {uid} 1"))?;
    write("/proc/self/gid_map", format!("{gid} {gid} 1"))
}
