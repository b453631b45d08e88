//! Records of the ledger as lines, and refusals with the one thing that would allow them.

use engine::ops::book::Entry;
use engine::why::{Allow, Refusal};
use serde_json::Value;

use super::report;
use crate::escape;
use crate::style::Role;
use crate::ui::Ui;

/// Times as people read them: the day where it is not today's, the second.
pub(crate) fn clock(at: i64, today: i64) -> String {
    let zone = jiff::tz::TimeZone::system();
    let local =
        |millis| jiff::Timestamp::from_millisecond(millis).map(|at| at.to_zoned_datetime(zone.clone()));
    match (local(at), local(today)) {
        (Ok(at), Ok(today)) if at.date() == today.date() => at.strftime("%H:%M:%S").to_string(),
        (Ok(at), _) => at.strftime("%Y-%m-%d %H:%M:%S").to_string(),
        _ => at.to_string(),
    }
}

/// What a record says, in one line without time and lane.
pub(crate) fn says(entry: &Entry) -> String {
    let text = |name: &str| entry.data[name].as_str().map(escape::name).unwrap_or_default();
    let path = entry.path.as_deref().map(escape::name).unwrap_or_default();
    let host = entry.host.as_deref().map(escape::name).unwrap_or_default();
    let times = match entry.data["times"].as_u64() {
        Some(times) if times > 1 => format!(" ({times} times)"),
        _ => String::new(),
    };
    let told = match entry.kind.as_str() {
        "operation" => {
            let outcome = text("outcome");
            let outcome = if outcome == "done" { String::new() } else { format!(": {outcome}") };
            format!("{}{outcome}", text("verb"))
        }
        "run" => report::argv(&entry.argv),
        "end" => {
            format!("{} · {}", entry.exit.map_or_else(String::new, report::exit), report::argv(&entry.argv))
        }
        "verdict" => format!("{} · {}", text("verdict"), report::argv(&entry.argv)),
        "exec" => {
            let argv: Vec<Vec<u8>> =
                strings(&entry.data["argv"]).map(|word| word.as_bytes().to_vec()).collect();
            let cut = if entry.data["cut"] == true { " …" } else { "" };
            let by = (entry.data["pid"].as_u64(), entry.data["parent"].as_u64());
            let by = match by {
                (Some(pid), Some(parent)) => format!("  [{pid} of {parent}]"),
                _ => String::new(),
            };
            format!("{}{cut}{by}", report::argv(&argv))
        }
        "mount" => {
            let access = if entry.data["read_only"] == true { "ro" } else { "rw" };
            let source = entry.data["source"].as_str().map(|from| format!(" <- {}", escape::name(from)));
            format!("{path} {} {access}{}", text("mount"), source.unwrap_or_default())
        }
        "refused" | "limit" => match entry.refusal() {
            Some(refusal) => one_line(&refusal),
            None => path,
        },
        "host" => {
            let port = entry.data["port"].as_u64().map(|port| format!(":{port}")).unwrap_or_default();
            let bytes = match (entry.data["sent"].as_u64(), entry.data["received"].as_u64()) {
                (Some(sent), Some(received)) => {
                    format!(" · {} out, {} in", report::bytes(sent), report::bytes(received))
                }
                _ => String::new(),
            };
            format!("{host}{port}{bytes}")
        }
        "secret" => format!("{} {} {}", text("name"), text("what"), text("at")),
        "artifact" => {
            format!("{path} · {}", report::bytes(entry.data["bytes"].as_u64().unwrap_or_default()))
        }
        "writes" => {
            let some: Vec<String> = strings(&entry.data["some"]).take(5).map(escape::name).collect();
            let entries = entry.data["entries"].as_u64().unwrap_or_default();
            format!("{} {entries}: {}", text("class"), some.join(", "))
        }
        "open" => format!("{path}{}", if entry.data["write"] == true { " (to write)" } else { "" }),
        "policy" => format!("{} rules {path} {}", text("scope"), short(&text("blake3"))),
        "grant" => text("what"),
        "left-out" => {
            format!("{} more that came too fast to be told", entry.data["count"].as_u64().unwrap_or_default())
        }
        _ => escape::name(entry.data.to_string()),
    };
    format!("{told}{times}")
}

fn strings(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str)
}

fn short(digest: &str) -> &str {
    digest.get(..12).unwrap_or(digest)
}

/// The role of a record's kind.
pub(crate) fn role(kind: &str) -> Role {
    match kind {
        "refused" | "limit" | "left-out" => Role::Bad,
        "operation" | "run" => Role::Head,
        "secret" | "grant" | "artifact" => Role::Warn,
        _ => Role::Dim,
    }
}

/// What was refused, and what would allow it.
pub(crate) fn one_line(refusal: &Refusal) -> String {
    format!("{}: {} — {}", what(refusal), escape::name(&refusal.rule), allow(refusal))
}

fn what(refusal: &Refusal) -> String {
    let what = escape::name(&refusal.what);
    let by = refusal.program.as_deref().map(|program| format!(" by {}", escape::name(program)));
    format!("{} {what}{}", refusal.wall, by.unwrap_or_default())
}

/// What would allow it.
pub(crate) fn allow(refusal: &Refusal) -> String {
    match &refusal.allow {
        // A grant to a lane at work is only named where it can be given: nowhere yet.
        Allow::Flag(flag) | Allow::Grant { flag, .. } => {
            format!("allowed by `lane run {}`", escape::name(flag))
        }
        Allow::Do(what) => escape::name(what),
        Allow::Nothing(why) => format!("nothing allows it: {}", escape::name(why)),
    }
}

/// Refusals as lines, for `lane why` and for the closing lines of a run.
pub(crate) fn refusals(ui: &Ui, refusals: &[Refusal], most: usize) -> Vec<String> {
    let mut lines = Vec::new();
    // The last ones are what a person has just met.
    let from = refusals.len().saturating_sub(most);
    for refusal in &refusals[from..] {
        let times = if refusal.times > 1 { format!(" ({} times)", refusal.times) } else { String::new() };
        lines.push(format!("{} {}{times}", ui.paint_err(Role::Bad, "refused"), what(refusal)));
        lines.push(format!("  {}; {}", escape::name(&refusal.rule), allow(refusal)));
    }
    if from > 0 {
        lines.push(format!("… and {from} before: `lane why` lists them"));
    }
    lines
}
