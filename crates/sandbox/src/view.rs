//! The view inside, planned: facts of the host and a request become the ordered steps of a [`Plan`].
//!
//! Pure but for [`HostFacts::read`]. Invariant: the only places that a command can write and that outlive it
//! are the lane's own layers and what the user bound read-write by name.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use kernel::landlock::{Access, Domain};
use kernel::mountspec::{MountSpec, MountWhat, Overlay};
use kernel::process::Namespaces;
use rustix::fs::{AtFlags, FileType};

use crate::error::{Result, Stage, Step as _};
use crate::gate::Doors;
use crate::limits::Limit;
use crate::mask::Absent;
use crate::plan::{Ground, Mode, Op, Plan, Trace, Walls};

/// Device nodes that a lane sees.
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

/// What of /sys a lane sees.
const SYS: [&str; 2] = ["/sys/devices/system", "/sys/kernel/mm"];

/// What stands in the host's root directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TopEntry {
    /// A link such as `/bin`.
    Symlink(PathBuf),
    /// A directory.
    Dir,
    /// A file.
    File,
}

/// Facts of the host that the view depends on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostFacts {
    /// Entries of `/` by name.
    pub top: BTreeMap<PathBuf, TopEntry>,
    /// For each of resolv.conf and hosts: where its content truly lies, and the content.
    pub resolv_conf: Option<(PathBuf, Vec<u8>)>,
    /// The same for /etc/hosts.
    pub hosts: Option<(PathBuf, Vec<u8>)>,
    /// Host name.
    pub hostname: String,
    /// What of /sys is there, of that which a lane shows.
    pub sys: Vec<PathBuf>,
    /// Homes that hold programs for everybody, such as a package manager's.
    pub shared_homes: Vec<PathBuf>,
    /// The version of Landlock that the kernel has; 0 where it has none.
    pub landlock: u32,
}

impl HostFacts {
    /// Reads the facts.
    pub fn read() -> Result<HostFacts> {
        let root = kernel::open::root_dir(Path::new("/")).step(Stage::Facts, "open /")?;
        let mut top = BTreeMap::new();
        for entry in kernel::dir::entries(&root).step(Stage::Facts, "list /")? {
            let name = PathBuf::from(OsStr::from_bytes(&entry.name));
            let kind = match entry.kind {
                Some(kind) => kind,
                None => match rustix::fs::statat(&root, &name, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(stat) => FileType::from_raw_mode(stat.st_mode),
                    Err(_) => continue,
                },
            };
            let found = match kind {
                FileType::Directory => TopEntry::Dir,
                FileType::Symlink => {
                    let target = kernel::meta::read_link_at(&root, &entry.name)
                        .step(Stage::Facts, "read a link of /")?;
                    TopEntry::Symlink(PathBuf::from(OsStr::from_bytes(&target)))
                }
                FileType::RegularFile => TopEntry::File,
                _ => continue,
            };
            top.insert(name, found);
        }
        let brew = PathBuf::from("/home/linuxbrew");
        Ok(HostFacts {
            top,
            resolv_conf: content_of(Path::new("/etc/resolv.conf")),
            hosts: content_of(Path::new("/etc/hosts")),
            hostname: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            sys: SYS.iter().map(PathBuf::from).filter(|path| path.is_dir()).collect(),
            shared_homes: rustix::fs::access(&brew, rustix::fs::Access::EXISTS)
                .map_or(Vec::new(), |()| vec![brew]),
            landlock: kernel::landlock::abi(),
        })
    }
}

/// Where the content behind a path lies (after its links) and what it is; `None` where there is nothing.
/// A link into a place that a lane replaces (`/run`) still counts: the file is made anew there.
fn content_of(path: &Path) -> Option<(PathBuf, Vec<u8>)> {
    let real = std::path::absolute(path).ok().and_then(|path| path.canonicalize().ok())?;
    let (dir, name) = (real.parent()?, real.file_name()?);
    let dir = kernel::open::root_dir(dir).ok()?;
    let file = kernel::open::file_beneath(&dir, name.as_bytes()).ok()?;
    let bytes = kernel::bytes::read_all(&file).ok()?;
    Some((real, bytes))
}

