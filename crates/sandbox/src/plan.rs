//! The plan of a sandbox as data: ordered steps, printable, compared in tests, executed by `rootfs`.
//!
//! Invariant: the plan says everything. What `--show-plan` prints is what is carried out, in that order.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use kernel::landlock::Domain;
use kernel::mountspec::{MountSpec, MountWhat};
use kernel::process::Namespaces;

use crate::gate::Doors;
use crate::limits::Limit;
use crate::mask::Absent;
use crate::secret::Secret;

/// Who enters the lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// An ordinary user: own user namespace, identity map.
    User,
    /// Root: no user namespace; capabilities are dropped instead.
    Root,
}

/// One step of building the view. Targets are absolute, as seen inside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// A directory, parents included; one that exists is left as it is.
    Dir {
        /// Where.
        at: PathBuf,
        /// Mode of a new one.
        mode: u32,
    },
    /// A symbolic link.
    Symlink {
        /// Where.
        at: PathBuf,
        /// What it says.
        target: PathBuf,
    },
    /// A small file of ours.
    File {
        /// Where.
        at: PathBuf,
        /// Content.
        bytes: Vec<u8>,
        /// Mode.
        mode: u32,
    },
    /// A mount.
    Mount(MountSpec),
    /// An overlay with a mask as its first lower layer: the paths in it are absent.
    Masked {
        /// The overlay.
        mount: MountSpec,
        /// What is absent.
        absent: Vec<Absent>,
        /// The writable layer is in memory and goes with the lane.
        in_memory: bool,
    },
    /// A device node of the host, by name in /dev.
    Device {
        /// Such as `null`.
        name: String,
    },
    /// A file made earlier in this plan, bound over another.
    Over {
        /// The file, as seen inside.
        from: PathBuf,
        /// What it covers.
        at: PathBuf,
    },
    /// What is there is hidden behind an empty directory or file that cannot be written.
    Hide {
        /// Where.
        at: PathBuf,
    },
    /// What is there becomes read-only, with everything below it.
    ReadOnly {
        /// Where.
        at: PathBuf,
    },
}

/// The program to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// Program and arguments; the program is searched in `PATH` as seen inside.
    pub argv: Vec<OsString>,
    /// The whole environment.
    pub env: Vec<(OsString, OsString)>,
    /// Working directory inside.
    pub cwd: PathBuf,
    /// Secrets that are there for it alone.
    pub secrets: Vec<Secret>,
}

/// Everything about a sandbox but the command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// User or root.
    pub mode: Mode,
    /// Namespaces to make.
    pub namespaces: Namespaces,
    /// The view, in order.
    pub ops: Vec<Op>,
    /// How many of the ops are the ground: those that are the same for every lane of this machine, and can be
    /// carried out before the lane is known.
    pub ground: usize,
    /// What each command takes on.
    pub walls: Walls,
    /// What stands on the lane's own loopback for its way out; `None` where nobody answers for its network.
    pub doors: Option<Doors>,
}

/// The walls that each command of a lane takes on by itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Walls {
    /// Renames of directories are carried out for the lane: its filter reports them.
    pub emulate_rename: bool,
    /// Its filter reports where it wants to connect to.
    pub report_connects: bool,
    /// Sandboxes may nest: namespaces and mounts of its own are not refused.
    pub nest: bool,
    /// No namespace stands around it: its filter keeps it from other processes of the caller.
    pub bare: bool,
    /// The Landlock domain; an empty one is not taken on.
    pub fence: Domain,
    /// What its filter reports for the record.
    pub trace: Trace,
    /// Names of the doors that are open.
    pub doors: Vec<String>,
    /// What the lane may use, and how that is held.
    pub limits: Vec<Limit>,
}

/// What is reported for the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Trace {
    /// Calls that are refused. They are rare, so that it costs nothing.
    pub refusals: bool,
    /// Programs that are started, with their arguments.
    pub execs: bool,
    /// Files that are opened.
    pub reads: bool,
}

impl Walls {
    /// True where somebody has to listen.
    pub fn reports(&self) -> bool {
        self.emulate_rename || self.report_connects || self.trace != Trace::default()
    }
}

