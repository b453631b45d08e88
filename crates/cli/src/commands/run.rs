//! `lane run`.

use std::ffi::OsString;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;
use std::time::Duration;

use engine::launch::Traced;
use engine::ops::run::{RunAnswer, RunRequest};
use engine::view::{Exit, Net, Strategy};
use engine::watch::{Checkpoints, Watching};

use super::{Context, progress};
use crate::error::{CliError, Result};
use crate::exit_code;
use crate::render::{ledger as render, report, table};
use crate::style::Role;
use crate::wire;

/// Run a command in a lane; the lane is made where it is new.
///
/// The command sees the project at its own path and may change anything in it; the original stays as it is.
/// Without CMD, a shell. The exit code is the command's own (128+n for a signal, 125 when lanekeeper itself failed).
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Name of the lane; made up where not given.
    #[arg(short, long, value_name = "NAME")]
    name: Option<String>,

    /// Discard the lane at the end.
    #[arg(long, conflicts_with = "detach")]
    rm: bool,

    /// Leave the lane live with its processes until `lane stop`.
    #[arg(short, long)]
    detach: bool,

    #[command(flatten)]
    make: Make,

    /// Make PATH readable inside (may be given again).
    #[arg(long, alias = "ro-bind", value_name = "PATH", value_hint = clap::ValueHint::AnyPath)]
    ro: Vec<PathBuf>,

    /// Let the command write PATH directly, on the original (may be given again).
    #[arg(long, value_name = "PATH", value_hint = clap::ValueHint::AnyPath)]
    bind: Vec<PathBuf>,

    /// Make PATH absent inside (may be given again).
    #[arg(long, value_name = "PATH", value_hint = clap::ValueHint::AnyPath)]
    hide: Vec<PathBuf>,

    /// Set a variable inside; without a value it is taken from here (may be given again).
    #[arg(short, long, value_name = "NAME[=VALUE]")]
    env: Vec<OsString>,

    #[command(flatten)]
    net: crate::network::Wanted,

    /// Let programs bring sandboxes of their own (bwrap, Chromium, codex, rootless builds): namespaces and mounts inside are
    /// allowed, which shows them more of the kernel; no fence stands around files behind the mounts.
    #[arg(long)]
    nest: bool,

    /// Share what the agent NAME needs (found from the command by itself).
    #[arg(long, value_name = "NAME")]
    preset: Vec<String>,

    /// End the command after this time, such as 90s, 10m, 1h30m.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    timeout: Option<Duration>,

    /// Where the lane's writes go; `tmpfs` keeps them in memory and forgets them at the end.
    #[arg(long, value_name = "WHERE", value_parser = ["disk", "tmpfs"], default_value = "disk")]
    upper: String,

    /// A secret for this command alone, at /run/secrets/NAME until it ends: NAME=file:PATH, NAME=env:VAR or NAME=cmd:COMMAND. The
    /// command finds its place in NAME_FILE (may be given again).
    #[arg(long, value_name = "NAME=FROM")]
    secret: Vec<OsString>,

    /// Hand out what the command puts into /out (also in LANE_OUT) to DIR on the host when it ends. Inside it can only be added to; on the host
    /// nothing that is there is replaced.
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    out: Option<PathBuf>,

    /// Record every program that is started inside, with its arguments.
    #[arg(long)]
    trace_exec: bool,

    /// Record which files of the project are opened, and attempts on what is hidden; what that cost is told at the end.
    #[arg(long)]
    trace_reads: bool,

    /// Print mounts, walls and strategy, and run nothing.
    #[arg(long, alias = "show-binds")]
    show_plan: bool,

    /// When to take snapshots by itself: `all` (when writing goes quiet, when it never does, when a command ends), `quiet`,
    /// `exit`, `none`.
    #[arg(long, value_name = "WHEN", default_value = "all", alias = "snapshots", value_parser = checkpoints)]
    checkpoints: Checkpoints,

    /// With `--checkpoints all`, the longest time of writing without a snapshot.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration)]
    checkpoint_interval: Duration,

    /// The command and its arguments.
    #[arg(last = true, value_name = "CMD", value_hint = clap::ValueHint::CommandWithArguments)]
    command: Vec<OsString>,
}

/// How lanes are made: options that `run` and `new` share.
#[derive(Debug, clap::Args)]
pub(crate) struct Make {
    /// How the view is made: auto, overlay or copy.
    #[arg(long, alias = "mount-backend", value_name = "STRATEGY", default_value = "auto", value_parser = strategy)]
    pub(crate) strategy: Wish,

    /// Take DIR into the lane too, with a layer, diff and keep of its own (may be given again).
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub(crate) also: Vec<PathBuf>,
}

/// A strategy, or the tool's own choice.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wish(pub(crate) Option<Strategy>);

fn strategy(word: &str) -> std::result::Result<Wish, String> {
    match word {
        "auto" => Ok(Wish(None)),
        _ => Strategy::from_word(word)
            .map(|strategy| Wish(Some(strategy)))
            .ok_or_else(|| "this build has auto, overlay and copy".to_owned()),
    }
}