/// How $HOME appears.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Home {
    /// One overlay over the whole home.
    Overlay {
        /// The home.
        at: PathBuf,
        /// Its layers.
        overlay: Overlay,
        /// What is absent in it.
        absent: Vec<Absent>,
        /// The writable layer is in memory and goes with the lane.
        in_memory: bool,
    },
    /// Put together from its entries, because it cannot be a layer (something is mounted below it).
    Assembled {
        /// The home.
        at: PathBuf,
        /// What stands in it, in order.
        parts: Vec<Op>,
    },
    /// Mounts that stand by themselves.
    Parts {
        /// In order.
        parts: Vec<MountSpec>,
    },
    /// The home lies inside a root of the lane, or there is none.
    None,
}

/// What a lane is to look like.
#[derive(Debug, Clone)]
pub struct Request {
    /// The lane's trees, each at its origin's own path.
    pub roots: Vec<MountSpec>,
    /// The home.
    pub home: Home,
    /// Toolchains from places that a lane does not show otherwise.
    pub toolchains: Vec<Home>,
    /// Host paths to show read-only, from the command line.
    pub read_only: Vec<PathBuf>,
    /// Host paths to show read-write, from the command line: writes go to the original.
    pub read_write: Vec<PathBuf>,
    /// Paths to hide: the state directory, layer directories, credentials of the system, `--hide`.
    pub hide: Vec<PathBuf>,
    /// What is reported for the record.
    pub trace: Trace,
    /// A directory of the host's and the place inside where it can only be added to.
    pub add_only: Option<(PathBuf, PathBuf)>,
    /// Directory renames are carried out for the lane.
    pub emulate_rename: bool,
    /// What stands on the lane's own loopback, where it has a network of its own.
    pub doors: Option<Doors>,
    /// Sandboxes may nest inside.
    pub nest: bool,
    /// Names of the services of the host that are let in.
    pub services: Vec<String>,
    /// Directories of the lane's own that nobody else may enter, in places of its own.
    pub private: Vec<PathBuf>,
    /// What the lane may use.
    pub limits: Vec<Limit>,
}

/// Plans what is the same for every lane of this machine.
pub fn ground(host: &HostFacts, mode: Mode, own_network: bool, uid: u32) -> Ground {
    let mut ops = Vec::with_capacity(64);
    system(host, &mut ops);
    devices(&mut ops);
    kernel_views(mode, &mut ops);
    private_places(uid, &mut ops);
    names_and_addresses(host, own_network, &mut ops);
    Ground { mode, namespaces: namespaces(mode, own_network), ops }
}

/// The namespaces of a lane.
pub fn namespaces(mode: Mode, own_network: bool) -> Namespaces {
    let mut namespaces = Namespaces::MOUNT
        .with(Namespaces::PID)
        .with(Namespaces::IPC)
        .with(Namespaces::UTS)
        .with(Namespaces::CGROUP);
    if mode == Mode::User {
        namespaces = namespaces.with(Namespaces::USER);
    }
    if own_network {
        namespaces = namespaces.with(Namespaces::NET);
    }
    namespaces
}

/// Plans the view: the ground, and what this lane brings.
pub fn plan(host: &HostFacts, ground: Ground, request: &Request) -> Plan {
    let Ground { mode, namespaces, mut ops } = ground;
    let ground = ops.len();
    for shown in std::iter::once(&request.home).chain(&request.toolchains) {
        home(shown, &mut ops);
    }
    ops.extend(request.private.iter().map(|at| Op::Dir { at: at.clone(), mode: 0o700 }));
    // Outer before inner, whatever the order in which they were named.
    let mut trees: Vec<MountSpec> = request.roots.clone();
    trees.extend(request.read_only.iter().map(|path| bind(path, true)));
    trees.extend(request.read_write.iter().map(|path| bind(path, false)));
    trees.sort_by_key(|spec| spec.target.components().count());
    ops.extend(trees.into_iter().map(Op::Mount));
    ops.extend(request.hide.iter().map(|path| Op::Hide { at: path.clone() }));
    let mut fence = fence(host.landlock, &ops, namespaces, request.nest);
    if let Some((source, at)) = &request.add_only {
        let what = MountWhat::Bind { source: source.clone(), recursive: false };
        ops.push(Op::Mount(MountSpec { what, target: at.clone(), read_only: false, no_exec: true }));
        if fence.files {
            fence.rules.push((at.clone(), Access::Add));
        }
    }
    let doors = request.doors.clone().filter(|_| namespaces.has(Namespaces::NET));
    let walls = Walls {
        emulate_rename: request.emulate_rename,
        report_connects: doors.is_some(),
        nest: request.nest,
        bare: false,
        fence,
        trace: request.trace,
        doors: request.services.clone(),
        limits: request.limits.clone(),
    };
    Plan { mode, namespaces, ops, ground, walls, doors }
}

