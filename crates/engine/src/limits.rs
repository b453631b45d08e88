//! What a lane may use at most: wishes and rules become limits that stand, and what was hit is told.
//!
//! Invariant: groups are really made before it is said that they hold something; a limit that nothing can hold stops the
//! run before anything of it begins.

use std::os::fd::OwnedFd;
use std::time::Duration;

use kernel::mountspec::MountWhat;
use kernel::process::Namespaces;
use sandbox::limits::{self, Facts, Groups, Limit, Over, Watched};
pub use sandbox::limits::{Hit, Wanted, What};
use sandbox::{Mode, Op, Plan};

use crate::error::{EngineError, Result};
use crate::happened::{Happening, Sink};
use crate::lane::OpenLane;
use crate::launch;
use crate::monitor::{Event, Monitor};
use crate::policy::Policy;
use crate::view::{Level, Strategy};

/// Limits of a run, with what holds them.
#[derive(Debug, Default)]
pub struct Standing {
    /// The groups, which go when this is dropped.
    pub groups: Option<Groups>,
    /// The limits.
    pub limits: Vec<Limit>,
}

/// What a run may use by its flags and by the rules: where no flag says anything the smallest default, or the smallest
/// maximum; a flag beyond a maximum is refused.
pub(crate) fn ruled(
    policy: &Policy,
    wanted: &Wanted,
    time: Option<Duration>,
) -> Result<(Wanted, Option<Duration>)> {
    let one = |what: Option<What>, flag: Option<u64>| -> Result<Option<u64>> {
        let rules = || policy.limits().filter(|(_, rule)| rule.what == what);
        let most = rules().filter(|(_, rule)| rule.is_most).min_by_key(|(_, rule)| rule.value);
        match (flag, most) {
            (Some(flag), Some((file, rule))) if flag > rule.value => Err(EngineError::LimitAbove {
                flag: what.map_or("--timeout", What::flag),
                key: format!("limits.{}", rule.key),
                file: file.to_owned(),
                line: rule.line,
            }),
            (Some(flag), _) => Ok(Some(flag)),
            // A default beyond the maximum of another file is that maximum.
            (None, _) => Ok(rules().map(|(_, rule)| rule.value).min()),
        }
    };
    let ruled = Wanted {
        memory: one(Some(What::Memory), wanted.memory)?,
        cpus: one(Some(What::Cpus), wanted.cpus)?,
        pids: one(Some(What::Pids), wanted.pids)?,
        disk: one(Some(What::Disk), wanted.disk)?,
        inodes: one(Some(What::Inodes), wanted.inodes)?,
        io_weight: wanted.io_weight,
    };
    let millis = time.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
    Ok((ruled, one(None, millis)?.map(Duration::from_millis)))
}

/// Seconds, or numbers with the units `ms`, `s`, `m`, `h`, `d` in a row; `None` for what is no time, or none at all.
pub fn time(text: &str) -> Option<Duration> {
    if let Ok(secs) = text.parse::<u64>() {
        return (secs > 0).then(|| Duration::from_secs(secs));
    }
    let mut total = 0u64;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let number: u64 = rest[..digits].parse().ok()?;
        let unit = rest[digits..].find(|c: char| c.is_ascii_digit()).map_or(rest.len(), |at| digits + at);
        let factor = match &rest[digits..unit] {
            "ms" => 1,
            "s" => 1000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return None,
        };
        total = number.checked_mul(factor).and_then(|ms| total.checked_add(ms))?;
        rest = &rest[unit..];
    }
    (total > 0).then(|| Duration::from_millis(total))
}

/// Makes what holds the limits. The caller holds the lane's lock.
pub(crate) fn stand(lane: &OpenLane, wanted: &Wanted, level: Level) -> Result<Standing> {
    if wanted.is_empty() {
        return Ok(Standing::default());
    }
    let groups = Groups::make(&lane.home.dir().fd, &lane.row.id, wanted);
    let limits = planned(wanted, Groups::facts(groups.as_ref(), facts(level)))?;
    Ok(Standing { groups, limits })
}

/// What [`stand`] would answer, without making anything.
pub(crate) fn would(wanted: &Wanted, level: Level) -> Result<Vec<Limit>> {
    if wanted.is_empty() { Ok(Vec::new()) } else { planned(wanted, Groups::would(wanted, facts(level))) }
}

fn planned(wanted: &Wanted, facts: Facts) -> Result<Vec<Limit>> {
    limits::plan(wanted, facts).map_err(|(what, why)| EngineError::NoLimit { what, why })
}

fn facts(level: Level) -> Facts {
    let own_pids = level == Level::Namespaces;
    let own_users = own_pids && launch::mode() == Mode::User;
    Facts { own_users, own_pids, memory: None, cpu: None, pids: None, io: None }
}

/// The watch over what no kernel holds.
pub(crate) fn watch(lane: &OpenLane, plan: &Plan, handles: &sandbox::spawn::Handles) -> Option<Box<Watched>> {
    if plan.walls.limits.iter().all(|limit| limit.means.is_enforced()) {
        return None;
    }
    let pids = handles.fds.iter().find(|(kind, _)| *kind == Namespaces::PID);
    let pids = pids.and_then(|(_, fd)| fd.try_clone().ok());
    Watched::new(&plan.walls.limits, Over { pids, layers: layers(plan), whole: wholes(lane) }).map(Box::new)
}

/// The layers of every overlay that is mounted for the lane.
fn layers(plan: &Plan) -> Vec<OwnedFd> {
    let specs = plan.ops.iter().filter_map(|op| match op {
        Op::Mount(spec) | Op::Masked { mount: spec, .. } => Some(spec),
        _ => None,
    });
    let uppers = specs.filter_map(|spec| match &spec.what {
        MountWhat::Overlay(overlay) => overlay.upper.as_deref(),
        _ => None,
    });
    uppers.filter_map(|upper| kernel::open::root_dir(upper).ok()).collect()
}

/// The trees of copies.
fn wholes(lane: &OpenLane) -> Vec<OwnedFd> {
    let copies = lane.roots.iter().filter(|root| root.view.strategy == Strategy::Copy);
    copies.filter_map(|root| root.workspace.layer().ok()).map(|layer| layer.fd).collect()
}

/// Tells what was hit: each limit once, with the last that was found.
pub(crate) fn tell(hits: &[Hit], mut sink: Option<&mut Sink<'_>>, monitor: &mut dyn Monitor) {
    let mut told = Vec::new();
    for hit in hits.iter().rev() {
        if !told.contains(&hit.what) {
            told.push(hit.what);
            monitor.event(Event::LimitHit(hit));
            if let Some(sink) = &mut sink {
                sink.take(Happening::Limit { name: hit.what.word().into(), value: hit.most.to_string() });
            }
        }
    }
}
