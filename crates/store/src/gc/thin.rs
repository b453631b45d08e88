//! Which snapshots may go: a pure function of histories and rules.

use std::collections::HashSet;

use crate::history::{History, LaneKey};
use crate::id::SnapshotId;
use crate::record::Record;

/// Up to an age one snapshot in so much time stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Class {
    /// For snapshots up to this age, in milliseconds.
    pub age_ms: i64,
    /// One in this much time, in milliseconds; 0 is all.
    pub every_ms: i64,
}

/// Which automatic snapshots stay. Those that a person asked for always do, and so does the one that a lane stands at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeepRules {
    /// The present time, in milliseconds since 1970 UTC.
    pub now_ms: i64,
    /// By age, the youngest class first. What is older than the last class goes.
    pub classes: Vec<Class>,
    /// The newest so many of each lane stay whatever their age.
    pub newest: usize,
    /// Bytes that the store may take. Beyond it automatic snapshots go, the oldest first.
    pub budget: Option<u64>,
    /// Snapshots that stay because somebody is at work with them.
    pub pinned: HashSet<SnapshotId>,
}

impl KeepRules {
    /// Everything stays.
    pub fn everything(now_ms: i64) -> KeepRules {
        let classes = vec![Class { age_ms: i64::MAX, every_ms: 0 }];
        KeepRules { now_ms, classes, newest: 0, budget: None, pinned: HashSet::new() }
    }

    /// All for a day, one an hour for a week, one a day for a quarter, and the newest twenty.
    pub fn usual(now_ms: i64) -> KeepRules {
        const HOUR: i64 = 3_600_000;
        let classes = vec![
            Class { age_ms: 24 * HOUR, every_ms: 0 },
            Class { age_ms: 7 * 24 * HOUR, every_ms: HOUR },
            Class { age_ms: 91 * 24 * HOUR, every_ms: 24 * HOUR },
        ];
        KeepRules { classes, newest: 20, ..KeepRules::everything(now_ms) }
    }
}

/// A snapshot as thinning sees it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Candidate<'a> {
    pub(crate) lane: &'a LaneKey,
    pub(crate) id: SnapshotId,
    pub(crate) record: &'a Record,
}

/// Snapshots that stay whatever the rules say, and those that the budget may take, the newest first.
pub(crate) struct Sorted<'a> {
    pub(crate) thinned: Vec<Candidate<'a>>,
    pub(crate) protected: Vec<Candidate<'a>>,
    pub(crate) automatic: Vec<Candidate<'a>>,
}

/// The snapshots that the rules by age take, by lane, the oldest first.
pub fn thin(histories: &[(LaneKey, History)], rules: &KeepRules) -> Vec<(LaneKey, SnapshotId)> {
    sort(histories, rules).thinned.into_iter().map(|gone| (gone.lane.clone(), gone.id)).collect()
}

pub(crate) fn sort<'a>(histories: &'a [(LaneKey, History)], rules: &KeepRules) -> Sorted<'a> {
    let mut sorted = Sorted { thinned: Vec::new(), protected: Vec::new(), automatic: Vec::new() };
    let positions: HashSet<SnapshotId> =
        histories.iter().filter_map(|(_, history)| history.position()).collect();
    for (lane, history) in histories {
        let all: Vec<Candidate<'a>> =
            history.snapshots().map(|(id, record)| Candidate { lane, id, record }).collect();
        let mut taken: Option<(usize, i64)> = None;
        let mut thinned = Vec::new();
        for (number, candidate) in all.iter().rev().enumerate() {
            let stays = !candidate.record.kind.is_automatic()
                || positions.contains(&candidate.id)
                || rules.pinned.contains(&candidate.id);
            if stays {
                sorted.protected.push(*candidate);
                continue;
            }
            let time = candidate.record.time_ms;
            // A clock that was set back makes young, not old.
            let age = rules.now_ms.saturating_sub(time);
            let class = rules.classes.iter().position(|class| age <= class.age_ms);
            let slot = class.map(|class| {
                let every = rules.classes[class].every_ms;
                (class, if every > 0 { time.div_euclid(every) } else { i64::MIN })
            });
            let fits = match slot {
                None => false,
                Some((_, i64::MIN)) => true,
                // The newest of each stretch of time is the one that stays.
                Some(_) => slot != taken,
            };
            if fits || number < rules.newest {
                taken = slot;
                sorted.automatic.push(*candidate);
            } else {
                thinned.push(*candidate);
            }
        }
        sorted.thinned.extend(thinned.into_iter().rev());
    }
    sorted
        .automatic
        .sort_by_key(|candidate| std::cmp::Reverse((candidate.record.time_ms, candidate.record.sequence)));
    sorted
}
