//! A row of a benchmark: what was compared with what, the figures, the target, and whether it holds.
//! Measuring in pairs lives here too.

use std::time::{Duration, Instant};

use super::process::{Outcome, Trouble};
use super::stats::{self, Ratio};

/// What a figure counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Milliseconds.
    Ms,
    /// Bytes.
    Bytes,
    /// Things.
    Count,
}

/// A figure with the name of what it belongs to.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Figure {
    pub(crate) name: String,
    pub(crate) value: f64,
}

/// Does the target hold?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Holds,
    Misses,
    /// Not measured, because something is not here.
    Missing,
    /// Not measured, because something went wrong.
    Failed,
}

impl Verdict {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Verdict::Holds => "holds",
            Verdict::Misses => "misses",
            Verdict::Missing => "missing",
            Verdict::Failed => "failed",
        }
    }
}

/// One row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    pub(crate) id: String,
    pub(crate) what: &'static str,
    pub(crate) unit: Unit,
    pub(crate) ours: Option<f64>,
    /// What it is compared with.
    pub(crate) peer: Option<Figure>,
    /// What cannot be beaten, measured in the same rounds.
    pub(crate) floor: Option<Figure>,
    pub(crate) ratio: Option<Ratio>,
    /// The ratio, or where there is no peer the figure itself, may be at most this.
    pub(crate) target: f64,
    pub(crate) rounds: usize,
    pub(crate) verdict: Verdict,
    /// More to say: what was found, or what is missing and the command that brings it.
    pub(crate) note: String,
}

/// What a row promises before it is measured.
#[derive(Debug, Clone)]
pub(crate) struct Promise {
    pub(crate) id: String,
    pub(crate) what: &'static str,
    pub(crate) target: f64,
}

/// Figures of the legs of the same rounds.
#[derive(Debug)]
pub(crate) struct Rounds(pub(crate) Vec<Vec<f64>>);

/// One side of a comparison: prepares what it needs, and gives the milliseconds that count.
pub(crate) type Leg<'l> = &'l mut dyn FnMut(usize) -> Outcome<f64>;

/// How many rounds, and how long at most.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    /// Rounds that count.
    pub(crate) rounds: usize,
    /// No further round begins after this time, once there are [`ENOUGH`].
    pub(crate) limit: Duration,
    /// One round before the first, which does not count.
    pub(crate) warm_up: bool,
}

/// Rounds that no limit of time takes away.
const ENOUGH: usize = 7;

/// Runs legs in rounds: A B, B A, A B, …
pub(crate) fn paired(pace: Pace, legs: &mut [Leg<'_>]) -> Outcome<Rounds> {
    let mut found = vec![Vec::with_capacity(pace.rounds); legs.len()];
    if pace.warm_up {
        for leg in legs.iter_mut() {
            leg(0)?;
        }
    }
    let began = Instant::now();
    for round in 1..=pace.rounds {
        if round > ENOUGH && began.elapsed() > pace.limit {
            break;
        }
        let mut order: Vec<usize> = (0..legs.len()).collect();
        if round % 2 == 0 {
            order.reverse();
        }
        for at in order {
            found[at].push(legs[at](round)?);
        }
    }
    Ok(Rounds(found))
}

impl Row {
    /// From rounds: leg 0 is ours, leg 1 the peer, leg 2 the floor where there is one.
    pub(crate) fn compared(promise: &Promise, rounds: &Rounds, peer: &str, floor: Option<&str>) -> Row {
        let legs = &rounds.0;
        let ratio = stats::ratio(&legs[0], &legs[1]);
        let figure =
            |name: &str, at: usize| Figure { name: name.to_owned(), value: stats::median(&legs[at]) };
        Row {
            ours: Some(stats::median(&legs[0])),
            peer: Some(figure(peer, 1)),
            floor: floor.filter(|_| legs.len() > 2).map(|name| figure(name, 2)),
            ratio: Some(ratio),
            rounds: legs[0].len(),
            verdict: holds(ratio.value, promise.target),
            ..Row::empty(promise, Unit::Ms)
        }
    }

    /// A figure over another one that was not measured in rounds.
    pub(crate) fn over(promise: &Promise, unit: Unit, ours: f64, peer: Figure) -> Row {
        let value = ours / peer.value;
        Row {
            ours: Some(ours),
            peer: Some(peer),
            ratio: Some(Ratio { value, low: value, high: value }),
            rounds: 1,
            verdict: holds(value, promise.target),
            ..Row::empty(promise, unit)
        }
    }

    /// A figure that must itself be within the target.
    pub(crate) fn within(promise: &Promise, unit: Unit, ours: f64, rounds: usize) -> Row {
        Row { ours: Some(ours), rounds, verdict: holds(ours, promise.target), ..Row::empty(promise, unit) }
    }

    /// A row without figures.
    pub(crate) fn without(promise: &Promise, trouble: Trouble) -> Row {
        let (verdict, note) = match trouble {
            Trouble::Missing { what, get } => (Verdict::Missing, format!("{what} is not here: {get}")),
            Trouble::Failed(words) => (Verdict::Failed, words),
        };
        Row { verdict, note, ..Row::empty(promise, Unit::Ms) }
    }

    /// With more to say.
    #[must_use]
    pub(crate) fn note(mut self, note: impl Into<String>) -> Row {
        self.note = note.into();
        self
    }

    fn empty(promise: &Promise, unit: Unit) -> Row {
        Row {
            id: promise.id.clone(),
            what: promise.what,
            unit,
            ours: None,
            peer: None,
            floor: None,
            ratio: None,
            target: promise.target,
            rounds: 0,
            verdict: Verdict::Failed,
            note: String::new(),
        }
    }
}

fn holds(value: f64, target: f64) -> Verdict {
    // What is not a number does not hold.
    if value <= target { Verdict::Holds } else { Verdict::Misses }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Pace, Promise, Row, Trouble, Unit, Verdict, paired};

    fn promise(target: f64) -> Promise {
        Promise { id: "x".into(), what: "x", target }
    }

    #[test]
    fn the_order_of_legs_alternates_and_the_first_round_does_not_count() {
        let order = std::cell::RefCell::new(Vec::new());
        let mut a = |_: usize| {
            order.borrow_mut().push('a');
            Ok(1.0)
        };
        let mut b = |_: usize| {
            order.borrow_mut().push('b');
            Ok(2.0)
        };
        let pace = Pace { rounds: 3, limit: Duration::MAX, warm_up: true };
        let rounds = paired(pace, &mut [&mut a, &mut b]).expect("measured");
        assert_eq!(order.borrow().iter().collect::<String>(), "ababbaab");
        let row = Row::compared(&promise(0.6), &rounds, "b", None);
        assert_eq!((row.rounds, row.verdict), (3, Verdict::Holds));
    }

    #[test]
    fn what_is_missing_or_no_number_never_holds() {
        let missing = Trouble::Missing { what: "bwrap".into(), get: "apt-get install bubblewrap".into() };
        let row = Row::without(&promise(1.0), missing);
        assert_eq!(
            (row.verdict, row.note.as_str()),
            (Verdict::Missing, "bwrap is not here: apt-get install bubblewrap")
        );
        assert_eq!(Row::within(&promise(1.0), Unit::Count, f64::NAN, 1).verdict, Verdict::Misses);
    }
}
