//! What a crash or a kill left behind, found and cleared by the next command.
//!
//! Invariant: what somebody holds the lock of is never a remnant, and neither is what is younger than a
//! grace time and has no lock file yet while somebody is making a lane (he is between two calls). Looking is apart from clearing,
//! so that a caller can show the plan.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::error::{Doing as _, Result};
use crate::home::{LANES, LaneHome, TRASH, has_maker};

/// How long a directory without a lock file may be somebody's that is being made.
const GRACE: Duration = Duration::from_secs(60);

/// Why something is a remnant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RemnantKind {
    /// A lane that was never finished or is half removed: no base stamp.
    HalfMade,
    /// A whole lane that the ledger does not know.
    Unknown,
    /// A discarded lane past its time.
    OldTrash,
    /// A temporary file in a lane's directory, of a writer that died.
    Temporary,
}

/// Something to clear.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Remnant {
    /// Why.
    pub kind: RemnantKind,
    /// The lane's id.
    pub id: String,
    /// What is cleared.
    pub path: PathBuf,
}

/// Finds remnants below a state directory. `is_known` says whether the ledger has a lane of that id that
/// is not discarded; trash older than `keep_trash` is past its time.
pub fn remnants(state: &Path, is_known: &dyn Fn(&str) -> bool, keep_trash: Duration) -> Result<Vec<Remnant>> {
    let mut found = Vec::new();
    for (id, age) in names(&state.join(LANES))? {
        let path = state.join(LANES).join(&id);
        let Ok(home) = LaneHome::open(state, &id) else { continue };
        let has =
            |name: &[u8]| kernel::meta::stat_at_if_there(&home.dir().fd, name).map(|stat| stat.is_some());
        let is_whole = has(crate::base::STAMP).doing("look at lane", &path)?;
        let is_bare = !is_whole && !has(b"lock").doing("look at lane", &path)?;
        if is_bare && age < GRACE && has_maker(&state.join(LANES)) {
            continue;
        }
        let is_known = is_known(&id);
        let temporaries = temporaries(&home)?;
        if is_whole && is_known && temporaries.is_empty() {
            continue;
        }
        // Only a lane that nobody holds is looked at closer; the lock goes with this iteration.
        let _lock = match home.try_lock() {
            Ok(Some(lock)) => lock,
            Ok(None) => continue,
            // Somebody else has cleared it meanwhile.
            Err(error) if error.is_not_found() => continue,
            Err(error) => return Err(error),
        };
        if !is_whole || !is_known {
            let kind = if is_whole { RemnantKind::Unknown } else { RemnantKind::HalfMade };
            found.push(Remnant { kind, id, path });
        } else {
            found.extend(temporaries.into_iter().map(|path| Remnant {
                kind: RemnantKind::Temporary,
                id: id.clone(),
                path,
            }));
        }
    }
    for (id, age) in names(&state.join(TRASH))? {
        if age >= keep_trash {
            found.push(Remnant { kind: RemnantKind::OldTrash, path: state.join(TRASH).join(&id), id });
        }
    }
    found.sort();
    Ok(found)
}

/// Clears one remnant; `false` where somebody holds it by now.
pub fn clear(state: &Path, remnant: &Remnant) -> Result<bool> {
    let home = match remnant.kind {
        RemnantKind::OldTrash => LaneHome::open_trashed(state, &remnant.id),
        _ => LaneHome::open(state, &remnant.id),
    };
    let home = match home {
        Err(error) if error.is_not_found() => return Ok(true),
        other => other?,
    };
    let lock = match home.try_lock() {
        Ok(Some(lock)) => lock,
        Ok(None) => return Ok(false),
        Err(error) if error.is_not_found() => return Ok(true),
        Err(error) => return Err(error),
    };
    if remnant.kind == RemnantKind::Temporary {
        let name = remnant.path.file_name().map(|name| name.as_encoded_bytes()).unwrap_or_default();
        match kernel::node::unlink_at(&home.dir().fd, name) {
            Err(error) if error.is_not_found() => {}
            other => other.doing("remove temporary file", &remnant.path)?,
        }
        return Ok(true);
    }
    home.remove()?;
    drop(lock);
    Ok(true)
}

/// Names in a directory of lanes, each with the time since it was put there (a rename counts).
fn names(dir: &Path) -> Result<Vec<(String, Duration)>> {
    let fd = match kernel::open::root_dir(dir) {
        Err(error) if error.is_not_found() => return Ok(Vec::new()),
        other => other.doing("list lanes", dir)?,
    };
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let mut found = Vec::new();
    for name in kernel::dir::entries(&fd).doing("list lanes", dir)? {
        let Some(stat) = kernel::meta::stat_at_if_there(&fd, &name.name).doing("list lanes", dir)? else {
            continue;
        };
        let put = Duration::new(u64::try_from(stat.ctime.0).unwrap_or(0), stat.ctime.1);
        if let Ok(id) = String::from_utf8(name.name) {
            found.push((id, now.saturating_sub(put)));
        }
    }
    Ok(found)
}

fn temporaries(home: &LaneHome) -> Result<Vec<PathBuf>> {
    let names = match kernel::dir::entries(&home.dir().fd) {
        // It is removed meanwhile.
        Err(error) if error.is_not_found() => return Ok(Vec::new()),
        other => other.doing("look at lane", home.path())?,
    };
    let is_temporary = |name: &[u8]| name.starts_with(kernel::publish::TEMP_PREFIX);
    let path = |name: Vec<u8>| {
        use std::os::unix::ffi::OsStringExt as _;
        home.path().join(std::ffi::OsString::from_vec(name))
    };
    Ok(names.into_iter().filter(|name| is_temporary(&name.name)).map(|name| path(name.name)).collect())
}

#[cfg(test)]
mod tests;
