//! What is known of a layer: what each entry was when it was seen, and what follows for a manifest.
//!
//! Invariant: lists are sorted by path, and each path stands in them once.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tree::{Time, TreePath};

use crate::manifest::item::Item;

/// When an entry was what it is: if both are the same again, nobody has touched it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Stamp {
    /// Zero for what is never believed.
    pub(crate) ino: u64,
    pub(crate) ctime: Time,
}

/// An entry as a pass has seen it.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) path: TreePath,
    pub(crate) stamp: Stamp,
    pub(crate) item: Arc<Item>,
}

/// What is known of a layer.
#[derive(Debug, Clone, Default)]
pub(crate) struct Known {
    pub(crate) dev: u64,
    /// What was touched after this may have changed without a trace.
    pub(crate) trusted_before: Time,
    /// Sorted.
    pub(crate) seen: Vec<Seen>,
}

/// How far back a time may lie that the clock of a filesystem gives to something that happens now.
const TICK: Time = Time { sec: 0, nsec: 20_000_000 };
/// The same on filesystems that keep whole seconds.
const SECONDS: i64 = 2;

/// True where something that was touched at `ctime` would show another time if it were touched at `now` or later.
pub(crate) fn is_settled(ctime: Time, now: Time) -> bool {
    if ctime.nsec == 0 {
        return ctime.sec < now.sec - SECONDS;
    }
    let sum = u64::from(ctime.nsec) + u64::from(TICK.nsec);
    let later = Time { sec: ctime.sec + (sum / 1_000_000_000) as i64, nsec: (sum % 1_000_000_000) as u32 };
    later < now
}

/// Entries of a manifest, sorted.
pub(super) type Items = Vec<(TreePath, Arc<Item>)>;

/// What turns one sorted list into the other.
pub(super) fn edits<'a>(
    old: &'a [(TreePath, Arc<Item>)],
    new: &'a [Seen],
) -> impl Iterator<Item = (TreePath, Option<Item>)> + 'a {
    let (mut old, mut new) = (old.iter().peekable(), new.iter().peekable());
    std::iter::from_fn(move || {
        loop {
            let order = match (old.peek(), new.peek()) {
                (None, None) => return None,
                (Some(_), None) => std::cmp::Ordering::Less,
                (None, Some(_)) => std::cmp::Ordering::Greater,
                (Some((path, _)), Some(seen)) => path.cmp(&seen.path),
            };
            match order {
                std::cmp::Ordering::Less => return old.next().map(|(path, _)| (path.clone(), None)),
                std::cmp::Ordering::Greater => {
                    return new.next().map(|seen| (seen.path.clone(), Some((*seen.item).clone())));
                }
                std::cmp::Ordering::Equal => {
                    let (Some((_, item)), Some(seen)) = (old.next(), new.next()) else { return None };
                    if !Arc::ptr_eq(item, &seen.item) && item != &seen.item {
                        return Some((seen.path.clone(), Some((*seen.item).clone())));
                    }
                }
            }
        }
    })
}

/// Names of one inode, by their place in the list.
pub(super) type Groups = HashMap<u64, Vec<usize>>;

/// Says of each file with several names which is the first, and of every other that it has one.
pub(super) fn group(seen: &mut [Seen], groups: Groups) {
    let mut grouped = HashSet::new();
    for names in groups.into_values().filter(|names| names.len() > 1) {
        let first = seen[names[0]].path.clone();
        for name in names {
            grouped.insert(name);
            set_group(&mut seen[name].item, Some(&first));
        }
    }
    for (number, seen) in seen.iter_mut().enumerate() {
        if seen.item.group.is_some() && !grouped.contains(&number) {
            set_group(&mut seen.item, None);
        }
    }
}

fn set_group(item: &mut Arc<Item>, first: Option<&TreePath>) {
    if item.group.as_ref() != first {
        Arc::make_mut(item).group = first.cloned();
    }
}
