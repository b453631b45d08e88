//! Carries a plan out.
//!
//! Invariant: needed objects of a pack that goes are first in another one, which is synced. Only then, alone with the store,
//! and after a second look at all histories, are snapshots thinned out and files removed. Whoever is killed here
//! leaves more than is needed, never less.

use std::collections::HashSet;
use std::os::fd::AsFd as _;
use std::time::Duration;

use kernel::publish;

use super::plan::{GcPlan, Stock, histories, stock};
use crate::error::{Error, Result, Stepping as _};
use crate::history::{self, Event, LaneKey};
use crate::id::{ObjectId, SnapshotId};
use crate::index::forget;
use crate::pack::PackId;
use crate::pack::read::Table;
use crate::reach::Reach;
use crate::steps::Step;
use crate::store::{Store, read_placed};

/// What a collection did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Collected {
    /// Snapshots that do not resolve any more.
    pub thinned: u64,
    /// Packs removed.
    pub packs: u64,
    /// Large files removed.
    pub large: u64,
    /// Bytes of what was removed, less those of what was written for it.
    pub freed: i64,
    /// Packs and large files of the plan that stay, because something needs them after all.
    pub spared: u64,
}

/// Carries `plan` out. Waits up to `wait` for those who write, then gives up with [`Error::Busy`], having removed
/// nothing. A plan that found damage is refused unless `despite_damage` is set.
pub fn execute(
    store: &Store,
    plan: &GcPlan,
    time_ms: i64,
    wait: Duration,
    despite_damage: bool,
) -> Result<Collected> {
    execute_but(store, plan, time_ms, wait, despite_damage, &mut HashSet::new)
}

/// As [`execute`]. `pinned` is asked, once nobody writes any more, for snapshots that somebody has begun to work with since the
/// plan was made: they stay.
pub fn execute_but(
    store: &Store,
    plan: &GcPlan,
    time_ms: i64,
    wait: Duration,
    despite_damage: bool,
    pinned: &mut dyn FnMut() -> HashSet<SnapshotId>,
) -> Result<Collected> {
    store.require_writable()?;
    if plan.is_damaged() && !despite_damage {
        return match plan.damage.first() {
            Some(damage) => Err(Error::Damaged(Box::new(damage.clone()))),
            None => Err(Error::malformed("history", "bytes in it are no record")),
        };
    }
    let mut collected = Collected::default();
    if plan.is_empty() {
        return Ok(collected);
    }
    let leaving: HashSet<PackId> = plan.drop.iter().chain(&plan.rewrite).copied().collect();
    move_needed(store, plan, &leaving)?;
    let _alone = store.hold_alone(wait)?;
    // Whoever wrote since the plan was made is done: what they need counts as well.
    let histories = histories(store)?;
    let positions: HashSet<SnapshotId> =
        histories.iter().filter_map(|(_, history)| history.position()).collect();
    let pinned = pinned();
    let going =
        |id: &SnapshotId| !positions.contains(id) && !plan.pinned.contains(id) && !pinned.contains(id);
    let thin: HashSet<SnapshotId> = plan.thin.iter().map(|(_, id)| *id).filter(going).collect();
    // New ones, and those that were to go and are needed after all.
    let planned: HashSet<SnapshotId> = plan.thin.iter().map(|(_, id)| *id).collect();
    let mut reach = Reach::beyond(store, &histories, plan.live.clone());
    for (_, history) in &histories {
        let more = |id: &SnapshotId| !thin.contains(id) && (!plan.known.contains(id) || planned.contains(id));
        for (_, record) in history.snapshots().filter(|(id, _)| more(id)) {
            reach.snapshot(record)?;
        }
    }
    if let Some(damage) = reach.damage.pop().filter(|_| !despite_damage) {
        return Err(Error::Damaged(Box::new(damage)));
    }
    let stock = stock(store)?;
    let stays = elsewhere(store, &stock, &leaving, &reach.live)?;
    collected.thinned = record(store, plan, &thin, time_ms)?;
    for table in stock.tables.iter().filter(|table| leaving.contains(&table.pack)) {
        if table.iter().any(|placed| reach.live.contains(&placed.id) && !stays.contains(&placed.id)) {
            collected.spared += 1;
            continue;
        }
        let name = table.pack.file_name();
        store.steps.at(Step::GcRemove).stepping("remove", &name)?;
        forget(store.packs.as_fd(), name.as_bytes()).stepping("remove", &name)?;
        collected.packs += 1;
        collected.freed = collected.freed.saturating_add_unsigned(table.size);
    }
    remove_large(store, plan, &reach, &mut collected)?;
    publish::sync_dir(&store.packs).stepping("sync", b"packs")?;
    store.refresh()?.rebuild(store.index_dir.as_fd(), &store.steps).stepping("write", b"index")?;
    store.refresh()?;
    Ok(collected)
}

