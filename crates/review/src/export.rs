//! The whole result as a new directory: what the lane shows, with modes, times and attributes.
//!
//! Invariant: the target comes into being under its final name complete and on disk, or not at all; an
//! existing one is never touched; links are made, never followed.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use kernel::bytes::Mover;
use kernel::{Errno, meta, node, open, publish, xattr};
use rustix::fs::{Mode, OFlags};
use tree::remove::remove_tree;
use tree::{Entry, Kind, Source, TreePath};

use crate::apply::carried;
use crate::error::{Error, Reading as _, Result, Stepping as _};
use crate::guard::git_internal;

/// How to export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExportOptions {
    /// Take git's own files (`.git`) along, as they are in the lane.
    pub git: bool,
}

/// What an export wrote.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExportReport {
    /// Files written (further names of a hard link not counted).
    pub files: u64,
    /// Directories made, the target included.
    pub dirs: u64,
    /// Links, pipes and further names of files.
    pub others: u64,
    /// Bytes of content.
    pub bytes: u64,
    /// What was left out or lost something, with the reason.
    pub not_carried: Vec<(TreePath, String)>,
}

/// Writes everything that `lane` shows to `target`, which must not exist; its directory must.
pub fn export(lane: &dyn Source, target: &Path, options: ExportOptions) -> Result<ExportReport> {
    let top = TreePath::root();
    let (Some(parent), Some(name)) = (target.parent(), target.file_name()) else {
        return Err(Error::Exists(target.to_owned()));
    };
    let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    let name = std::os::unix::ffi::OsStrExt::as_bytes(name);
    let dir = open::root_dir(parent).stepping("open the directory of the target", &top)?;
    if meta::stat_at_if_there(&dir, name).stepping("stat the target", &top)?.is_some() {
        return Err(Error::Exists(target.to_owned()));
    }
    let temp = publish::temp_name();
    node::mkdir_at(&dir, &temp, 0o700).stepping("mkdir", &top)?;
    let written = write(lane, &dir, &temp, options).and_then(|report| {
        match publish::rename_noreplace(&dir, &temp, &dir, name) {
            Err(error) if error.errno == Errno::EXIST => Err(Error::Exists(target.to_owned())),
            answer => answer.stepping("put in place", &top),
        }?;
        // The mode comes last: a directory without write permission could not be renamed.
        let root = lane.entry(&top).reading("lane", &top)?;
        if let Some(root) = root {
            meta::set_mode_at(&dir, name, root.mode).stepping("chmod", &top)?;
        }
        publish::sync_dir(&dir).stepping("fsync", &top)?;
        Ok(report)
    });
    if written.is_err() {
        // The first error says what is wrong; what is left of the attempt is under a temporary name.
        let _ = remove_tree(dir.as_fd(), &temp);
    }
    written
}

fn write(lane: &dyn Source, dir: &OwnedFd, temp: &[u8], options: ExportOptions) -> Result<ExportReport> {
    let top = TreePath::root();
    let root = open::dir_beneath(dir, temp).stepping("open", &top)?;
    let mut export = Export {
        lane,
        options,
        report: ExportReport::default(),
        links: BTreeMap::new(),
        mover: Mover::new(),
        root,
    };
    let again = |export: &Export<'_>| {
        let root = export.root.try_clone();
        root.map_err(|error| kernel::Error::from_io("dup", b"", &error)).stepping("dup", &top)
    };
    let root = again(&export)?;
    export.tree(&top, again(&export)?)?;
    if let Some(entry) = lane.entry(&top).reading("lane", &top)? {
        meta::set_times_fd(&root, (entry.mtime.sec, entry.mtime.nsec)).stepping("futimens", &top)?;
    }
    publish::sync_filesystem(&root).stepping("syncfs", &top)?;
    Ok(export.report)
}

struct Export<'a> {
    lane: &'a dyn Source,
    options: ExportOptions,
    report: ExportReport,
    /// First names of files with several, by device and inode.
    links: BTreeMap<(u64, u64), TreePath>,
    mover: Mover,
    root: OwnedFd,
}

/// A directory that is being written: where, its descriptor, what is left of it.
struct Open {
    path: TreePath,
    fd: OwnedFd,
    left: std::vec::IntoIter<(Vec<u8>, Entry)>,
    /// Its entry in the directory above; none for the top.
    entry: Option<Entry>,
}

