//! `lane fork`.

use engine::ops::fork::{ForkAnswer, ForkRequest, WhyCopied};

use super::{Context, progress};
use crate::error::Result;
use crate::exit_code;
use crate::render::{history as render, report};
use crate::style::Role;
use crate::wire;

/// Make a new lane from another one, as it is now or was at a snapshot.
///
/// The new lane has everything that the other one has, and from there on each goes its own way. Of a lane at rest nothing is
/// copied, however much it holds: both stand on what was written so far. A live lane is forked from a snapshot of this
/// moment.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The lane to fork; `LANE@REF` is its snapshot REF.
    #[arg(value_name = "LANE")]
    lane: String,

    /// Name of the new lane; one is made up where none is given.
    #[arg(value_name = "NEW")]
    name: Option<String>,

    /// Fork a snapshot: its id (or the front of one), its name, or `base`.
    #[arg(long, value_name = "REF")]
    at: Option<String>,
}

/// Makes it.
pub(crate) fn run(context: &mut Context, args: Args) -> Result<u8> {
    let engine = context.engine()?;
    let (lane, at) = match (args.lane.split_once('@'), args.at) {
        (Some((lane, at)), None) => (lane.to_owned(), Some(at.to_owned())),
        (_, at) => (args.lane, at),
    };
    let request = ForkRequest { dir: context.dir(), lane, name: args.name, at: at.filter(|at| at != "now") };
    let answer = engine::ops::fork::fork(&engine, &request, &mut progress::Talk::new(&context.ui))?;
    let ui = &mut context.ui;
    if ui.json {
        ui.document(&wire::Forked::new(&answer))?;
    } else {
        ui.line(&answer.lane.name)?;
        ui.say(&format!(
            "{} · {} · {}",
            ui.paint_err(Role::Lane, &format!("lane {}", answer.lane.name)),
            from(&answer),
            how(&answer)
        ));
    }
    for (root, path, why) in &answer.left {
        let place = crate::escape::name(path.as_bytes());
        ui.warn(&format!("not in the fork: {place} in {}: {}", report::path(root), crate::escape::name(why)));
    }
    Ok(if answer.left.is_empty() { exit_code::DONE } else { exit_code::NOT_DONE })
}

fn from(answer: &ForkAnswer) -> String {
    match &answer.from {
        Some(snapshot) => format!("from {} at {}", answer.parent, render::title(snapshot)),
        None => format!("from {}", answer.parent),
    }
}

/// What it cost, and why something was copied.
fn how(answer: &ForkAnswer) -> String {
    let (millis, copied) =
        (report::millis(answer.lane.cost.millis), report::bytes(answer.lane.cost.allocated));
    let why = answer.roots.iter().find_map(|root| root.why_copied).map(|why| match why {
        WhyCopied::HardLinks => "hard links in it would part",
        WhyCopied::Inside => "its layers lie in the project",
        WhyCopied::NotMovable => "its layer cannot be moved",
        WhyCopied::IsCopy => "the lane is a copy",
    });
    match (why, &answer.from) {
        (Some(why), _) => format!("{copied} copied in {millis}, because {why}"),
        (None, Some(_)) => format!("put there in {millis}"),
        (None, None) => format!("nothing copied of its layers, {millis}"),
    }
}
