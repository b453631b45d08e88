//! Mounts through the new mount API: made detached, restricted, then attached by descriptor.
//!
//! Invariants: no path ever goes into an option string; a target is resolved beneath a directory
//! descriptor without following a link; a failed step carries the kernel's own log. Where the kernel is
//! too old for a layer by descriptor ([6.13]), the layer is named `/proc/self/fd/N`.
//!
//! Rests on fsopen(2), fsconfig(2), fsmount(2), open_tree(2), move_mount(2), mount_setattr(2) and the
//! kernel's overlayfs document.

use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags,
    UnmountFlags,
};

use crate::error::{Asked as _, Error, Result};
use crate::process::last;

/// Attributes to add to a mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Attributes {
    /// No writes.
    pub read_only: bool,
    /// Set-id bits and file capabilities have no effect.
    pub no_suid: bool,
    /// Device nodes do not work.
    pub no_dev: bool,
    /// Nothing can be executed.
    pub no_exec: bool,
}

impl Attributes {
    fn bits(self) -> u64 {
        let mut bits = 0;
        for (on, bit) in [
            (self.read_only, libc::MOUNT_ATTR_RDONLY),
            (self.no_suid, libc::MOUNT_ATTR_NOSUID),
            (self.no_dev, libc::MOUNT_ATTR_NODEV),
            (self.no_exec, libc::MOUNT_ATTR_NOEXEC),
        ] {
            if on {
                bits |= bit;
            }
        }
        bits
    }

    fn flags(self) -> MountAttrFlags {
        MountAttrFlags::from_bits_retain(self.bits() as u32)
    }
}

/// How an overlay is mounted. See the kernel's overlayfs document for each word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OverlayOptions {
    /// Marks live in `user.overlay.*` (needed in a user namespace).
    pub user_xattr: bool,
    /// Nothing is synced at unmount.
    pub volatile: bool,
    /// Directories of a lower layer can be renamed.
    pub redirect_dir: bool,
    /// Hard links survive copy-up.
    pub index: bool,
}

/// A mount that stands nowhere yet.
#[derive(Debug)]
pub struct Detached(OwnedFd);

impl Detached {
    /// The mount beneath `source` (an `O_PATH` descriptor will do), with what is mounted below it where `recursive`.
    pub fn clone_of(source: impl AsFd, recursive: bool, name: &[u8]) -> Result<Detached> {
        let mut flags =
            OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH;
        if recursive {
            flags |= OpenTreeFlags::AT_RECURSIVE;
        }
        rustix::mount::open_tree(source, c"", flags).asked("open_tree", name).map(Detached)
    }

    /// The mount at a path of the host (a last link is followed), with what is mounted below it where `recursive`.
    pub fn clone_at(path: &std::path::Path, recursive: bool) -> Result<Detached> {
        let mut flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
        if recursive {
            flags |= OpenTreeFlags::AT_RECURSIVE;
        }
        rustix::mount::open_tree(rustix::fs::CWD, path, flags)
            .asked("open_tree", crate::error::path_bytes(path))
            .map(Detached)
    }

    /// A new tmpfs whose root has `mode`; `size` is its limit in bytes.
    pub fn tmpfs(mode: u32, size: Option<u64>, attributes: Attributes) -> Result<Detached> {
        let fs = Filesystem::open(c"tmpfs")?;
        fs.string("mode", &format!("{mode:o}"))?;
        if let Some(size) = size {
            fs.string("size", &size.to_string())?;
        }
        fs.string("source", "lane")?;
        fs.create(attributes)
    }

    /// A new filesystem of `kind` with plain `key=value` options that hold no path.
    pub fn plain(
        kind: &'static std::ffi::CStr,
        options: &[(&str, &str)],
        attributes: Attributes,
    ) -> Result<Detached> {
        let fs = Filesystem::open(kind)?;
        for (key, value) in options {
            fs.string(key, value)?;
        }
        fs.create(attributes)
    }

