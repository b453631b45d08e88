//! [`KeepPlan`]: from a change set and a selection to the steps that bring the origin there. Pure:
//! it reads both trees and touches nothing, so a dry run is the plan and nothing else.
//!
//! Invariant: a step never needs another step that is not in the plan. What was asked for and is not
//! in it stands in `skipped`, with the reason.

use std::collections::{BTreeMap, BTreeSet};

use tree::{ChangeSet, Entry, Kind, Source, TreePath};

use crate::error::{Reading as _, Result};
use crate::flat::{self, Pair};
use crate::guard::{Guard, git_internal};
use crate::select::Selection;
use crate::threeway::Clash;

mod settle;

use settle::{Item, drop_empty_dirs, settle};

/// A path of the origin that is no longer what the lane started from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drifted {
    /// Where.
    pub path: TreePath,
    /// Why it is not touched.
    pub why: Why,
}

/// What is to be planned.
#[derive(Debug, Clone, Copy)]
pub struct Wish<'a> {
    /// What the lane changed.
    pub set: &'a ChangeSet,
    /// What was asked for.
    pub selection: &'a Selection,
    /// What has drifted; none of it is touched.
    pub drift: &'a [Drifted],
    /// Carry set-user-id and set-group-id bits of files.
    pub set_id: bool,
}

/// One act on the origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// A directory moves with all that is in it.
    MoveDir {
        /// From.
        from: TreePath,
        /// To.
        to: TreePath,
        /// As it is in the origin.
        old: Entry,
    },
    /// A file, link or pipe moves unchanged.
    Move {
        /// From.
        from: TreePath,
        /// To.
        to: TreePath,
        /// As it is in the origin.
        old: Entry,
    },
    /// The lane's object is put in place.
    Put {
        /// Where.
        path: TreePath,
        /// What it replaces.
        old: Option<Entry>,
        /// What is put there, with the mode that it gets.
        new: Entry,
        /// The content is what stood there already, so it keeps its modification time.
        same_content: bool,
    },
    /// Mode and attributes of what stands there are set.
    Meta {
        /// Where.
        path: TreePath,
        /// As it is in the origin (for a moved entry: where it came from).
        old: Entry,
        /// With the mode that it gets.
        new: Entry,
    },
    /// What stands there is removed.
    Delete {
        /// Where.
        path: TreePath,
        /// As it is in the origin.
        old: Entry,
    },
}

impl Step {
    /// The path that the step speaks of.
    pub fn path(&self) -> &TreePath {
        match self {
            Step::MoveDir { to, .. } | Step::Move { to, .. } => to,
            Step::Put { path, .. } | Step::Meta { path, .. } | Step::Delete { path, .. } => path,
        }
    }
}

impl Step {
    /// The same where what it brings comes to stand elsewhere in the end.
    #[must_use]
    pub fn at(mut self, place: TreePath) -> Step {
        let (Step::MoveDir { to: path, .. }
        | Step::Move { to: path, .. }
        | Step::Put { path, .. }
        | Step::Meta { path, .. }
        | Step::Delete { path, .. }) = &mut self;
        *path = place;
        self
    }
}

/// Why something that was asked for is left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// It runs by itself later and its path was not named: the reason.
    Guarded(String),
    /// It belongs to a git repository's own files.
    GitInternal,
    /// The origin changed meanwhile: what happened there.
    Drifted(String),
    /// The lane's change and that of the origin do not go together.
    Conflict(Clash),
    /// A socket or a device cannot be kept.
    Unsupported(Kind),
    /// It could not be read: the reason.
    Gap(String),
    /// The directory that would hold it is left out.
    NeedsParent(TreePath),
    /// A directory that would go away still holds something that stays.
    Holds(TreePath),
    /// Only a set-id bit changed, and those were not asked for.
    SetId,
    /// Only its owner changed; `keep` leaves owners as they are.
    Owner,
    /// A new directory of which everything inside is left out.
    NothingInside,
}

/// Something that was asked for and is left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// What.
    pub path: TreePath,
    /// Why.
    pub why: Why,
}

