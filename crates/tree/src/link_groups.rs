//! [`LinkGroups`]: the files of a layer that have several names in it, and a copy of them and no other entry.
//!
//! An overlay parts such names when it copies one of them up from a lower layer. So whoever makes a layer a lower one puts
//! them whole into the layer above it.
//!
//! Invariant: the copy shows, above or below the layer itself, nothing that the layer does not show.

use std::collections::{BTreeSet, HashMap};
use std::os::fd::{AsFd as _, BorrowedFd};

use kernel::{Result, dir::DirName, meta, node, open};

use crate::copy::{Between, Copied, Copier, CopyOptions, Failed, Progress};
use crate::layer::{self, Format};
use crate::layer_copy::Marks;
use crate::path::TreePath;
use crate::walk::{Mounts, Visit, walk_dirs};

/// What was found in a layer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LinkGroups {
    /// All names of files that have several, sorted.
    pub names: BTreeSet<TreePath>,
    /// Every other entry but the directories above them.
    pub others: u64,
    /// Entries that were looked at.
    pub looked_at: u64,
    /// They can be told from the rest and copied alone: all names of each are in the layer, everything could be looked at, and
    /// where there are any, no directory of it was renamed.
    pub can_part: bool,
}

impl LinkGroups {
    /// Looks at every entry of a layer.
    pub fn of(layer: BorrowedFd<'_>, format: Format) -> LinkGroups {
        let mut found = LinkGroups::default();
        let mut renamed = false;
        let mut groups: HashMap<u64, (u64, Vec<TreePath>)> = HashMap::new();
        let mut dirs = BTreeSet::new();
        let gaps = walk_dirs(layer, Mounts::Stay, &mut |visited| {
            found.looked_at += 1;
            let entry = visited.entry;
            if entry.is_dir() {
                dirs.insert(visited.path.clone());
                if format == Format::Root {
                    let marks = layer::dir_marks(visited.dir, visited.name, format);
                    renamed |= marks.map_or(true, |marks| marks.redirect.is_some());
                }
            } else if entry.nlink > 1 && !entry.is_whiteout() {
                let group = groups.entry(entry.ino).or_insert((entry.nlink, Vec::new()));
                group.1.push(visited.path.clone());
            } else {
                found.others += 1;
            }
            Visit::Enter
        });
        found.can_part = gaps.is_empty();
        for (names, paths) in groups.into_values() {
            found.can_part &= names == paths.len() as u64;
            found.names.extend(paths);
        }
        found.can_part &= !renamed || found.names.is_empty();
        let above = found.above();
        found.others += dirs.iter().filter(|path| !above.contains(*path)).count() as u64;
        found
    }

    /// True where no file has several names.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    fn above(&self) -> BTreeSet<TreePath> {
        let mut above = BTreeSet::new();
        for name in &self.names {
            let mut at = name.parent();
            while let Some(path) = at.filter(|path| !path.is_root() && !above.contains(path)) {
                at = path.parent();
                above.insert(path);
            }
        }
        above
    }

    /// Copies them, with the directories above them, from `layer` into the empty directory `to`, whose root looks as the
    /// layer's already. All or nothing: the caller removes what was made.
    pub fn copy(
        &self,
        (layer, to): (BorrowedFd<'_>, BorrowedFd<'_>),
        format: Format,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Copied> {
        let options = CopyOptions { layer: Some(Marks::Whiteouts(format)), ..CopyOptions::default() };
        let mut copier = Copier::new(to, &options, progress);
        let above = self.above();
        for path in &above {
            let (parent, name) = open::parent_beneath(to, path.as_bytes())?;
            node::mkdir_at(&parent, &name, 0o700)?;
            copier.copied.dirs += 1;
        }
        for path in &self.names {
            let (from, name) = open::parent_beneath(layer, path.as_bytes())?;
            let (into, _) = open::parent_beneath(to, path.as_bytes())?;
            let at = Between { from: from.as_fd(), to: into.as_fd() };
            copier.leaf(at, DirName { name, kind: None, ino: 0 }, path).map_err(|failed| match failed {
                Failed::Source(error) | Failed::Target(error) => {
                    kernel::Error::new(error.call, path.as_bytes(), error.errno)
                }
            })?;
            copier.tell(false);
        }
        // What is in a directory changes its times.
        for path in above.iter().rev() {
            let (old, new) =
                (open::dir_beneath(layer, path.as_bytes())?, open::dir_beneath(to, path.as_bytes())?);
            copier.dress(old.as_fd(), new.as_fd(), &meta::stat_fd(&old)?, true)?;
        }
        let root = meta::stat_fd(layer)?;
        meta::set_times_fd(to, root.mtime)?;
        copier.tell(true);
        match copier.copied.skipped.first() {
            Some((path, _)) => Err(kernel::Error::new("copy", path.as_bytes(), kernel::Errno::OPNOTSUPP)),
            None => Ok(copier.copied),
        }
    }
}
