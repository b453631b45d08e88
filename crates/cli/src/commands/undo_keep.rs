//! `lane undo --keep`: what was kept is taken back.

use engine::keeping::KeptView;
use engine::ops::undo_keep::{self, UndoKeepRequest, UndoKeepView};

use super::{Context, needs_yes, progress};
use crate::error::{CliError, Result};
use crate::escape;
use crate::exit_code;
use crate::render::report;
use crate::render::table::{self, Cell};
use crate::style::Role;
use crate::ui::{Confirm, Ui};
use crate::wire;

/// Plans, asks, does. Exit code 1 where something was edited since.
pub(crate) fn run(context: &mut Context, id: Option<String>, dry_run: bool, yes: bool) -> Result<u8> {
    let engine = context.engine()?;
    let request = UndoKeepRequest { dir: context.dir(), id };
    let prepared = undo_keep::prepare(&engine, &request, &mut progress::Talk::new(&context.ui))?;
    if dry_run || !prepared.view.edited.is_empty() {
        return answer(context, &prepared.view, true, dry_run);
    }
    if !yes && !context.ui.json {
        steps(&mut context.ui, &prepared.view)?;
    }
    let count = prepared.view.steps.len();
    let places: Vec<String> = prepared.view.keep.roots.iter().map(|root| report::path(root)).collect();
    let question = format!("put {} back in {}?", paths_word(count), places.join(", "));
    match context.ui.confirm(&question, yes)? {
        Confirm::Yes => {}
        Confirm::No => return Err(CliError::Declined),
        Confirm::NobodyToAsk => return Err(needs_yes("undoing a keep")),
    }
    let view = prepared.execute(&engine, &mut progress::Talk::new(&context.ui))?;
    answer(context, &view, false, false)
}

/// Lists the keeps of the project.
pub(crate) fn list(context: &mut Context) -> Result<u8> {
    let engine = context.engine()?;
    let dir = context.dir();
    let keeps = undo_keep::list(&engine, &dir, &mut progress::Talk::new(&context.ui))?;
    let ui = &mut context.ui;
    if ui.json {
        ui.document(&wire::Keeps::new(&keeps))?;
        return Ok(exit_code::DONE);
    }
    if keeps.is_empty() {
        ui.say("nothing was kept that could be undone");
        return Ok(exit_code::DONE);
    }
    let rows: Vec<Vec<Cell>> = keeps
        .iter()
        .map(|keep| {
            let (state, role) = match (&keep.problem, keep.is_undone) {
                (Some(_), _) => ("damaged", Role::Bad),
                (None, true) => ("undone", Role::Dim),
                (None, false) => ("stands", Role::Good),
            };
            vec![
                Cell::new(&keep.id),
                Cell::new(
                    keep.at.map_or_else(|| "–".to_owned(), |at| report::age(at, engine::clock::now_ms())),
                ),
                Cell::new(lanes(keep).join(" + ")),
                Cell::new(keep.steps.to_string()).right(),
                Cell::new(report::bytes(keep.bytes)).right(),
                Cell::new(state).role(role),
            ]
        })
        .collect();
    for line in table::lines(ui, &["KEEP", "AGE", "LANE", "PATHS", "HOLDS", ""], &rows) {
        ui.line(&line)?;
    }
    Ok(exit_code::DONE)
}

fn lanes(keep: &KeptView) -> Vec<String> {
    keep.lanes.iter().map(|(_, name)| escape::name(name.as_bytes())).collect()
}

fn answer(context: &mut Context, view: &UndoKeepView, planned: bool, dry_run: bool) -> Result<u8> {
    let ui = &mut context.ui;
    let code = if view.edited.is_empty() { exit_code::DONE } else { exit_code::NOT_DONE };
    if ui.json {
        ui.document(&wire::KeepUndone::new(view, dry_run))?;
        return Ok(code);
    }
    if !view.edited.is_empty() {
        ui.tell(
            &ui.paint_err(Role::Warn, &format!("edited since the keep: {}", paths_word(view.edited.len()))),
        );
        for (root, path) in &view.edited {
            ui.tell(&format!("  {}{}", front(view, root), escape::name(path.as_bytes())));
        }
        ui.say("nothing was changed; put those files aside, then undo");
        return Ok(code);
    }
    if planned {
        steps(ui, view)?;
        ui.say(&format!("would put {} back", paths_word(view.steps.len())));
    } else {
        let keep = &view.keep;
        let count = paths_word(view.steps.len());
        let who = match lanes(keep).as_slice() {
            [lane] => format!("lane {lane} holds its changes as before"),
            lanes => format!("lanes {} hold their changes as before", lanes.join(", ")),
        };
        ui.say(&format!("keep {} is undone: {count} put back; {who}", keep.id));
    }
    Ok(code)
}

fn steps(ui: &mut Ui, view: &UndoKeepView) -> Result<()> {
    for step in &view.steps {
        let role = if step.what == "remove" { Role::Delete } else { Role::Modify };
        let what = ui.paint(role, &format!("{:<9}", step.what));
        ui.line(&format!("{what} {}{}", front(view, &step.root), escape::name(step.path.as_bytes())))?;
    }
    Ok(())
}

/// Another root than the project is named.
fn front(view: &UndoKeepView, root: &std::path::Path) -> String {
    match view.keep.roots.first() {
        Some(first) if first == root => String::new(),
        _ => format!("{}/", report::path(root)),
    }
}

fn paths_word(n: usize) -> String {
    if n == 1 { "1 path".to_owned() } else { format!("{n} paths") }
}