/// What `keep` will do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeepPlan {
    /// In order: moves, objects (parents first), modes, deletions (children first).
    pub steps: Vec<Step>,
    /// What was asked for and is left out, sorted by path.
    pub skipped: Vec<Skipped>,
    /// Asked paths under which the lane changed nothing.
    pub unmatched: Vec<TreePath>,
    /// Files that are kept without their set-id bits.
    pub set_id_dropped: Vec<TreePath>,
    /// Why what is kept runs by itself later, where it does: its path was named.
    pub guarded: BTreeMap<TreePath, String>,
    /// Bytes to be written beside the origin (nothing is needed where the file system reflinks).
    pub bytes_needed: u64,
    /// New inodes.
    pub inodes_needed: u64,
}

impl KeepPlan {
    /// A plan of steps that were planned apart, and that none of the others touches.
    pub fn of(steps: Vec<Step>) -> KeepPlan {
        let mut plan = KeepPlan::default();
        for step in &steps {
            if let Step::Put { new, .. } = step {
                plan.inodes_needed += 1;
                plan.bytes_needed = plan.bytes_needed.saturating_add(room(new));
            }
        }
        let order = |step: &Step| match step {
            Step::MoveDir { .. } | Step::Move { .. } => 0,
            Step::Put { .. } => 1,
            Step::Meta { .. } => 2,
            Step::Delete { .. } => 3,
        };
        plan.steps = steps;
        plan.steps.sort_by(|a, b| match (order(a), order(b)) {
            (3, 3) => b.path().cmp(a.path()),
            (one, other) => one.cmp(&other).then_with(|| a.path().cmp(b.path())),
        });
        plan
    }

    /// The caller has put the lane's tree into other files with the same content, in which nobody else could write meanwhile:
    /// the plan speaks of those from here on.
    pub fn moved_to(&mut self, inside: &dyn Source) -> kernel::Result<()> {
        for step in &mut self.steps {
            let (Step::Put { path, new, .. } | Step::Meta { path, new, .. }) = step else { continue };
            if let Some(now) = inside.entry(path)?
                && (now.kind, now.size, now.mtime) == (new.kind, new.size, new.mtime)
            {
                (new.ino, new.dev, new.ctime, new.nlink) = (now.ino, now.dev, now.ctime, now.nlink);
            }
        }
        Ok(())
    }

    /// True where everything that was asked for, and can be kept at all, is in the plan.
    pub fn is_complete(&self) -> bool {
        self.unmatched.is_empty() && self.skipped.iter().all(|skipped| skipped.why == Why::GitInternal)
    }
}

/// Makes the plan.
pub fn plan(wish: &Wish<'_>, base: &dyn Source, lane: &dyn Source) -> Result<KeepPlan> {
    let guard = Guard::new(base)?;
    let whole = whole_moves(wish, &guard, base, lane)?;
    let moves = flat::dir_renames(wish.set).into_iter().filter(|(_, to)| whole.contains(*to)).collect();
    let mut items = items(wish, &whole, base, lane)?;
    let base = Moved { base, moves };
    judge(wish, &guard, &mut items, &base, lane)?;
    settle(&mut items);
    drop_empty_dirs(&mut items);
    write_down(wish, items, &base, lane)
}

/// The base as it will be once the directories that move whole have been moved.
struct Moved<'a> {
    base: &'a dyn Source,
    moves: Vec<(&'a TreePath, &'a TreePath)>,
}

impl Moved<'_> {
    fn before(&self, path: &TreePath) -> TreePath {
        before(&self.moves, path)
    }
}

fn before(moves: &[(&TreePath, &TreePath)], path: &TreePath) -> TreePath {
    let found = moves.iter().find_map(|(from, to)| path.strip_prefix(to).map(|rest| from.join_path(&rest)));
    found.unwrap_or_else(|| path.clone())
}

