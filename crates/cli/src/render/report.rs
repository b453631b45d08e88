//! Sentences about lanes: what you got, what it cost, what changed, what to type next.

use std::fmt::Write as _;
use std::path::Path;

use engine::ops::keep::{KeepView, StepView};
use engine::ops::show::HistoryView;
use engine::view::{Cost, Counts, DriftView, Exit, LaneState, Next, VerdictView};

use crate::escape;
use crate::style::Role;

/// The command that a [`Next`] stands for.
pub(crate) fn command(next: &Next) -> String {
    match next {
        Next::Diff(lane) => format!("lane diff {lane}"),
        Next::Keep(lane) => format!("lane keep {lane}"),
        Next::Discard(lane) => format!("lane discard {lane}"),
        Next::Show(lane) => format!("lane show {lane}"),
        Next::Exec(lane) => format!("lane exec {lane} -- CMD"),
        Next::Stop(lane) => format!("lane stop {lane}"),
        Next::Recover(lane) => format!("lane recover {lane}"),
    }
}

/// Where a step of a keep goes: the root, where that is a further one, and the path, behind the one that it had.
pub(crate) fn step_place(view: &KeepView, step: &StepView) -> String {
    let root = if step.root == view.lane.origin { String::new() } else { format!("{}/", path(&step.root)) };
    let from =
        step.from.as_ref().map_or_else(String::new, |from| format!("{} → ", escape::name(from.as_bytes())));
    format!("{root}{from}{}", escape::name(step.path.as_bytes()))
}

