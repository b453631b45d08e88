//! `lane ledger`.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Duration;

use engine::ops::book::{Entry, LedgerRequest};
use engine::redact::Redaction;

use super::Context;
use crate::error::{CliError, Result};
use crate::exit_code;
use crate::render::ledger as render;
use crate::wire;

/// Show the record: what was done, what ran, and what happened in it.
///
/// Newest last. Without LANE, of all lanes. What looks like a token is taken out; `--raw` shows it as it was recorded.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The lane, by name or id; discarded ones too.
    #[arg(value_name = "LANE")]
    lane: Option<String>,

    /// Not before TIME: how long ago (10m, 2h, 1d), or a date and time.
    #[arg(long, value_name = "TIME")]
    since: Option<String>,

    /// Before TIME.
    #[arg(long, value_name = "TIME")]
    until: Option<String>,

    /// Records of this kind: operation, run, end, verdict, exec, mount, refused, host, secret, artifact, writes, limit, open,
    /// policy, grant, left-out (may be given again).
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    kind: Vec<String>,

    /// About PATH or what is below it.
    #[arg(long, value_name = "PATH", value_hint = clap::ValueHint::AnyPath)]
    path: Option<PathBuf>,

    /// About HOST or names below it.
    #[arg(long, value_name = "HOST")]
    host: Option<String>,

    /// The newest N records; without it 200, and with `--json` all.
    #[arg(short = 'n', long, value_name = "N")]
    limit: Option<u64>,

    /// All records.
    #[arg(long, conflicts_with = "limit")]
    all: bool,

    /// Go on with what is recorded from now on, until interrupted.
    #[arg(short, long, conflicts_with = "replay")]
    follow: bool,

    /// Show the run with this number from its beginning, each record with the time since then.
    #[arg(long, value_name = "RUN")]
    replay: Option<i64>,

    /// Show what looks like a token as it was recorded.
    #[arg(long)]
    raw: bool,

    /// Write `~` for your home.
    #[arg(long)]
    no_home: bool,
}

/// Records that are shown where nothing else was said.
const SHOWN: u64 = 200;
/// How often it is looked for something new.
const LOOK: Duration = Duration::from_millis(200);

/// Asks and prints.
pub(crate) fn run(context: &mut Context, args: Args) -> Result<u8> {
    let engine = context.engine()?;
    let now = engine::clock::now_ms();
    let json = context.ui.json;
    let newest = match (args.limit, args.all || args.replay.is_some()) {
        (Some(limit), _) => Some(limit),
        (None, true) => None,
        (None, false) => (!json).then_some(SHOWN),
    };
    let request = LedgerRequest {
        dir: context.dir(),
        lane: args.lane,
        run: args.replay,
        since: args.since.as_deref().map(|text| moment(text, now)).transpose()?,
        until: args.until.as_deref().map(|text| moment(text, now)).transpose()?,
        kinds: args.kind,
        path: args.path,
        host: args.host,
        newest,
    };
    let redaction = (!args.raw).then(|| {
        let home = engine::launch::home_dir().filter(|_| args.no_home);
        Redaction::new(&home.iter().map(PathBuf::as_path).collect::<Vec<_>>())
    });
    let mut asked = engine::ops::book::ask(&engine, &request)?;
    let (mut told, mut began) = (0u64, None);
    let mut failed = None;
    let mut show = |context: &mut Context, entry: Entry| {
        let entry = match &redaction {
            Some(redaction) => entry.redacted(redaction),
            None => entry,
        };
        told += 1;
        let began = *began.get_or_insert(entry.at);
        let shown = print(context, &entry, args.replay.map(|_| began), now);
        match shown {
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
            Ok(()) if context.ui.is_closed() => ControlFlow::Break(()),
            Ok(()) => ControlFlow::Continue(()),
        }
    };
    asked.answer(&mut |entry| show(context, entry))?;
    while args.follow && !context.ui.is_closed() {
        context.ui.finish()?;
        std::thread::sleep(LOOK);
        asked.follow(&mut |entry| show(context, entry))?;
    }
    if let Some(error) = failed {
        return Err(error);
    }
    if let Some(run) = args.replay.filter(|_| told == 0) {
        return Err(CliError::Usage(format!("there is no run {run}; `lane ledger --kind run` lists runs")));
    }
    if !json && args.limit.is_none() && newest == Some(told) {
        context.ui.say(&format!("the newest {told}; --all shows everything"));
    }
    Ok(exit_code::DONE)
}

fn print(context: &mut Context, entry: &Entry, began: Option<i64>, now: i64) -> Result<()> {
    let ui = &mut context.ui;
    if ui.json {
        let text = serde_json::to_string(&wire::Record::new(entry)).map_err(std::io::Error::from)?;
        return Ok(ui.line(&crate::escape::json(&text))?);
    }
    let when = match began {
        Some(began) => format!("+{:>9.3}", (entry.at - began) as f64 / 1000.0),
        None => render::clock(entry.at, now),
    };
    let run = entry.run.map(|run| format!("#{run}")).unwrap_or_default();
    let lane = entry.lane.as_deref().map(crate::escape::name).unwrap_or_default();
    let head = if began.is_some() { String::new() } else { format!("{lane:<14} {run:<6} ") };
    let kind = ui.paint(render::role(&entry.kind), &format!("{:<9}", entry.kind));
    Ok(ui.line(&format!("{when}  {head}{kind} {}", render::says(entry)))?)
}

/// A moment: how long ago, or a date with or without a time, in milliseconds since 1970.
fn moment(text: &str, now: i64) -> Result<i64> {
    if let Ok(ago) = super::run::duration(text) {
        return Ok(now - i64::try_from(ago.as_millis()).unwrap_or(i64::MAX));
    }
    if let Ok(at) = text.parse::<jiff::Timestamp>() {
        return Ok(at.as_millisecond());
    }
    let zone = jiff::tz::TimeZone::system();
    let local = text.parse::<jiff::civil::DateTime>().ok().and_then(|at| at.to_zoned_datetime(zone).ok());
    local.map(|at| at.timestamp().as_millisecond()).ok_or_else(|| {
        CliError::Usage(format!(
            "'{}' is no time; write 10m, 2h, 2026-01-31 or 2026-01-31T12:00",
            crate::escape::name(text)
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::moment;

    #[test]
    fn moments_are_told_by_age_or_by_date() {
        assert_eq!(moment("10m", 1_000_000).expect("a time"), 400_000);
        assert_eq!(moment("1970-01-01T00:00:01Z", 0).expect("a time"), 1000);
        let day = moment("2026-01-31", 0).expect("a date");
        assert_eq!(moment("2026-01-31T12:00", 0).expect("a time") - day, 12 * 3_600_000);
        assert!(moment("yesterday", 0).is_err());
    }
}