impl Source for Moved<'_> {
    fn entry(&self, path: &TreePath) -> kernel::Result<Option<Entry>> {
        self.base.entry(&self.before(path))
    }

    fn list(&self, path: &TreePath) -> kernel::Result<Vec<Vec<u8>>> {
        self.base.list(&self.before(path))
    }

    fn open(&self, path: &TreePath) -> kernel::Result<std::os::fd::OwnedFd> {
        self.base.open(&self.before(path))
    }

    fn xattrs(&self, path: &TreePath) -> kernel::Result<Vec<tree::source::Xattr>> {
        self.base.xattrs(&self.before(path))
    }
}

/// The renamed directories (by their new path) that can be moved as they are.
fn whole_moves(
    wish: &Wish<'_>,
    guard: &Guard,
    base: &dyn Source,
    lane: &dyn Source,
) -> Result<BTreeSet<TreePath>> {
    let all = flat::dir_renames(wish.set);
    let overlap = |a: &TreePath, b: &TreePath| a.starts_with(b) || b.starts_with(a);
    let mut whole = BTreeSet::new();
    for (at, (from, to)) in all.iter().enumerate() {
        let alone = !overlap(from, to)
            && all.iter().enumerate().all(|(other, (f, t))| {
                other == at || !(overlap(from, f) || overlap(from, t) || overlap(to, f) || overlap(to, t))
            });
        let touched = |path: &TreePath| path.starts_with(from) || path.starts_with(to);
        let still = !wish.drift.iter().any(|drifted| touched(&drifted.path))
            && !wish.set.gaps.iter().any(|(path, _)| touched(path));
        let asked = wish.selection.covers(from) || wish.selection.covers(to);
        if !(alone && still && asked) || git_internal(from) || git_internal(to) {
            continue;
        }
        if lane.entry(from).reading("lane", from)?.is_some() || base.entry(to).reading("base", to)?.is_some()
        {
            continue;
        }
        let mut guarded = guard.path(from).is_some();
        flat::walk(lane, "lane", to, &mut |path, _| guarded |= guard.path(path).is_some())?;
        if !guarded {
            whole.insert((*to).clone());
        }
    }
    Ok(whole)
}

fn items(
    wish: &Wish<'_>,
    whole: &BTreeSet<TreePath>,
    base: &dyn Source,
    lane: &dyn Source,
) -> Result<Vec<Item>> {
    let moves: Vec<_> =
        flat::dir_renames(wish.set).into_iter().filter(|(_, to)| whole.contains(*to)).collect();
    let asked = |pair: &Pair| wish.selection.asks(pair, &|path| before(&moves, path));
    let item = |pair: Pair, whole| Item {
        asked: asked(&pair),
        pair,
        whole,
        chosen: false,
        blocked: None,
        soft: false,
        guarded: None,
    };
    let mut items = Vec::new();
    for change in wish.set.changes.iter().filter(|change| whole.contains(&change.path)) {
        let side = |path: &TreePath, entry: &Option<Entry>| entry.clone().map(|entry| (path.clone(), entry));
        let old = side(change.old_path(), &change.old);
        let new = side(&change.path, &change.new);
        items.push(item(Pair { old, new, content_differs: false }, true));
    }
    for pair in flat::flatten(wish.set, base, lane, whole)? {
        let inside = |path: &TreePath| whole.iter().any(|to| path.starts_with(to));
        let is_dir = pair.old.as_ref().is_some_and(|side| side.1.is_dir());
        let from_moved = pair.is_rename() && pair.old.as_ref().is_some_and(|side| inside(&side.0));
        if pair.is_rename() && (is_dir || from_moved) {
            // A directory that cannot move whole is made and removed; what left a directory that
            // does move is copied, since the order of moves would matter otherwise.
            let both = asked(&pair);
            for pair in [
                Pair { old: None, new: pair.new, content_differs: true },
                Pair { old: pair.old, new: None, content_differs: true },
            ] {
                items.push(Item { asked: both, ..item(pair, false) });
            }
        } else {
            items.push(item(pair, false));
        }
    }
    Ok(items)
}