fn checkpoints(word: &str) -> std::result::Result<Checkpoints, String> {
    let all = [Checkpoints::All, Checkpoints::Quiet, Checkpoints::Exit, Checkpoints::None];
    all.into_iter()
        .find(|when| when.word() == word)
        .ok_or_else(|| "there are all, quiet, exit and none".to_owned())
}

pub(crate) fn net(word: &str) -> std::result::Result<Net, String> {
    Net::parse(word).map_err(|error| format!("{error}; {}", crate::network::kinds()))
}

/// Seconds, or numbers with the units `ms`, `s`, `m`, `h`, `d` in a row.
pub(crate) fn duration(text: &str) -> std::result::Result<Duration, String> {
    let bad = || format!("'{text}' is no time; write 90s, 10m or 1h30m");
    if let Ok(secs) = text.parse::<u64>() {
        return if secs == 0 { Err(bad()) } else { Ok(Duration::from_secs(secs)) };
    }
    let mut total = 0u64;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(bad)?;
        let number: u64 = rest[..digits].parse().map_err(|_| bad())?;
        let unit = rest[digits..].find(|c: char| c.is_ascii_digit()).map_or(rest.len(), |at| digits + at);
        let factor = match &rest[digits..unit] {
            "ms" => 1,
            "s" => 1000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return Err(bad()),
        };
        total = number.checked_mul(factor).and_then(|ms| total.checked_add(ms)).ok_or_else(bad)?;
        rest = &rest[unit..];
    }
    if total == 0 { Err(bad()) } else { Ok(Duration::from_millis(total)) }
}

/// `NAME=VALUE`, or `NAME` for the caller's own value.
pub(crate) fn variable(word: &OsString) -> Result<(OsString, Option<OsString>)> {
    let bytes = word.as_bytes();
    let cut = bytes.iter().position(|b| *b == b'=');
    let name = &bytes[..cut.unwrap_or(bytes.len())];
    if name.is_empty() {
        return Err(CliError::Usage(format!("--env {} names no variable", crate::escape::name(bytes))));
    }
    let value = cut.map(|at| OsString::from_vec(bytes[at + 1..].to_vec()));
    Ok((OsString::from_vec(name.to_vec()), value))
}

fn secret(word: &OsString) -> Result<engine::secrets::Wish> {
    // Not the word itself: somebody may have written the value.
    engine::secrets::Wish::parse(word).map_err(|why| CliError::Usage(format!("--secret: {why}")))
}

/// Runs, reports, passes the exit code on.
pub(crate) fn run(context: &mut Context, args: Args) -> Result<u8> {
    let env = args.env.iter().map(variable).collect::<Result<Vec<_>>>()?;
    let secrets = args.secret.iter().map(secret).collect::<Result<Vec<_>>>()?;
    let request = RunRequest {
        dir: context.dir(),
        name: args.name,
        argv: args.command,
        rm: args.rm,
        ro: args.ro,
        bind: args.bind,
        hide: args.hide,
        env,
        timeout: args.timeout,
        upper_tmpfs: args.upper == "tmpfs",
        net: args.net.net()?,
        detach: args.detach,
        also: args.make.also,
        strategy: args.make.strategy.0,
        presets: args.preset,
        nest: args.nest,
        watching: Watching { when: args.checkpoints, interval: args.checkpoint_interval },
        on_record: context.ui.json,
        secrets,
        out: args.out,
        trace: Traced { execs: args.trace_exec, reads: args.trace_reads },
    };
    let engine = context.engine()?;
    if args.show_plan {
        return show_plan(context, &engine::ops::run::plan(&engine, &request)?);
    }
    keep_stdout_for_the_answer(context)?;
    let answer = engine::ops::run::run(&engine, &request, &mut progress::Talk::new(&context.ui))?;
    report(context, &answer)
}

/// With `--json`, stdout belongs to the answer alone: what the command prints goes to stderr.
pub(crate) fn keep_stdout_for_the_answer(context: &mut Context) -> Result<()> {
    if context.ui.json {
        let own = std::io::stdout().as_fd().try_clone_to_owned()?;
        rustix::stdio::dup2_stdout(std::io::stderr()).map_err(std::io::Error::from)?;
        context.ui.data_to(Box::new(std::fs::File::from(own)));
    }
    Ok(())
}

/// Refusals that the lines after a run name.
const CLOSING: usize = 5;

