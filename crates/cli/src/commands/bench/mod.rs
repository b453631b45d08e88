//! `lane bench`: measures this machine in paired rounds and says which targets hold.
//!
//! Invariant: a row is never left out without a word. What cannot be measured is named with the command
//! that brings what it needs, and counts as not held.

mod faces;
mod filled;
mod fork;
mod ground;
mod history;
mod image;
mod ledger;
mod process;
mod review;
mod row;
mod stand;
mod start;
mod stats;
mod tax;
mod terminal;
mod walls;
mod watch;

use std::path::PathBuf;

use self::ground::Ground;
use self::image::Image;
use self::process::{Outcome, Trouble};
use self::row::Promise;
pub(crate) use self::row::{Figure, Row, Unit, Verdict};
use self::stats::Ratio;
use super::Context;
use crate::error::{CliError, Result};
use crate::exit_code;
use crate::render::report;
use crate::render::table::{self, Cell};
use crate::style::Role;
use crate::wire;

/// Measure on this machine what a lane costs, against other tools and against no lane at all.
///
/// `start` is making, entering, leaving, reading and dropping lanes; `tax` is building, checking and installing in
/// one, `history` snapshots and going back to them, `review` looking at changes and keeping them, `ledger` the record, `walls` what the walls cost by themselves. Both sides of a row run in the same rounds, in alternating order; figures are medians, the ratio has
/// the spread of nine in ten. docs/bench.md explains every row.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What to measure.
    #[arg(value_enum, value_name = "SUITE")]
    suite: Suite,

    /// Exit code 1 where a target is missed or a row could not be measured.
    #[arg(long)]
    gate: bool,

    /// Only the row ID (may be given again).
    #[arg(long, value_name = "ID")]
    row: Vec<String>,

    /// So many rounds for every row, instead of each row's own number.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    rounds: Option<u16>,

    /// Where scripts/corpora made the projects (also LANE_CORPORA).
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    corpora: Option<PathBuf>,

    /// Make lanes and copies of projects in DIR, which decides about the filesystem that is measured.
    #[arg(long, value_name = "DIR", default_value = "/var/tmp", value_hint = clap::ValueHint::DirPath)]
    scratch: PathBuf,
}

/// A set of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Suite {
    /// Making, entering, leaving, reading and dropping lanes.
    Start,
    /// Working in a lane against working outside.
    Tax,
    /// Snapshots of a lane, going back to them, and watching for the moment to take one.
    History,
    /// Looking at changes and keeping them.
    Review,
    /// Recording what happens in runs, and asking the record.
    Ledger,
    /// What the walls cost by themselves.
    Walls,
}

impl Suite {
    fn word(self) -> &'static str {
        match self {
            Suite::Start => "start",
            Suite::Tax => "tax",
            Suite::History => "history",
            Suite::Review => "review",
            Suite::Ledger => "ledger",
            Suite::Walls => "walls",
        }
    }
}

/// Rows of `tax` that are measured once more on a filesystem that clones, where root can make one.
const ON_CLONES: [&str; 3] = ["build-first", "build-bare", "build-later"];

/// Filesystems on which rows of `history` are measured once more, where root can make them.
const IMAGES: [&str; 2] = ["btrfs", "xfs"];

/// Measures, prints, and judges.
pub(crate) fn run(context: &mut Context, args: Args) -> Result<u8> {
    let is_root = rustix::process::geteuid().is_root();
    check_ids(&args)?;
    if !matches!(args.suite, Suite::Start | Suite::Review | Suite::Ledger | Suite::Walls)
        && is_root
        && let Some(code) = image::in_private(std::env::args_os().skip(1))
    {
        return code.map_err(words);
    }
    let corpora = args.corpora.clone().unwrap_or_else(ground::default_corpora);
    let corpora = std::path::absolute(&corpora).unwrap_or(corpora);
    let machine = machine();
    let ground = Ground::new(&corpora, &args.scratch).map_err(words)?;
    let mut rows = Vec::new();
    let measure = Measure { context, args: &args, rows: &mut rows };
    match args.suite {
        Suite::Start => measure.start(&ground),
        Suite::Tax => measure.tax(&ground, is_root),
        Suite::History => measure.history(&ground, is_root),
        Suite::Review => measure.review(&ground),
        Suite::Ledger => measure.ledger(&ground),
        Suite::Walls => measure.walls(&ground),
    }
    let filesystem = ground.filesystem();
    drop(ground);
    let holds = rows.iter().all(|row| row.verdict == Verdict::Holds);
    let code = if args.gate && !holds { exit_code::NOT_DONE } else { exit_code::DONE };
    let ui = &mut context.ui;
    if ui.json {
        ui.document(&wire::Bench::new(args.suite.word(), &machine, &filesystem, holds, &rows))?;
        return Ok(code);
    }
    ui.line(&format!("{machine}, {filesystem}, load at the end {}", load()))?;
    for line in table::lines(
        ui,
        &["ROW", "OURS", "AGAINST", "", "RATIO", "SPREAD", "TARGET", "ROUNDS", ""],
        &cells(&rows),
    ) {
        ui.line(&line)?;
    }
    for row in &rows {
        let floor =
            row.floor.as_ref().map(|floor| format!("floor: {} {}", floor.name, shown(floor.value, row.unit)));
        let said: Vec<String> = std::iter::once(row.what.to_owned())
            .chain(floor)
            .chain((!row.note.is_empty()).then(|| crate::escape::name(row.note.as_bytes())))
            .collect();
        ui.line(&format!("{}: {}", row.id, said.join("; ")))?;
    }
    Ok(code)
}

