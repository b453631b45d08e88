//! Two trees in lock step → [`ChangeSet`], and the one place that says when two entries differ.
//!
//! Invariant: two entries are equal when type, permission bits, owner, group, content or target, and the
//! user's attributes are; times, inode and link counts do not matter. Cheap questions are asked first, and
//! content is read only where sizes are equal.

use std::collections::HashSet;

use kernel::{Result, bytes};

use crate::change::{Change, ChangeKind, ChangeSet};
use crate::entry::{Entry, Kind};
use crate::path::TreePath;
use crate::recall::Recall;
use crate::source::Source;

/// Says that two entries of the same path are equal, content included, without reading them.
pub type QuickEqual<'a> = &'a dyn Fn(&TreePath, &Entry, &Entry) -> bool;

/// What [`compare`] may leave out.
#[derive(Default, Clone, Copy)]
pub struct CompareOptions<'a> {
    /// Paths (with everything below) that are not looked at, e.g. what a copy could not take.
    pub skip: &'a [TreePath],
    /// Owner and group do not count: a copy that an ordinary user made of somebody else's file is his own.
    pub ignore_owner: bool,
    /// Asked before two entries are read: (path, base, lane).
    pub quick_equal: Option<QuickEqual<'a>>,
    /// Nothing is read: two files of one size whose modification times differ count as changed.
    pub unread: bool,
    /// Asked instead of reading where it remembers: for sums alone.
    pub recall: Option<&'a Recall>,
}

impl std::fmt::Debug for CompareOptions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CompareOptions").field("skip", &self.skip).finish_non_exhaustive()
    }
}

/// All differences between two trees; renames are not looked for. A socket or device that only the base has is
/// a gap, not a deletion: no strategy that copies carries one.
pub fn compare(base: &dyn Source, lane: &dyn Source, options: CompareOptions<'_>) -> Result<ChangeSet> {
    let root = TreePath::root();
    base.list(&root)?;
    lane.list(&root)?;
    let mut found = Found::new(base, options);
    found.below(Some(&root), &root, lane);
    Ok(found.finish(&HashSet::new()))
}

/// An entry with the tree and the path to read it at.
#[derive(Clone, Copy)]
pub(crate) struct Side<'a> {
    pub(crate) source: &'a dyn Source,
    pub(crate) path: &'a TreePath,
    pub(crate) entry: &'a Entry,
}

/// How two entries of one type differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Differs {
    Not,
    Meta,
    Content,
}

/// Compares two entries of one type. An error of reading is for the caller to tell.
pub(crate) fn differs(
    old: Side<'_>,
    new: Side<'_>,
    ignore_owner: bool,
    recall: Option<&Recall>,
) -> Result<Differs> {
    let (a, b) = (old.entry, new.entry);
    let content = match a.kind {
        Kind::File if a.size != b.size => true,
        Kind::File if a.size == 0 || a.ino == b.ino && a.dev == b.dev => false,
        Kind::File => !same_content(old, new, recall)?,
        Kind::Symlink => a.target != b.target,
        _ => false,
    };
    if content {
        return Ok(Differs::Content);
    }
    Ok(if same_meta(old, new, ignore_owner, recall)? { Differs::Not } else { Differs::Meta })
}

/// True where two entries of one type differ at most in content.
pub(crate) fn same_meta(
    old: Side<'_>,
    new: Side<'_>,
    ignore_owner: bool,
    recall: Option<&Recall>,
) -> Result<bool> {
    let (a, b) = (old.entry, new.entry);
    // The permission bits of a link mean nothing.
    let mode = a.kind != Kind::Symlink && a.mode != b.mode;
    let owner = !ignore_owner && (a.uid != b.uid || a.gid != b.gid);
    Ok(!mode && !owner && same_xattrs(old, new, recall)?)
}

/// True where two files hold the same bytes.
pub(crate) fn same_content(old: Side<'_>, new: Side<'_>, recall: Option<&Recall>) -> Result<bool> {
    match recall {
        Some(recall) => recall.same_content(old, new),
        None => bytes::same_content(old.source.open(old.path)?, new.source.open(new.path)?),
    }
}

/// True where both entries have the same attributes of the user's.
fn same_xattrs(old: Side<'_>, new: Side<'_>, recall: Option<&Recall>) -> Result<bool> {
    // Links and FIFOs cannot have any.
    if !matches!(old.entry.kind, Kind::File | Kind::Dir) {
        return Ok(true);
    }
    match recall {
        Some(recall) => recall.same_xattrs(old, new),
        None => Ok(old.source.xattrs(old.path)? == new.source.xattrs(new.path)?),
    }
}

