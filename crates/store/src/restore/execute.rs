//! Carries a plan out on a layer that nobody uses.
//!
//! Invariant: everything goes through the layer's descriptor, beneath it, never through a link. An entry is replaced by a
//! rename of one that is complete, so that a kill leaves the old one or the new one. What is being made stands in a
//! directory of its own beside the layer, never in it.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use kernel::{Errno, dir, meta, node, open, publish};
use rustix::fs::FileType;
use tree::TreePath;
use tree::layer::Format;

use super::dress::dress;
use super::plan::{Act, Plan};
use crate::content::Content;
use crate::error::{Error, Result, Stepping as _};
use crate::manifest::item::{Item, ItemKind};
use crate::steps::Step;
use crate::store::Store;

/// The bits that let an owner do everything with a directory.
const OPEN: u32 = 0o700;
/// The bit that lets an owner reach what is in it.
const LOOK: u32 = 0o100;

/// What a restore did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// Acts that are done.
    pub done: u64,
    /// What is not as the target says, with the reason.
    pub left: Vec<(TreePath, String)>,
}

/// Carries `plan` out on `layer`. `stage` is an empty directory on the same filesystem, outside the layer; what a killed
/// restore left in it is removed. Content is read from `store`, and checked.
///
/// What cannot be done to one entry is listed. An error ends it in the middle: once the cause is gone, the same plan, or
/// one made from what is there then, finishes it.
pub fn execute(
    store: &Store,
    layer: BorrowedFd<'_>,
    stage: BorrowedFd<'_>,
    format: Format,
    plan: &Plan,
) -> Result<Report> {
    sweep(stage)?;
    let mut restore = Restore {
        store,
        layer,
        stage,
        format,
        report: Report::default(),
        loosened: Vec::new(),
        parent: None,
    };
    for path in &plan.left_alone {
        restore.leave(path, "the snapshot could not take what stood here; what stands here now stays");
    }
    for act in &plan.acts {
        restore.act(act)?;
        restore.report.done += 1;
    }
    restore.tighten(plan)?;
    Ok(restore.report)
}

fn sweep(stage: BorrowedFd<'_>) -> Result<()> {
    let names = open::dir_beneath(stage, b"").and_then(dir::unread_entries).stepping("list", b"stage")?;
    for item in names.iter().filter(|item| item.name.starts_with(publish::TEMP_PREFIX)) {
        node::unlink_at(stage, &item.name).stepping("remove", &item.name)?;
    }
    Ok(())
}

struct Restore<'a> {
    store: &'a Store,
    layer: BorrowedFd<'a>,
    stage: BorrowedFd<'a>,
    format: Format,
    report: Report,
    /// Directories that refused their owner, with the mode that they had, and which they are.
    loosened: Vec<(TreePath, u32, (u64, u64))>,
    /// The directory that the last act was in: most acts come in runs.
    parent: Option<Parent>,
}

/// A directory in which something is done.
struct Parent {
    path: TreePath,
    fd: OwnedFd,
    /// Entries may be made and removed in it, not only dressed.
    may_change: bool,
}