/// What of `live` is in packs that go and, whole, in packs that do not: of two copies one may go, if it is not the better
/// one.
fn elsewhere(
    store: &Store,
    stock: &Stock,
    leaving: &HashSet<PackId>,
    live: &HashSet<ObjectId>,
) -> Result<HashSet<ObjectId>> {
    let (going, staying): (Vec<&Table>, Vec<&Table>) =
        stock.tables.iter().partition(|table| leaving.contains(&table.pack));
    let ids = going.iter().flat_map(|table| table.iter()).map(|placed| placed.id);
    let wanted: HashSet<ObjectId> = ids.filter(|id| live.contains(id)).collect();
    let mut whole = HashSet::new();
    for table in staying {
        let held = table.iter().filter(|placed| wanted.contains(&placed.id));
        for placed in held {
            let Some(fd) = store.pack(table.pack)? else { break };
            if !whole.contains(&placed.id)
                && read_placed(&fd, placed.kind, &placed).stepping("read", table.pack.file_name())?.is_ok()
            {
                whole.insert(placed.id);
            }
        }
    }
    Ok(whole)
}

/// Copies what is needed of the packs that go into a new one.
fn move_needed(store: &Store, plan: &GcPlan, leaving: &HashSet<PackId>) -> Result<()> {
    if plan.rewrite.is_empty() {
        return Ok(());
    }
    let mut writer = store.begin()?;
    let stock = stock(store)?;
    let stays = elsewhere(store, &stock, leaving, &plan.live)?;
    for table in stock.tables.iter().filter(|table| plan.rewrite.contains(&table.pack)) {
        let Some(fd) = store.pack(table.pack)? else { continue };
        for placed in table.iter() {
            if !plan.live.contains(&placed.id) || stays.contains(&placed.id) {
                continue;
            }
            // What is damaged stays where it is, and its pack with it.
            if let Ok(bytes) =
                read_placed(&fd, placed.kind, &placed).stepping("read", table.pack.file_name())?
            {
                writer.copy(placed.kind, placed.id, &bytes)?;
            }
        }
    }
    writer.finish_pack()
}

/// Says in each history what is gone from it.
fn record(store: &Store, plan: &GcPlan, thin: &HashSet<SnapshotId>, time_ms: i64) -> Result<u64> {
    let mut lanes: Vec<&LaneKey> = plan.thin.iter().map(|(lane, _)| lane).collect();
    lanes.sort();
    lanes.dedup();
    let mut thinned = 0;
    for lane in lanes {
        let ids: Vec<SnapshotId> =
            plan.thin.iter().filter(|(of, id)| of == lane && thin.contains(id)).map(|(_, id)| *id).collect();
        if ids.is_empty() {
            continue;
        }
        store.steps.at(Step::GcRecord).stepping("append to", lane.as_str())?;
        thinned += ids.len() as u64;
        match history::append(store, lane, false, |_| ((), Event::Removed { ids, time_ms })) {
            Err(Error::Forgotten(_)) => {}
            other => drop(other?),
        }
    }
    Ok(thinned)
}

fn remove_large(store: &Store, plan: &GcPlan, reach: &Reach<'_>, collected: &mut Collected) -> Result<()> {
    for (name, id, bytes) in super::plan::large_files(store)? {
        if !plan.large.contains(&name) {
            continue;
        }
        if reach.live.contains(&id) {
            collected.spared += 1;
            continue;
        }
        store.steps.at(Step::GcRemove).stepping("remove", &name)?;
        forget(store.large.as_fd(), name.as_bytes()).stepping("remove", &name)?;
        collected.large += 1;
        collected.freed = collected.freed.saturating_add_unsigned(bytes);
    }
    Ok(())
}