impl Export<'_> {
    /// Writes what is below `path`. The chain of directories is a list and not the stack of this thread: a lane
    /// decides how deep it is.
    fn tree(&mut self, path: &TreePath, to: OwnedFd) -> Result<()> {
        let mut chain = vec![self.open(path.clone(), to, None)?];
        while let Some(dir) = chain.last_mut() {
            let Some((name, entry)) = dir.left.next() else {
                let Some(done) = chain.pop() else { break };
                if let (Some(entry), Some(above)) = (&done.entry, chain.last()) {
                    self.finish(&done.path, done.path.name(), entry, &above.fd)?;
                }
                continue;
            };
            let at = dir.path.join(&name);
            if git_internal(&at) && !self.options.git {
                self.report.not_carried.push((at, "git's own files".to_owned()));
            } else if entry.is_dir() {
                node::mkdir_at(&dir.fd, &name, 0o700).stepping("mkdir", &at)?;
                let inside = open::dir_beneath(&dir.fd, &name).stepping("open", &at)?;
                chain.push(self.open(at, inside, Some(entry))?);
            } else {
                self.entry(&at, &name, &entry, &dir.fd)?;
            }
        }
        Ok(())
    }

    fn open(&mut self, path: TreePath, fd: OwnedFd, entry: Option<Entry>) -> Result<Open> {
        self.report.dirs += 1;
        let left = self.lane.list_entries(&path).reading("lane", &path)?.into_iter();
        Ok(Open { path, fd, left, entry })
    }

    /// Writes anything but a directory.
    fn entry(&mut self, path: &TreePath, name: &[u8], entry: &Entry, to: &OwnedFd) -> Result<()> {
        match entry.kind {
            Kind::Dir => return Ok(()),
            Kind::File => {
                let group = (entry.dev, entry.ino);
                if let Some(first) = self.links.get(&group).filter(|_| entry.nlink > 1) {
                    let (dir, first) =
                        open::parent_beneath(&self.root, first.as_bytes()).stepping("open", path)?;
                    node::link_at(&dir, &first, to, name).stepping("link", path)?;
                    self.report.others += 1;
                    return Ok(());
                }
                self.links.insert(group, path.clone());
                self.file(path, name, entry, to)?;
            }
            Kind::Symlink => {
                node::symlink_at(&entry.target, to, name).stepping("symlink", path)?;
                self.report.others += 1;
            }
            Kind::Fifo => {
                node::mkfifo_at(to, name, 0o600).stepping("mkfifo", path)?;
                self.report.others += 1;
            }
            Kind::Socket | Kind::CharDevice | Kind::BlockDevice => {
                self.report.not_carried.push((path.clone(), "a socket or device".to_owned()));
                return Ok(());
            }
        }
        self.finish(path, name, entry, to)
    }

    fn file(&mut self, path: &TreePath, name: &[u8], entry: &Entry, to: &OwnedFd) -> Result<()> {
        let from = self.lane.open(path).reading("lane", path)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        let file = open::open_beneath(to, name, flags, Mode::RUSR | Mode::WUSR).stepping("create", path)?;
        let sparse = entry.allocated < entry.size;
        let (_, moved) =
            self.mover.move_content(from.as_fd(), file.as_fd(), entry.size, sparse).stepping("copy", path)?;
        if moved != entry.size || meta::stat_fd(&file).stepping("stat", path)?.size != entry.size {
            return Err(Error::LaneMoved { path: path.clone() });
        }
        self.report.files += 1;
        self.report.bytes += moved;
        Ok(())
    }

    /// Owner, attributes, mode and time, in the order in which none undoes another.
    fn finish(&mut self, path: &TreePath, name: &[u8], entry: &Entry, to: &OwnedFd) -> Result<()> {
        let is = meta::stat_at(to, name).stepping("stat", path)?;
        if (is.uid, is.gid) != (entry.uid, entry.gid)
            && let Err(error) = meta::set_owner_at(to, name, entry.uid, entry.gid)
        {
            if !matches!(error.errno, Errno::PERM | Errno::INVAL) {
                return Err(error).stepping("chown", path);
            }
            self.report.not_carried.push((path.clone(), format!("owner {}:{}", entry.uid, entry.gid)));
        }
        for (key, value) in self.lane.xattrs(path).reading("lane", path)? {
            let refused = !carried(&key)
                || match xattr::set_at(to, name, &key, &value) {
                    Err(error) if matches!(error.errno, Errno::OPNOTSUPP | Errno::PERM) => true,
                    answer => answer.stepping("setxattr", path).map(|()| false)?,
                };
            if refused {
                self.report.not_carried.push((path.clone(), format!("attribute {}", key.escape_ascii())));
            }
        }
        if entry.kind != Kind::Symlink {
            // A set-id bit of a lane is only ever carried by a keep that asks for it.
            let mode = if entry.is_dir() { entry.mode } else { entry.mode & !0o6000 };
            if mode != entry.mode {
                self.report.not_carried.push((path.clone(), format!("mode {:04o}", entry.mode)));
            }
            meta::set_mode_at(to, name, mode).stepping("chmod", path)?;
        }
        meta::set_times_at(to, name, (entry.mtime.sec, entry.mtime.nsec)).stepping("utimensat", path)
    }
}