/// The lines after a run.
pub(crate) fn report(context: &mut Context, answer: &RunAnswer) -> Result<u8> {
    let ui = &mut context.ui;
    if ui.json {
        ui.document(&wire::Ran::new(answer))?;
        return Ok(exit_code::of(answer.exit));
    }
    let name = ui.paint_err(Role::Lane, &format!("lane {}", answer.lane.name));
    let mut lines = progress::change_lines(&answer.changes, answer.home_changes);
    let mut parts = vec![name];
    if answer.exit != Exit::Code(0) {
        parts.push(report::exit(answer.exit));
    }
    if !lines.is_empty() {
        parts.push(lines.remove(0));
    }
    if answer.removed {
        parts.push("discarded".to_owned());
    }
    // Of a lane that came and went without a trace there is nothing to say.
    if parts.len() > 2 || !answer.removed || ui.verbose {
        ui.say(&parts.join(" · "));
    }
    for line in lines {
        ui.say(&format!("  {line}"));
    }
    progress::say_drift(ui, &answer.drift);
    if let Some(handed) = &answer.handed {
        ui.say(&format!(
            "handed out: {} files, {}, to {}",
            handed.files,
            report::bytes(handed.bytes),
            report::path(&handed.at),
        ));
        for (path, why) in &handed.left_out {
            ui.warn(&format!(
                "not handed out: {} ({})",
                crate::escape::name(path.as_bytes()),
                crate::escape::name(why)
            ));
        }
    }
    if let Some(reads) = answer.reads {
        ui.say(&format!(
            "opened: {} files of the project in {} calls; they waited {} for the trace, and for two switches between processes each",
            reads.files,
            reads.calls,
            report::millis(reads.waited_us as f64 / 1000.0),
        ));
    }
    for line in render::refusals(ui, &answer.refused, CLOSING) {
        ui.say(&line.replace("LANE", &answer.lane.name));
    }
    if !answer.next.is_empty() {
        let next: Vec<String> = answer
            .next
            .iter()
            .take(3)
            .map(|next| ui.paint_err(Role::Command, &report::command(next)))
            .collect();
        ui.say(&format!("next: {}", next.join(" · ")));
    }
    Ok(exit_code::of(answer.exit))
}

fn show_plan(context: &mut Context, plan: &engine::view::PlanView) -> Result<u8> {
    let ui = &mut context.ui;
    if ui.json {
        ui.document(&wire::Plan::new(plan))?;
        return Ok(exit_code::DONE);
    }
    ui.line(&format!("strategy  {} ({})", plan.strategy, crate::escape::name(&plan.why)))?;
    for (strategy, why) in &plan.rejected {
        ui.line(&format!("  not {strategy}: {}", crate::escape::name(why)))?;
    }
    ui.line(&format!("command   {}", report::argv(&plan.argv)))?;
    ui.line(&format!("network   {}", crate::escape::name(plan.net.text())))?;
    let mounts: Vec<Vec<table::Cell>> = plan
        .mounts
        .iter()
        .map(|mount| {
            vec![
                table::Cell::new(mount.target.as_os_str().as_bytes()),
                table::Cell::new(&mount.kind),
                table::Cell::new(if mount.read_only { "ro" } else { "rw" }),
                table::Cell::new(mount.source.as_deref().map_or(&b""[..], |at| at.as_os_str().as_bytes())),
                table::Cell::new(&mount.why),
            ]
        })
        .collect();
    section(context, "mounts", &["TARGET", "KIND", "", "SOURCE", "WHY"], &mounts)?;
    let hidden: Vec<Vec<table::Cell>> = plan
        .hidden
        .iter()
        .map(|(path, why)| vec![table::Cell::new(path.as_os_str().as_bytes()), table::Cell::new(why)])
        .collect();
    section(context, "absent inside", &["PATH", "WHY"], &hidden)?;
    let walls: Vec<Vec<table::Cell>> = plan
        .walls
        .iter()
        .map(|wall| {
            vec![table::Cell::new(&wall.name), table::Cell::new(&wall.status), table::Cell::new(&wall.detail)]
        })
        .collect();
    section(context, "walls", &["WALL", "STATUS", ""], &walls)?;
    if context.ui.verbose {
        let env: Vec<Vec<table::Cell>> =
            plan.env.iter().map(|variable| vec![table::Cell::new(variable)]).collect();
        section(context, "environment", &[], &env)?;
    }
    Ok(exit_code::DONE)
}

fn section(context: &mut Context, title: &str, head: &[&str], rows: &[Vec<table::Cell>]) -> Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let ui = &mut context.ui;
    ui.line("")?;
    let title = ui.paint(Role::Head, title);
    ui.line(&title)?;
    for line in table::lines(ui, head, rows) {
        ui.line(&format!("  {line}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{duration, variable};

    #[test]
    fn times_with_units_are_summed_and_nonsense_is_refused() {
        assert_eq!(duration("90"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("1h30m"), Ok(Duration::from_secs(5400)));
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        for bad in ["", "0", "0s", "h", "1x", "1h30", "-1s", "99999999999999999999d"] {
            assert!(duration(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_variable_keeps_everything_behind_its_first_equals_sign() {
        let (name, value) = variable(&"A=b=c".into()).expect("valid");
        assert_eq!((name, value), ("A".into(), Some("b=c".into())));
        assert_eq!(variable(&"A".into()).expect("valid"), ("A".into(), None));
        assert!(variable(&"=x".into()).is_err());
    }
}