impl Restore<'_> {
    fn act(&mut self, act: &Act) -> Result<()> {
        let path = act.path();
        let step = match act {
            Act::Remove { .. } => Step::RestoreRemove,
            Act::Dress { .. } => Step::RestoreMeta,
            Act::MakeDir { .. } | Act::Put { .. } | Act::Link { .. } => Step::RestorePut,
        };
        self.store.steps.at(step).stepping("restore", path.as_bytes())?;
        if let Err(error) = self.enter(path, matches!(act, Act::Dress { .. })) {
            return match act {
                // What was in a directory that is gone, or is something else now, is gone as well.
                Act::Remove { .. } if is_gone(&error) => Ok(()),
                _ => self.settle(path, error),
            };
        }
        let Some(within) = self.parent.take() else { return Ok(()) };
        let parent = &within.fd;
        let name = if path.is_root() { b"." as &[u8] } else { path.name() };
        let done = match act {
            Act::Remove { dir, .. } => self.remove(parent, name, path, *dir),
            Act::MakeDir { .. } => make_dir(parent, name).stepping("make directory", path.as_bytes()),
            Act::Put { item, .. } => self.put(parent, name, path, item),
            Act::Link { first, .. } => self.link(parent, name, path, first),
            Act::Dress { item, .. } => self.dress(parent, name, path, item),
        };
        self.parent = Some(within);
        match done {
            Err(Error::Kernel { source, .. }) if is_of_one_entry(&source) => self.settle(path, source),
            answer => answer,
        }
    }

    /// Opens the directory that holds `path`, giving its owner what it takes to work there.
    fn enter(&mut self, path: &TreePath, dress: bool) -> kernel::Result<()> {
        let parent = path.parent().unwrap_or_default();
        if self.parent.as_ref().is_some_and(|open| open.path == parent && (dress || open.may_change)) {
            return Ok(());
        }
        let opened = open::path_beneath(self.layer, parent.as_bytes());
        let refused = |error: &kernel::Error| error.errno == Errno::ACCESS;
        let fd = match opened {
            Err(error) if refused(&error) => {
                self.loosen(&parent)?;
                open::path_beneath(self.layer, parent.as_bytes())?
            }
            opened => opened?,
        };
        let stat = meta::stat_fd(&fd)?;
        if stat.file_type() != FileType::Directory {
            return Err(kernel::Error::new("openat2", parent.as_bytes(), Errno::NOTDIR));
        }
        // To change what a directory holds takes more than to look into it.
        let needed = if dress { LOOK } else { OPEN };
        if !path.is_root() && stat.permissions() & needed != needed && may_loosen(stat.uid) {
            meta::set_mode_path_fd(&fd, stat.permissions() | OPEN)?;
            self.loosened.push((parent.clone(), stat.permissions(), stat.identity()));
        }
        self.parent = Some(Parent { path: parent, fd, may_change: !dress });
        Ok(())
    }

    /// Opens up every directory down to `path` that refuses its owner.
    fn loosen(&mut self, path: &TreePath) -> kernel::Result<()> {
        let mut at = TreePath::root();
        let names: Vec<Vec<u8>> = path.components().map(<[u8]>::to_vec).collect();
        for name in std::iter::once(None).chain(names.into_iter().map(Some)) {
            if let Some(name) = name {
                at = at.join(name);
            }
            let fd = open::path_beneath(self.layer, at.as_bytes())?;
            let stat = meta::stat_fd(&fd)?;
            let closed = stat.file_type() == FileType::Directory && stat.permissions() & OPEN != OPEN;
            if closed && may_loosen(stat.uid) {
                meta::set_mode_path_fd(&fd, stat.permissions() | OPEN)?;
                self.loosened.push((at.clone(), stat.permissions(), stat.identity()));
            }
        }
        Ok(())
    }

    /// Gives directories that were opened up, and that the plan does not dress, their mode back. What stands there instead of one
    /// that went has its own.
    fn tighten(&mut self, plan: &Plan) -> Result<()> {
        let dressed: std::collections::HashSet<&TreePath> =
            plan.acts.iter().filter(|act| matches!(act, Act::Dress { .. })).map(Act::path).collect();
        while let Some((path, mode, identity)) = self.loosened.pop() {
            if dressed.contains(&path) {
                continue;
            }
            let put_back = |fd: OwnedFd| {
                let stat = meta::stat_fd(&fd)?;
                // The number of a directory that went may be that of a file by now.
                let same = stat.file_type() == FileType::Directory && stat.identity() == identity;
                if same { meta::set_mode_path_fd(&fd, mode) } else { Ok(()) }
            };
            match open::path_beneath(self.layer, path.as_bytes()).and_then(put_back) {
                Err(error) if !is_gone(&error) => return Err(error).stepping("set mode of", path.as_bytes()),
                _ => {}
            }
        }
        Ok(())
    }

    fn remove(&mut self, parent: &OwnedFd, name: &[u8], path: &TreePath, is_dir: bool) -> Result<()> {
        if !is_dir {
            return match node::unlink_at(parent, name) {
                // A directory stands here: it is what this entry was removed for, before.
                Err(error) if matches!(error.errno, Errno::NOENT | Errno::ISDIR) => Ok(()),
                Err(error) if error.errno == Errno::PERM && is_directory(parent, name) => Ok(()),
                answer => answer.stepping("remove", path.as_bytes()),
            };
        }
        match node::rmdir_at(parent, name) {
            Err(error) if matches!(error.errno, Errno::NOENT | Errno::NOTDIR) => Ok(()),
            Err(error) if matches!(error.errno, Errno::NOTEMPTY | Errno::EXIST) => {
                // Sockets are in no manifest, and without their program they are nothing.
                let inside = open::dir_beneath(parent, name).stepping("list", path.as_bytes())?;
                for item in dir::unread_entries(&inside).stepping("list", path.as_bytes())? {
                    let stat = meta::stat_at(&inside, &item.name).stepping("stat", path.as_bytes())?;
                    if stat.file_type() == FileType::Socket {
                        node::unlink_at(&inside, &item.name).stepping("remove", path.as_bytes())?;
                    }
                }
                node::rmdir_at(parent, name).stepping("remove", path.as_bytes())
            }
            answer => answer.stepping("remove", path.as_bytes()),
        }
    }

    fn put(&mut self, parent: &OwnedFd, name: &[u8], path: &TreePath, item: &Item) -> Result<()> {
        let temp = self.make(item)?;
        let dressed = dress(self.stage, &temp, item, self.format);
        let put = match dressed {
            Ok(kept) => {
                if let Some(why) = kept {
                    self.leave(path, why);
                }
                publish::rename_replace(self.stage, &temp, parent, name)
            }
            Err(error) => Err(error),
        };
        if put.is_err() {
            let _ = node::unlink_at(self.stage, &temp);
        }
        put.stepping("put", path.as_bytes())
    }

    /// Makes an entry under a temporary name in the stage.
    fn make(&self, item: &Item) -> Result<Vec<u8>> {
        let made = |made: kernel::Result<()>, temp: Vec<u8>| made.map(|()| temp).stepping("make", b"stage");
        let temp = publish::temp_name();
        match &item.kind {
            ItemKind::File(content) => self.make_file(content),
            ItemKind::Symlink(target) => made(node::symlink_at(target, self.stage, &temp), temp),
            ItemKind::Fifo => made(node::mkfifo_at(self.stage, &temp, 0o600), temp),
            ItemKind::Whiteout => made(node::whiteout_at(self.stage, &temp), temp),
            ItemKind::Dir { .. } => Err(Error::malformed("plan", "a directory is made in its place")),
        }
    }

    fn make_file(&self, content: &Content) -> Result<Vec<u8>> {
        let (fd, temp) = publish::temp_file(self.stage, 0o600).stepping("make", b"stage")?;
        match self.store.copy_into(content, fd.as_fd()) {
            Ok(()) => Ok(temp),
            Err(error) => {
                let _ = node::unlink_at(self.stage, &temp);
                Err(error)
            }
        }
    }

    fn link(&mut self, parent: &OwnedFd, name: &[u8], path: &TreePath, first: &TreePath) -> Result<()> {
        let step = |answer: kernel::Result<()>| answer.stepping("link", path.as_bytes());
        let (first_dir, first_name) =
            open::parent_beneath(self.layer, first.as_bytes()).stepping("link", path.as_bytes())?;
        let one = meta::stat_at(&first_dir, &first_name).stepping("link", path.as_bytes())?;
        let there = meta::stat_at_if_there(parent, name).stepping("link", path.as_bytes())?;
        if there.is_some_and(|there| there.identity() == one.identity()) {
            return Ok(());
        }
        let temp = publish::temp_name();
        step(node::link_at(&first_dir, &first_name, self.stage, &temp))?;
        let put = publish::rename_replace(self.stage, &temp, parent, name);
        if put.is_err() {
            let _ = node::unlink_at(self.stage, &temp);
        }
        step(put)
    }

    fn dress(&mut self, parent: &OwnedFd, name: &[u8], path: &TreePath, item: &Item) -> Result<()> {
        // A plan that is done again must not dress what is of another type by then.
        let there = meta::stat_at(parent, name).stepping("stat", path.as_bytes())?;
        if (there.file_type() == FileType::Directory) != item.is_dir() {
            self.leave(path, "an entry of another type stands here");
            return Ok(());
        }
        if let Some(why) =
            dress(parent.as_fd(), name, item, self.format).stepping("set metadata of", path.as_bytes())?
        {
            self.leave(path, why);
        }
        Ok(())
    }

    fn leave(&mut self, path: &TreePath, why: impl Into<String>) {
        self.report.left.push((path.clone(), why.into()));
    }

    fn settle(&mut self, path: &TreePath, error: kernel::Error) -> Result<()> {
        if !is_of_one_entry(&error) {
            return Err(error).stepping("restore", path.as_bytes());
        }
        self.leave(path, error.to_string());
        Ok(())
    }
}

