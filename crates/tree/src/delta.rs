//! An overlay's upper layer and its lower tree → [`ChangeSet`].
//!
//! Invariant: exact in both directions (a change for each difference between the lower tree and the merged
//! view, none for anything equal), at a cost that follows the upper: the lower is looked up by name, and listed
//! only where a directory of it was removed, replaced or retyped.

use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use kernel::{Result, open};

use crate::change::{ChangeKind, ChangeSet};
use crate::compare::{CompareOptions, Found, Pair, Side};
use crate::dir::DirTree;
use crate::entry::Entry;
use crate::layer::Format;
use crate::links::{Covered, LinkIndex};
use crate::path::TreePath;
use crate::recall::Recall;
use crate::source::Source;
use crate::union::{Merged, Stands, merges_with};
use crate::upper::{Bare, DirLayer, Layer};

/// How the upper was mounted, and what is to be known of it.
#[derive(Debug, Clone, Default)]
pub struct DeltaOptions<'a> {
    /// For a mount with `index=on`, what [`LinkIndex::read`] gave: a write through one name of a hard link shows
    /// under all of them, though the upper holds one.
    pub index: Option<Arc<LinkIndex>>,
    /// No content is read: what was written and is equal may be in the list (see [`CompareOptions`]).
    pub unread: bool,
    /// Of a directory that is new as a whole, its top alone is told.
    pub new_tops: bool,
    /// Asked instead of reading where it remembers: for sums alone.
    pub recall: Option<&'a Recall>,
}

/// What the lane changed, by its upper directory alone (see [`layer_delta`]).
pub fn overlay_delta(
    upper: BorrowedFd<'_>,
    format: Format,
    lower: &dyn Source,
    options: &DeltaOptions<'_>,
) -> Result<ChangeSet> {
    let upper = DirLayer::new(DirTree::from_fd(open::dir_beneath(upper, b"")?), format);
    layer_delta(&upper, lower, options)
}

/// What the lane changed. Exact renames of directories (root mode) are in it; for those of files see
/// [`crate::rename::find_renames`].
pub fn layer_delta(upper: &dyn Layer, lower: &dyn Source, options: &DeltaOptions<'_>) -> Result<ChangeSet> {
    let merged = Merged::of(Box::new(upper), Box::new(lower), Stands::Top).with_index(options.index.clone());
    let compare =
        CompareOptions { unread: options.unread, recall: options.recall, ..CompareOptions::default() };
    let mut delta = Delta {
        upper,
        merged: &merged,
        found: Found::new(lower, compare),
        moved: HashMap::new(),
        covered: Covered::default(),
        linked: false,
        new_tops: options.new_tops,
    };
    delta.run()?;
    if let Some(index) = &options.index {
        delta.other_names(index, options.recall)?;
    }
    let mut set = delta.found.finish(&delta.moved.into_keys().collect());
    set.linked = delta.linked;
    Ok(set)
}

/// A name of the upper and what stands there, where that could be found out.
type Named = (Vec<u8>, Result<Option<Entry>>);

/// A directory of the upper that is still to be read.
struct Open {
    path: TreePath,
    /// The base directory that it is compared with.
    base: Option<TreePath>,
    /// Whether that base directory shows through where the upper has nothing.
    shows: bool,
}

struct Delta<'a> {
    upper: &'a dyn Layer,
    merged: &'a Merged<'a>,
    found: Found<'a>,
    /// Base directories that were renamed, and where to.
    moved: HashMap<TreePath, TreePath>,
    /// Names of hard links that the upper answers for.
    covered: Covered,
    /// An entry of the upper has further names, or could not be looked at.
    linked: bool,
    new_tops: bool,
}

