//! From what a person asked for (paths, hunks, a selection) to the ticks of each root; and what the changes of a lane are
//! now, against what they were when they were looked at.
//!
//! Invariant: an id of a hunk means one hunk, or is refused. A hunk names no guarded file; a path does.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

use review::choice::{Choice, Lines, Part, Take};
use review::chosen::{Chosen, has_parts, pair_of};
use review::guard::Guard;
use tree::{Change, ChangeSet, Source, TreePath};

use crate::error::{EngineError, Moved, MovedHow, Result};
use crate::lane::{OpenLane, RootDelta};
use crate::selection::{Digest, SelectedFile, Selection};

/// What is asked for in one root.
#[derive(Clone)]
pub(crate) enum RootWish {
    /// Paths and what is below them.
    Paths(review::select::Selection),
    /// Ticks.
    Choice(Choice),
}

/// What is asked for in each root: nothing, or a wish.
pub(crate) struct Asked {
    pub(crate) wishes: Vec<Option<RootWish>>,
    /// As a selection, where that is wanted.
    pub(crate) selection: Option<Selection>,
    /// What the changes were when they were looked at, where that binds.
    pub(crate) seen: Option<Seen>,
    /// Hunks that the lane has not.
    pub(crate) no_hunk: BTreeSet<String>,
    /// Paths, asked for besides hunks, at which the lane changed nothing.
    pub(crate) no_path: BTreeSet<TreePath>,
}

/// What a person asked for of one lane.
pub(crate) struct Asking<'a> {
    /// No path was named.
    pub(crate) is_everything: bool,
    /// The paths, root by root.
    pub(crate) asked: &'a [Vec<TreePath>],
    pub(crate) hunks: &'a [String],
    pub(crate) selection: Option<&'a Selection>,
    pub(crate) digest: Option<&'a Digest>,
    /// What is kept is to be answered as a selection.
    pub(crate) record: bool,
}

/// Digests by root and path.
pub(crate) type Seen = BTreeMap<(PathBuf, TreePath), Digest>;

/// The changes of one root with the trees that they lie between.
pub(crate) struct Ground<'g> {
    pub(crate) root: &'g Path,
    /// Its name in the ids of hunks.
    pub(crate) name: Vec<u8>,
    pub(crate) set: &'g ChangeSet,
    pub(crate) base: Box<dyn Source>,
    pub(crate) lane: Box<dyn Source>,
}

/// The name of a root in the ids of hunks: none for the origin, so that ids do not depend on where a project lies.
pub(crate) fn hunk_root(index: usize, root: &Path) -> Vec<u8> {
    use std::os::unix::ffi::OsStrExt as _;
    if index == 0 { Vec::new() } else { root.as_os_str().as_bytes().to_vec() }
}

/// The grounds of a lane, root by root.
pub(crate) fn grounds<'g>(lane: &OpenLane, deltas: &'g [RootDelta]) -> Result<Vec<Ground<'g>>> {
    let ground = |(root, delta): (&crate::lane::OpenRoot, &'g RootDelta)| {
        let (base, lane) = (root.workspace.base_tree()?, root.workspace.lane_tree()?);
        let name = hunk_root(delta.index, &delta.root);
        Ok(Ground { root: &delta.root, name, set: &delta.set, base, lane })
    };
    lane.roots.iter().zip(deltas).map(ground).collect()
}

/// What a diff was narrowed to: paths and what is below them; everything where there are none.
pub(crate) struct Within<'w>(BTreeSet<(&'w Path, &'w TreePath)>);

