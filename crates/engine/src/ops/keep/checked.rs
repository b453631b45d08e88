//! The policy of a keep of several lanes: its rules hold for what they come to together, and a check runs on just that.
//!
//! Invariant: what a check passed on is what is kept. Where what several lanes come to cannot be put together to be checked,
//! nothing is kept.

use std::os::fd::AsFd as _;
use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::AtomicBool;

use ledger::verdict::Word;
use review::composed::Composed;
use review::export::{ExportOptions, export};
use tree::Source;
use workspace::{LaneHome, Making, Root, Strategy, manifest};

use super::PreparedKeep;
use super::gathered::KeptLane;
use crate::clock;
use crate::engine::Engine;
use crate::error::{Doing as _, EngineError, Result};
use crate::fingerprint::Fingerprint;
use crate::lane::{self, OpenLane};
use crate::monitor::{Event, Monitor};
use crate::ops::new;
use crate::ops::verify::{self, Held, VerifyRequest};
use crate::policy::{Broken, CheckView, NeededCheck, Planned, Policy, Refusal, Said, is_written};
use crate::stores;
use crate::view::RootView;

/// Refuses a plan that breaks a rule; the checks that it needs else.
pub(super) fn plan(lanes: &[KeptLane], planned: &[Planned<'_>]) -> Result<Vec<CheckView>> {
    let policy = policy(lanes)?;
    policy.check(&names(lanes), planned)?;
    let view = |needed: NeededCheck| CheckView {
        command: needed.check.text(),
        file: needed.file,
        line: needed.line,
        holds: false,
    };
    Ok(policy.checks().into_iter().map(view).collect())
}

fn policy(lanes: &[KeptLane]) -> Result<Policy> {
    let mut roots: Vec<&Path> = Vec::new();
    for root in lanes.iter().flat_map(|kept| &kept.lane.roots).filter(|root| !root.view.git) {
        if !roots.contains(&root.view.path.as_path()) {
            roots.push(&root.view.path);
        }
    }
    Policy::load(roots)
}

/// The lanes as a command names them.
fn names(lanes: &[KeptLane]) -> String {
    let names: Vec<&str> = lanes.iter().map(|kept| kept.view.name.as_str()).collect();
    names.join(" --with ")
}

impl PreparedKeep {
    /// Runs the checks on what the lanes come to, unless they have passed on that.
    pub(super) fn check_together(&self, engine: &Engine, monitor: &mut dyn Monitor) -> Result<()> {
        let checks = policy(&self.lanes)?.checks();
        if checks.is_empty() || self.still_holds()? {
            return Ok(());
        }
        let refused = |needed: &NeededCheck, said| {
            let broken = Broken::Check { command: needed.check.text(), said };
            let (lane, file) = (names(&self.lanes), needed.file.clone());
            EngineError::PolicyRefuses(Box::new(Refusal { lane, file, line: needed.line, broken }))
        };
        if !kernel::process::is_single_threaded() {
            return Err(refused(&checks[0], Said::NotRun));
        }
        let began = clock::now_ms();
        for needed in &checks {
            monitor.event(Event::Checking { command: &needed.check.text(), rule: &needed.file });
            let request = VerifyRequest {
                dir: self.lanes[0].lane.roots[0].view.path.clone(),
                argv: needed.check.argv().into_iter().map(Into::into).collect(),
                unattended: true,
                ..VerifyRequest::default()
            };
            match self.run(engine, &request, monitor)? {
                Word::Pass => {}
                Word::Fail => return Err(refused(needed, Said::Fail)),
                Word::Timeout => return Err(refused(needed, Said::Timeout)),
            }
        }
        self.checked.set(Some(began));
        match self.still_holds()? {
            true => Ok(()),
            false => Err(refused(&checks[0], Said::Stale)),
        }
    }

    /// True where checks have passed on this very plan, and neither a lane nor an original was written since.
    fn still_holds(&self) -> Result<bool> {
        let Some(since) = self.checked.get() else { return Ok(false) };
        for kept in &self.lanes {
            if kept.is_live && !kept.gate.is_at(&Fingerprint::of(&kept.lane.changes()?)) {
                return Ok(false);
            }
            for root in kept.lane.roots.iter().filter(|root| !root.view.git) {
                if is_written(root, since)? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Runs one check in a lane of its own that shows what the lanes come to, and is gone afterwards.
    fn run(&self, engine: &Engine, request: &VerifyRequest, monitor: &mut dyn Monitor) -> Result<Word> {
        let (home, lock) = new::create_home(engine)?;
        let (id, path) = (home.id().to_owned(), home.path().to_owned());
        let first = &self.lanes[0];
        let held = first.lock.as_ref().map_or(Held::Live, Held::AtRest);
        let not_made = |error: EngineError| EngineError::NotChecked {
            lanes: names(&self.lanes),
            why: error.with_causes(),
        };
        // Who checks goes on afterwards, and hears signals as before.
        let _mask = kernel::signal::mask().doing(|| "look at the signals".to_owned())?;
        let said = self
            .made(home)
            .map_err(not_made)
            .and_then(|child| verify::in_it(engine, &first.lane, &child, &lock, held, request, monitor))
            .and_then(|driven| verify::word(&driven, &first.view.name));
        let state = engine.state().path();
        let gone = LaneHome::open(state, &id)
            .map_err(EngineError::from)
            .and_then(|home| stores::remove_lane(state, home));
        if let Err(error) = gone {
            let why = format!(
                "{} was not removed; the next command tries again: {}",
                path.display(),
                error.with_causes()
            );
            monitor.event(Event::Warning(&why));
        }
        drop(lock);
        said.map(|(word, _)| word)
    }

    /// The lane that a check runs in: a copy of each root as it will be.
    fn made(&self, home: LaneHome) -> Result<OpenLane> {
        let first = &self.lanes[0].lane;
        home.begin_fork()?;
        let mut roots = Vec::new();
        for (index, planned) in self.roots.iter().enumerate() {
            let of = self.lanes.iter().find_map(|kept| {
                let at = kept.root_at(&planned.path)?;
                Some((kept, &kept.lane.roots[at]))
            });
            let Some((kept, root)) = of else { continue };
            if root.view.git && root.index != index {
                // A repository elsewhere that the first lane has no part in stays what it is outside.
                continue;
            }
            home.add_root(index, &kept.lane.home.place_of(root.index)?)?;
            if root.view.git {
                let linked = first.home.known_links()?;
                let (workspace, _) =
                    root.workspace.lend(&home, &mut Making { linked, progress: &mut |_| {} })?;
                let (view, skipped) = (root.view.clone(), root.skipped.clone());
                roots.push(lane::OpenRoot { view, index, workspace, skipped });
                continue;
            }
            let mut tree = Composed::new(
                Box::new(Rc::<dyn Source>::clone(&planned.inside)),
                Box::new(crate::merging::origin_at(&planned.path)?),
            );
            root.skipped.iter().for_each(|ours| tree.hide(ours));
            export(&tree, &home.layers(index)?.copy, ExportOptions { git: true })?;
            let view = RootView { path: planned.path.clone(), strategy: Strategy::Copy, git: false };
            let root = Root {
                index,
                origin: planned.path.clone(),
                strategy: Strategy::Copy,
                mode: lane::mount_mode(),
                ours: Vec::new(),
            };
            let opened = lane::open_root(&home, &root, view)?;
            let copy = opened.workspace.layer()?;
            let go_on = AtomicBool::new(false);
            let options = manifest::RecordOptions::default();
            manifest::record(copy.fd.as_fd(), &options, home.dir(), &format!("copied.{index}"), &go_on)?;
            roots.push(opened);
        }
        home.take_base(&first.home)?;
        let mut row = first.row.clone();
        row.id = home.id().to_owned();
        row.state = ledger::LaneState::New;
        row.layers = crate::describe::bytes(home.path());
        Ok(OpenLane { row, home, roots, lent_home: Some(first.home.path().to_owned()) })
    }
}
