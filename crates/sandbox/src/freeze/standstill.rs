//! [`Standstill`]: the stopping of a lane's processes, one after the other, and their going on.
//!
//! A control group of the lane's own stops first, and whoever is in it needs nothing more. Who else is in the lane is asked of its pid namespace, so that nobody hides. Outside it stand the leaders of commands that
//! joined: they wait for a child inside and would take its stop for one of a terminal, so they stand first.
//!
//! Invariants: a process is stopped only when its parent stands, so that no new one is born behind the census, and goes
//! on only after its children. One that stood before, by a signal of somebody else's, is not touched. It is over when
//! a whole round finds nobody new and everybody still. Rests on the ordered stop that leaves job control alone.

use std::collections::{HashMap, HashSet};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use kernel::cgroup::Cgroup;
use kernel::proc::{self, Proc, Stat};
use kernel::{Errno, Result, process};
use rustix::process::Signal;

use super::LEADER;
use super::guard::Mapped;
use super::record::Record;

/// The signals by which a terminal stops.
const STOPS: [Signal; 3] = [Signal::TSTP, Signal::TTIN, Signal::TTOU];
/// Between two looks at somebody who does not stand yet.
const SHORTEST: Duration = Duration::from_micros(20);
const LONGEST: Duration = Duration::from_micros(400);

/// The lane that is to stand.
#[derive(Debug)]
pub(super) struct Ground {
    pub(super) proc: Proc,
    pub(super) namespace: OwnedFd,
    pub(super) group: Option<Cgroup>,
    pub(super) dir: OwnedFd,
}

/// One process of a census.
#[derive(Debug, Clone)]
struct Member {
    pid: i32,
    stat: Stat,
    /// Id inside; `None` for a leader that stands outside.
    inside: Option<i32>,
}

/// How somebody came to stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    Us,
    Others,
}

/// Somebody whom we have stopped.
#[derive(Debug)]
struct Held {
    pid: i32,
    process: OwnedFd,
}

/// A lane on its way to stand, or standing.
#[derive(Debug)]
pub(super) struct Standstill<'g> {
    ground: &'g Ground,
    record: Option<Record>,
    deadline: Instant,
    /// In the order in which they were stopped: parents first.
    held: Vec<Held>,
    /// Everybody who was seen to, by id and start.
    seen: HashMap<(i32, u64), By>,
    /// Who was found by the last round.
    members: Vec<Member>,
    /// Who is in the group, which has stopped.
    grouped: HashSet<i32>,
}

