//! What a collection would do, as data.

use std::collections::{HashMap, HashSet};
use std::os::fd::AsFd as _;
use std::sync::Arc;

use kernel::{dir, meta, open};

use super::thin::{KeepRules, sort};
use crate::error::{Damage, Result, Stepping as _};
use crate::history::{History, LaneKey, Stray};
use crate::id::{ObjectId, SnapshotId};
use crate::pack::read::Table;
use crate::pack::{HEAD, PackId};
use crate::reach::Reach;
use crate::store::Store;

/// A pack of which more than this part is needed by nobody is rewritten: one in so many.
const DEAD: u64 = 2;
/// Packs smaller than this are put together where there are so many of them.
const SMALL: u64 = 256 * 1024;
const MANY: usize = 128;

/// What a collection would do.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GcPlan {
    /// Snapshots that stop to resolve, by lane.
    pub thin: Vec<(LaneKey, SnapshotId)>,
    /// Packs that nothing needs.
    pub drop: Vec<PackId>,
    /// Packs whose needed objects move into a new one.
    pub rewrite: Vec<PackId>,
    /// Large files that nothing needs, by their name below `large`.
    pub large: Vec<String>,
    /// Bytes that go, of packs and large files.
    pub freed: u64,
    /// Bytes of needed objects that are copied for that.
    pub copied: u64,
    /// Bytes that stay.
    pub kept: u64,
    /// Objects that nothing needs.
    pub dead: u64,
    /// What could not be read. A store that is damaged is collected only on demand: what seems unneeded may be all that is
    /// left of something.
    pub damage: Vec<Damage>,
    /// Parts of histories that could not be read, with the same meaning.
    pub strays: Vec<(LaneKey, Stray)>,
    /// What stays in any case, for the look that is taken again before anything goes.
    pub(super) pinned: HashSet<SnapshotId>,
    /// What the snapshots that stay need.
    pub(super) live: HashSet<ObjectId>,
    /// The snapshots that were there.
    pub(super) known: HashSet<SnapshotId>,
}

impl GcPlan {
    /// True where nothing would change.
    pub fn is_empty(&self) -> bool {
        self.thin.is_empty() && self.drop.is_empty() && self.rewrite.is_empty() && self.large.is_empty()
    }

    /// True where something could not be read.
    pub fn is_damaged(&self) -> bool {
        !self.damage.is_empty() || !self.strays.is_empty()
    }
}

/// What is stored, as the planner sees it: read once.
pub(super) struct Stock {
    pub(super) tables: Arc<Vec<Table>>,
    /// Name, list of parts, bytes.
    large: Vec<(String, ObjectId, u64)>,
}

pub(super) fn histories(store: &Store) -> Result<Vec<(LaneKey, History)>> {
    store.lanes()?.into_iter().map(|lane| store.history(&lane).map(|history| (lane, history))).collect()
}

pub(super) fn stock(store: &Store) -> Result<Stock> {
    let index = store.refresh()?;
    Ok(Stock { tables: store.tables(&index)?, large: large_files(store)? })
}

/// Every large file with its list and the bytes it takes.
pub(crate) fn large_files(store: &Store) -> Result<Vec<(String, ObjectId, u64)>> {
    let mut found = Vec::new();
    for front in dir::entries(&store.large).stepping("list", b"large")? {
        if front.name.len() != 2 {
            continue;
        }
        let below = open::dir_beneath(&store.large, &front.name).stepping("open", &front.name)?;
        for item in dir::entries(below.as_fd()).stepping("list", &front.name)? {
            let Some(id) = std::str::from_utf8(&item.name).ok().and_then(ObjectId::from_hex) else {
                continue;
            };
            let stat = meta::stat_at(&below, &item.name).stepping("stat", &item.name)?;
            found.push((crate::large::path(id), id, stat.blocks * 512));
        }
    }
    Ok(found)
}

/// Makes a plan. Reads every manifest that a snapshot needs, each part of them once.
pub fn plan(store: &Store, rules: &KeepRules) -> Result<GcPlan> {
    let _held = store.hold()?;
    let histories = histories(store)?;
    let stock = stock(store)?;
    let sizes: HashMap<ObjectId, u64> = stock
        .tables
        .iter()
        .flat_map(|table| table.iter().map(|placed| (placed.id, u64::from(placed.len) + HEAD as u64)))
        .chain(stock.large.iter().map(|(_, id, bytes)| (*id, *bytes)))
        .collect();
    let sorted = sort(&histories, rules);
    let mut reach = Reach::new(store, &histories);
    let mut plan = GcPlan { pinned: rules.pinned.clone(), ..GcPlan::default() };
    let mut total = 0u64;
    let size = |ids: &[ObjectId]| ids.iter().filter_map(|id| sizes.get(id)).sum::<u64>();
    for candidate in &sorted.protected {
        reach.snapshot(candidate.record)?;
    }
    total += size(&reach.since());
    let mut thin: Vec<_> = sorted.thinned.iter().map(|gone| (gone.lane.clone(), gone.id)).collect();
    let mut full = false;
    for candidate in &sorted.automatic {
        if !full {
            reach.snapshot(candidate.record)?;
            let fresh = reach.since();
            let more = size(&fresh);
            full = rules.budget.is_some_and(|budget| total.saturating_add(more) > budget);
            if full {
                reach.forget(&fresh);
            } else {
                total += more;
            }
        }
        if full {
            thin.push((candidate.lane.clone(), candidate.id));
        }
    }
    plan.thin = thin;
    plan.damage = std::mem::take(&mut reach.damage);
    for (lane, history) in &histories {
        let strays = history.strays.iter().filter(|stray| !stray.unfinished);
        plan.strays.extend(strays.map(|stray| (lane.clone(), *stray)));
    }
    weigh(&mut plan, &stock, &reach.live);
    plan.live = reach.live;
    plan.known = histories.iter().flat_map(|(_, history)| history.snapshots().map(|(id, _)| id)).collect();
    Ok(plan)
}

/// Says of each pack and large file what becomes of it.
fn weigh(plan: &mut GcPlan, stock: &Stock, live: &HashSet<ObjectId>) {
    let small: HashSet<PackId> =
        stock.tables.iter().filter(|table| table.size < SMALL).map(|table| table.pack).collect();
    let together = small.len() > MANY;
    let mut counted = HashSet::new();
    for table in stock.tables.iter() {
        let mut needed = 0;
        for placed in table.iter() {
            // Of two copies one is enough.
            if live.contains(&placed.id) && counted.insert(placed.id) {
                needed += u64::from(placed.len) + HEAD as u64;
            } else {
                plan.dead += 1;
            }
        }
        if needed == 0 {
            plan.drop.push(table.pack);
            plan.freed += table.size;
        } else if table.size.saturating_sub(needed) > table.size / DEAD && table.len() > 0
            || together && small.contains(&table.pack)
        {
            plan.rewrite.push(table.pack);
            plan.freed += table.size.saturating_sub(needed);
            plan.copied += needed;
            plan.kept += needed;
        } else {
            plan.kept += table.size;
        }
    }
    for (name, id, bytes) in &stock.large {
        if live.contains(id) {
            plan.kept += bytes;
        } else {
            plan.large.push(name.clone());
            plan.freed += bytes;
        }
    }
}
