//! What `lane keep` says of a plan and of what it did.

use engine::ops::keep::{Clash, ConflictView, Conflicts, Did, KeepView, LeftOut, LeftOutWhy};
use engine::view::LaneView;

use crate::commands::Context;
use crate::error::Result;
use crate::escape;
use crate::exit_code;
use crate::render::report;
use crate::style::Role;
use crate::ui::Ui;
use crate::wire;

pub(super) fn answer(context: &mut Context, view: &KeepView, dry_run: bool) -> Result<u8> {
    let ui = &mut context.ui;
    let complete = view.is_complete();
    let code = if complete { exit_code::DONE } else { exit_code::NOT_DONE };
    if ui.json {
        ui.document(&wire::Keep::new(view, dry_run))?;
        return Ok(code);
    }
    if dry_run {
        steps(ui, view)?;
        ui.say(&format!("would write {}, {}", paths_word(view.steps.len()), report::bytes(view.bytes)));
        for check in view.checks.iter().filter(|check| !check.holds) {
            let (command, rule) = (escape::name(&check.command), report::path(&check.file));
            ui.say(&format!("would first check it with {command} (keep.verify of {rule})"));
        }
    } else if view.steps.is_empty() {
        ui.say("nothing to keep");
    } else {
        ui.say(&format!("kept {} of {}", paths_word(view.steps.len()), lanes_word(view)));
        if let Some(id) = &view.id {
            ui.say(&format!(
                "  {} takes it back",
                ui.paint_err(Role::Good, &format!("lane undo --keep {id}"))
            ));
        }
        let all = std::iter::once(&view.lane).chain(&view.with);
        let all: Vec<&str> = all.map(|lane| lane.name.as_str()).collect();
        if view.steps.iter().any(|step| step.part) {
            let diffs: Vec<String> = all.iter().map(|lane| format!("lane diff {lane}")).collect();
            let place = if diffs.len() == 1 { "the lane" } else { "the lanes" };
            ui.say(&format!("what was not kept stays in {place}: {}", diffs.join(", ")));
        } else if complete {
            ui.say(&format!("next: lane discard {}", all.join(" ")));
        }
    }
    merged(ui, view);
    left_out(ui, view);
    for (_, path) in &view.set_id_dropped {
        ui.tell(&format!(
            "  {} kept without its set-id bit; `--set-id` keeps it",
            escape::name(path.as_bytes())
        ));
    }
    if view.git_internal > 0 {
        let stay = if view.git_internal == 1 { "stays" } else { "stay" };
        let paths = paths_word(usize::try_from(view.git_internal).unwrap_or(usize::MAX));
        ui.say(&format!("{paths} in .git {stay} in the lane"));
    }
    Ok(code)
}

/// The lanes of a keep in words.
pub(super) fn lanes_word(view: &KeepView) -> String {
    words_of(&view.lane, &view.with)
}

pub(super) fn words_of(first: &LaneView, with: &[LaneView]) -> String {
    match with {
        [] => format!("lane {}", first.name),
        _ => {
            let names: Vec<&str> =
                std::iter::once(first).chain(with).map(|lane| lane.name.as_str()).collect();
            format!("lanes {}", names.join(", "))
        }
    }
}

pub(in crate::commands) fn paths_word(n: usize) -> String {
    if n == 1 { "1 path".to_owned() } else { format!("{n} paths") }
}

pub(super) fn steps(ui: &mut Ui, view: &KeepView) -> Result<()> {
    let part = |guarded: bool| view.steps.iter().filter(move |step| step.guarded.is_some() == guarded);
    for (at, step) in part(false).map(|step| (1, step)).chain(part(true).enumerate()) {
        if at == 0 {
            let head = ui.paint(Role::Warn, "runs by itself later, and was named:");
            ui.line(&head)?;
        }
        let role = match step.what {
            "add" => Role::Add,
            "delete" => Role::Delete,
            _ => Role::Modify,
        };
        let what = ui.paint(role, &format!("{:<7}", step.what));
        let part = if step.part { " (in part)" } else { "" };
        let why = step.guarded.as_ref().map_or_else(String::new, |why| format!("  [{}]", escape::name(why)));
        let lanes = match step.lanes.as_slice() {
            [] => String::new(),
            lanes => ui.paint(Role::Dim, &format!("  {}", lanes.join(" + "))),
        };
        ui.line(&format!("{what} {}{part}{lanes}{why}", report::step_place(view, step)))?;
    }
    Ok(())
}