/// The outer fence: everything of the view can be read and executed, what the view has for writing can be written, and
/// nothing that is no part of the view can be either. It stands on directories of the view, so that it reaches what
/// comes to be there later; what is to be taken away below one is taken away by mounts.
fn fence(abi: u32, ops: &[Op], namespaces: Namespaces, nest: bool) -> Domain {
    let mut rules = Vec::new();
    // Landlock lets nobody mount who stands behind a fence around files.
    let files = abi > 0 && !nest;
    if files {
        // The root is the lane's own, so that nothing of the host's is below it.
        rules.push((PathBuf::from("/"), Access::Read));
        rules.push((PathBuf::from("/dev"), Access::Devices));
        for at in ["/tmp", "/run", "/dev/shm"] {
            rules.push((PathBuf::from(at), Access::Write));
        }
        for op in ops {
            let (Op::Mount(spec) | Op::Masked { mount: spec, .. }) = op else { continue };
            let access = match &spec.what {
                _ if spec.read_only => continue,
                MountWhat::Overlay(_) | MountWhat::Bind { .. } | MountWhat::Tmpfs { .. } => Access::Write,
                MountWhat::Proc => Access::Touch,
                MountWhat::Devpts | MountWhat::Mqueue => continue,
            };
            rules.push((spec.target.clone(), access));
        }
    }
    Domain {
        files,
        // In a network namespace of its own a lane meets no abstract socket of the host.
        abstract_sockets: !namespaces.has(Namespaces::NET) && kernel::landlock::has_scopes(abi),
        // Nobody but the lane is in its pid namespace, and its commands may signal one another.
        signals: false,
        rules,
    }
}

fn home(home: &Home, ops: &mut Vec<Op>) {
    match home {
        Home::Overlay { at, overlay, absent, in_memory } => ops.push(Op::Masked {
            mount: MountSpec {
                what: MountWhat::Overlay(overlay.clone()),
                target: at.clone(),
                read_only: false,
                no_exec: false,
            },
            absent: absent.clone(),
            in_memory: *in_memory,
        }),
        Home::Assembled { at, parts } => {
            ops.push(tmpfs(at, 0o755));
            ops.extend(parts.iter().cloned());
        }
        Home::Parts { parts } => ops.extend(parts.iter().cloned().map(Op::Mount)),
        Home::None => {}
    }
}

fn bind(path: &Path, read_only: bool) -> MountSpec {
    let what = MountWhat::Bind { source: path.to_path_buf(), recursive: true };
    MountSpec { what, target: path.to_path_buf(), read_only, no_exec: false }
}

fn tmpfs(at: impl AsRef<Path>, mode: u32) -> Op {
    Op::Mount(MountSpec {
        what: MountWhat::Tmpfs { mode, size: None },
        target: at.as_ref().to_path_buf(),
        read_only: false,
        no_exec: false,
    })
}

/// The host's system, read-only. Homes of other people, and what a lane has of its own, are left out.
fn system(host: &HostFacts, ops: &mut Vec<Op>) {
    const OWN: [&str; 5] = ["proc", "sys", "dev", "tmp", "run"];
    const HOMES: [&str; 2] = ["home", "root"];
    const LEFT_OUT: [&str; 1] = ["lost+found"];
    for (name, entry) in &host.top {
        let is = |list: &[&str]| list.iter().any(|other| name == Path::new(other));
        if is(&OWN) || is(&LEFT_OUT) {
            continue;
        }
        let at = Path::new("/").join(name);
        match entry {
            TopEntry::Symlink(target) => ops.push(Op::Symlink { at, target: target.clone() }),
            TopEntry::Dir if is(&HOMES) => ops.push(Op::Dir { at, mode: 0o755 }),
            TopEntry::Dir | TopEntry::File => ops.push(Op::Mount(bind(&at, true))),
        }
    }
    ops.extend(host.shared_homes.iter().map(|path| Op::Mount(bind(path, true))));
    // Of /sys, what programs ask before they divide their work: processors, memory nodes, page sizes.
    ops.extend(host.sys.iter().map(|path| Op::Mount(bind(path, true))));
}