impl<'w> Within<'w> {
    pub(crate) fn of(paths: &'w [(PathBuf, TreePath)]) -> Within<'w> {
        Within(paths.iter().map(|(root, path)| (root.as_path(), path)).collect())
    }

    /// True where a change of a root lies in it, by its new place or its old one.
    pub(crate) fn covers(&self, root: &Path, change: &Change) -> bool {
        let below = |path: &TreePath| {
            let mut at = Some(path.clone());
            while let Some(path) = at {
                if self.0.contains(&(root, &path)) {
                    return true;
                }
                at = path.parent();
            }
            false
        };
        self.0.is_empty() || below(&change.path) || below(change.old_path())
    }
}

/// Every change there, as it is now, with nothing ticked.
pub(crate) fn look(grounds: &[Ground<'_>], within: &[(PathBuf, TreePath)]) -> Result<Vec<SelectedFile>> {
    let mut files = Vec::new();
    let within = Within::of(within);
    for ground in grounds {
        let guard = Guard::new(&*ground.base)?;
        for change in ground.set.changes.iter().filter(|change| within.covers(ground.root, change)) {
            files.push(SelectedFile {
                root: ground.root.to_owned(),
                path: change.path.clone(),
                digest: review::digest::of_change(change, &*ground.base, &*ground.lane)?,
                guarded: guard.check(change, &*ground.lane, &*ground.base)?.is_some(),
                named: false,
                take: None,
            });
        }
    }
    Ok(files)
}

/// What is no longer as it was looked at.
pub(crate) fn moved(seen: &[SelectedFile], now: &[SelectedFile]) -> Vec<Moved> {
    fn index(files: &[SelectedFile]) -> BTreeMap<(&Path, &TreePath), &SelectedFile> {
        files.iter().map(|file| ((file.root.as_path(), &file.path), file)).collect()
    }
    let (before, after) = (index(seen), index(now));
    let mut moved = Vec::new();
    let mut add = |file: &SelectedFile, how| {
        moved.push(Moved { root: file.root.clone(), path: file.path.clone(), how });
    };
    for (at, file) in &before {
        match after.get(at) {
            None => add(file, MovedHow::Gone),
            Some(now) if now.digest != file.digest => add(file, MovedHow::Changed),
            Some(_) => {}
        }
    }
    for (_, file) in after.iter().filter(|(at, _)| !before.contains_key(*at)) {
        add(file, MovedHow::New);
    }
    moved.sort_by(|a, b| (&a.root, &a.path).cmp(&(&b.root, &b.path)));
    moved
}

/// The ticks of a selection, root by root.
pub(crate) fn of_selection(selection: &Selection, grounds: &[Ground<'_>]) -> Vec<Choice> {
    let of = |ground: &Ground<'_>| {
        let mut choice = Choice { root: ground.name.clone(), ..Choice::default() };
        for file in selection.files.iter().filter(|file| file.root == ground.root) {
            if let Some(take) = &file.take {
                choice.files.insert(file.path.clone(), take.clone());
                if file.named {
                    choice.named.push(file.path.clone());
                }
            }
        }
        choice
    };
    grounds.iter().map(of).collect()
}

/// The ticks of some hunks, and of all changes at or below the paths that were asked for besides: a file of which
/// hunks were asked for is taken in those alone.
pub(crate) fn of_hunks(ids: &[String], asked: &[Vec<TreePath>], grounds: &[Ground<'_>]) -> Result<OfHunks> {
    let mut missing: BTreeSet<&str> = ids.iter().map(String::as_str).collect();
    let mut no_path = BTreeSet::new();
    let wanted = missing.clone();
    let mut choices = Vec::with_capacity(grounds.len());
    for (ground, paths) in grounds.iter().zip(asked) {
        let mut choice = Choice { root: ground.name.clone(), named: paths.clone(), ..Choice::default() };
        for change in &ground.set.changes {
            let mut part = Part::default();
            let diff =
                review::stat::pair_diff_in(&ground.name, &pair_of(change), &*ground.base, &*ground.lane)?;
            let count = diff.hunks.len();
            for hunk in diff.hunks.into_iter().filter(|hunk| wanted.contains(hunk.id.as_str())) {
                if !missing.remove(hunk.id.as_str()) {
                    return Err(EngineError::HunkTwice { id: hunk.id });
                }
                part.hunks.insert(hunk.id, Lines::All);
            }
            let covered = |path: &TreePath| paths.iter().any(|asked| path.starts_with(asked));
            // A link, and what changed its type, has lines to look at and no parts.
            let whole = !has_parts(change) && part.hunks.len() == count;
            let take = match part.hunks.is_empty() {
                false if !whole => Take::Part(part),
                true if !covered(&change.path) && !covered(change.old_path()) => continue,
                _ => Take::Whole,
            };
            choice.files.insert(change.path.clone(), take);
        }
        for path in paths {
            let meets = |at: &TreePath| at.starts_with(path);
            if !ground.set.changes.iter().any(|change| meets(&change.path) || meets(change.old_path())) {
                no_path.insert(path.clone());
            }
        }
        choices.push(choice);
    }
    let no_hunk = missing.into_iter().map(str::to_owned).collect();
    Ok(OfHunks { choices, no_hunk, no_path })
}

/// The ticks, and what is missing.
pub(crate) struct OfHunks {
    choices: Vec<Choice>,
    no_hunk: BTreeSet<String>,
    no_path: BTreeSet<TreePath>,
}

/// Sorts a request out. Refuses where the lane moved on since it was looked at.
pub(crate) fn wishes(lane: &OpenLane, deltas: &[RootDelta], request: &Asking<'_>) -> Result<Asked> {
    let (asked, is_everything) = (request.asked, request.is_everything);
    let (mut no_hunk, mut no_path) = (BTreeSet::new(), BTreeSet::new());
    let of_paths = |paths: &Vec<TreePath>| {
        let wish = RootWish::Paths(review::select::Selection::of(paths.clone()));
        (is_everything || !paths.is_empty()).then_some(wish)
    };
    let is_plain = request.selection.is_none() && request.digest.is_none() && request.hunks.is_empty();
    if is_plain && !request.record {
        let wishes = asked.iter().map(of_paths).collect();
        return Ok(Asked { wishes, selection: None, seen: None, no_hunk, no_path });
    }
    let grounds = grounds(lane, deltas)?;
    let (mut now, mut seen) = (None, None);
    let digests = |files: &[SelectedFile]| -> Seen {
        files.iter().map(|file| ((file.root.clone(), file.path.clone()), file.digest)).collect()
    };
    if let Some(selection) = request.selection {
        if selection.lane_id != lane.row.id {
            return Err(EngineError::BadSelection {
                why: format!(
                    "it was made on lane '{}', which is another one",
                    selection.lane.escape_default()
                ),
            });
        }
        let files = unmoved(lane, &grounds, selection)?;
        seen = Some(digests(&files));
        now = Some((selection.within.clone(), files));
    }
    if let Some(digest) = request.digest {
        let files = unmoved_since(lane, &grounds, asked, digest)?;
        seen.get_or_insert_with(Seen::new).extend(digests(&files));
    }
    let mut selection = None;
    if request.record {
        let (within, files) = match now {
            Some(now) => now,
            None => (Vec::new(), look(&grounds, &[])?),
        };
        let digest = Selection::digest_of(&files);
        let (lane, lane_id) = (lane.row.name.clone(), lane.row.id.clone());
        selection = Some(Selection { lane, lane_id, digest, within, files });
    }
    let choices = match request.selection {
        Some(ticks) => Some(of_selection(ticks, &grounds)),
        None if !request.hunks.is_empty() => {
            let found = of_hunks(request.hunks, asked, &grounds)?;
            (no_hunk, no_path) = (found.no_hunk, found.no_path);
            Some(found.choices)
        }
        None => None,
    };
    let wishes = match choices {
        Some(choices) => {
            if let Some(selection) = &mut selection {
                tick(selection, &grounds, &choices);
            }
            let wish = |choice: Choice| (!choice.is_empty()).then_some(RootWish::Choice(choice));
            choices.into_iter().map(wish).collect()
        }
        None => {
            for (ground, paths) in grounds.iter().zip(asked) {
                if let Some(selection) = &mut selection {
                    tick_paths(selection, ground, paths, is_everything);
                }
            }
            asked.iter().map(of_paths).collect()
        }
    };
    Ok(Asked { wishes, selection, seen, no_hunk, no_path })
}

/// The changes that a selection was made on, as they are now: none of them is another one.
fn unmoved(lane: &OpenLane, grounds: &[Ground<'_>], seen: &Selection) -> Result<Vec<SelectedFile>> {
    let now = look(grounds, &seen.within)?;
    let moved = moved(&seen.files, &now);
    if moved.is_empty() { Ok(now) } else { Err(EngineError::MovedOn { name: lane.row.name.clone(), moved }) }
}

/// As [`unmoved`], by a digest: of a diff that is remembered, or else of the whole lane or of the paths asked for.
fn unmoved_since(
    lane: &OpenLane,
    grounds: &[Ground<'_>],
    asked: &[Vec<TreePath>],
    digest: &Digest,
) -> Result<Vec<SelectedFile>> {
    if let Some(seen) = crate::shown::recall(&lane.home, digest) {
        return unmoved(lane, grounds, &seen);
    }
    let everything = look(grounds, &[])?;
    if Selection::digest_of(&everything) == *digest {
        return Ok(everything);
    }
    let within: Vec<(PathBuf, TreePath)> = grounds
        .iter()
        .zip(asked)
        .flat_map(|(ground, paths)| paths.iter().map(|path| (ground.root.to_owned(), path.clone())))
        .collect();
    if !within.is_empty() {
        let narrowed = look(grounds, &within)?;
        if Selection::digest_of(&narrowed) == *digest {
            return Ok(narrowed);
        }
    }
    Err(EngineError::MovedOn { name: lane.row.name.clone(), moved: Vec::new() })
}

/// Takes the content of what is asked for out of a live lane, and looks at it once more: from here on nobody inside can
/// change what is kept. Answers what is no longer as it was looked at.
pub(crate) fn hold(
    root: &Path,
    chosen: &mut Chosen<'_>,
    base: &dyn Source,
    place: BorrowedFd<'_>,
    seen: &Seen,
    is_part: &dyn Fn(&TreePath) -> bool,
) -> Result<Vec<Moved>> {
    let Chosen { set, selection, tree } = chosen;
    // Of parts the ids of the hunks say what they are, and their content is ours already.
    let is_held = |change: &Change| selection.asks_for(change) && !is_part(&change.path);
    review::held::hold(set, tree, place, &is_held)?;
    let mut moved = Vec::new();
    for change in set.changes.iter().filter(|change| is_held(change)) {
        let before = seen.get(&(root.to_owned(), change.path.clone()));
        let now = review::digest::of_change(change, base, &*tree)?;
        if before.is_none_or(|before| *before != now) {
            let how = if before.is_some() { MovedHow::Changed } else { MovedHow::New };
            moved.push(Moved { root: root.to_owned(), path: change.path.clone(), how });
        }
    }
    Ok(moved)
}

fn tick(selection: &mut Selection, grounds: &[Ground<'_>], choices: &[Choice]) {
    for (ground, choice) in grounds.iter().zip(choices) {
        for file in selection.files.iter_mut().filter(|file| file.root == ground.root) {
            if let Some(take) = choice.files.get(&file.path) {
                file.named = file.guarded && choice.named.iter().any(|named| file.path.starts_with(named));
                file.take = Some(take.clone());
            }
        }
    }
}

fn tick_paths(selection: &mut Selection, ground: &Ground<'_>, paths: &[TreePath], is_everything: bool) {
    let covers = |path: &TreePath| is_everything || paths.iter().any(|asked| path.starts_with(asked));
    let covered = |change: &&Change| covers(&change.path) || covers(change.old_path());
    let asked: BTreeSet<&TreePath> =
        ground.set.changes.iter().filter(covered).map(|change| &change.path).collect();
    let files = selection.files.iter_mut().filter(|file| file.root == ground.root);
    files.filter(|file| asked.contains(&file.path)).for_each(SelectedFile::tick);
}