/// What was put together of both sides, and what was settled as the caller wished.
fn merged(ui: &Ui, view: &KeepView) {
    let settled = |path: &tree::TreePath| {
        view.conflicts.iter().any(|at| at.path == *path && at.settled == Some(Conflicts::Markers))
    };
    for at in view.merged.iter().filter(|at| !settled(&at.path)) {
        let path = escape::name(at.path.as_bytes());
        match &at.lane_path {
            Some(lane_path) => {
                ui.say(&format!(
                    "{} goes to {path}, its name in the original",
                    escape::name(lane_path.as_bytes())
                ));
            }
            None => match view.steps.iter().find(|step| (&step.root, &step.path) == (&at.root, &at.path)) {
                Some(step) if step.lanes.len() > 1 => {
                    ui.say(&format!("put together of lanes {}: {path}", step.lanes.join(", ")));
                }
                _ => ui.say(&format!("merged with the original's changes: {path}")),
            },
        }
    }
    self::settled(ui, &view.conflicts);
}

/// What was settled as the caller wished.
pub(super) fn settled(ui: &Ui, conflicts: &[ConflictView]) {
    for at in conflicts.iter().filter(|at| at.settled.is_some()) {
        let how = match at.settled {
            Some(Conflicts::Markers) => "both versions of the lines are in it, between markers".to_owned(),
            Some(Conflicts::Theirs) => match &at.lane {
                Some(lane) => format!("the side of lane {lane} was taken"),
                None => "the lane's side was taken".to_owned(),
            },
            _ => format!("the side of {} stays", other_side(at)),
        };
        let line = format!("conflict in {} ({}): {how}", escape::name(at.path.as_bytes()), clash(at));
        ui.tell(&ui.paint_err(Role::Warn, &line));
    }
}

/// What a lane does not go together with, in words.
fn other_side(at: &ConflictView) -> String {
    match (at.with.as_slice(), &at.branch) {
        ([], Some(branch)) => format!("branch {}", escape::name(branch.as_bytes())),
        ([], None) => "the original".to_owned(),
        ([one], _) => format!("lane {one}"),
        (several, _) => format!("lanes {}", several.join(", ")),
    }
}

/// A conflict in words.
pub(crate) fn clash(at: &ConflictView) -> String {
    let other = other_side(at);
    let lane = at.lane.as_ref().map_or_else(|| "the lane".to_owned(), |lane| format!("lane {lane}"));
    match &at.clash {
        Clash::BaseUnknown => "what both started from is not known any more".to_owned(),
        Clash::Lines(regions) => {
            let shown = |(first, len): (u32, u32)| match len {
                0 | 1 => first.to_string(),
                len => format!("{first}-{}", first + len - 1),
            };
            let places: Vec<String> = regions.iter().take(5).map(|region| shown(region.ours)).collect();
            let more = if regions.len() > places.len() { ", …" } else { "" };
            let who = if at.with.is_empty() { String::new() } else { format!("{lane} and ") };
            format!("the same lines were changed in {who}{other}: {}{more}", places.join(", "))
        }
        Clash::Binary => format!("a binary file that was changed in {other} too"),
        Clash::Mode => format!("{other} has another new mode"),
        Clash::Attributes => format!("{other} has other attributes"),
        Clash::Did { lane: here, original } => {
            format!("{} in {lane}, {} in {other}", did(*here), did(*original))
        }
        Clash::Renamed(to) => format!("renamed in {other}, to {}", escape::name(to.as_bytes())),
        Clash::RenamedInLane(original) => format!("renamed in {lane}, {} in {other}", did(*original)),
        Clash::PlaceTaken => "something else stands at its new place".to_owned(),
        Clash::NotInDirectory(dir) => {
            format!("{} is no directory in {other} any more", escape::name(dir.as_bytes()))
        }
    }
}

