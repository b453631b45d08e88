//! `lane run`.

use std::ffi::OsString;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;
use std::time::Duration;

use engine::launch::Traced;
use engine::limits::Wanted;
use engine::ops::run::{RunAnswer, RunRequest};
use engine::view::{Exit, Level, Net, Strategy};
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

    /// What the walls are made of: namespaces with Landlock and a filter, or, where namespaces are refused, landlock-only
    /// (in a copy, with less protection; docs/walls.md has the difference).
    #[arg(long, value_name = "LEVEL", default_value = "namespaces", value_parser = level)]
    level: Level,

    /// Let the command reach a service of the host: ssh-agent, gpg-agent, session-bus, system-bus, keyring, docker, podman, x11 or
    /// wayland (may be given again). docs/walls.md says what each gives away.
    #[arg(long, value_name = "NAME")]
    door: Vec<String>,

    /// Let programs bring sandboxes of their own (bwrap, Chromium, codex, rootless builds): namespaces and mounts inside are
    /// allowed, which shows them more of the kernel; no fence stands around files behind the mounts.
    #[arg(long)]
    nest: bool,

    /// Share what the agent NAME needs (found from the command by itself).
    #[arg(long, value_name = "NAME")]
    preset: Vec<String>,

    /// Most memory of the lane, such as 512M or 4G.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    memory: Option<u64>,

    /// Most processor time of the lane, in processors: 2, or 0.5.
    #[arg(long, value_name = "N", value_parser = thousandths)]
    cpus: Option<u64>,

    /// Most processes and threads of the lane.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pids: Option<u64>,

    /// Most that the lane's own layers may take on disk, and how many files and directories they may have.
    #[arg(long, value_name = "SIZE[,INODES]", value_parser = disk)]
    disk: Option<Disk>,

    /// Share of the disk's time against others, 1 to 10000; others have 100.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10000))]
    io_weight: Option<u64>,

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

/// What `--disk` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Disk {
    bytes: u64,
    inodes: Option<u64>,
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

fn level(word: &str) -> std::result::Result<Level, String> {
    let all = [Level::Namespaces, Level::LandlockOnly];
    all.into_iter()
        .find(|level| level.word() == word)
        .ok_or_else(|| "this build has namespaces and landlock-only".to_owned())
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

/// A size such as 500K, 10M or 1.5G.
fn size(text: &str) -> std::result::Result<u64, String> {
    let size = engine::room::size(text).filter(|size| *size > 0);
    size.ok_or_else(|| format!("'{text}' is no size; write 500K, 10M or 1G"))
}

/// A number of processors, in thousandths.
fn thousandths(text: &str) -> std::result::Result<u64, String> {
    let number = text.parse::<f64>().ok().filter(|number| (0.001..=1e6).contains(number));
    number
        .map(|number| (number * 1000.0).round() as u64)
        .ok_or_else(|| format!("'{text}' is no number of processors; write 2 or 0.5"))
}

/// A size, and a number of entries behind a comma.
fn disk(text: &str) -> std::result::Result<Disk, String> {
    let (bytes, inodes) = text.split_once(',').map_or((text, None), |(bytes, rest)| (bytes, Some(rest)));
    let many = |text: &str| {
        // 100K entries are 100,000 and not 102,400.
        let (digits, scale) = match text.to_ascii_uppercase().strip_suffix('K') {
            Some(digits) => (digits.to_owned(), 1000),
            None => match text.to_ascii_uppercase().strip_suffix('M') {
                Some(digits) => (digits.to_owned(), 1_000_000),
                None => (text.to_owned(), 1),
            },
        };
        let number = digits.trim().parse::<u64>().ok().and_then(|number| number.checked_mul(scale));
        number
            .filter(|number| *number > 0)
            .ok_or_else(|| format!("'{text}' is no number of files; write 5000, 100K or 1M"))
    };
    Ok(Disk { bytes: size(bytes)?, inodes: inodes.map(many).transpose()? })
}

/// Seconds, or numbers with the units `ms`, `s`, `m`, `h`, `d` in a row.
pub(crate) fn duration(text: &str) -> std::result::Result<Duration, String> {
    engine::limits::time(text).ok_or_else(|| format!("'{text}' is no time; write 90s, 10m or 1h30m"))
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
        doors: args.door,
        level: args.level,
        limits: Wanted {
            memory: args.memory,
            cpus: args.cpus,
            pids: args.pids,
            disk: args.disk.map(|disk| disk.bytes),
            inodes: args.disk.and_then(|disk| disk.inodes),
            io_weight: args.io_weight,
        },
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
        ui.say(&line);
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

    use super::{Disk, disk, duration, size, thousandths, variable};

    #[test]
    fn limits_are_read_with_their_units_and_nonsense_is_refused() {
        assert_eq!((size("1.5G"), size("500k")), (Ok(3 << 29), Ok(500 << 10)));
        assert_eq!((thousandths("2"), thousandths("0.5")), (Ok(2000), Ok(500)));
        assert_eq!(disk("1M"), Ok(Disk { bytes: 1 << 20, inodes: None }));
        assert_eq!(disk("1G,100K"), Ok(Disk { bytes: 1 << 30, inodes: Some(100_000) }));
        for bad in ["", "0", "x", "-1", "nan"] {
            assert!(size(bad).is_err() && thousandths(bad).is_err() && disk(bad).is_err(), "{bad:?}");
        }
        assert!(disk("1M,0").is_err() && disk("1M,").is_err());
    }

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
