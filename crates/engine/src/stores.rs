//! Every store of snapshots that the lanes of a state directory use: where they are, who is in them, and how a lane leaves
//! one for good.
//!
//! A store stands in the state directory, or beside the layers of a lane on the project's filesystem; there lanes of
//! other state directories may be in it, too, of which nothing is known here but that they are.
//!
//! Invariant: a lane is found here as long as its directory is anywhere, in the trash included, and what it may still need is
//! left alone. The last lane that leaves a store takes it along.

use std::collections::{BTreeMap, HashSet};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use store::gc::{self, Collected, GcPlan, KeepRules};
use store::{LaneKey, SnapshotId, Store};
use workspace::LaneHome;
use workspace::home::{LANES, TRASH};

use crate::clock;
use crate::error::{Doing as _, Result};
use crate::going_back;

/// Name of a store's directory.
pub const STORE: &str = "store";
/// How long whoever leaves waits for others who are at work in the store.
const WAIT: Duration = Duration::from_secs(10);
/// A store that takes no more than this is collected as soon as a lane has left it; another one waits for `gc`.
const CHEAP: u64 = 64 << 20;

/// Where a store is, or would be.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoreAt {
    /// The directory that it is in: the state directory, or a place of layers.
    above: PathBuf,
    is_place: bool,
}

impl StoreAt {
    fn in_state(state: &Path) -> StoreAt {
        StoreAt { above: state.to_path_buf(), is_place: false }
    }

    /// The store that a lane uses.
    pub fn of(state: &Path, home: &LaneHome) -> Result<StoreAt> {
        // Layers that are kept in memory are forgotten at the end; what was asked to be kept of them is not.
        let place = home.places_elsewhere()?.into_iter().find(|place| !place.starts_with("/dev/shm"));
        Ok(place.map_or_else(|| StoreAt::in_state(state), |above| StoreAt { above, is_place: true }))
    }

    /// Its directory.
    pub fn path(&self) -> PathBuf {
        self.above.join(STORE)
    }

    fn above(&self) -> Result<Option<OwnedFd>> {
        match kernel::open::root_dir(&self.above) {
            Err(error) if error.is_not_found() => Ok(None),
            other => other.map(Some).doing(|| format!("open {}", self.above.display())),
        }
    }

    /// True where there is one.
    pub fn is_there(&self) -> bool {
        self.path().join("format").symlink_metadata().is_ok()
    }

    /// Opens it; `None` where there is none.
    pub fn open(&self) -> Result<Option<Store>> {
        if !self.is_there() {
            return Ok(None);
        }
        let dir = kernel::open::root_dir(&self.path()).doing(|| format!("open {}", self.path().display()))?;
        Ok(Some(Store::open(dir)?))
    }

    /// Opens it for a lane that is about to write, and makes it where there is none.
    pub fn enter(&self, key: &LaneKey) -> Result<Store> {
        let doing = || format!("open {}", self.path().display());
        // It may end, with its last lane, between two of our steps.
        for _ in 0..1000 {
            let dir = match kernel::open::root_dir(&self.path()) {
                Err(error) if error.is_not_found() => {
                    let above = kernel::open::root_dir(&self.above).doing(doing)?;
                    match kernel::node::mkdir_at(&above, STORE.as_bytes(), 0o700) {
                        Err(error) if error.errno != kernel::Errno::EXIST => return Err(error).doing(doing),
                        _ => continue,
                    }
                }
                other => other.doing(doing)?,
            };
            let store = match Store::create(&dir) {
                Err(store::Error::Kernel { source, .. }) if source.is_not_found() => continue,
                other => other?,
            };
            if store.enter(key)? {
                return Ok(store);
            }
        }
        Err(store::Error::Busy.into())
    }

    /// True where a lane's history, if only its beginning, is in it.
    fn knows(&self, id: &str) -> bool {
        self.path().join("history").join(format!("{id}.log")).symlink_metadata().is_ok()
    }

    /// True where the lane of a history is nowhere any more.
    pub fn is_orphan(&self, state: &Path, key: &LaneKey) -> bool {
        let there = |above: PathBuf| above.join(key.as_str()).symlink_metadata().is_ok();
        // In this order, since a lane may be on its way to the trash or back.
        let ours = there(state.join(LANES)) || there(state.join(TRASH)) || there(state.join(LANES));
        let elsewhere = self.is_place && there(self.above.clone());
        !ours && !elsewhere
    }

    /// Removes it where no lane is in it, with what an earlier end left half done.
    pub fn end_if_empty(&self) -> Result<bool> {
        let Some(above) = self.above()? else { return Ok(true) };
        if !store::clear_remains(above.as_fd(), STORE.as_bytes())? {
            let Some(store) = self.open()? else { return Ok(false) };
            if !store.end_if_empty(above.as_fd(), STORE.as_bytes(), WAIT)? {
                return Ok(false);
            }
        }
        if self.is_place
            && let (Some(parent), Some(name)) = (self.above.parent(), self.above.file_name())
            && let Ok(parent) = kernel::open::root_dir(parent)
        {
            // Lanes without a history keep it.
            let _still_used = kernel::node::rmdir_at(&parent, name.as_encoded_bytes());
        }
        Ok(true)
    }
}