/// A change set that grows, with the base that it speaks of.
pub(crate) struct Found<'a> {
    pub(crate) set: ChangeSet,
    pub(crate) base: &'a dyn Source,
    options: CompareOptions<'a>,
    /// Base entries that are gone, or whose children are. Told only at the end, when it is known what was
    /// moved away from below them.
    gone: Vec<(TreePath, Entry, Pair)>,
}

impl<'a> Found<'a> {
    pub(crate) fn new(base: &'a dyn Source, options: CompareOptions<'a>) -> Found<'a> {
        Found { set: ChangeSet::default(), base, options, gone: Vec::new() }
    }

    /// The whole set. `moved` names base entries that stand elsewhere in the lane with all that is below them.
    pub(crate) fn finish(mut self, moved: &HashSet<TreePath>) -> ChangeSet {
        for (path, old, answer) in std::mem::take(&mut self.gone) {
            self.tell_gone(&path, old, answer, moved);
        }
        self.set.sort();
        self.set
    }

    /// A base entry that the lane has not under its path any more.
    pub(crate) fn gone(&mut self, path: TreePath, old: Entry, answer: Pair) {
        if answer == Pair::Replaced || answer == Pair::Retyped && old.is_dir() {
            self.gone.push((path, old, answer));
        }
    }
    /// Lists what could not be compared.
    pub(crate) fn gap(&mut self, path: &TreePath, why: impl ToString) {
        self.set.gaps.push((path.clone(), why.to_string()));
    }

    /// One more change.
    pub(crate) fn push(&mut self, path: &TreePath, kind: ChangeKind, old: Option<Entry>, new: Option<Entry>) {
        self.set.changes.push(Change { path: path.clone(), kind, old, new });
    }

    /// A new entry; one that cannot be stored is a gap.
    pub(crate) fn added(&mut self, path: &TreePath, new: Entry) {
        if new.is_portable() {
            self.push(path, ChangeKind::Add, None, Some(new));
        } else {
            self.gap(path, not_portable(new.kind));
        }
    }

    /// A base entry that is gone, and everything below it, except what `moved` names.
    fn deleted(&mut self, path: &TreePath, old: Entry, moved: &HashSet<TreePath>) {
        let mut open = vec![(path.clone(), old)];
        while let Some((path, old)) = open.pop() {
            if moved.contains(&path) {
                continue;
            }
            if old.is_dir() {
                match self.base.list_entries(&path) {
                    Ok(below) => open.extend(below.into_iter().map(|(name, entry)| (path.join(name), entry))),
                    Err(error) => self.gap(&path, error),
                }
            }
            self.push(&path, ChangeKind::Delete, Some(old), None);
        }
    }

    /// A base entry and a lane entry that stands for it. Says whether the base entry's children (where it is a
    /// directory) are still there to be compared: false where another type took its place.
    pub(crate) fn pair(&mut self, old: Side<'_>, new: Side<'_>) -> Pair {
        let moved = old.path != new.path;
        let (a, b) = (old.entry.clone(), new.entry.clone());
        if a.kind != b.kind {
            if !b.is_portable() {
                self.gap(new.path, not_portable(b.kind));
                return if a.is_portable() { Pair::Replaced } else { Pair::Same };
            }
            if moved {
                self.added(new.path, b);
                return Pair::Replaced;
            }
            self.push(new.path, ChangeKind::Retype, Some(a), Some(b));
            return Pair::Retyped;
        }
        if !a.is_portable() {
            if a.rdev != b.rdev || a.mode != b.mode {
                self.gap(new.path, not_portable(b.kind));
            }
            return Pair::Same;
        }
        let quick = self.options.quick_equal.is_some_and(|equal| equal(new.path, &a, &b));
        let answer = if quick { Differs::Not } else { self.differs_or_gap(old, new) };
        let modified = answer == Differs::Content;
        let kind = match answer {
            Differs::Not => return Pair::Same,
            _ if moved => ChangeKind::Rename { from: old.path.clone(), modified },
            Differs::Meta => ChangeKind::Mode,
            Differs::Content => ChangeKind::Modify,
        };
        self.push(new.path, kind, Some(a), Some(b));
        Pair::Same
    }

    /// What cannot be read counts as changed, and is listed: the lane has a copy of its own.
    fn differs_or_gap(&mut self, old: Side<'_>, new: Side<'_>) -> Differs {
        if self.options.unread && new.entry.is_file() && old.entry.mtime != new.entry.mtime {
            return Differs::Content;
        }
        differs(old, new, self.options.ignore_owner, self.options.recall).unwrap_or_else(|error| {
            self.gap(new.path, error);
            if old.entry.is_dir() { Differs::Meta } else { Differs::Content }
        })
    }

    /// Everything below two directories.
    pub(crate) fn below(&mut self, base_dir: Option<&TreePath>, lane_dir: &TreePath, lane: &dyn Source) {
        let mut open = vec![(base_dir.cloned(), lane_dir.clone())];
        while let Some((base_dir, lane_dir)) = open.pop() {
            let old = match base_dir.as_ref().map(|dir| self.base.list_entries(dir)).transpose() {
                Ok(old) => old.unwrap_or_default(),
                Err(error) => {
                    self.gap(&lane_dir, error);
                    continue;
                }
            };
            let new = match lane.list_entries(&lane_dir) {
                Ok(new) => new,
                Err(error) => {
                    self.gap(&lane_dir, error);
                    continue;
                }
            };
            self.level(base_dir.as_ref(), old, &lane_dir, new, lane, &mut open);
        }
    }

    /// One directory on both sides; directories to go on with are put on `open`.
    fn level(
        &mut self,
        base_dir: Option<&TreePath>,
        old: Vec<(Vec<u8>, Entry)>,
        lane_dir: &TreePath,
        new: Vec<(Vec<u8>, Entry)>,
        lane: &dyn Source,
        open: &mut Vec<(Option<TreePath>, TreePath)>,
    ) {
        let mut old = old.into_iter().peekable();
        let mut new = new.into_iter().peekable();
        loop {
            let a = old.next_if(|(name, _)| new.peek().is_none_or(|(other, _)| name <= other));
            let b = match &a {
                Some((name, _)) => new.next_if(|(other, _)| other == name),
                None => new.next(),
            };
            let base_path = a.as_ref().and_then(|(name, _)| base_dir.map(|dir| dir.join(name)));
            match (a, b) {
                (None, None) => return,
                (Some((_, old)), None) => {
                    let path = base_path.unwrap_or_default();
                    if self.skips(&path) {
                        continue;
                    }
                    if old.is_portable() {
                        self.gone(path, old, Pair::Replaced);
                    } else {
                        self.gap(&path, not_portable(old.kind));
                    }
                }
                (None, Some((name, entry))) => {
                    let path = lane_dir.join(name);
                    if self.skips(&path) {
                        continue;
                    }
                    if entry.is_dir() {
                        open.push((None, path.clone()));
                    }
                    self.added(&path, entry);
                }
                (Some((_, old)), Some((name, entry))) => {
                    let path = lane_dir.join(name);
                    let base_path = base_path.unwrap_or_default();
                    if self.skips(&path) {
                        continue;
                    }
                    let sides = (
                        Side { source: self.base, path: &base_path, entry: &old },
                        Side { source: lane, path: &path, entry: &entry },
                    );
                    match self.pair(sides.0, sides.1) {
                        Pair::Same if old.is_dir() && entry.is_dir() => open.push((Some(base_path), path)),
                        Pair::Same => {}
                        answer => {
                            self.gone(base_path, old, answer);
                            if entry.is_dir() {
                                open.push((None, path));
                            }
                        }
                    }
                }
            }
        }
    }

    /// The deletes for a base entry that is gone.
    fn tell_gone(&mut self, path: &TreePath, old: Entry, answer: Pair, moved: &HashSet<TreePath>) {
        match answer {
            Pair::Same => {}
            Pair::Replaced => self.deleted(path, old, moved),
            // The entry itself has its `Retype`.
            Pair::Retyped => match self.base.list_entries(path) {
                Ok(below) => {
                    for (name, entry) in below {
                        self.deleted(&path.join(name), entry, moved);
                    }
                }
                Err(error) => self.gap(path, error),
            },
        }
    }

    fn skips(&self, path: &TreePath) -> bool {
        self.options.skip.iter().any(|skip| path.starts_with(skip))
    }
}

/// What became of a base entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pair {
    /// Still there, of the same type.
    Same,
    /// Another type under the same path, told as `Retype`.
    Retyped,
    /// Gone, and told by no change so far.
    Replaced,
}

/// Why an entry of this type is not stored and not kept.
pub fn not_portable(kind: Kind) -> &'static str {
    match kind {
        Kind::Socket => "a socket cannot be stored",
        Kind::CharDevice | Kind::BlockDevice => "a device cannot be stored",
        Kind::File | Kind::Dir | Kind::Symlink | Kind::Fifo => "cannot be stored",
    }
}