/// What can be begun before the lane is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ground {
    /// User or root.
    pub mode: Mode,
    /// Namespaces to make.
    pub namespaces: Namespaces,
    /// The view's first ops.
    pub ops: Vec<Op>,
}

impl Plan {
    /// True where the lane has no network but its own loopback.
    pub fn own_network(&self) -> bool {
        self.namespaces.has(Namespaces::NET)
    }
}

pub(crate) fn shown(path: &Path) -> String {
    kernel::error::path_bytes(path).escape_ascii().to_string()
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Op::Dir { at, mode } => write!(f, "dir       {} {mode:04o}", shown(at)),
            Op::Symlink { at, target } => write!(f, "symlink   {} -> {}", shown(at), shown(target)),
            Op::File { at, bytes, mode } => {
                write!(f, "file      {} {mode:04o}, {} bytes", shown(at), bytes.len())
            }
            Op::Device { name } => write!(f, "device    /dev/{name}"),
            Op::Over { from, at } => write!(f, "over      {} <- {}", shown(at), shown(from)),
            Op::Hide { at } => write!(f, "hide      {}", shown(at)),
            Op::ReadOnly { at } => write!(f, "read-only {}", shown(at)),
            Op::Masked { mount, absent, in_memory } => {
                let memory = if *in_memory { " upper in memory" } else { "" };
                write!(f, "{}{memory}, {} paths absent", Op::Mount(mount.clone()), absent.len())
            }
            Op::Mount(spec) => {
                let access = if spec.read_only { "ro" } else { "rw" };
                write!(f, "mount {access}  {} <- ", shown(&spec.target))?;
                match &spec.what {
                    MountWhat::Bind { source, .. } => write!(f, "bind {}", shown(source)),
                    MountWhat::Tmpfs { mode, size } => {
                        write!(f, "tmpfs {mode:04o}")?;
                        size.map_or(Ok(()), |size| write!(f, " {size} bytes"))
                    }
                    MountWhat::Proc => f.write_str("proc"),
                    MountWhat::Devpts => f.write_str("devpts"),
                    MountWhat::Mqueue => f.write_str("mqueue"),
                    MountWhat::Overlay(overlay) => {
                        f.write_str("overlay")?;
                        for lower in &overlay.lowers {
                            write!(f, " lower={}", shown(lower))?;
                        }
                        if let Some(upper) = &overlay.upper {
                            write!(f, " upper={}", shown(upper))?;
                        }
                        for (on, name) in [
                            (overlay.user_xattr, "userxattr"),
                            (overlay.volatile, "volatile"),
                            (overlay.redirect_dir, "redirect_dir"),
                            (overlay.index, "index"),
                        ] {
                            if on {
                                write!(f, " {name}")?;
                            }
                        }
                        Ok(())
                    }
                }
            }
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [
            (Namespaces::USER, "user"),
            (Namespaces::MOUNT, "mount"),
            (Namespaces::PID, "pid"),
            (Namespaces::IPC, "ipc"),
            (Namespaces::UTS, "uts"),
            (Namespaces::CGROUP, "cgroup"),
            (Namespaces::NET, "net"),
        ];
        let on: Vec<&str> =
            names.iter().filter(|(bit, _)| self.namespaces.has(*bit)).map(|(_, n)| *n).collect();
        writeln!(f, "namespaces {}", on.join(" "))?;
        for op in &self.ops {
            writeln!(f, "{op}")?;
        }
        for (path, access) in &self.walls.fence.rules {
            writeln!(f, "grant     {} {access:?}", shown(path))?;
        }
        let said = [
            (self.walls.emulate_rename, ", directory renames carried out by the supervisor"),
            (self.walls.report_connects, ", connections decided outside"),
            (self.walls.nest, ", nested sandboxes allowed"),
            (self.walls.trace.execs, ", programs that are started are reported"),
            (self.walls.trace.reads, ", files that are opened are reported"),
            (self.walls.fence.files, ", a fence around files"),
            (self.walls.fence.abstract_sockets, ", abstract sockets of the host shut"),
            (self.walls.fence.signals, ", signals to others shut"),
        ];
        let said: String = said.iter().filter(|(on, _)| *on).map(|(_, what)| *what).collect();
        writeln!(f, "walls     no_new_privs, no capabilities, seccomp{said}")
    }
}
