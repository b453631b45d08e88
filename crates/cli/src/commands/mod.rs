//! One file per verb: `Args`, whose doc comments are the help, and `run`, which asks the engine and
//! shows the answer. Here: parse, dispatch, and turn the outcome into an exit code.

pub(crate) mod bench;
pub(crate) mod checkpoint;
pub(crate) mod completions;
pub(crate) mod diff;
pub(crate) mod discard;
pub(crate) mod doctor;
pub(crate) mod exec;
pub(crate) mod export;
pub(crate) mod fork;
pub(crate) mod fsck;
pub(crate) mod gc;
pub(crate) mod keep;
mod keep_ask;
pub(crate) mod ledger;
pub(crate) mod log;
pub(crate) mod ls;
pub(crate) mod man;
pub(crate) mod new;
pub(crate) mod overlap;
pub(crate) mod policy;
pub(crate) mod progress;
pub(crate) mod recover;
pub(crate) mod restore;
pub(crate) mod review;
pub(crate) mod run;
pub(crate) mod show;
pub(crate) mod snap;
pub(crate) mod stop;
mod undo_keep;
pub(crate) mod verify;
pub(crate) mod web;
pub(crate) mod why;

use std::path::PathBuf;
use std::process::ExitCode;
use std::rc::Rc;

use engine::{Engine, EngineOptions};

use crate::args::{self, Global, Verb};
use crate::error::{CliError, Result};
use crate::escape;
use crate::exit_code;
use crate::ui::Ui;

/// What a command works with.
pub(crate) struct Context {
    pub(crate) ui: Ui,
    pub(crate) global: Global,
    engine: Option<Rc<Engine>>,
}

impl Context {
    /// The engine on the chosen state directory.
    pub(crate) fn engine(&mut self) -> Result<Rc<Engine>> {
        if let Some(engine) = &self.engine {
            return Ok(Rc::clone(engine));
        }
        let engine = Rc::new(Engine::open(&EngineOptions { state: self.global.state.clone() })?);
        self.engine = Some(Rc::clone(&engine));
        Ok(engine)
    }

    /// The directory whose project is meant.
    pub(crate) fn dir(&self) -> PathBuf {
        self.global.dir.clone().unwrap_or_else(|| PathBuf::from("."))
    }
}

/// Parses the command line, does what it says, and gives the exit code.
pub(crate) fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os().collect();
    let cli = match args::parse(&words) {
        Ok(cli) => cli,
        Err(error) => {
            if !error.use_stderr() {
                // Help: all of it our own words. Nothing is left to tell where even this fails.
                let _ = error.print();
                return ExitCode::from(exit_code::DONE);
            }
            // It repeats arguments, which may be names of files that a lane made.
            let ui = Ui::new(&Global::default());
            for line in error.render().to_string().lines() {
                ui.tell(&escape::escape(line.as_bytes(), escape::Kind::Content).text);
            }
            return ExitCode::from(exit_code::USAGE);
        }
    };
    let runs_a_command = cli.verb.runs_a_command();
    let mut context = Context { ui: Ui::new(&cli.global), global: cli.global, engine: None };
    let outcome = dispatch(&mut context, cli.verb).and_then(|code| {
        context.ui.finish()?;
        Ok(code)
    });
    for (what, on) in context.engine.as_ref().map(|engine| engine.take_repaired()).unwrap_or_default() {
        context.ui.say(&format!("repaired: {what} ({})", escape::name(on)));
    }
    ExitCode::from(outcome.unwrap_or_else(|error| {
        // What was said so far comes before what went wrong.
        let _ = context.ui.finish();
        error.report(&mut context.ui, runs_a_command)
    }))
}

fn dispatch(context: &mut Context, verb: Verb) -> Result<u8> {
    match verb {
        Verb::Run(args) => run::run(context, *args),
        Verb::New(args) => new::run(context, args),
        Verb::Exec(args) => exec::run(context, args),
        Verb::Stop(args) => stop::run(context, args),
        Verb::Ls(args) => ls::run(context, args),
        Verb::Show(args) => show::run(context, args),
        Verb::Snap(args) => snap::run(context, args),
        Verb::Log(args) => log::run(context, args),
        Verb::Restore(args) => restore::run(context, args),
        Verb::Undo(args) => restore::undo(context, args),
        Verb::Redo(args) => restore::redo(context, args),
        Verb::Fork(args) => fork::run(context, args),
        Verb::Diff(args) => diff::run(context, args),
        Verb::Keep(args) => keep::run(context, args),
        Verb::Review(args) => review::run(context, args),
        Verb::Overlap(args) => overlap::run(context, args),
        Verb::Export(args) => export::run(context, args),
        Verb::Discard(args) => discard::run(context, args),
        Verb::Recover(args) => recover::run(context, args),
        Verb::Policy(args) => policy::run(context, &args),
        Verb::Verify(args) => verify::run(context, args),
        Verb::Checkpoint(args) => checkpoint::run(context, args),
        Verb::Gc(args) => gc::run(context, args),
        Verb::Fsck(args) => fsck::run(context, args),
        Verb::Doctor(args) => doctor::run(context, args),
        Verb::Why(args) => why::run(context, args),
        Verb::Ledger(args) => ledger::run(context, args),
        Verb::Web(args) => web::run(context, args),
        Verb::Bench(args) => bench::run(context, args),
        Verb::Completions(args) => completions::run(context, &args),
        Verb::Man(args) => man::run(context, args),
    }
}

/// The first operand names a lane where there is one of that name; all else are paths.
pub(crate) fn split_lane(
    engine: &Engine,
    dir: &std::path::Path,
    operands: Vec<std::ffi::OsString>,
) -> Result<(Option<String>, Vec<PathBuf>)> {
    let mut operands = operands.into_iter();
    let Some(first) = operands.next() else { return Ok((None, Vec::new())) };
    let rest = operands.map(PathBuf::from);
    match first.to_str() {
        Some(name) if engine::ops::list::exists(engine, dir, name)? => {
            Ok((Some(name.to_owned()), rest.collect()))
        }
        // With one lane, or none, everything is a path; with several the first must be a lane.
        Some(name) if engine::ops::list::names(engine, dir)?.len() != 1 => {
            Ok((Some(name.to_owned()), rest.collect()))
        }
        _ => Ok((None, std::iter::once(PathBuf::from(first)).chain(rest).collect())),
    }
}

/// A request without an answer: nobody is there to be asked.
pub(crate) fn needs_yes(what: &'static str) -> CliError {
    CliError::NeedsYes(what)
}
