//! The leak check: what a lane changed is held against the values of the secrets that its runs had, before any of it is
//! recorded in a snapshot, kept or exported.
//!
//! The values are gone with their run. What stays in the lane's directory, which no command inside can reach, are digests under
//! a random key ([`review::leak`]). A lane without such a file is not looked at, so that the check costs nothing where there
//! never was a secret.

use std::fs::File;
use std::path::{Path, PathBuf};

use review::leak::Needles;
use sandbox::secret::Secret;
use tree::{ChangeSet, Entry, Kind, Source, TreePath};
use workspace::LaneHome;

use crate::clock;
use crate::error::{EngineError, Result};
use crate::lane::{OpenLane, RootDelta};

const FILE: &[u8] = b"secrets";

/// The digests of a lane; `None` where no run of it had a secret.
fn load(home: &LaneHome) -> Result<Option<Needles>> {
    let failed = |source| EngineError::Kernel { doing: "read the digests of secrets".into(), source };
    let file = match kernel::open::file_beneath(&home.dir().fd, FILE) {
        Err(error) if error.is_not_found() => return Ok(None),
        other => other.map_err(failed)?,
    };
    let text = kernel::bytes::read_all(&file).map_err(failed)?;
    // Fail closed: what cannot be read cannot be checked.
    let parsed = serde_json::from_slice(&text);
    parsed.map(Some).map_err(|_| failed(kernel::Error::new("read", "secrets", kernel::Errno::BADMSG)))
}

/// Notes the values of a run that is about to begin. Names of those that are too short to be looked for are answered.
pub(crate) fn note(home: &LaneHome, secrets: &[Secret]) -> Result<Vec<String>> {
    if secrets.is_empty() {
        return Ok(Vec::new());
    }
    let mut needles = match load(home)? {
        Some(needles) => needles,
        None => Needles::new(clock::secret()?),
    };
    let too_short = secrets.iter().filter(|secret| !needles.add(&secret.name, &secret.value));
    let too_short = too_short.map(|secret| secret.name.clone()).collect();
    write(home, &needles)?;
    Ok(too_short)
}

fn write(home: &LaneHome, needles: &Needles) -> Result<()> {
    let text = serde_json::to_vec(needles).unwrap_or_default();
    kernel::publish::write_file(&home.dir().fd, FILE, &text, 0o600)
        .map_err(|source| EngineError::Kernel { doing: "write the digests of secrets".into(), source })
}

/// A lane that shows what another one shows is looked at for the same values.
pub(crate) fn hand_on(from: &LaneHome, to: &LaneHome) -> Result<()> {
    match load(from)? {
        Some(needles) => write(to, &needles),
        None => Ok(()),
    }
}

/// What is looked for in a run that is under way.
pub(crate) fn needles(secrets: &[Secret]) -> Result<Option<Needles>> {
    if secrets.is_empty() {
        return Ok(None);
    }
    let mut needles = Needles::new(clock::secret()?);
    secrets.iter().for_each(|secret| {
        needles.add(&secret.name, &secret.value);
    });
    Ok(Some(needles))
}

/// Where a value was found.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Found {
    secret: String,
    path: PathBuf,
}

/// Refuses where a change of any root holds a value: everything that a snapshot would record, git's own files too.
pub(crate) fn check_all(lane: &OpenLane) -> Result<()> {
    let Some(needles) = load(&lane.home)? else { return Ok(()) };
    let mut found = Vec::new();
    for root in &lane.roots {
        let tree = root.workspace.lane_tree()?;
        look(&needles, &root.view.path, &*tree, &root.workspace.changes()?, &|_| true, &mut found)?;
    }
    verdict(lane, found)
}

/// Refuses where one of the changes that are asked for holds a value; `asked` are paths root by root, none meaning all.
pub(crate) fn check_asked(lane: &OpenLane, deltas: &[RootDelta], asked: &[Vec<TreePath>]) -> Result<()> {
    let Some(needles) = load(&lane.home)? else { return Ok(()) };
    let is_everything = asked.iter().all(Vec::is_empty);
    let mut found = Vec::new();
    for delta in deltas {
        let root = &lane.roots[delta.index];
        let tops = asked.get(delta.index).map(Vec::as_slice).unwrap_or_default();
        let is_meant =
            |path: &TreePath| is_everything || tops.iter().any(|top| path == top || path.starts_with(top));
        let tree = root.workspace.lane_tree()?;
        look(&needles, &root.view.path, &*tree, &delta.set, &is_meant, &mut found)?;
    }
    verdict(lane, found)
}

/// Refuses where a file of a commit that was made in the lane holds a value.
pub(crate) fn check_commit<'p>(
    lane: &OpenLane,
    tree: &dyn Source,
    paths: impl Iterator<Item = &'p TreePath>,
) -> Result<()> {
    let Some(needles) = load(&lane.home)? else { return Ok(()) };
    let (top, mut found) = (&lane.roots[0].view.path, Vec::new());
    for path in paths {
        if let Some(entry) = tree.entry(path).map_err(|error| unread(top, path, error.to_string()))? {
            look_at(&needles, top, tree, path, &entry, &mut found)?;
        }
    }
    verdict(lane, found)
}

fn unread(top: &Path, path: &TreePath, why: String) -> EngineError {
    EngineError::Unsearched { path: top.join(crate::describe::path(path.as_bytes())), why }
}

fn verdict(lane: &OpenLane, found: Vec<Found>) -> Result<()> {
    let others = found.len().saturating_sub(1);
    match found.into_iter().next() {
        Some(Found { secret, path }) => {
            Err(EngineError::Leaks { lane: lane.row.name.clone(), secret, path, others })
        }
        None => Ok(()),
    }
}

fn look(
    needles: &Needles,
    top: &Path,
    tree: &dyn Source,
    set: &ChangeSet,
    is_meant: &dyn Fn(&TreePath) -> bool,
    found: &mut Vec<Found>,
) -> Result<()> {
    let changed = set.changes.iter().filter(|change| is_meant(&change.path));
    for (path, entry) in changed.filter_map(|change| Some((&change.path, change.new.as_ref()?))) {
        look_at(needles, top, tree, path, entry, found)?;
    }
    Ok(())
}

fn look_at(
    needles: &Needles,
    top: &Path,
    tree: &dyn Source,
    path: &TreePath,
    entry: &Entry,
    found: &mut Vec<Found>,
) -> Result<()> {
    let in_name = needles.in_bytes(path.as_bytes());
    let secret = match entry.kind {
        _ if in_name.is_some() => in_name,
        Kind::Symlink => needles.in_bytes(&entry.target),
        Kind::File => {
            let file = File::from(tree.open(path).map_err(|error| unread(top, path, error.to_string()))?);
            needles.in_content(file).map_err(|error| unread(top, path, error.to_string()))?
        }
        _ => None,
    };
    if let Some(secret) = secret {
        let path = top.join(crate::describe::path(path.as_bytes()));
        found.push(Found { secret: secret.to_owned(), path });
    }
    Ok(())
}