fn judge(
    wish: &Wish<'_>,
    guard: &Guard,
    items: &mut [Item],
    base: &dyn Source,
    lane: &dyn Source,
) -> Result<()> {
    let drift: BTreeMap<&TreePath, &Why> = wish.drift.iter().map(|d| (&d.path, &d.why)).collect();
    let gaps: BTreeMap<&TreePath, &str> =
        wish.set.gaps.iter().map(|(path, why)| (path, why.as_str())).collect();
    for item in items {
        let paths =
            || [item.pair.old.as_ref(), item.pair.new.as_ref()].into_iter().flatten().map(|side| &side.0);
        let kind = item.new_side().map(|side| side.1.kind);
        let blocked = if paths().any(git_internal) {
            Some(Why::GitInternal)
        } else if let Some(kind) =
            kind.filter(|k| matches!(k, Kind::Socket | Kind::CharDevice | Kind::BlockDevice))
        {
            Some(Why::Unsupported(kind))
        } else if let Some(why) = paths().find_map(|path| drift.get(path)) {
            Some((*why).clone())
        } else if let Some(why) = paths().find_map(|path| gaps.get(path)) {
            Some(Why::Gap((*why).to_owned()))
        } else if item.whole {
            None
        } else {
            let reason = guard.check_pair(&item.pair, lane, base)?;
            item.guarded = reason.as_ref().map(|reason| reason.text.clone());
            let named =
                |reason: &crate::guard::Reason| paths().any(|path| wish.selection.names(path, reason));
            let reason = reason.filter(|reason| !named(reason));
            // A guarded directory is harmless by itself: it may be made for a file that was named.
            item.soft = reason.is_some() && item.pair.old.is_none() && kind == Some(Kind::Dir);
            reason.map(|reason| Why::Guarded(reason.text))
        };
        let set_id_only = blocked.is_none() && !wish.set_id && only_set_id(&item.pair);
        item.blocked = if set_id_only { Some(Why::SetId) } else { blocked };
        item.chosen = item.asked && item.blocked.is_none();
    }
    Ok(())
}

fn only_set_id(pair: &Pair) -> bool {
    let (Some((from, old)), Some((to, new))) = (&pair.old, &pair.new) else { return false };
    from == to
        && !pair.content_differs
        && new.is_file()
        && old.mode != new.mode
        && granted(Some(old), new) == old.mode
}

/// The mode that a new object gets without set-id being asked for.
fn granted(old: Option<&Entry>, new: &Entry) -> u32 {
    if new.is_dir() {
        return new.mode;
    }
    new.mode & !0o6000 | old.map_or(0, |old| old.mode & new.mode & 0o6000)
}