impl Delta<'_> {
    fn run(&mut self) -> Result<()> {
        let root = TreePath::root();
        let shows = self.found.base.entry(&root)?.is_some_and(|entry| entry.is_dir());
        let mut open = Vec::new();
        self.directory(&Open { path: root.clone(), base: shows.then_some(root), shows }, &mut open)?;
        while let Some(at) = open.pop() {
            if let Err(error) = self.directory(&at, &mut open) {
                self.linked = true;
                self.found.gap(&at.path, error);
            }
        }
        Ok(())
    }

    fn directory(&mut self, at: &Open, open: &mut Vec<Open>) -> Result<()> {
        let names = self.names(&at.path)?;
        if let (Some(base), false) = (&at.base, at.shows) {
            // Nothing shows through, so whatever the upper has not is gone.
            for (name, old) in self.found.base.list_entries(base)? {
                if names.binary_search_by(|(other, _)| other.cmp(&name)).is_err() && !old.is_whiteout() {
                    self.found.gone(base.join(name), old, Pair::Replaced);
                }
            }
        }
        let olds = at.base.as_ref().map(|base| {
            let names: Vec<&[u8]> = names.iter().map(|(name, _)| name.as_slice()).collect();
            self.found.base.entries_in(base, &names)
        });
        let mut olds = olds.into_iter().flatten();
        for (name, entry) in names {
            let old = olds.next().unwrap_or(Ok(None));
            let path = at.path.join(&name);
            let new = match entry {
                Ok(Some(new)) => new,
                // A lane that is at work: gone since the directory was read.
                Ok(None) => continue,
                Err(error) => {
                    self.linked = true;
                    self.found.gap(&path, error);
                    continue;
                }
            };
            self.linked |= new.nlink > 1 && !new.is_dir() && !new.is_whiteout();
            let base = at.base.as_ref().map(|dir| dir.join(&name));
            let old = match old {
                Ok(old) => old.filter(|old| !old.is_whiteout()),
                Err(error) => {
                    self.found.gap(&path, error);
                    continue;
                }
            };
            let old = base.zip(old);
            if let Some((base, old)) = &old {
                self.covered.note(base, old);
            }
            if new.is_whiteout() {
                if let Some((base, old)) = old {
                    self.found.gone(base, old, Pair::Replaced);
                }
            } else if new.is_dir() {
                if let Err(error) = self.subdirectory(at, &path, new, old, open) {
                    self.found.gap(&path, error);
                }
            } else if new.is_file() && new.size > 0 && self.upper.is_metadata_only(&path)? {
                self.found.gap(&path, "only the metadata was copied up (metacopy), its content is not known");
            } else {
                self.other(&path, new, old);
            }
        }
        Ok(())
    }

    /// The names of a directory of the upper.
    fn names(&self, path: &TreePath) -> Result<Vec<Named>> {
        if let Ok(names) = self.upper.names(path, true) {
            return Ok(names.into_iter().map(|(name, entry)| (name, Ok(entry))).collect());
        }
        // One of them cannot be looked at: each by itself, so that the others are not lost.
        let names = self.upper.names(path, false)?.into_iter();
        let look = |(name, entry): (Vec<u8>, Option<Entry>)| match entry {
            Some(entry) => (name, Ok(Some(entry))),
            None => {
                let entry = self.upper.entry(&path.join(&name));
                (name, entry)
            }
        };
        Ok(names.map(look).collect())
    }

    /// A file, link or FIFO of the upper.
    fn other(&mut self, path: &TreePath, new: Entry, old: Option<(TreePath, Entry)>) {
        let Some((base, old)) = old else {
            self.found.added(path, new);
            return;
        };
        let answer = self.found.pair(
            Side { source: self.found.base, path: &base, entry: &old },
            Side { source: &Bare(self.upper), path, entry: &new },
        );
        self.found.gone(base, old, answer);
    }

    fn subdirectory(
        &mut self,
        at: &Open,
        path: &TreePath,
        new: Entry,
        old: Option<(TreePath, Entry)>,
        open: &mut Vec<Open>,
    ) -> Result<()> {
        let marks = self.upper.marks(path)?;
        let parent = at.base.as_ref().filter(|_| at.shows);
        let below = merges_with(&marks, parent, path.name());
        if marks.redirect.is_some()
            && let Some(from) = &below
            && Some(from) != old.as_ref().map(|(base, _)| base)
            && let Some(source) = self.found.base.entry(from)?.filter(Entry::is_dir)
        {
            if self.found.base.entry(path)?.is_none() && self.merged.entry(from)?.is_none() {
                self.moved.insert(from.clone(), path.clone());
                let kind = ChangeKind::Rename { from: from.clone(), modified: false };
                self.found.push(path, kind, Some(source), Some(new));
                if let Some((base, old)) = old {
                    // In a renamed directory: what stood at this place of it went.
                    self.found.gone(base, old, Pair::Replaced);
                }
                open.push(Open { path: path.clone(), base: below, shows: true });
            } else {
                // A name that was taken, or a source that is there again: no rename says that. The
                // subtree is compared as it shows.
                self.replaced(path, new, old);
            }
            return Ok(());
        }
        let Some((base, old)) = old else {
            self.found.added(path, new);
            if !self.new_tops {
                open.push(Open { path: path.clone(), base: None, shows: false });
            }
            return Ok(());
        };
        let answer = self.found.pair(
            Side { source: self.found.base, path: &base, entry: &old },
            Side { source: &Bare(self.upper), path, entry: &new },
        );
        let (base, shows) = if answer == Pair::Same && old.is_dir() {
            let shows = below.as_ref() == Some(&base);
            (Some(base), shows)
        } else {
            self.found.gone(base, old, answer);
            (None, false)
        };
        open.push(Open { path: path.clone(), base, shows });
        Ok(())
    }

    /// A directory that merges with another base directory than the one at its own place.
    fn replaced(&mut self, path: &TreePath, new: Entry, old: Option<(TreePath, Entry)>) {
        let Some((base, old)) = old else {
            self.found.added(path, new);
            self.found.below(None, path, self.merged);
            return;
        };
        let answer = self.found.pair(
            Side { source: self.found.base, path: &base, entry: &old },
            Side { source: self.merged, path, entry: &new },
        );
        if answer == Pair::Same && old.is_dir() {
            self.found.below(Some(&base), path, self.merged);
        } else {
            self.found.gone(base, old, answer);
            self.found.below(None, path, self.merged);
        }
    }

    /// The names that the upper has not of hard links whose content changed. Only where there are such names is
    /// the lower tree walked: nothing else knows where they stand.
    fn other_names(&mut self, index: &LinkIndex, recall: Option<&Recall>) -> Result<()> {
        let mut changed = index.changed(recall)?;
        changed.retain(|inode, names| !self.covered.all(*inode, *names));
        let mut open = if changed.is_empty() { Vec::new() } else { vec![TreePath::root()] };
        while let Some(dir) = open.pop() {
            let below = match self.found.base.list_entries(&dir) {
                Ok(below) => below,
                Err(error) => {
                    self.found.gap(&dir, error);
                    continue;
                }
            };
            for (name, old) in below {
                let base = dir.join(name);
                if old.is_dir() {
                    open.push(base);
                } else if changed.contains_key(&(old.dev, old.ino)) {
                    self.other_name(&base, &old)?;
                }
            }
        }
        Ok(())
    }

    fn other_name(&mut self, base: &TreePath, old: &Entry) -> Result<()> {
        let path = self.now_at(base);
        if !self.merged.is_indexed(&path)? {
            return Ok(());
        }
        if let Some(new) = self.merged.entry(&path)? {
            self.found.pair(
                Side { source: self.found.base, path: base, entry: old },
                Side { source: self.merged, path: &path, entry: &new },
            );
        }
        Ok(())
    }

    /// Where the lane shows a base path that nothing else is known of: below the innermost renamed directory.
    fn now_at(&self, base: &TreePath) -> TreePath {
        let mut above = Some(base.clone());
        while let Some(dir) = above {
            if let Some(to) = self.moved.get(&dir) {
                return base.strip_prefix(&dir).map_or_else(|| base.clone(), |tail| to.join_path(&tail));
            }
            above = dir.parent();
        }
        base.clone()
    }
}