/// Directories of lanes, by id, those in the trash included.
pub fn homes(state: &Path) -> BTreeMap<String, LaneHome> {
    let mut found = BTreeMap::new();
    for (below, open) in [
        (LANES, LaneHome::open as fn(&Path, &str) -> _),
        (TRASH, LaneHome::open_trashed),
        (LANES, LaneHome::open),
    ] {
        for entry in std::fs::read_dir(state.join(below)).into_iter().flatten().flatten() {
            if let Some(id) = entry.file_name().to_str()
                && !found.contains_key(id)
                && let Ok(home) = open(state, id)
            {
                found.insert(id.to_owned(), home);
            }
        }
    }
    found
}

/// Every store that is there, or was, the state directory's first.
pub fn all(state: &Path) -> Result<Vec<StoreAt>> {
    let mut found = HashSet::new();
    for home in homes(state).values() {
        found.extend(home.places_elsewhere()?.into_iter().map(|above| StoreAt { above, is_place: true }));
    }
    let mut found: Vec<StoreAt> = found.into_iter().collect();
    found.sort();
    found.insert(0, StoreAt::in_state(state));
    found.retain(|at| at.path().symlink_metadata().is_ok());
    Ok(found)
}

/// Snapshots that a collection leaves alone whatever the rules say: those between which a lane's layers are, and all of
/// lanes that are not of this state directory.
pub fn pinned(state: &Path, store: &Store) -> Result<HashSet<SnapshotId>> {
    let homes = homes(state);
    let mut pinned = HashSet::new();
    let mut whole: Vec<LaneKey> =
        store.lanes()?.into_iter().filter(|key| !homes.contains_key(key.as_str())).collect();
    for home in homes.values() {
        match going_back::begun(home) {
            Ok(begun) => pinned.extend(begun.into_iter().flat_map(|step| [step.from, step.to])),
            // Between which two is not known: between any.
            Err(_) => whole.push(LaneKey::new(home.id())?),
        }
    }
    for key in whole {
        pinned.extend(store.history(&key)?.snapshots().map(|(id, _)| id));
    }
    Ok(pinned)
}

/// Thins automatic snapshots of a store out, by the usual rules and to a budget.
pub fn thin(state: &Path, store: &Store, budget: u64) -> Result<()> {
    let now = clock::now_ms();
    let rules = KeepRules { budget: Some(budget), pinned: pinned(state, store)?, ..KeepRules::usual(now) };
    collect(state, store, gc::plan(store, &rules)?, now, false).map(drop)
}

/// Carries a plan out. What somebody has begun to restore since it was made stays; where there is no room to rewrite packs,
/// those go that nobody needs at all.
pub fn collect(
    state: &Path,
    store: &Store,
    mut plan: GcPlan,
    now: i64,
    despite_damage: bool,
) -> Result<Collected> {
    // Where they cannot be told, none goes.
    let mut late = || pinned(state, store).unwrap_or_else(|_| plan_ids(&plan));
    match gc::execute_but(store, &plan, now, WAIT, despite_damage, &mut late) {
        Err(error) if error.is_full() && !plan.rewrite.is_empty() => {}
        other => return Ok(other?),
    }
    plan.rewrite.clear();
    let mut late = || pinned(state, store).unwrap_or_else(|_| plan_ids(&plan));
    Ok(gc::execute_but(store, &plan, now, WAIT, despite_damage, &mut late)?)
}

fn plan_ids(plan: &GcPlan) -> HashSet<SnapshotId> {
    plan.thin.iter().map(|(_, id)| *id).collect()
}

/// Removes a lane for good: its layers, its history, and the store with its last lane. The caller holds its lock.
pub fn remove_lane(state: &Path, home: LaneHome) -> Result<()> {
    // From here on it is a remnant, whatever interrupts us, and the next command goes on.
    home.doom()?;
    sandbox::freeze::group::end(&home.dir().fd);
    sandbox::limits::end(&home.dir().fd);
    let left = leave(state, &home);
    home.remove()?;
    left
}

/// The lane leaves every store that it may be in. One lookup for each where it is in none.
pub fn leave(state: &Path, home: &LaneHome) -> Result<()> {
    let mut stores = vec![StoreAt::in_state(state)];
    stores.extend(home.places_elsewhere()?.into_iter().map(|above| StoreAt { above, is_place: true }));
    for at in stores {
        if !at.knows(home.id()) {
            continue;
        }
        let Some(store) = at.open()? else { continue };
        store.forget_lane(&LaneKey::new(home.id())?)?;
        if !at.end_if_empty()? {
            // What is not done here the next collection does.
            let _ = drop_dead(&store);
        }
    }
    Ok(())
}

/// Removes packs that nobody needs any more, where finding them costs little.
fn drop_dead(store: &Store) -> Result<()> {
    if store.size()?.bytes > CHEAP {
        return Ok(());
    }
    let now = clock::now_ms();
    let mut plan = gc::plan(store, &KeepRules::everything(now))?;
    plan.rewrite.clear();
    gc::execute(store, &plan, now, WAIT, false)?;
    Ok(())
}