fn write_down(wish: &Wish<'_>, items: Vec<Item>, base: &dyn Source, lane: &dyn Source) -> Result<KeepPlan> {
    let mut plan = KeepPlan {
        unmatched: wish.selection.unmatched(|asked| {
            let under = |side: Option<&(TreePath, Entry)>| side.is_some_and(|side| side.0.starts_with(asked));
            // What only goes along with a renamed directory has no item of its own.
            let along =
                |side: Option<&(TreePath, Entry)>| side.is_some_and(|side| asked.starts_with(&side.0));
            items.iter().any(|item| {
                under(item.old_side())
                    || under(item.new_side())
                    || (item.whole && (along(item.old_side()) || along(item.new_side())))
            }) || wish.set.gaps.iter().any(|(path, _)| path.starts_with(asked))
        }),
        ..KeepPlan::default()
    };
    for (path, why) in wish.set.gaps.iter().filter(|(path, _)| wish.selection.covers(path)) {
        plan.skipped.push(Skipped { path: path.clone(), why: Why::Gap(why.clone()) });
    }
    let (mut moves, mut puts, mut metas, mut deletes) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for item in items {
        if !item.chosen {
            if let Some(why) = item.blocked.filter(|why| item.asked && !matches!(why, Why::Gap(_))) {
                plan.skipped.push(Skipped { path: item.pair.path().clone(), why });
            }
            continue;
        }
        let mut pair = item.pair;
        if let Some(reason) = item.guarded {
            plan.guarded.insert(pair.path().clone(), reason);
        }
        if let Some((path, new)) = &mut pair.new
            && !wish.set_id
        {
            let kept = pair.old.as_ref().filter(|_| !pair.content_differs).map(|side| &side.1);
            let mode = granted(kept, new);
            if mode != new.mode {
                plan.set_id_dropped.push(path.clone());
                new.mode = mode;
            }
        }
        match (pair.old, pair.new) {
            (Some((from, old)), Some((to, new))) if item.whole => {
                let meta = old.mode != new.mode || xattrs_differ(base, &from, lane, &to)?;
                moves.push(Step::MoveDir { from, to: to.clone(), old: old.clone() });
                if meta {
                    metas.push(Step::Meta { path: to, old, new });
                }
            }
            (Some((from, old)), Some((to, new))) if from != to => {
                let meta = old.mode != new.mode || xattrs_differ(base, &from, lane, &to)?;
                if pair.content_differs || (meta && old.nlink > 1) {
                    puts.push(Step::Put { path: to, old: None, new, same_content: false });
                    deletes.push(Step::Delete { path: from, old });
                } else {
                    moves.push(Step::Move { from, to: to.clone(), old: old.clone() });
                    if meta && new.kind != Kind::Symlink {
                        metas.push(Step::Meta { path: to, old, new });
                    }
                }
            }
            (Some((path, old)), Some((_, new))) => {
                let same_kind = old.kind == new.kind;
                if same_kind && (old.is_dir() || !pair.content_differs) {
                    if old.mode == new.mode && !xattrs_differ(base, &path, lane, &path)? {
                        plan.skipped.push(Skipped { path, why: Why::Owner });
                    } else {
                        metas.push(Step::Meta { path, old, new });
                    }
                } else {
                    puts.push(Step::Put { path, old: Some(old), new, same_content: false });
                }
            }
            (None, Some((path, new))) => puts.push(Step::Put { path, old: None, new, same_content: false }),
            (Some((path, old)), None) => deletes.push(Step::Delete { path, old }),
            (None, None) => {}
        }
    }
    part_links(&mut metas, &mut puts);
    for step in &puts {
        if let Step::Put { new, .. } = step {
            plan.inodes_needed += 1;
            plan.bytes_needed = plan.bytes_needed.saturating_add(room(new));
        }
    }
    for steps in [&mut moves, &mut puts, &mut metas, &mut deletes] {
        steps.sort_by(|a, b| a.path().cmp(b.path()));
    }
    deletes.reverse();
    plan.steps = [moves, puts, metas, deletes].concat();
    plan.skipped.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(plan)
}

/// A mode set in place is set for every name of the file. Where not all of them get it, the name gets
/// a copy of its own, as it has one in the lane.
fn part_links(metas: &mut Vec<Step>, puts: &mut Vec<Step>) {
    let mut names: BTreeMap<(u64, u32), u64> = BTreeMap::new();
    for step in metas.iter() {
        if let Step::Meta { old, new, .. } = step {
            *names.entry((old.ino, new.mode)).or_default() += 1;
        }
    }
    metas.retain(|step| {
        let Step::Meta { path, old, new } = step else { return true };
        let all = old.nlink < 2 || !old.is_file() || names.get(&(old.ino, new.mode)) == Some(&old.nlink);
        if !all {
            puts.push(Step::Put {
                path: path.clone(),
                old: Some(old.clone()),
                new: new.clone(),
                same_content: true,
            });
        }
        all
    });
}

/// Bytes that an object takes on disk: whole blocks, fewer for a file with holes.
fn room(entry: &Entry) -> u64 {
    match entry.kind {
        Kind::File => {
            let full = entry.size.div_ceil(4096).saturating_mul(4096);
            if entry.allocated > 0 { entry.allocated.min(full) } else { full }
        }
        Kind::Dir => 4096,
        _ => 0,
    }
}

fn xattrs_differ(base: &dyn Source, from: &TreePath, lane: &dyn Source, to: &TreePath) -> Result<bool> {
    Ok(base.xattrs(from).reading("base", from)? != lane.xattrs(to).reading("lane", to)?)
}
