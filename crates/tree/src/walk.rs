//! Walking a directory tree by descriptors, in the one order of the project.
//!
//! Invariant: an error never ends the walk; it becomes a gap with its path. Nothing but directories is opened.

use std::os::fd::{AsFd as _, BorrowedFd};

use kernel::{Errno, dir, open};

use crate::descent::{Descent, open_child};
use crate::dir::entry_at;
use crate::entry::Entry;
use crate::path::TreePath;
use crate::scout::Scout;

/// What to do after an entry was visited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Visit {
    /// Go on; enter it if it is a directory.
    Enter,
    /// Go on, but not below this entry.
    SkipBelow,
    /// End the walk.
    Stop,
}

/// Whether a walk enters other mounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mounts {
    /// Their roots are visited and listed as gaps, not entered.
    Stay,
    /// They are part of the tree.
    Cross,
}

/// Why a directory was not entered.
pub(crate) const OTHER_MOUNT: &str = "another filesystem is mounted here";

/// An entry on the way of a walk, with the directory that holds it: for those that read more than its stat.
#[derive(Debug, Clone, Copy)]
pub struct Visited<'a> {
    /// The directory, open for reading.
    pub dir: BorrowedFd<'a>,
    /// The name in it.
    pub name: &'a [u8],
    /// The path from the root of the walk.
    pub path: &'a TreePath,
    /// What stands there.
    pub entry: &'a Entry,
}

/// Visits everything below `root` (not `root` itself), sorted, without crossing mounts. What cannot be read is
/// returned with its reason; the walk goes on.
pub fn walk(
    root: BorrowedFd<'_>,
    visit: &mut dyn FnMut(&TreePath, &Entry) -> Visit,
) -> Vec<(TreePath, String)> {
    walk_mounts(root, Mounts::Stay, visit)
}

/// As [`walk`], with a word on mounts.
pub fn walk_mounts(
    root: BorrowedFd<'_>,
    mounts: Mounts,
    visit: &mut dyn FnMut(&TreePath, &Entry) -> Visit,
) -> Vec<(TreePath, String)> {
    walk_dirs(root, mounts, &mut |visited| visit(visited.path, visited.entry))
}