/// Bytes in the unit that keeps them short.
pub(crate) fn bytes(n: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if n < 1024 {
        return format!("{n} B");
    }
    let mut value = n as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// Milliseconds as people say them.
pub(crate) fn millis(ms: f64) -> String {
    if ms < 1000.0 { format!("{ms:.1} ms") } else { format!("{:.1} s", ms / 1000.0) }
}

/// How long ago a moment was.
pub(crate) fn age(then_ms: i64, now_ms: i64) -> String {
    let secs = now_ms.saturating_sub(then_ms).max(0) / 1000;
    match secs {
        0..60 => format!("{secs}s"),
        60..3600 => format!("{}m", secs / 60),
        3600..86_400 => format!("{}h", secs / 3600),
        _ => format!("{}d", secs / 86_400),
    }
}

/// Sums in words, such as `3 added · 1 deleted`; `no changes` where there are none.
pub(crate) fn counts(counts: &Counts) -> String {
    let parts = [
        (counts.added, "added"),
        (counts.modified, "modified"),
        (counts.deleted, "deleted"),
        (counts.renamed, "renamed"),
        (counts.mode, "mode"),
        (counts.retyped, "retyped"),
    ];
    let mut words: Vec<String> =
        parts.iter().filter(|(n, _)| *n > 0).map(|(n, word)| format!("{n} {word}")).collect();
    if words.is_empty() {
        words.push("no changes".to_owned());
    }
    if counts.git_internal > 0 {
        words.push(format!("{} in .git", counts.git_internal));
    }
    if counts.gaps > 0 {
        words.push(format!("{} not compared", counts.gaps));
    }
    words.join(" · ")
}

/// A lane's history, in words.
pub(crate) fn history(history: &HistoryView) -> String {
    let at = history.position.map_or_else(String::new, |id| format!(", at {id:.12}"));
    let others = match history.store_lanes {
        0 | 1 => String::new(),
        lanes => format!(" of {lanes} lanes"),
    };
    format!("{} snapshots{at}; {} in the store{others}", history.snapshots, bytes(history.store_bytes))
}

/// What a lane cost, in words.
pub(crate) fn cost(strategy: engine::view::Strategy, cost: Cost) -> String {
    let how = match strategy {
        engine::view::Strategy::Overlay => "cloned",
        engine::view::Strategy::Copy => "copied",
    };
    format!("{how} in {} · {} allocated", millis(cost.millis), bytes(cost.allocated))
}

/// How a command ended, where that is worth a word.
pub(crate) fn exit(exit: Exit) -> String {
    match exit {
        Exit::Code(0) => "exit 0".to_owned(),
        Exit::Code(code) => format!("exit {code}"),
        Exit::Signal(signal) => format!("signal {signal}"),
        Exit::TimedOut => "timed out".to_owned(),
        Exit::Detached => "left running".to_owned(),
        Exit::Lost => "end not seen".to_owned(),
    }
}

/// The role of a lane's state.
pub(crate) fn state_role(state: LaneState) -> Role {
    match state {
        LaneState::Live => Role::Good,
        LaneState::New | LaneState::Idle => Role::Modify,
        LaneState::Discarded => Role::Dim,
    }
}

/// A command line as a person would type it, escaped.
pub(crate) fn argv(words: &[Vec<u8>]) -> String {
    let mut out = String::new();
    for word in words {
        if !out.is_empty() {
            out.push(' ');
        }
        let plain = |b: &u8| b.is_ascii_alphanumeric() || b"-_./=:,+@%^".contains(b);
        if !word.is_empty() && word.iter().all(plain) {
            out.push_str(&String::from_utf8_lossy(word));
        } else {
            let _ = write!(out, "'{}'", escape::name(word).replace('\'', "'\\''"));
        }
    }
    out
}

/// One line for each path of the origin that drifted, and a heading.
pub(crate) fn drift(drift: &[DriftView], most: usize) -> Vec<String> {
    let mut lines = vec![format!(
        "{} changed in the original since the lane began:",
        if drift.len() == 1 { "1 path".to_owned() } else { format!("{} paths", drift.len()) }
    )];
    lines.extend(
        drift
            .iter()
            .take(most)
            .map(|at| format!("  {} ({})", escape::name(at.path.as_bytes()), at.kind.word())),
    );
    if drift.len() > most {
        lines.push(format!("  … and {} more: `lane diff --drift` lists all", drift.len() - most));
    }
    lines
}

/// The colour of a verdict's word.
pub(crate) fn verdict_role(word: &str) -> Role {
    match word {
        "pass" => Role::Good,
        "fail" | "timeout" => Role::Bad,
        _ => Role::Dim,
    }
}

/// What a check was, how it ended and how long it took.
pub(crate) fn verdict(verdict: &VerdictView) -> String {
    let is_told = |end: &Exit| !matches!(end, Exit::Code(0) | Exit::TimedOut);
    let end = verdict.exit.filter(is_told).map_or_else(String::new, |end| format!(" · {}", exit(end)));
    #[expect(clippy::cast_precision_loss, reason = "a duration that is shown")]
    let took = millis((verdict.ended_at - verdict.started_at) as f64);
    format!("{}{end} · {took}", argv(&verdict.argv))
}

/// A host path, escaped.
pub(crate) fn path(path: &Path) -> String {
    use std::os::unix::ffi::OsStrExt as _;
    escape::name(path.as_os_str().as_bytes())
}

/// `max_memory 4.0 GiB`.
pub(crate) fn limit_rule(rule: &engine::policy::LimitRule) -> String {
    use engine::limits::What;
    let value = match rule.what {
        Some(What::Memory | What::Disk) => bytes(rule.value),
        Some(What::Cpus) => format!("{}", rule.value as f64 / 1000.0),
        None => format!("{} s", rule.value as f64 / 1000.0),
        Some(_) => rule.value.to_string(),
    };
    format!("{} {value}", rule.key)
}

/// `memory limit of 64.0 MiB hit (71.2 MiB found): its largest process, cc1, was ended; --memory raises it`.
pub(crate) fn limit_hit(hit: &engine::limits::Hit) -> String {
    use engine::limits::What;
    let amount = |number: u64| match hit.what {
        What::Memory | What::Disk => bytes(number),
        _ => number.to_string(),
    };
    let found = hit.found.map_or(String::new(), |found| format!(" ({} found)", amount(found)));
    let (word, flag) = (hit.what.word(), hit.what.flag());
    format!("{word} limit of {} hit{found}: {}; {flag} raises it", amount(hit.most), hit.done)
}

#[cfg(test)]
mod tests {
    use engine::view::Counts;

    use super::{age, argv, bytes, counts, millis};

    #[test]
    fn sizes_times_and_ages_are_short() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(1536), "1.5 KiB");
        assert_eq!(bytes(1024 * 1024 - 1), "1.0 MiB");
        assert_eq!(millis(2.84), "2.8 ms");
        assert_eq!(millis(2840.0), "2.8 s");
        assert_eq!(age(0, 59_000), "59s");
        assert_eq!(age(0, 7_200_000), "2h");
        assert_eq!(age(5_000, 0), "0s");
    }

    #[test]
    fn sums_name_only_what_there_is() {
        assert_eq!(counts(&Counts::default()), "no changes");
        let some = Counts { added: 3, deleted: 1, git_internal: 2, ..Counts::default() };
        assert_eq!(counts(&some), "3 added · 1 deleted · 2 in .git");
    }

    #[test]
    fn a_command_line_is_quoted_and_escaped() {
        assert_eq!(
            argv(&[b"sh".to_vec(), b"-c".to_vec(), b"echo \x1b[2J".to_vec()]),
            r"sh -c 'echo \x1b[2J'"
        );
        assert_eq!(argv(&[b"".to_vec()]), "''");
    }
}