fn make_dir(parent: &OwnedFd, name: &[u8]) -> kernel::Result<()> {
    match node::mkdir_at(parent, name, OPEN) {
        Err(error) if error.errno == Errno::EXIST && is_directory(parent, name) => Ok(()),
        answer => answer,
    }
}

fn is_directory(parent: &OwnedFd, name: &[u8]) -> bool {
    meta::stat_at(parent, name).is_ok_and(|stat| stat.file_type() == FileType::Directory)
}

fn is_gone(error: &kernel::Error) -> bool {
    error.is_not_found() || error.errno == Errno::LOOP
}

/// True for what concerns this entry alone: the others can still be restored.
fn is_of_one_entry(error: &kernel::Error) -> bool {
    matches!(
        error.errno,
        Errno::ACCESS
            | Errno::PERM
            | Errno::NOTEMPTY
            | Errno::EXIST
            | Errno::ISDIR
            | Errno::NOTDIR
            | Errno::NOENT
            | Errno::LOOP
            | Errno::OPNOTSUPP
            | Errno::BUSY
            | Errno::MLINK
    )
}

/// Root is refused nothing, and others may change only what is theirs.
fn may_loosen(owner: u32) -> bool {
    let me = rustix::process::geteuid();
    !me.is_root() && owner == me.as_raw()
}
