//! What is to be mounted, as plain data: printable, comparable, tested without privileges. Owns no
//! system call; execution is another module's work. Paths here never become part of an option string.

use std::path::PathBuf;

/// One mount of a lane's view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountSpec {
    /// What is mounted.
    pub what: MountWhat,
    /// Where, as an absolute path as seen inside.
    pub target: PathBuf,
    /// No writes through this mount.
    pub read_only: bool,
    /// No program starts from this mount.
    pub no_exec: bool,
}

/// The kind of a mount with what it needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MountWhat {
    /// A stack of layers.
    Overlay(Overlay),
    /// A directory or file of the host.
    Bind {
        /// The host's path.
        source: PathBuf,
        /// With everything mounted below it.
        recursive: bool,
    },
    /// Memory.
    Tmpfs {
        /// Mode of its top directory.
        mode: u32,
        /// Most bytes it takes; `None` for the kernel's default.
        size: Option<u64>,
    },
    /// The process table of the pid namespace.
    Proc,
    /// Terminals of its own.
    Devpts,
    /// POSIX message queues of its own.
    Mqueue,
}

/// The layers and options of an overlay mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overlay {
    /// Read-only layers, top first.
    pub lowers: Vec<PathBuf>,
    /// The writable layer.
    pub upper: Option<PathBuf>,
    /// The work directory, on the upper's filesystem.
    pub work: Option<PathBuf>,
    /// `user.overlay.*` marks: mandatory in a user namespace.
    pub user_xattr: bool,
    /// No sync when unmounted; the work directory is unusable for another mount until it was made anew.
    pub volatile: bool,
    /// Renaming a lower directory works (initial user namespace only).
    pub redirect_dir: bool,
    /// Hard links survive copy-up (initial user namespace only).
    pub index: bool,
}