/// What goes through the rows and says where it is.
struct Measure<'m> {
    context: &'m Context,
    args: &'m Args,
    rows: &'m mut Vec<Row>,
}

impl Measure<'_> {
    fn start(mut self, ground: &Ground) {
        for (id, what, target, measure) in start::ROWS {
            self.one(&Promise { id: id.to_owned(), what, target }, |promise, rounds| {
                measure(ground, promise, rounds)
            });
        }
    }

    fn review(mut self, ground: &Ground) {
        for (id, what, target, measure) in review::ROWS {
            self.one(&Promise { id: id.to_owned(), what, target }, |promise, rounds| {
                measure(ground, promise, rounds)
            });
        }
    }

    fn ledger(mut self, ground: &Ground) {
        for (id, what, target, measure) in ledger::ROWS {
            self.one(&Promise { id: id.to_owned(), what, target }, |promise, rounds| {
                measure(ground, promise, rounds)
            });
        }
    }

    fn walls(mut self, ground: &Ground) {
        for (id, what, target, measure) in walls::ROWS {
            self.one(&Promise { id: id.to_owned(), what, target }, |promise, rounds| {
                measure(ground, promise, rounds)
            });
        }
    }

    fn tax(mut self, ground: &Ground, is_root: bool) {
        let tax = tax::Tax::new(ground);
        self.tax_on(&tax, "", &[]);
        if ground.clones() {
            return;
        }
        if is_root && ON_CLONES.iter().any(|id| self.wants(&format!("{id}-clones"))) {
            let image = Image::mount(ground, "btrfs");
            match image.as_ref().map_err(Clone::clone).and_then(Image::ground) {
                Ok(inner) => return self.tax_on(&tax::Tax::new(&inner), "-clones", &ON_CLONES),
                Err(trouble) => return self.no_clones(&trouble),
            }
        }
        let get = "sudo lane bench tax, or --scratch DIR on btrfs or xfs".to_owned();
        self.no_clones(&Trouble::Missing { what: "a filesystem that clones files".to_owned(), get });
    }

    fn tax_on(&mut self, tax: &tax::Tax<'_>, suffix: &str, only: &[&str]) {
        let clones = tax.ground.clones();
        for (id, what, copying, cloning, measure) in tax::ROWS {
            if only.is_empty() || only.contains(&id) {
                let target = if clones { cloning } else { copying };
                let promise = Promise { id: format!("{id}{suffix}"), what, target };
                self.one(&promise, |promise, rounds| measure(tax, promise, rounds));
            }
        }
    }

    fn no_clones(&mut self, trouble: &Trouble) {
        for (id, what, _, target, _) in tax::ROWS {
            if ON_CLONES.contains(&id) {
                let promise = Promise { id: format!("{id}-clones"), what, target };
                self.one(&promise, |_, _| Err(trouble.clone()));
            }
        }
    }

    fn history(mut self, ground: &Ground, is_root: bool) {
        self.history_on(&history::History::new(ground), "", &[]);
        for kind in IMAGES {
            let suffix = format!("-{kind}");
            let is_wanted = history::ON_IMAGES.iter().any(|id| self.wants(&format!("{id}{suffix}")));
            // The rows without a suffix have told it.
            if !is_wanted || ground.filesystem() == kind {
                continue;
            }
            if !is_root {
                let get = format!("sudo lane bench history, or --scratch DIR on {kind}");
                self.no_image(&suffix, &Trouble::Missing { what: format!("{kind} to measure on"), get });
                continue;
            }
            let image = Image::mount(ground, kind);
            match image.as_ref().map_err(Clone::clone).and_then(Image::ground) {
                Ok(inner) => {
                    self.history_on(&history::History::new(&inner), &suffix, &history::ON_IMAGES);
                }
                Err(trouble) => self.no_image(&suffix, &trouble),
            }
        }
    }

    fn history_on(&mut self, history: &history::History<'_>, suffix: &str, only: &[&str]) {
        for (id, what, target, measure) in history::ROWS {
            if only.is_empty() || only.contains(&id) {
                let promise = Promise { id: format!("{id}{suffix}"), what, target };
                self.one(&promise, |promise, rounds| measure(history, promise, rounds));
            }
        }
    }

    fn no_image(&mut self, suffix: &str, trouble: &Trouble) {
        for (id, what, target, _) in history::ROWS {
            if history::ON_IMAGES.contains(&id) {
                let promise = Promise { id: format!("{id}{suffix}"), what, target };
                self.one(&promise, |_, _| Err(trouble.clone()));
            }
        }
    }

    fn wants(&self, id: &str) -> bool {
        self.args.row.is_empty() || self.args.row.iter().any(|wanted| wanted == id)
    }

    fn one(&mut self, promise: &Promise, measure: impl FnOnce(&Promise, Option<usize>) -> Outcome<Row>) {
        if !self.wants(&promise.id) {
            return;
        }
        self.context.ui.say(&format!("measuring {} …", promise.id));
        let row = measure(promise, self.args.rounds.map(usize::from));
        self.rows.push(row.unwrap_or_else(|trouble| Row::without(promise, trouble)));
    }
}