impl<'g> Standstill<'g> {
    /// Nobody is stopped yet.
    pub(super) fn new(ground: &'g Ground, limit: Duration) -> Standstill<'g> {
        let deadline = Instant::now() + limit;
        Standstill {
            ground,
            record: None,
            deadline,
            held: Vec::new(),
            seen: HashMap::new(),
            members: Vec::new(),
            grouped: HashSet::new(),
        }
    }

    /// Stops everybody; false where somebody does not stand in time. Whatever comes of it, [`Standstill::thaw`] follows.
    pub(super) fn bring(&mut self) -> Result<bool> {
        self.record = Record::begin(&self.ground.dir)?;
        if self.record.is_none() {
            return Ok(false);
        }
        if let Some(group) = &self.ground.group {
            group.freeze(true)?;
        }
        loop {
            if !self.group_has_stopped()? {
                return Ok(false);
            }
            let members = self.ground.census()?;
            let mut news = false;
            for member in in_order(&members) {
                if self.grouped.contains(&member.pid)
                    || self.seen.contains_key(&(member.pid, member.stat.start))
                {
                    continue;
                }
                let parent = members.iter().find(|other| other.pid == member.stat.parent);
                if parent.is_some_and(|parent| !self.stands_in_time(parent)) {
                    return Ok(false);
                }
                news = true;
                if !self.stop(member)? {
                    return Ok(false);
                }
            }
            for member in &members {
                if !self.stands_in_time(member) {
                    return Ok(false);
                }
            }
            if !news && members.iter().all(|member| self.stands(member)) {
                self.members = members;
                return Ok(self.nothing_is_carried_out_for_them());
            }
            if Instant::now() >= self.deadline {
                return Ok(false);
            }
        }
    }

    /// Waits for the group to stop, and looks who is in it. What is carried out for one in it is waited for.
    fn group_has_stopped(&mut self) -> Result<bool> {
        let Some(group) = &self.ground.group else { return Ok(true) };
        let mut pause = SHORTEST;
        while !group.is_frozen()? {
            if Instant::now() >= self.deadline {
                return Ok(false);
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(LONGEST);
        }
        self.grouped = group.processes()?.into_iter().collect();
        Ok(true)
    }

    fn stands(&self, member: &Member) -> bool {
        self.grouped.contains(&member.pid) || self.ground.stands(member)
    }

    /// Stops one whose parent stands; false where we may not.
    fn stop(&mut self, member: &Member) -> Result<bool> {
        let key = (member.pid, member.stat.start);
        let process = match proc::open_process(member.pid) {
            Ok(process) => process,
            Err(error) if matches!(error.errno, Errno::SRCH | Errno::INVAL) => return Ok(true),
            Err(error) => return Err(error),
        };
        // Now that it is held by a descriptor: is it the one that the census has found?
        let Some(now) = self.ground.proc.stat(member.pid).filter(|now| now.start == key.1) else {
            return Ok(true);
        };
        if now.has_ended() {
            return Ok(true);
        }
        if matches!(now.state, b'T' | b't') {
            self.seen.insert(key, By::Others);
            return Ok(true);
        }
        if let Some(record) = &mut self.record {
            record.add(member.pid, key.1)?;
        }
        match process::kill_pidfd(&process, Signal::STOP) {
            Ok(()) => {}
            Err(error) if error.errno == Errno::SRCH => return Ok(true),
            Err(_) => return Ok(false),
        }
        self.seen.insert(key, By::Us);
        self.held.push(Held { pid: member.pid, process });
        Ok(true)
    }

    /// Waits for one to stand; false where it does not in time.
    fn stands_in_time(&mut self, member: &Member) -> bool {
        let mut pause = SHORTEST;
        while !self.stands(member) {
            if Instant::now() >= self.deadline {
                return false;
            }
            if self.seen.get(&(member.pid, member.stat.start)) == Some(&By::Others) {
                // Somebody made it go on: it is one more for the next round.
                self.seen.remove(&(member.pid, member.stat.start));
                return true;
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(LONGEST);
        }
        true
    }

    /// Waits for a rename that is carried out for one who was killed over it.
    fn nothing_is_carried_out_for_them(&self) -> bool {
        while crate::notify::has_journal(&self.ground.dir) {
            if Instant::now() >= self.deadline {
                return false;
            }
            std::thread::sleep(LONGEST);
        }
        true
    }

    /// What they write to by storing.
    pub(super) fn mapped(&self) -> Mapped {
        self.ground.mapped_by(&self.members)
    }

    /// Lets everybody go on whom we have stopped, children before their parents.
    pub(super) fn thaw(self) {
        let mut again = Vec::new();
        for held in self.held.iter().rev() {
            let stat = self.ground.proc.stat(held.pid);
            if stat.is_some_and(|stat| STOPS.iter().any(|signal| signal.as_raw() == stat.stopped_by)) {
                // Its terminal was faster than we.
                continue;
            }
            // What the terminal wanted meanwhile is thrown away by the going on.
            let waiting = self.ground.proc.waiting_signals(held.pid);
            let stops = STOPS.iter().filter(|signal| waiting & (1 << (signal.as_raw() - 1)) != 0);
            again.extend(stops.map(|signal| (held, *signal)));
            let _ = process::kill_pidfd(&held.process, Signal::CONT);
        }
        for (held, signal) in again {
            let _ = process::kill_pidfd(&held.process, signal);
        }
        if let Some(group) = &self.ground.group {
            let _ = group.freeze(false);
        }
        if let Some(record) = self.record {
            record.close();
        }
    }
}

impl Ground {
    /// Everybody in the lane, and the leaders of those that joined it.
    fn census(&self) -> Result<Vec<Member>> {
        let mut members = Vec::new();
        for pid in self.proc.pids()? {
            let Some(inside) = proc::id_in(&self.namespace, pid)? else { continue };
            let Some(stat) = self.proc.stat(pid).filter(|stat| !stat.has_ended()) else { continue };
            members.push(Member { pid, stat, inside: Some(inside) });
        }
        let mut leaders: Vec<i32> = members
            .iter()
            .filter(|member| member.inside != Some(1))
            .map(|member| member.stat.parent)
            .filter(|parent| *parent > 0 && !members.iter().any(|member| member.pid == *parent))
            .collect();
        leaders.sort_unstable();
        leaders.dedup();
        let us = rustix::process::geteuid().as_raw();
        for pid in leaders {
            // Whoever else has taken in a child of the lane is no business of ours.
            if let Some(stat) = self.proc.stat(pid)
                && stat.name == LEADER.to_bytes()
                && self.proc.user(pid) == Some(us)
            {
                members.push(Member { pid, stat, inside: None });
            }
        }
        Ok(members)
    }

    /// True where nothing of a process runs: every thread is stopped, has ended, or waits for a child that stands.
    fn stands(&self, member: &Member) -> bool {
        let Some(stat) = self.proc.stat(member.pid).filter(|stat| stat.start == member.stat.start) else {
            return true;
        };
        if stat.threads <= 1 {
            return self.is_still(member.pid, member.pid, &stat);
        }
        self.proc.threads(member.pid).into_iter().all(|thread| {
            self.proc
                .thread_stat(member.pid, thread)
                .is_none_or(|stat| self.is_still(member.pid, thread, &stat))
        })
    }

    fn is_still(&self, pid: i32, thread: i32, stat: &Stat) -> bool {
        match stat.state {
            b'T' | b't' | b'Z' | b'X' => true,
            b'D' => self.proc.lends_its_memory(pid, thread),
            _ => false,
        }
    }

    /// What the lane's processes write to by storing.
    pub(super) fn mapped(&self) -> Result<Mapped> {
        Ok(self.mapped_by(&self.census()?))
    }

    fn mapped_by(&self, members: &[Member]) -> Mapped {
        let mut mapped = Mapped::default();
        for member in members {
            // Pid 1 and leaders are ours and map nothing.
            if member.inside.is_none_or(|inside| inside == 1) {
                continue;
            }
            let paths = match self.proc.maps(member.pid) {
                Ok(maps) => kernel::mappings::written_by_storing(&maps),
                Err(error) if matches!(error.errno, Errno::SRCH | Errno::NOENT) => Some(Vec::new()),
                Err(_) => None,
            };
            match paths {
                Some(paths) => mapped.paths.extend(paths),
                None => mapped.unseen += 1,
            }
        }
        mapped.paths.sort_unstable();
        mapped.paths.dedup();
        mapped
    }
}

/// Parents before their children.
fn in_order(members: &[Member]) -> Vec<&Member> {
    let parents: HashMap<i32, i32> = members.iter().map(|member| (member.pid, member.stat.parent)).collect();
    let depth = |member: &Member| {
        let ups = std::iter::successors(parents.get(&member.pid), |parent| parents.get(parent));
        // Ids are used again: what looks like a ring is none for longer than this round.
        ups.take(members.len()).count()
    };
    let mut ordered: Vec<(usize, &Member)> = members.iter().map(|member| (depth(member), member)).collect();
    ordered.sort_by_key(|(depth, member)| (*depth, member.pid));
    ordered.into_iter().map(|(_, member)| member).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(pid: i32, parent: i32) -> Member {
        let stat = Stat { name: Vec::new(), state: b'S', parent, threads: 1, start: 0, stopped_by: 0 };
        Member { pid, stat, inside: Some(pid) }
    }

    #[test]
    fn parents_come_before_their_children_whatever_their_ids() {
        let members =
            [member(5, 9), member(9, 70), member(2, 5), member(70, 1), member(3, 9), member(8, 200)];
        let order: Vec<i32> = in_order(&members).iter().map(|member| member.pid).collect();
        assert_eq!(order, [8, 70, 9, 3, 5, 2]);
        let ring = [member(5, 6), member(6, 5)];
        assert_eq!(in_order(&ring).len(), 2);
    }
}
