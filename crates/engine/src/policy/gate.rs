//! [`Gate`]: the policy at the door of one keep. Paths and sizes are held against the plan; checks are held against the
//! verdicts on what the lane is, and run where none holds.
//!
//! Invariant: a verdict counts here only for the very state that is kept from, and, where the lane shows the origin below
//! its own, only while the origin has not been written since.

use std::os::fd::AsFd as _;
use std::path::PathBuf;

use kernel::lock::Lock;
use ledger::Verdict;
use ledger::verdict::Word;
use review::guard::git_internal;
use tree::walk::{Visit, walk};

use super::{Broken, NeededCheck, Planned, Policy, Refusal, Said};
use crate::engine::Engine;
use crate::error::{Doing as _, EngineError, Result};
use crate::fingerprint::Fingerprint;
use crate::lane::{OpenLane, OpenRoot, RootDelta};
use crate::monitor::{Event, Monitor};
use crate::ops::verify::{self, Held, VerifyRequest};

/// A check that a keep needs, and how it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckView {
    /// The command, as it is written.
    pub command: String,
    /// The file that asks for it.
    pub file: PathBuf,
    /// In which line.
    pub line: usize,
    /// It has passed, on what is kept from.
    pub holds: bool,
}

/// What one keep has to hold to.
#[derive(Debug)]
pub(crate) struct Gate {
    policy: Policy,
    /// What the lane is.
    state: Fingerprint,
}

impl Gate {
    /// The rules for a lane that was just looked at.
    pub(crate) fn new(lane: &OpenLane, deltas: &[RootDelta]) -> Result<Gate> {
        Ok(Gate { policy: Policy::of_lane(lane)?, state: Fingerprint::of(deltas) })
    }