fn check_ids(args: &Args) -> Result<()> {
    let known: Vec<String> = match args.suite {
        Suite::Start => start::ROWS.iter().map(|row| row.0.to_owned()).collect(),
        Suite::Review => review::ROWS.iter().map(|row| row.0.to_owned()).collect(),
        Suite::Ledger => ledger::ROWS.iter().map(|row| row.0.to_owned()).collect(),
        Suite::Walls => walls::ROWS.iter().map(|row| row.0.to_owned()).collect(),
        Suite::Tax => {
            let clones = ON_CLONES.iter().map(|id| format!("{id}-clones"));
            tax::ROWS.iter().map(|row| row.0.to_owned()).chain(clones).collect()
        }
        Suite::History => {
            let images = IMAGES.iter().flat_map(|kind| history::ON_IMAGES.map(|id| format!("{id}-{kind}")));
            history::ROWS.iter().map(|row| row.0.to_owned()).chain(images).collect()
        }
    };
    match args.row.iter().find(|id| !known.contains(id)) {
        Some(id) => Err(CliError::Usage(format!("no row {id}; there are: {}", known.join(", ")))),
        None => Ok(()),
    }
}

fn words(trouble: Trouble) -> CliError {
    CliError::Missing(match trouble {
        Trouble::Missing { what, get } => format!("{what} is not here: {get}"),
        Trouble::Failed(words) => words,
    })
}

/// What was measured on, in one line. The load says how quiet it was.
fn machine() -> String {
    let kernel = rustix::system::uname().release().to_string_lossy().into_owned();
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let who = if rustix::process::geteuid().is_root() { "root" } else { "an ordinary user" };
    format!("Linux {kernel}, {processors} processors, as {who}, load at the start {}", load())
}

fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or("?").to_owned()
}

fn cells(rows: &[Row]) -> Vec<Vec<Cell>> {
    let figure = |value: Option<f64>, unit| {
        Cell::new(value.map_or_else(|| "–".to_owned(), |value| shown(value, unit))).right()
    };
    rows.iter()
        .map(|row| {
            let role = match row.verdict {
                Verdict::Holds => Role::Good,
                Verdict::Misses | Verdict::Failed => Role::Bad,
                Verdict::Missing => Role::Warn,
            };
            let target = if row.ratio.is_some() || row.ours.is_none() {
                times(row.target)
            } else {
                shown(row.target, row.unit)
            };
            let spread = row
                .ratio
                .filter(|_| row.rounds > 1)
                .map_or_else(String::new, |Ratio { low, high, .. }| {
                    format!("{}–{}", digits(low), digits(high))
                });
            vec![
                Cell::new(&row.id),
                figure(row.ours, row.unit),
                figure(row.peer.as_ref().map(|peer| peer.value), row.unit),
                Cell::new(row.peer.as_ref().map_or("", |peer| peer.name.as_str())),
                Cell::new(row.ratio.map_or_else(String::new, |ratio| times(ratio.value))).right(),
                Cell::new(spread),
                Cell::new(format!("≤ {target}")).right(),
                Cell::new(row.rounds.to_string()).right(),
                Cell::new(row.verdict.word()).role(role),
            ]
        })
        .collect()
}

fn shown(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Ms if value < 10.0 => format!("{value:.2} ms"),
        Unit::Ms => report::millis(value),
        Unit::Bytes => report::bytes(value as u64),
        Unit::Count => format!("{value:.0}"),
    }
}

fn times(value: f64) -> String {
    format!("{} ×", digits(value))
}

/// As many digits as targets have.
fn digits(value: f64) -> String {
    let is_near = (value - 1.0).abs() < 0.01 && value != 1.0;
    match value {
        _ if is_near => format!("{value:.4}"),
        0.0..0.1 => format!("{value:.3}"),
        _ => format!("{value:.2}"),
    }
}