fn devices(ops: &mut Vec<Op>) {
    ops.push(Op::Dir { at: "/dev".into(), mode: 0o755 });
    ops.extend(DEVICES.iter().map(|name| Op::Device { name: (*name).into() }));
    let special = |what, target: &str| {
        Op::Mount(MountSpec { what, target: PathBuf::from(target), read_only: false, no_exec: true })
    };
    ops.push(special(MountWhat::Devpts, "/dev/pts"));
    ops.push(special(MountWhat::Mqueue, "/dev/mqueue"));
    ops.push(Op::Dir { at: "/dev/shm".into(), mode: 0o1777 });
    for (at, target) in [
        ("/dev/ptmx", "pts/ptmx"),
        ("/dev/fd", "/proc/self/fd"),
        ("/dev/stdin", "/proc/self/fd/0"),
        ("/dev/stdout", "/proc/self/fd/1"),
        ("/dev/stderr", "/proc/self/fd/2"),
    ] {
        ops.push(Op::Symlink { at: at.into(), target: target.into() });
    }
}

fn kernel_views(mode: Mode, ops: &mut Vec<Op>) {
    ops.push(Op::Mount(MountSpec {
        what: MountWhat::Proc,
        target: PathBuf::from("/proc"),
        read_only: false,
        no_exec: true,
    }));
    if mode == Mode::Root {
        // Uid 0 needs no capability to write these, where the kernel has them.
        for at in ["sys", "sysrq-trigger", "irq", "bus", "fs", "acpi", "scsi", "mtrr", "dynamic_debug"] {
            ops.push(Op::ReadOnly { at: Path::new("/proc").join(at) });
        }
        // Nor does he to read what the whole machine's memory holds and does.
        for at in [
            "kcore",
            "kpagecount",
            "kpageflags",
            "kpagecgroup",
            "timer_list",
            "keys",
            "key-users",
            "vmallocinfo",
            "slabinfo",
        ] {
            ops.push(Op::Hide { at: Path::new("/proc").join(at) });
        }
    }
}

fn private_places(uid: u32, ops: &mut Vec<Op>) {
    // Directories of the new root, which is in memory: a mount each would buy nothing.
    ops.push(Op::Dir { at: "/tmp".into(), mode: 0o1777 });
    ops.push(tmpfs("/var/tmp", 0o1777));
    ops.push(Op::Dir { at: "/run".into(), mode: 0o755 });
    ops.push(Op::Dir { at: "/run/lock".into(), mode: 0o1777 });
    ops.push(Op::Dir { at: "/run/user".into(), mode: 0o755 });
    ops.push(Op::Dir { at: format!("/run/user/{uid}").into(), mode: 0o700 });
}

/// Own resolv.conf and hosts. A file that truly lies in /run (as resolved's does) is made anew there.
fn names_and_addresses(host: &HostFacts, own_network: bool, ops: &mut Vec<Op>) {
    let hosts =
        format!("127.0.0.1\tlocalhost {0}\n::1\tlocalhost ip6-localhost {0}\n", host.hostname).into_bytes();
    // Whatever may be reached, names are asked for there.
    let none = b"nameserver 127.0.0.1\n".to_vec();
    for (found, own, name) in [(&host.resolv_conf, none, "resolv.conf"), (&host.hosts, hosts, "hosts")] {
        let Some((real, content)) = found else { continue };
        let bytes = if own_network { own } else { content.clone() };
        if real.starts_with("/run") {
            ops.push(Op::File { at: real.clone(), bytes, mode: 0o644 });
            continue;
        }
        let own_at = Path::new("/run/lane").join(name);
        ops.push(Op::File { at: own_at.clone(), bytes, mode: 0o644 });
        ops.push(Op::Over { from: own_at, at: real.clone() });
    }
}
