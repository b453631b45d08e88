//! [`Entry`]: what a tree holds under one path. Facts only; reading them is `kernel`'s work.

/// Seconds and nanoseconds since the epoch, as the kernel gives them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time {
    /// Whole seconds, negative before 1970.
    pub sec: i64,
    /// Nanoseconds, below 1,000,000,000.
    pub nsec: u32,
}

/// The type of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Dir,
    /// A symbolic link.
    Symlink,
    /// A named pipe.
    Fifo,
    /// A unix socket. Never stored, never kept, always listed.
    Socket,
    /// A character device other than a whiteout.
    CharDevice,
    /// A block device.
    BlockDevice,
}

/// One entry, as `statx` shows it, with its link target and extended attributes where they were asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Type.
    pub kind: Kind,
    /// Permission bits, set-id and sticky included (`07777`).
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Length in bytes (of a file or of a link's target).
    pub size: u64,
    /// Content modification time.
    pub mtime: Time,
    /// Status change time.
    pub ctime: Time,
    /// Inode number.
    pub ino: u64,
    /// Device number, as `major << 32 | minor`.
    pub dev: u64,
    /// Hard links.
    pub nlink: u64,
    /// Bytes allocated (512 × blocks).
    pub allocated: u64,
    /// Device that a device node names, as `major << 32 | minor`.
    pub rdev: u64,
    /// Target of a symbolic link; empty for everything else.
    pub target: Vec<u8>,
}

impl Entry {
    /// True for a directory.
    pub fn is_dir(&self) -> bool {
        self.kind == Kind::Dir
    }

    /// True for a regular file.
    pub fn is_file(&self) -> bool {
        self.kind == Kind::File
    }

    /// True for a character device 0:0, which in a layer says that a name is gone.
    pub fn is_whiteout(&self) -> bool {
        self.kind == Kind::CharDevice && self.rdev == 0
    }

    /// True for what can be stored and brought elsewhere: not for sockets and devices.
    pub fn is_portable(&self) -> bool {
        matches!(self.kind, Kind::File | Kind::Dir | Kind::Symlink | Kind::Fifo)
    }
}
