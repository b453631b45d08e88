//! Lanes: all of them at a glance, and one in full.

use std::path::Path;

use engine::Engine;
use engine::ops::list::{ListRequest, ListedLane};
use engine::ops::show::ShowRequest;
use engine::view::{Counts, Exit, LaneState, LaneView, RunView, VerdictView, WallView};
use serde_json::{Value, json};

use super::super::text::Text;
use super::output;
use crate::error::Result;
use crate::render::report;

/// Every lane of the project, and those in the trash.
pub(super) fn all(engine: &Engine, dir: &Path) -> Result<Value> {
    let project = engine.project(dir)?.top;
    let request = ListRequest { dir: dir.to_owned(), ..ListRequest::default() };
    let lanes = engine::ops::list::list(engine, &request)?;
    let trash = engine::ops::list::list(engine, &ListRequest { discarded: true, ..request })?;
    let now = engine::clock::now_ms();
    Ok(json!({
        "project": Text::path(&project),
        "now": now,
        "lanes": lanes.iter().map(listed).collect::<Vec<_>>(),
        "trash": trash.iter().map(|lane| view(&lane.lane)).collect::<Vec<_>>(),
        "repaired": repaired(engine),
    }))
}

/// One lane in full.
pub(super) fn one(engine: &Engine, dir: &Path, lane: String) -> Result<Value> {
    let answer = engine::ops::show::show(engine, &ShowRequest { dir: dir.to_owned(), lane: Some(lane) })?;
    let mut sums = Counts::default();
    answer.changes.iter().for_each(|root| sums.add(&root.counts));
    let drift: Vec<Value> = answer
        .drift
        .iter()
        .map(|at| json!({ "path": Text::name(at.path.as_bytes()), "what": at.kind.word() }))
        .collect();
    let base = &answer.lane.base;
    Ok(json!({
        "lane": view(&answer.lane),
        "counts": counts(&sums),
        "home_changes": answer.home_changes,
        "exclusive": report::bytes(answer.exclusive),
        "base": {
            "at": base.sec.saturating_mul(1000).saturating_add(i64::from(base.nsec / 1_000_000)),
            "head": base.git_head.as_deref().map(|head| Text::name(head.get(..12).unwrap_or(head))),
            "other_boot": base.other_boot,
        },
        "roots": answer.lane.roots.iter().map(|root| json!({
            "path": Text::path(&root.path), "strategy": root.strategy.word(),
        })).collect::<Vec<_>>(),
        "drift": drift,
        "verdict": answer.verdict.as_ref().map(verdict),
        "missed": answer.missed.as_ref().map(|missed| json!({ "at": missed.at, "why": Text::name(&missed.why) })),
        "runs": answer.runs.iter().map(run).collect::<Vec<_>>(),
    }))
}

/// What a crash had left and was put right on the way.
fn repaired(engine: &Engine) -> Vec<Value> {
    let told = engine.take_repaired().into_iter();
    told.map(|(what, on)| json!({ "what": Text::name(what), "on": Text::name(on) })).collect()
}

fn listed(listed: &ListedLane) -> Value {
    let mut all = view(&listed.lane);
    let live = listed.lane.state == LaneState::Live;
    let last = listed.lane.last_run.as_ref().filter(|_| live);
    all["counts"] = json!(listed.counts.as_ref().map(counts));
    all["exclusive"] = json!(listed.exclusive.map(report::bytes));
    all["memory"] = json!(listed.memory.map(report::bytes));
    all["snapshots"] = json!(listed.snapshots);
    all["problem"] = json!(listed.problem.as_ref().map(Text::name));
    all["verdict"] = json!(listed.verdict.as_ref().map(verdict));
    all["says"] = json!(last.and_then(|run| run.transcript.as_deref()).and_then(output::last_line));
    all
}

/// A lane, as every view of it begins.
pub(super) fn view(lane: &LaneView) -> Value {
    json!({
        "id": lane.id,
        "name": Text::name(&lane.name),
        "state": lane.state.word(),
        "strategy": lane.strategy.word(),
        "why": Text::name(&lane.why),
        "cost": report::cost(lane.strategy, lane.cost),
        "created": lane.created_at,
        "discarded": lane.discarded_at,
        "forked_from": lane.forked_from.as_ref().map(Text::name),
        "other_boot": lane.base.other_boot,
        "run": lane.last_run.as_ref().map(run),
    })
}

fn run(run: &RunView) -> Value {
    let good = run.exit.map(|exit| matches!(exit, Exit::Code(0) | Exit::Detached));
    json!({
        "id": run.id,
        "command": Text::name(command(&run.argv)),
        "cwd": Text::path(&run.cwd),
        "started": run.started_at,
        "ended": run.ended_at,
        "end": run.exit.map(report::exit),
        "good": good,
        "recorded": run.transcript.is_some(),
        "walls": run.walls.iter().map(wall).collect::<Vec<_>>(),
    })
}

/// A verdict, as it counts now.
pub(super) fn verdict(verdict: &VerdictView) -> Value {
    json!({ "word": verdict.now(), "was": verdict.word, "command": Text::name(command(&verdict.argv)),
            "end": verdict.exit.map(report::exit), "at": verdict.ended_at, "took": verdict.ended_at - verdict.started_at })
}

/// A command line as a person would type it; what it holds is escaped by the caller, once.
pub(super) fn command(words: &[Vec<u8>]) -> Vec<u8> {
    let mut line = Vec::new();
    for word in words {
        if !line.is_empty() {
            line.push(b' ');
        }
        let plain = |b: &u8| b.is_ascii_alphanumeric() || b"-_./=:,+@%^".contains(b);
        if !word.is_empty() && word.iter().all(plain) {
            line.extend_from_slice(word);
            continue;
        }
        line.push(b'\'');
        for byte in word {
            if *byte == b'\'' {
                line.extend_from_slice(b"'\\''");
            } else {
                line.push(*byte);
            }
        }
        line.push(b'\'');
    }
    line
}

fn wall(wall: &WallView) -> Value {
    json!({ "name": Text::name(&wall.name), "status": Text::name(&wall.status), "full": wall.status == "full",
            "detail": Text::name(&wall.detail) })
}

fn counts(counts: &Counts) -> Value {
    json!({
        "total": counts.total(), "words": report::counts(counts),
        "added": counts.added, "modified": counts.modified + counts.renamed + counts.mode + counts.retyped,
        "deleted": counts.deleted, "git": counts.git_internal, "gaps": counts.gaps,
    })
}

#[cfg(test)]
mod tests {
    use super::command;

    #[test]
    fn a_command_line_is_quoted_and_its_bytes_are_left_to_be_escaped() {
        let words = [b"sh".to_vec(), b"-c".to_vec(), b"echo 'a' \x1b".to_vec(), Vec::new()];
        assert_eq!(command(&words), b"sh -c 'echo '\\''a'\\'' \x1b' ''");
    }
}