fn did(did: Did) -> &'static str {
    match did {
        Did::Nothing => "unchanged",
        Did::Meta => "given another mode",
        Did::Content => "changed",
        Did::Retype => "replaced by something else",
        Did::Delete => "deleted",
        Did::Add => "made",
    }
}

pub(super) fn left_out(ui: &Ui, view: &KeepView) {
    if view.left_out.is_empty() {
        return;
    }
    list_left_out(ui, &view.lane, &view.left_out, &view.conflicts);
}

pub(super) fn list_left_out(ui: &Ui, lane: &LaneView, left_out: &[LeftOut], conflicts: &[ConflictView]) {
    let is_guarded = |left: &&LeftOut| left.why == LeftOutWhy::Guarded;
    let (guarded, others): (Vec<_>, Vec<_>) = left_out.iter().partition(is_guarded);
    for (head, part) in [("left out", others), ("left out, because it runs by itself later", guarded)] {
        if part.is_empty() {
            continue;
        }
        ui.tell(&ui.paint_err(Role::Warn, &format!("{head}: {}", paths_word(part.len()))));
        for left in part {
            let conflict = conflict_of(conflicts, left);
            let detail = match conflict {
                Some(conflict) => format!(": {}", clash(conflict)),
                // Its own word says it already.
                None if left.detail.is_empty() => String::new(),
                None => format!(": {}", escape::name(&left.detail)),
            };
            let why = if conflict.is_some() { "conflict" } else { reason(left.why) };
            let lane = left.lane.as_ref().map_or_else(String::new, |lane| format!(" of lane {lane}"));
            ui.tell(&format!("  {}{lane} ({why}{detail})", escape::name(left.path.as_bytes())));
        }
    }
    let first =
        |why| left_out.iter().find(|left| left.why == why).map(|left| escape::name(left.path.as_bytes()));
    if let Some(path) = first(LeftOutWhy::Guarded) {
        ui.say(&format!("hint: name a path to keep it: `lane keep {} {path}`", lane.name));
    }
    let stopped = |at: &&ConflictView| at.settled.is_none();
    if conflicts.iter().any(|at| stopped(&at) && matches!(at.clash, Clash::Lines(_))) {
        ui.say(
            "hint: `--conflicts markers` writes both versions of such lines; `ours` and `theirs` take one",
        );
    }
    if first(LeftOutWhy::Drifted).is_some() || conflicts.iter().any(|at| stopped(&at)) {
        ui.say(&format!("hint: `lane export {}` writes the lane's state beside the original", lane.name));
    }
}

fn conflict_of<'v>(conflicts: &'v [ConflictView], left: &LeftOut) -> Option<&'v ConflictView> {
    let is_about = |at: &&ConflictView| (&at.root, &at.path) == (&left.root, &left.path);
    let own = conflicts.iter().filter(is_about).find(|at| at.lane == left.lane);
    // Of two lanes that do not go together, one has the conflict and both leave the path out.
    own.or_else(|| conflicts.iter().filter(is_about).find(|_| left.why == LeftOutWhy::Conflict))
}

/// Why a change stays in the lane, in words.
pub(crate) fn reason(why: LeftOutWhy) -> &'static str {
    match why {
        LeftOutWhy::Guarded => "runs by itself",
        LeftOutWhy::Drifted => "changed in the original meanwhile",
        LeftOutWhy::Conflict => "meets something else in the original",
        LeftOutWhy::CannotCarry => "cannot be kept",
        LeftOutWhy::NothingInside => "nothing inside is kept",
        LeftOutWhy::Ignored => "ignored by git",
        LeftOutWhy::Uncommitted => "not in the lane's last commit",
        LeftOutWhy::Suspect => "may be incomplete after a restart of the machine",
    }
}