/// As [`walk_mounts`], handing out the open directory of each entry too. A visitor may change the mode of a directory
/// before it is entered.
pub fn walk_dirs(
    root: BorrowedFd<'_>,
    mounts: Mounts,
    visit: &mut dyn FnMut(Visited<'_>) -> Visit,
) -> Vec<(TreePath, String)> {
    walk_with(root, mounts, None, visit)
}

/// As [`walk_dirs`], with a second thread that asks from the other end what the walk will ask: for trees that are known to
/// be large.
pub fn walk_dirs_ahead(
    root: BorrowedFd<'_>,
    mounts: Mounts,
    visit: &mut dyn FnMut(Visited<'_>) -> Visit,
) -> Vec<(TreePath, String)> {
    std::thread::scope(|scope| {
        let scout = Scout::send(scope, root, mounts == Mounts::Cross);
        walk_with(root, mounts, Some(scout), visit)
    })
}

fn walk_with(
    root: BorrowedFd<'_>,
    mounts: Mounts,
    mut scout: Option<Scout>,
    visit: &mut dyn FnMut(Visited<'_>) -> Visit,
) -> Vec<(TreePath, String)> {
    let mut gaps = Vec::new();
    if let Err(error) = levels(root, mounts, scout.as_mut(), visit, &mut gaps) {
        // The walk lost its way back (a directory was moved under it): the rest is not known.
        gaps.push((TreePath::root(), error.to_string()));
    }
    gaps
}

/// A directory on the way: its path and the names that are still to be visited, the next one last. What stands there is
/// asked for where it was not found ahead.
struct Level {
    path: TreePath,
    rest: Vec<(Vec<u8>, Option<Entry>)>,
}

fn read_level(fd: BorrowedFd<'_>, path: TreePath, scout: &mut Option<&mut Scout>) -> kernel::Result<Level> {
    let mut rest: Vec<_> = match scout.as_mut().and_then(|scout| scout.names(&path, fd)) {
        Some(names) => names.into_iter().map(|(name, entry)| (name, Some(entry))).collect(),
        None => dir::unread_entries(fd)?.into_iter().map(|name| (name.name, None)).collect(),
    };
    rest.reverse();
    Ok(Level { path, rest })
}

fn levels(
    root: BorrowedFd<'_>,
    mounts: Mounts,
    mut scout: Option<&mut Scout>,
    visit: &mut dyn FnMut(Visited<'_>) -> Visit,
    gaps: &mut Vec<(TreePath, String)>,
) -> kernel::Result<()> {
    let mut descent = Descent::new(open::dir_beneath(root, b"")?);
    let mut stack = vec![read_level(descent.here()?, TreePath::root(), &mut scout)?];
    while let Some(level) = stack.last_mut() {
        let Some((name, entry)) = level.rest.pop() else {
            stack.pop();
            descent.leave()?;
            continue;
        };
        let path = level.path.join(&name);
        let entry = match entry.map_or_else(|| entry_at(descent.here()?, &name), |entry| Ok(Some(entry))) {
            Ok(Some(entry)) => entry,
            // Gone since the directory was read.
            Ok(None) => continue,
            Err(error) => {
                gaps.push((path, error.to_string()));
                continue;
            }
        };
        match visit(Visited { dir: descent.here()?, name: &name, path: &path, entry: &entry }) {
            Visit::Stop => return Ok(()),
            Visit::Enter if entry.is_dir() => {}
            _ => continue,
        }
        let child = open_child(descent.here()?, &name, mounts == Mounts::Cross)
            .and_then(|fd| read_level(fd.as_fd(), path.clone(), &mut scout).map(|level| (fd, level)));
        match child {
            Ok((fd, level)) => {
                descent.enter(fd)?;
                stack.push(level);
            }
            Err(error) if error.errno == Errno::XDEV => gaps.push((path, OTHER_MOUNT.to_owned())),
            Err(error) if error.is_not_found() => {}
            Err(error) => gaps.push((path, error.to_string())),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    /// What a walk sees, and one with a scout sees the same.
    fn walked(root: &std::path::Path, skip: &str) -> (Vec<String>, Vec<(TreePath, String)>) {
        let fd = open::root_dir(root).expect("open");
        let [one, other] = [walk_dirs, walk_dirs_ahead].map(|walk| {
            let mut seen = Vec::new();
            let gaps = walk(fd.as_fd(), Mounts::Stay, &mut |visited| {
                let text = visited.path.as_bytes().escape_ascii().to_string();
                let again = entry_at(visited.dir, visited.name).expect("stat");
                assert_eq!(again.as_ref(), Some(visited.entry), "{text}");
                let visit = if text == skip { Visit::SkipBelow } else { Visit::Enter };
                seen.push(text);
                visit
            });
            (seen, gaps)
        });
        assert_eq!(one, other);
        one
    }

    #[test]
    fn a_directory_that_took_the_place_of_one_that_was_seen_ahead_is_looked_at_again() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().expect("temporary directory");
        for name in ["a", "b", "c"] {
            fs::create_dir(dir.path().join(name)).expect("mkdir");
            fs::write(dir.path().join(name).join("f"), b"").expect("write");
        }
        let fd = open::root_dir(dir.path()).expect("open");
        let mut seen = Vec::new();
        let gaps = walk_dirs_ahead(fd.as_fd(), Mounts::Stay, &mut |visited| {
            if visited.path.as_bytes() == b"b" {
                // Not the directory that the scout has seen.
                fs::rename(dir.path().join("b"), dir.path().join("gone")).expect("rename");
                fs::create_dir(dir.path().join("b")).expect("mkdir");
                fs::write(dir.path().join("b/new"), b"").expect("write");
                let mode = fs::Permissions::from_mode(0o700);
                fs::set_permissions(dir.path().join("b"), mode).expect("chmod");
            }
            seen.push(visited.path.as_bytes().escape_ascii().to_string());
            Visit::Enter
        });
        assert!(gaps.is_empty(), "{gaps:?}");
        assert_eq!(seen, ["a", "a/f", "b", "b/new", "c", "c/f"]);
    }

    #[test]
    fn everything_is_visited_in_the_order_of_paths_and_links_are_not_followed() {
        let dir = tempfile::tempdir().expect("temporary directory");
        fs::create_dir_all(dir.path().join("a/b")).expect("mkdir");
        fs::write(dir.path().join("a/b/f"), b"").expect("write");
        fs::write(dir.path().join("a-b"), b"").expect("write");
        fs::create_dir(dir.path().join("skipped")).expect("mkdir");
        fs::write(dir.path().join("skipped/f"), b"").expect("write");
        symlink("a", dir.path().join("l")).expect("symlink");
        let (seen, gaps) = walked(dir.path(), "skipped");
        assert_eq!(seen, ["a", "a/b", "a/b/f", "a-b", "l", "skipped"]);
        let mut sorted: Vec<TreePath> = seen.iter().map(|path| TreePath::new(path).expect("valid")).collect();
        sorted.sort();
        assert_eq!(sorted.iter().map(|p| p.as_bytes().escape_ascii().to_string()).collect::<Vec<_>>(), seen);
        assert!(gaps.is_empty());
    }

    #[test]
    fn stopping_ends_the_walk() {
        let dir = tempfile::tempdir().expect("temporary directory");
        for name in ["a", "b", "c"] {
            fs::create_dir(dir.path().join(name)).expect("mkdir");
        }
        let fd = open::root_dir(dir.path()).expect("open");
        let mut count = 0;
        walk(fd.as_fd(), &mut |_, _| {
            count += 1;
            if count == 2 { Visit::Stop } else { Visit::Enter }
        });
        assert_eq!(count, 2);
    }

    #[test]
    fn a_tree_deeper_than_the_descriptors_held_is_walked_down_and_back_up() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let mut at = open::root_dir(dir.path()).expect("open");
        for _ in 0..1500 {
            kernel::node::mkdir_at(&at, b"d", 0o755).expect("mkdir");
            kernel::node::mkdir_at(&at, b"e", 0o755).expect("mkdir");
            at = open::dir_beneath(&at, b"d").expect("open");
        }
        let (seen, gaps) = walked(dir.path(), "");
        assert_eq!(seen.len(), 3000);
        assert!(gaps.is_empty(), "{gaps:?}");
        assert_eq!(seen[2999], "e");
        let left = crate::remove::remove_tree(open::root_dir(dir.path()).expect("open").as_fd(), b"d")
            .expect("remove");
        assert!(left.is_complete());
    }

    #[test]
    fn another_mount_is_a_gap_and_not_entered() {
        let root = open::root_dir(std::path::Path::new("/")).expect("open");
        let mut inside = 0;
        let gaps = walk(root.as_fd(), &mut |path, _| {
            if path.as_bytes().starts_with(b"proc/") {
                inside += 1;
            }
            if path.as_bytes() == b"proc" { Visit::Enter } else { Visit::SkipBelow }
        });
        assert_eq!(inside, 0);
        assert_eq!(gaps, [(TreePath::new("proc").expect("valid"), OTHER_MOUNT.to_owned())]);
    }
}
