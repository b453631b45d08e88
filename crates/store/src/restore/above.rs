//! What a layer must hold to show a state above layers that stay as they are.
//!
//! Invariant: a capture of both together gives the state's own manifest, entry by entry. Where no layer can do that (the
//! state says nothing of a path of which the layers below say something, so that the base shows there), there is none.

use std::collections::BTreeMap;

use tree::TreePath;

use crate::error::Result;
use crate::manifest::item::{Item, ItemKind};
use crate::manifest::read::Manifest;

/// A directory of the state on the way.
struct Above {
    path: TreePath,
    /// It merges with a directory of the base.
    base: bool,
    /// It merges with the directory of the layers below that has its path.
    lower: bool,
}

/// Entries of a layer, sorted.
pub type Entries = BTreeMap<TreePath, Item>;

/// The layer that shows `target` above `lower`; `None` where there is none.
pub fn above(lower: &Manifest<'_>, target: &Manifest<'_>) -> Result<Option<Entries>> {
    let mut both: BTreeMap<TreePath, (Option<Item>, Option<Item>)> = BTreeMap::new();
    for entry in lower.iter()? {
        let (path, item) = entry?;
        both.entry(path).or_default().0 = Some(item);
    }
    for entry in target.iter()? {
        let (path, item) = entry?;
        both.entry(path).or_default().1 = Some(item);
    }
    Ok(layer(&both))
}

fn layer(both: &BTreeMap<TreePath, (Option<Item>, Option<Item>)>) -> Option<Entries> {
    let mut found = Entries::new();
    // Directories that need not be there but for what is in them.
    let mut passed = Entries::new();
    let mut way: Vec<Above> = Vec::new();
    for (path, (old, new)) in both {
        let Some(parent) = path.parent() else {
            found.insert(path.clone(), dir(new.as_ref()?, false)?);
            way.push(Above { path: path.clone(), base: true, lower: true });
            continue;
        };
        while way.last().is_some_and(|above| !path.starts_with(&above.path)) {
            way.pop();
        }
        // What is below something that is no directory in the state is hidden by it.
        let Some(above) = way.last().filter(|above| above.path == parent) else { continue };
        let (in_base, old) = (above.base, old.as_ref().filter(|_| above.lower));
        let Some(new) = new else {
            match old {
                None => {}
                Some(old) if in_base || old.kind == ItemKind::Whiteout => return None,
                Some(_) => drop(found.insert(path.clone(), Item::whiteout())),
            }
            continue;
        };
        let ItemKind::Dir { opaque, redirect } = &new.kind else {
            if old != Some(new) || new.group.is_some() {
                found.insert(path.clone(), new.clone());
            }
            continue;
        };
        let base = redirect.is_some() || in_base && !opaque;
        let mut merged = false;
        match old.map(|old| &old.kind) {
            Some(ItemKind::Dir { opaque: cut, redirect: from }) => {
                let shows = from.is_some() || in_base && !cut;
                if redirect != from || base && !shows {
                    return None;
                }
                merged = base == shows;
            }
            _ if redirect.is_some() => return None,
            // It hides the base from whatever is above it.
            Some(_) if base => return None,
            _ => {}
        }
        let item = dir(new, !merged && !base)?;
        if merged && old.is_some_and(|old| same_look(old, new)) {
            passed.insert(path.clone(), item);
        } else {
            found.insert(path.clone(), item);
        }
        way.push(Above { path: path.clone(), base, lower: merged });
    }
    let mut missing = Entries::new();
    for path in found.keys() {
        let mut at = path.parent();
        while let Some(dir) = at.filter(|dir| !found.contains_key(dir) && !missing.contains_key(dir)) {
            at = dir.parent();
            missing.insert(dir.clone(), passed.get(&dir)?.clone());
        }
    }
    found.append(&mut missing);
    Some(found)
}

