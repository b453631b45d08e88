//! What `gc` and `fsck` say of a store.

use std::io;

use engine::keeping::KeepsView;
use engine::ops::fsck::{BookReport, FindingView, NeedView, StoreReport};
use engine::ops::gc::StoreView;

use super::{history, report};
use crate::escape;
use crate::style::Role;
use crate::ui::Ui;

/// Whether it is to be done, or was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tense {
    Plan,
    Done,
}

/// Snapshots of a finding that are listed.
const LISTED: usize = 8;

/// A lane by its name, or by its id where that is all there is.
fn lane(name: Option<&str>, id: &str) -> String {
    name.map_or_else(|| format!("lane {id} (gone)"), |name| format!("lane {name}"))
}

/// What is done in each store.
pub(crate) fn show(ui: &mut Ui, views: &[StoreView], tense: Tense) -> io::Result<()> {
    if views.is_empty() {
        ui.say("there are no snapshots");
    }
    for view in views {
        let head = format!(
            "{}: {} lanes, {} snapshots, {}",
            report::path(&view.path),
            view.lanes,
            view.snapshots,
            report::bytes(view.kept + if tense == Tense::Plan { view.freed } else { 0 })
        );
        ui.line(&head)?;
        for one in &view.thin {
            let name = lane(one.lane.as_deref(), &one.lane_id);
            ui.line(&format!("  {name}: {} of {} snapshots {}", one.snapshots.len(), one.of, go(tense)))?;
            if ui.verbose {
                for id in &one.snapshots {
                    ui.line(&format!("    {}", history::short(id)))?;
                }
            }
        }
        for id in &view.orphans {
            ui.line(&format!("  the history of a lane that is gone ({id}) {}", go(tense)))?;
        }
        if view.ends {
            ui.line(&format!(
                "  no lane is left in it: it {}",
                if tense == Tense::Plan { "goes" } else { "is gone" }
            ))?;
        }
        let (dropped, large) = (view.dropped, view.large);
        for (count, what) in [(dropped, "packs"), (large, "large files")] {
            if count > 0 {
                ui.line(&format!("  {count} {what} that nothing needs {}", go(tense)))?;
            }
        }
        if view.rewritten > 0 {
            let verb = if tense == Tense::Plan { "are" } else { "were" };
            ui.line(&format!("  {} packs {verb} rewritten without what nothing needs", view.rewritten))?;
        }
        let freed = report::bytes(view.freed);
        match tense {
            _ if view.problem.is_some() => {}
            _ if view.is_empty() => ui.line("  nothing to do")?,
            Tense::Plan => ui.line(&format!("  frees {freed}"))?,
            Tense::Done => ui.line(&format!("  {freed} freed"))?,
        }
        warn(ui, view);
    }
    Ok(())
}

/// What keeps that can be undone hold, and what goes of that.
pub(crate) fn keeps(ui: &mut Ui, view: KeepsView, tense: Tense) -> io::Result<()> {
    if view == KeepsView::default() {
        return Ok(());
    }
    let word = |count: u64| if count == 1 { "1 keep".to_owned() } else { format!("{count} keeps") };
    ui.line(&format!("{} can be undone, {}", word(view.keeps), report::bytes(view.bytes)))?;
    if view.forgotten > 0 {
        let (count, freed) = (word(view.forgotten), report::bytes(view.freed));
        let verb = if tense == Tense::Plan { "to forget" } else { "forgotten" };
        ui.line(&format!("  {count} {verb}, {freed}"))?;
    }
    Ok(())
}

fn go(tense: Tense) -> &'static str {
    if tense == Tense::Plan { "go" } else { "went" }
}

fn warn(ui: &Ui, view: &StoreView) {
    if let Some(problem) = &view.problem {
        ui.warn(&format!("{}: {}", report::path(&view.path), escape::name(problem)));
    }
    if view.over > 0 {
        ui.warn(&format!(
            "what was asked for and where lanes stand takes {} more than the budget",
            report::bytes(view.over)
        ));
    }
    if view.short > 0 {
        ui.warn(&format!(
            "{} less than that stay free, whatever is thinned out; `lane discard` drops lanes",
            report::bytes(view.short)
        ));
    }
}

