//! `lane review`: lanes, files, hunks, plan, done, on a terminal. Here: who does what the others ask for.
//!
//! `app` is the state and takes keys; `lanes`, `files`, `hunks`, `two` and `plan` are its screens; `worker` asks the engine;
//! `terminal` holds the terminal. Invariant: work that can wait is done in small pieces between two looks at the keyboard,
//! or, where it has no small pieces, by a thread of its own (`aside`), so that a key is answered within a frame.

mod app;
mod aside;
mod branches;
mod fact;
mod files;
mod frame;
mod help;
mod highlight;
mod hunks;
mod lanes;
mod list;
mod paint;
mod plan;
mod sheet;
mod terminal;
mod theme;
mod ticks;
mod two;
mod worker;

#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use engine::ops::diff::DiffAnswer;
use rustix::process::Signal;

use app::App;
use fact::{Effect, Fact, Want};
use terminal::{Came, Screen};
pub(crate) use theme::{Ground, Theme};
use worker::Worker;

use crate::error::Result;
use crate::exit_code;

/// How often what was found in passing is drawn: faster than this nobody sees it.
const SHOWN_EVERY: Duration = Duration::from_millis(30);

/// Shows the lanes of the project of `dir`, or one of them at first, until the person leaves. What a crash had left and
/// was put right on the way goes to `repaired`.
pub(crate) fn run(
    options: &engine::EngineOptions,
    dir: PathBuf,
    lane: Option<String>,
    theme: Theme,
    repaired: &mut Vec<(String, String)>,
) -> Result<u8> {
    let mut worker = Worker::open(options, dir)?;
    let code = show(&mut worker, lane, theme);
    // Told when there is a place for it again.
    repaired.extend(worker.take_repaired());
    code
}

fn show(worker: &mut Worker, lane: Option<String>, theme: Theme) -> Result<u8> {
    // What is wrong with the project is told before the screen is taken.
    let mut next = match lane {
        Some(name) => worker.know(&name).map(Effect::Open).map(Some)?,
        None => Some(Effect::Rows),
    };
    let mut screen = Screen::take()?;
    let mut app = App::new(theme);
    loop {
        // What is known of a lane stands on the lane that was opened for it.
        let mut opened = None;
        if let Some(Effect::Open(name)) = &next {
            app.busy = Some("reading the lane");
            screen.draw(&mut app)?;
            match worker.enter(name) {
                Ok(entered) => opened = Some(entered),
                Err(error) => next = app.fact(Fact::NotOpened(error.lines())),
            }
        }
        let mut answer = None;
        if let Some(opened) = &opened {
            match worker.changes(opened) {
                Ok((found, changes)) => {
                    answer = Some(found);
                    next = app.fact(Fact::Opened(Box::new(changes)));
                }
                Err(error) => next = app.fact(Fact::NotOpened(error.lines())),
            }
        }
        app.busy = None;
        match drive(&mut screen, &mut app, worker, answer.as_ref(), next)? {
            Turn::Left(code) => return Ok(code),
            Turn::Open(name) => next = Some(Effect::Open(name)),
        }
    }
}

/// Why the loop stopped.
enum Turn {
    /// The person left, with this exit code.
    Left(u8),
    /// A lane is to be opened.
    Open(String),
}

/// Takes what comes and does what is wished, until another lane is to be opened. `answer` is what the open one changed.
fn drive(
    screen: &mut Screen,
    app: &mut App,
    worker: &mut Worker,
    answer: Option<&DiffAnswer<'_>>,
    first: Option<Effect>,
) -> Result<Turn> {
    let left = |signal: Signal| Turn::Left(exit_code::of(engine::view::Exit::Signal(signal.as_raw())));
    let mut effect = first;
    loop {
        while let Some(wish) = effect.take() {
            match wish {
                Effect::Quit => return Ok(Turn::Left(exit_code::DONE)),
                Effect::Open(name) => {
                    // What is ticked here stays ticked, bound to what it is now: the lane itself is let go of.
                    if let Some((answer, ticks)) = answer.zip(app.leaving(&name)) {
                        match answer.bound(ticks) {
                            Ok(bound) => app.set_aside(bound),
                            Err(error) => {
                                effect = app.fact(Fact::Failed(crate::error::CliError::from(error).lines()));
                                continue;
                            }
                        }
                    }
                    return Ok(Turn::Open(name));
                }
                Effect::Suspend => screen.suspend()?,
                Effect::Redraw => screen.forget()?,
                wish => {
                    if let Some(words) = Worker::takes_time(&wish) {
                        app.busy = Some(words);
                        screen.draw(app)?;
                        // It may start processes, and they begin with one thread.
                        if let Some(fact) = worker.aside.finish() {
                            app.fact(fact);
                        }
                    }
                    let ran = wish == Effect::Keep;
                    let fact = worker.act(wish, answer);
                    if ran {
                        screen.watch_again()?;
                    }
                    app.busy = None;
                    effect = app.fact(fact);
                }
            }
        }
        app.now = engine::clock::now_ms();
        screen.draw(app)?;
        // What can wait is done while nobody presses a key, and shown now and then.
        let (mut shown, mut drawn) = (true, Instant::now());
        let came = loop {
            if let Some(fact) = worker.aside.ended() {
                app.fact(fact);
                shown = false;
            }
            let mut want = app.want();
            if let Some(Want::Sums(name)) = want {
                if let Some(fact) = worker.aside.begin(name) {
                    app.fact(fact);
                    shown = false;
                }
                want = None;
            }
            if want.is_none() && !std::mem::replace(&mut shown, true) {
                screen.draw(app)?;
            }
            let patience = want.as_ref().map(|_| Duration::ZERO);
            if let Some(came) = screen.wait(patience, worker.aside.bell())? {
                break came;
            }
            match want {
                None => {}
                Some(Want::Colours) => app.colour(),
                Some(want) => {
                    let fact = worker.look(want, answer);
                    app.fact(fact);
                }
            }
            shown = drawn.elapsed() >= SHOWN_EVERY;
            if shown {
                screen.draw(app)?;
                drawn = Instant::now();
            }
        };
        match came {
            Came::Input(event) => effect = app.input(&event),
            Came::Resized => {}
            Came::Stop => effect = Some(Effect::Suspend),
            Came::End(signal) => return Ok(left(signal)),
            Came::Gone => return Ok(left(Signal::HUP)),
        }
    }
}