    /// An overlay of `lowers` (top first) below `upper` and its `work` directory.
    pub fn overlay(
        lowers: &[BorrowedFd<'_>],
        upper_and_work: Option<(BorrowedFd<'_>, BorrowedFd<'_>)>,
        options: OverlayOptions,
        attributes: Attributes,
    ) -> Result<Detached> {
        let fs = Filesystem::open(c"overlay")?;
        fs.string("source", "lane")?;
        if options.user_xattr {
            fs.flag("userxattr")?;
        }
        if options.redirect_dir {
            fs.string("redirect_dir", "on")?;
        }
        if options.index {
            fs.string("index", "on")?;
        } else if !options.user_xattr {
            fs.string("index", "off")?;
        }
        if !options.user_xattr {
            // Where this is the kernel's default, an upper could not be read without its lower.
            fs.string("metacopy", "off")?;
        }
        if let Some((upper, work)) = upper_and_work {
            if options.volatile {
                fs.flag("volatile")?;
            }
            fs.layer("upperdir", upper)?;
            fs.layer("workdir", work)?;
        }
        fs.lowers(lowers)?;
        fs.create(attributes)
    }

    /// Adds attributes, to everything below too where `recursive`.
    pub fn restrict(&self, attributes: Attributes, recursive: bool) -> Result<()> {
        set_attributes(self.0.as_fd(), attributes, recursive)
    }

    /// Attaches the mount at `target` (a directory, or a file for the clone of a file).
    pub fn attach(self, target: impl AsFd, name: &[u8]) -> Result<()> {
        let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
        rustix::mount::move_mount(&self.0, c"", target, c"", flags).asked("move_mount", name)
    }

    /// The same as [`Detached::attach`]; the descriptor of the mount's root is kept.
    pub fn attach_and_hold(self, target: impl AsFd, name: &[u8]) -> Result<OwnedFd> {
        let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
        rustix::mount::move_mount(&self.0, c"", target, c"", flags).asked("move_mount", name)?;
        Ok(self.0)
    }

    /// Attaches the mount over `name` in the directory `dir`; a link there is not followed.
    pub fn attach_in(self, dir: impl AsFd, name: &[u8]) -> Result<()> {
        let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
        rustix::mount::move_mount(&self.0, c"", dir, name, flags).asked("move_mount", name)
    }

    /// The root of the mount, to look into or to build in.
    pub fn root(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Adds attributes to the mount beneath `mount`.
pub fn set_attributes(mount: BorrowedFd<'_>, attributes: Attributes, recursive: bool) -> Result<()> {
    let attr = libc::mount_attr { attr_set: attributes.bits(), attr_clr: 0, propagation: 0, userns_fd: 0 };
    let flags = libc::AT_EMPTY_PATH | if recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: the path is an empty NUL-terminated string; `attr` outlives the call and its true size is
    // passed (mount_setattr(2)).
    let answer = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const attr,
            size_of::<libc::mount_attr>(),
        )
    };
    if answer == 0 { Ok(()) } else { Err(last("mount_setattr", format!("{attributes:?}"))) }
}

struct Filesystem(OwnedFd);

impl Filesystem {
    fn open(kind: &'static std::ffi::CStr) -> Result<Filesystem> {
        rustix::mount::fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)
            .asked("fsopen", kind.to_bytes())
            .map(Filesystem)
    }

    fn flag(&self, key: &str) -> Result<()> {
        let answer = rustix::mount::fsconfig_set_flag(self.0.as_fd(), key);
        self.told(answer.asked("fsconfig", key))
    }

    fn string(&self, key: &str, value: &str) -> Result<()> {
        let answer = rustix::mount::fsconfig_set_string(self.0.as_fd(), key, value);
        self.told(answer.asked("fsconfig", format!("{key}={value}")))
    }

    fn layer(&self, key: &str, layer: BorrowedFd<'_>) -> Result<()> {
        match rustix::mount::fsconfig_set_fd(self.0.as_fd(), key, layer) {
            Ok(()) => Ok(()),
            Err(Errno::INVAL | Errno::BADF) => {
                self.string(key, &format!("/proc/self/fd/{}", layer.as_raw_fd()))
            }
            Err(errno) => self.told(Err(Error::new("fsconfig", key, errno))),
        }
    }

    fn lowers(&self, lowers: &[BorrowedFd<'_>]) -> Result<()> {
        for (index, lower) in lowers.iter().enumerate() {
            let answer = self.layer("lowerdir+", *lower);
            if index == 0 && answer.as_ref().is_err_and(|error| error.errno == Errno::INVAL) {
                // Before `lowerdir+` [6.8]: one string; the names hold no character that needs an escape.
                let names: Vec<String> =
                    lowers.iter().map(|l| format!("/proc/self/fd/{}", l.as_raw_fd())).collect();
                return self.string("lowerdir", &names.join(":"));
            }
            answer?;
        }
        Ok(())
    }

    fn create(&self, attributes: Attributes) -> Result<Detached> {
        self.told(rustix::mount::fsconfig_create(self.0.as_fd()).asked("fsconfig", "create"))?;
        let mount = rustix::mount::fsmount(self.0.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes.flags());
        self.told(mount.asked("fsmount", "")).map(Detached)
    }

    /// Adds what the kernel logged about this filesystem to an error.
    fn told<T>(&self, answer: Result<T>) -> Result<T> {
        answer.map_err(|error| {
            let mut log = String::new();
            let mut buffer = [0u8; 512];
            while let Ok(n) = rustix::io::read(&self.0, &mut buffer) {
                if n == 0 {
                    break;
                }
                if !log.is_empty() {
                    log.push_str("; ");
                }
                log.push_str(&buffer[..n].escape_ascii().to_string());
            }
            error.with_log(log)
        })
    }
}

/// Cuts every mount of this mount namespace off from the namespace that it was copied from.
pub fn make_private() -> Result<()> {
    rustix::mount::mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE)
        .asked("mount", "/ MS_REC|MS_PRIVATE")
}

/// Makes the directory `root` (the root of a mount) the root of this process and drops the old one.
pub fn pivot(root: impl AsFd) -> Result<()> {
    rustix::process::fchdir(root).asked("fchdir", "new root")?;
    rustix::process::pivot_root(".", ".").asked("pivot_root", ".")?;
    rustix::mount::unmount(".", UnmountFlags::DETACH).asked("umount2", "old root")?;
    rustix::process::chdir("/").asked("chdir", "/")
}

/// Opens a path of the host by name, as a place only (`O_PATH`); a last link is followed.
pub fn place(path: impl AsRef<std::path::Path>) -> Result<OwnedFd> {
    let path = path.as_ref();
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).asked("open", crate::error::path_bytes(path))
}

/// Opens `path` (relative) beneath `root` as a place, across mounts, without following any link.
pub fn place_beneath(root: impl AsFd, path: &std::path::Path) -> Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let path = if path.as_os_str().is_empty() { std::path::Path::new(".") } else { path };
    rustix::fs::openat2(root, path, flags, Mode::empty(), resolve)
        .asked("openat2", crate::error::path_bytes(path))
}
