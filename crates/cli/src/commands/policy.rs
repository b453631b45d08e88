//! `lane policy`.

use std::path::PathBuf;

use engine::policy::{Keep, Policy, Scope};

use super::Context;
use crate::error::Result;
use crate::escape;
use crate::exit_code;
use crate::render::report;
use crate::style::Role;
use crate::wire;

/// The rules that keeps hold to.
///
/// They stand in `lane.toml` or `.lane.toml` at the top of the original, and in $XDG_CONFIG_HOME/lanekeeper/policy.toml for all
/// projects; all of them hold. A lane's own change of such a file rules nothing until it was kept.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Print what holds, and where it stands.
    Show,
    /// Look whether files of rules can be read: those that hold here, or FILE. Exit code 1 where one is refused.
    Check {
        /// Files to look at instead.
        #[arg(value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
        files: Vec<PathBuf>,
    },
    /// Print the rules of which your own file and the project's differ. Both hold at once.
    Diff,
    /// Allow something to a lane while it is live.
    Grant {
        /// The lane.
        #[arg(value_name = "LANE")]
        lane: String,
        /// What is allowed: net:HOST.
        #[arg(value_name = "WHAT")]
        what: String,
    },
}

/// Does what was asked for.
pub(crate) fn run(context: &mut Context, args: &Args) -> Result<u8> {
    match &args.what {
        What::Show => show(context),
        What::Check { files } => check(context, files),
        What::Diff => diff(context),
        What::Grant { lane, what } => {
            let engine = context.engine()?;
            engine::ops::policy::grant(&engine, &context.dir(), lane, what)?;
            Ok(exit_code::DONE)
        }
    }
}

fn check(context: &mut Context, files: &[PathBuf]) -> Result<u8> {
    let engine = context.engine()?;
    let checked = engine::ops::policy::check(&engine, &context.dir(), files)?;
    let code = if checked.iter().any(|file| file.is_bad()) { exit_code::NOT_DONE } else { exit_code::DONE };
    let ui = &mut context.ui;
    if ui.json {
        ui.document(&wire::RulesChecked::new(&checked))?;
        return Ok(code);
    }
    for file in checked.iter().filter(|file| file.says.is_some()) {
        let path = report::path(&file.path);
        let digest = file.digest.as_deref().and_then(|digest| digest.get(..12)).unwrap_or_default();
        match &file.says {
            Some(Err((line, why))) => {
                let line = line.map(|line| format!(":{line}")).unwrap_or_default();
                let bad = ui.paint(Role::Bad, "refused");
                ui.line(&format!("{path}{line} {bad}: {}", escape::name(why)))?;
            }
            _ => {
                let good = ui.paint(Role::Good, "whole");
                ui.line(&format!("{path} {good} ({digest})"))?;
            }
        }
    }
    if checked.iter().all(|file| file.says.is_none()) {
        ui.say("there is no file of rules");
    }
    Ok(code)
}

fn diff(context: &mut Context) -> Result<u8> {
    let engine = context.engine()?;
    let compared = engine::ops::policy::compare(&engine, &context.dir())?;
    let ui = &mut context.ui;
    if ui.json {
        ui.document(&wire::RulesCompared::new(&compared))?;
        return Ok(exit_code::DONE);
    }
    for rule in &compared {
        let side = |side: &Option<String>| side.as_ref().map_or("no rule".to_owned(), escape::name);
        ui.line(&format!("{:<15} yours: {}", rule.rule, side(&rule.user)))?;
        ui.line(&format!("{:<15} project: {}", "", side(&rule.project)))?;
    }
    if compared.is_empty() {
        ui.say("your rules and the project's are the same");
    }
    Ok(exit_code::DONE)
}

fn show(context: &mut Context) -> Result<u8> {
    let engine = context.engine()?;
    let top = engine.project(&context.dir())?.top;
    let policy = Policy::load([top.as_path()])?;
    let ui = &mut context.ui;
    if ui.json {
        ui.document(&wire::Rules::new(&policy))?;
        return Ok(exit_code::DONE);
    }
    let mut is_empty = true;
    for file in &policy.files {
        let Some(keep) = &file.keep else { continue };
        is_empty = false;
        let whom = match file.scope {
            Scope::User => "all projects",
            Scope::Project(_) => "this project",
        };
        let head = format!("{} · {whom}", report::path(&file.path));
        let head = ui.paint(Role::Head, &head);
        ui.line(&head)?;
        let mut rules = rules(keep);
        rules.extend(file.limits.iter().map(|rule| ("limits", rule.line, report::limit_rule(rule))));
        if rules.is_empty() {
            ui.line("  no rule")?;
        }
        for (rule, line, value) in rules {
            ui.line(&format!("  {rule:<15} {value}  {}", ui.paint(Role::Dim, &format!("(line {line})"))))?;
        }
    }
    if is_empty {
        ui.say("no rule holds; they would stand in:");
        for file in &policy.files {
            ui.say(&format!("  {}", report::path(&file.path)));
        }
    }
    Ok(exit_code::DONE)
}

fn rules(keep: &Keep) -> Vec<(&'static str, usize, String)> {
    let mut rules = Vec::new();
    for (name, patterns) in [("keep.only", &keep.only), ("keep.deny", &keep.deny)] {
        if let Some(rule) = patterns {
            let all = rule.value.written().iter().map(escape::name).collect::<Vec<_>>().join(", ");
            rules.push((name, rule.line, if all.is_empty() { "nothing".to_owned() } else { all }));
        }
    }
    if let Some(rule) = &keep.verify {
        rules.push(("keep.verify", rule.line, escape::name(rule.value.text())));
    }
    if let Some(rule) = &keep.max_files {
        rules.push(("keep.max_files", rule.line, rule.value.to_string()));
    }
    if let Some(rule) = &keep.max_bytes {
        rules.push(("keep.max_bytes", rule.line, report::bytes(rule.value)));
    }
    rules
}
