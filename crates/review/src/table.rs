//! What becomes of one path: a table from what the lane did to it and what became of it in the original since the base.
//! Pure: no path, no content, no file is looked at here.
//!
//! Invariant: every pair has one answer, and no answer but [`Outcome::Take`] and [`Outcome::Delete`] replaces what the
//! original has. Those two are given only where the original still has what the base had.

/// What one side did to an entry that the base had, or to a place where it had none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Did {
    /// Nothing: the entry is what it was, or there is still none.
    Nothing,
    /// Its mode or its attributes are others, its content is not.
    Meta,
    /// Its content (a file's bytes, a link's target) is another.
    Content,
    /// Something of another type stands there.
    Retype,
    /// It is gone.
    Delete,
    /// Something was made where the base had nothing.
    Add,
}

impl Did {
    /// All of them.
    pub const ALL: [Did; 6] = [Did::Nothing, Did::Meta, Did::Content, Did::Retype, Did::Delete, Did::Add];

    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Did::Nothing => "unchanged",
            Did::Meta => "another mode",
            Did::Content => "changed",
            Did::Retype => "replaced by another type",
            Did::Delete => "deleted",
            Did::Add => "added",
        }
    }
}

/// What is to be done in the original.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Nothing: it has what is wanted.
    Leave,
    /// The lane's object is put there.
    Take,
    /// It is removed.
    Delete,
    /// It keeps its content and gets the mode and attributes of both.
    Meta,
    /// It gets the lane's content, with the mode and attributes of both.
    Content,
    /// The contents are merged by lines, with the mode and attributes of both.
    Merge,
    /// Equal on both sides: nothing. Otherwise a conflict.
    Same,
    /// Both sides want something else.
    Conflict,
}

use Outcome::{Conflict, Content, Delete, Leave, Merge, Meta, Same, Take};

/// The table. Rows: the lane; columns: the original. Unchanged, mode, content, type, deleted.
const KNOWN: [[Outcome; 5]; 5] = [
    [Leave, Leave, Leave, Leave, Leave],
    [Meta, Meta, Meta, Conflict, Conflict],
    [Take, Content, Merge, Conflict, Conflict],
    [Take, Conflict, Conflict, Same, Conflict],
    [Delete, Conflict, Conflict, Conflict, Leave],
];

/// Where the base had nothing. Rows: the lane; columns: the original. Nothing, added.
const NEW: [[Outcome; 2]; 2] = [[Leave, Leave], [Take, Same]];

/// The answer. A pair that cannot be (one side says that the base had the entry, the other that it had none) is a
/// conflict.
pub fn decide(lane: Did, original: Did) -> Outcome {
    let known = |did| match did {
        Did::Nothing => Some(0),
        Did::Meta => Some(1),
        Did::Content => Some(2),
        Did::Retype => Some(3),
        Did::Delete => Some(4),
        Did::Add => None,
    };
    let new = |did| match did {
        Did::Nothing => Some(0),
        Did::Add => Some(1),
        _ => None,
    };
    match (known(lane), known(original), new(lane), new(original)) {
        (Some(lane), Some(original), ..) => KNOWN[lane][original],
        (_, _, Some(lane), Some(original)) => NEW[lane][original],
        _ => Conflict,
    }
}

/// A value that each side may have changed: where both did, and not to the same, there is none.
pub fn both<T: PartialEq>(base: &T, ours: T, theirs: T) -> Option<T> {
    if theirs == *base || ours == theirs {
        Some(ours)
    } else if ours == *base {
        Some(theirs)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_has_the_answer_that_is_written_here_once_more() {
        use Did::{Add, Nothing, Retype};
        let wanted = |lane: Did, original: Did| match (lane, original) {
            (Add, Nothing) => Take,
            (Add, Add) => Same,
            (Nothing, _) => Leave,
            (Add, _) | (_, Add) => Conflict,
            (Did::Delete, Did::Delete) => Leave,
            (Did::Delete, Nothing) => Delete,
            (Retype, Retype) => Same,
            (Did::Content | Retype, Nothing) => Take,
            (Did::Meta, Nothing | Did::Meta | Did::Content) => Meta,
            (Did::Content, Did::Meta) => Content,
            (Did::Content, Did::Content) => Merge,
            _ => Conflict,
        };
        for lane in Did::ALL {
            for original in Did::ALL {
                assert_eq!(decide(lane, original), wanted(lane, original), "{lane:?} × {original:?}");
            }
        }
    }

    #[test]
    fn nothing_replaces_what_the_original_changed() {
        for lane in Did::ALL {
            for original in Did::ALL.into_iter().filter(|did| *did != Did::Nothing) {
                let outcome = decide(lane, original);
                assert!(!matches!(outcome, Take | Delete), "{lane:?} × {original:?}: {outcome:?}");
            }
        }
    }

    #[test]
    fn what_the_lane_left_alone_is_left_alone() {
        for original in Did::ALL {
            assert_eq!(decide(Did::Nothing, original), Leave, "{original:?}");
        }
    }

    #[test]
    fn a_value_is_the_one_that_was_changed_and_none_where_both_changed_it_apart() {
        assert_eq!(both(&1, 1, 1), Some(1));
        assert_eq!(both(&1, 2, 1), Some(2));
        assert_eq!(both(&1, 1, 2), Some(2));
        assert_eq!(both(&1, 2, 2), Some(2));
        assert_eq!(both(&1, 2, 3), None);
    }
}