/// What a check of the ledger found.
pub(crate) fn checked_book(ui: &mut Ui, report: &BookReport) -> io::Result<()> {
    let path = super::report::path(&report.path);
    let head = report
        .head
        .as_ref()
        .map(|(link, digest)| format!(", head {link}:{}", digest.get(..16).unwrap_or(digest)));
    let seen = format!("{} records, {} links{}", report.records, report.links, head.unwrap_or_default());
    let verdict = match (&report.problem, &report.broken) {
        (Some(why), _) => ui.paint(Role::Bad, &format!("cannot be checked: {}", escape::name(why))),
        (None, None) => ui.paint(Role::Good, "whole"),
        (None, Some(_)) => ui.paint(Role::Bad, "the chain is broken"),
    };
    ui.line(&format!("{path}: {verdict} ({seen})"))?;
    let Some(broken) = &report.broken else { return Ok(()) };
    let rows = match broken.rows {
        (0, 0) => String::new(),
        (first, last) if first == last => format!(" {first}"),
        (first, last) => format!(" {first} to {last}"),
    };
    let lane = broken.lane.as_deref().map(|lane| format!(" of lane {}", escape::name(lane)));
    let what = format!("{}{rows}{}", broken.what, lane.unwrap_or_default());
    let why = match broken.why {
        "chain" => "does not follow from the link before: one of the two was changed, removed or put in",
        "changed" => "says something else than when it was written",
        "missing" => "is not there any more",
        _ => "was never written by this program: no link speaks of it",
    };
    let link = broken.link.map(|link| format!("first broken link {link}: ")).unwrap_or_default();
    ui.line(&format!("  {link}{what} {why}"))
}

/// What was found in one store.
pub(crate) fn checked(ui: &mut Ui, report: &StoreReport) -> io::Result<()> {
    let path = super::report::path(&report.path);
    let checked = &report.checked;
    let seen = format!(
        "{} snapshots, {} objects, {}",
        checked.snapshots,
        checked.objects,
        super::report::bytes(checked.bytes)
    );
    let verdict = match (&report.problem, report.findings.len()) {
        (Some(why), _) => ui.paint(Role::Bad, &format!("cannot be checked: {}", escape::name(why))),
        (None, 0) if report.repaired => ui.paint(Role::Good, "whole again"),
        (None, 0) => ui.paint(Role::Good, "whole"),
        (None, count) => ui.paint(Role::Bad, &format!("{count} found damaged")),
    };
    ui.line(&format!("{path}: {verdict} ({seen})"))?;
    for finding in &report.findings {
        ui.line(&format!("  {}", title(finding)))?;
        if finding.spare {
            ui.line("    another copy is whole; nothing is lost")?;
        }
        for need in finding.needed_by.iter().take(LISTED) {
            ui.line(&format!("    needed by {}", needed(need)))?;
        }
        let listed = finding.needed_by.len().min(LISTED) as u64;
        if finding.needs > listed {
            ui.line(&format!("    and by {} more", finding.needs - listed))?;
        }
    }
    Ok(())
}

fn title(finding: &FindingView) -> String {
    let file = finding.file.as_deref().map(escape::name).unwrap_or_default();
    let at = finding.offset.map(|offset| format!(" at {offset}")).unwrap_or_default();
    let why = escape::name(&finding.why);
    match finding.what {
        "object" => {
            let (kind, id) = (finding.kind.as_deref().unwrap_or_default(), finding.object.as_deref());
            let place = if file.is_empty() { String::new() } else { format!(" in {file}{at}") };
            format!("{kind} {:.12}{place}: {why}", id.unwrap_or_default())
        }
        "history" => format!("history of lane {file}{at}: {why}"),
        "lane" => format!("lane {file}: {why}"),
        what => format!("{what} {file}: {why}"),
    }
}

fn needed(need: &NeedView) -> String {
    let name = lane(need.lane.as_deref(), &need.lane_id);
    let path = if need.path.is_root() { ".".to_owned() } else { escape::name(need.path.as_bytes()) };
    format!("{name}, snapshot {}: {path}", history::short(need.snapshot))
}