/// A directory with other marks.
fn dir(item: &Item, opaque: bool) -> Option<Item> {
    item.is_dir().then(|| Item { kind: ItemKind::Dir { opaque, redirect: None }, ..item.clone() })
}

/// True where two directories differ in marks at most.
fn same_look(a: &Item, b: &Item) -> bool {
    dir(a, false) == dir(b, false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tree::Time;

    fn item(kind: ItemKind, mtime: i64) -> Item {
        Item {
            kind,
            mode: 0o755,
            uid: 0,
            gid: 0,
            mtime: Time { sec: mtime, nsec: 0 },
            xattrs: Vec::new(),
            group: None,
        }
    }

    /// `path` of a file, `path/` of a directory, `path//` of an opaque one, `-path` of a whiteout; `path=3` has another time.
    fn read(words: &[&str]) -> Entries {
        let root = (TreePath::root(), item(ItemKind::Dir { opaque: false, redirect: None }, 0));
        let entry = |word: &&str| {
            let (word, time) = word
                .split_once('=')
                .map_or((*word, 0), |(word, time)| (word, time.parse().expect("a number")));
            let kind = match word {
                _ if word.starts_with('-') => ItemKind::Whiteout,
                _ if word.ends_with('/') => ItemKind::Dir { opaque: word.ends_with("//"), redirect: None },
                _ => ItemKind::Fifo,
            };
            let path = TreePath::new(word.trim_start_matches('-').trim_end_matches('/')).expect("a path");
            let item = if kind == ItemKind::Whiteout { Item::whiteout() } else { item(kind, time) };
            (path, item)
        };
        std::iter::once(root).chain(words.iter().map(entry)).collect()
    }

    fn check(lower: &[&str], target: &[&str], wanted: Option<&[&str]>) {
        let mut both: BTreeMap<TreePath, (Option<Item>, Option<Item>)> = BTreeMap::new();
        read(lower).into_iter().for_each(|(path, item)| both.entry(path).or_default().0 = Some(item));
        read(target).into_iter().for_each(|(path, item)| both.entry(path).or_default().1 = Some(item));
        assert_eq!(layer(&both), wanted.map(read), "{target:?} above {lower:?}");
    }

    #[test]
    fn what_is_there_already_is_not_said_again() {
        let there = ["a", "d//", "d/x", "-gone", "e/", "e/f"];
        check(&there, &there, Some(&[]));
        check(&there, &["a=1", "d//", "d/x", "-gone", "e/", "e/f"], Some(&["a=1"]));
        check(&there, &["a", "d//", "d/x", "-gone", "e/", "e/f=2"], Some(&["e/", "e/f=2"]));
        check(
            &there,
            &["a", "d//=5", "d/x", "-gone", "e/", "e/f", "new//", "new/n"],
            Some(&["d/=5", "new//", "new/n"]),
        );
    }

    #[test]
    fn what_the_base_would_show_cannot_be_said_and_what_it_has_not_is_hidden() {
        check(&["a"], &[], None);
        check(&["-gone"], &[], None);
        check(&["e/", "e/f"], &["e/"], None);
        check(&["d//", "d/x", "d/y"], &["d//", "d/y"], Some(&["d/", "-d/x"]));
        check(&["d//", "d/s/", "d/s/x"], &["d//"], Some(&["d/", "-d/s"]));
    }

    #[test]
    fn types_and_cuts_that_change() {
        check(&["e/", "e/f"], &["e"], Some(&["e"]));
        check(&["e/", "e/f"], &["-e"], Some(&["-e"]));
        check(&["a"], &["a//", "a/x"], Some(&["a//", "a/x"]));
        check(&["a"], &["a/", "a/x"], None);
        check(&["e/", "e/f", "e/g/", "e/g/h"], &["e//", "e/g/"], Some(&["e//", "e/g//"]));
        check(&["e//", "e/f"], &["e/", "e/f"], None);
    }
}