    /// Refuses a plan that breaks a rule; the checks that it needs else.
    pub(crate) fn plan(
        &self,
        engine: &Engine,
        lane: &OpenLane,
        planned: &[Planned<'_>],
    ) -> Result<Vec<CheckView>> {
        self.policy.check(&lane.row.name, planned)?;
        let view = |needed: NeededCheck| -> Result<CheckView> {
            let holds = self.holds(engine, lane, &needed)?;
            Ok(CheckView { command: needed.check.text(), file: needed.file, line: needed.line, holds })
        };
        self.policy.checks().into_iter().map(view).collect()
    }

    /// Runs what has not passed yet; an error where it does not. `lock` is the lane's, where nothing runs in it.
    pub(crate) fn pass(
        &self,
        engine: &Engine,
        lane: &OpenLane,
        lock: Option<&Lock>,
        monitor: &mut dyn Monitor,
    ) -> Result<()> {
        for needed in self.policy.checks() {
            if self.holds(engine, lane, &needed)? {
                continue;
            }
            if !kernel::process::is_single_threaded() {
                return Err(refused(lane, needed, Said::NotRun));
            }
            monitor.event(Event::Checking { command: &needed.check.text(), rule: &needed.file });
            let request = VerifyRequest {
                dir: lane.roots[0].view.path.clone(),
                argv: needed.check.argv().into_iter().map(Into::into).collect(),
                unattended: true,
                ..VerifyRequest::default()
            };
            let held = lock.map_or(Held::Live, Held::AtRest);
            let (verdict, _) = verify::check(engine, lane, held, &request, monitor)?;
            if !self.is_of_now(lane, &verdict)? {
                let said = match verdict.what.word {
                    Word::Pass => Said::Stale,
                    Word::Fail => Said::Fail,
                    Word::Timeout => Said::Timeout,
                };
                return Err(refused(lane, needed, said));
            }
        }
        Ok(())
    }

    /// True where the lane is still what was looked at.
    pub(crate) fn is_at(&self, now: &Fingerprint) -> bool {
        self.state == *now
    }

    fn holds(&self, engine: &Engine, lane: &OpenLane, needed: &NeededCheck) -> Result<bool> {
        let argv: Vec<Vec<u8>> = needed.check.argv().into_iter().map(String::into_bytes).collect();
        match engine.ledger()?.last_verdict_of(&lane.row.id, &argv)? {
            Some(verdict) => self.is_of_now(lane, &verdict),
            None => Ok(false),
        }
    }

    fn is_of_now(&self, lane: &OpenLane, verdict: &Verdict) -> Result<bool> {
        let what = &verdict.what;
        Ok(what.word == Word::Pass
            && what.state.as_deref() == Some(self.state.as_str())
            && !is_origin_written(lane, what.started_at)?)
    }
}

fn refused(lane: &OpenLane, needed: NeededCheck, said: Said) -> EngineError {
    let broken = Broken::Check { command: needed.check.text(), said };
    let (lane, file) = (lane.row.name.clone(), needed.file);
    EngineError::PolicyRefuses(Box::new(Refusal { lane, file, line: needed.line, broken }))
}

/// True where anything in an origin that the lane shows was written after that moment.
fn is_origin_written(lane: &OpenLane, since_ms: i64) -> Result<bool> {
    for root in lane.roots.iter().filter(|root| !root.view.git && root.workspace.sees_origin()) {
        if is_written(root, since_ms)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// True where anything in the origin of a root was written after that moment.
pub(crate) fn is_written(root: &OpenRoot, since_ms: i64) -> Result<bool> {
    let path = &root.view.path;
    let dir = kernel::open::root_dir(path).doing(|| format!("open {}", path.display()))?;
    let mut written = false;
    // What cannot be looked at could not be seen by the check either.
    let _gaps = walk(dir.as_fd(), &mut |path, entry| {
        if git_internal(path) || root.skipped.contains(path) {
            return Visit::SkipBelow;
        }
        let at = entry.ctime.sec.saturating_mul(1000) + i64::from(entry.ctime.nsec / 1_000_000);
        written |= at > since_ms;
        if written { Visit::Stop } else { Visit::Enter }
    });
    Ok(written)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use crate::ops::keep::{self, KeepRequest};
    use crate::ops::new::{self, NewRequest};
    use crate::policy::{Broken, Said};
    use crate::view::Strategy;
    use crate::{Engine, EngineError, EngineOptions, Silent};

    #[test]
    fn a_program_with_several_threads_starts_no_check_and_keeps_nothing() {
        let dir = tempfile::tempdir().expect("a directory");
        let (project, state) = (dir.path().join("p"), dir.path().join("s"));
        std::fs::create_dir(&project).expect("made");
        std::fs::write(project.join("lane.toml"), "[keep]\nverify = 'true'\n").expect("written");
        let engine = Engine::open(&EngineOptions { state: Some(state) }).expect("opens");
        let request = NewRequest {
            dir: project.clone(),
            name: Some("a".into()),
            strategy: Some(Strategy::Copy),
            ..NewRequest::default()
        };
        let lane = new::new(&engine, &request, &mut Silent).expect("made");
        let copy: PathBuf = lane.dir.join("0.c");
        std::fs::write(copy.join("new"), "x").expect("written");
        let other = std::thread::spawn(std::thread::park);
        let request = KeepRequest { dir: project.clone(), lane: Some("a".into()), ..KeepRequest::default() };
        let prepared = keep::prepare(&engine, &request, &mut Silent).expect("planned");
        assert_eq!(prepared.view.checks.iter().map(|check| check.holds).collect::<Vec<_>>(), [false]);
        let refused = prepared.execute(&engine, &mut Silent);
        other.thread().unpark();
        other.join().expect("ended");
        let Err(EngineError::PolicyRefuses(refusal)) = refused else { panic!("{refused:?}") };
        assert!(matches!(refusal.broken, Broken::Check { said: Said::NotRun, .. }), "{refusal}");
        assert!(!project.join("new").exists());
    }
}
