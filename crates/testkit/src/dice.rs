//! [`Dice`]: chance that can be had again.
//!
//! Invariant: the same seed gives the same numbers, on every machine and in every version of the compiler.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::require::say;

/// The variable that names the seed of a test that throws dice.
pub const SEED: &str = "LANE_TEST_SEED";

/// Numbers that follow from a seed (xorshift).
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// Of this seed.
    pub fn of_seed(seed: u64) -> Dice {
        // Zero would stay zero, and small seeds begin much alike.
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        for _ in 0..8 {
            dice.next();
        }
        dice
    }

    /// The seed that `LANE_TEST_SEED` names, else another each time. It is said, so that a failure can be had again.
    pub fn seed(who: &str) -> u64 {
        let given = std::env::var(SEED).ok().map(|text| text.parse().expect("LANE_TEST_SEED is a number"));
        let seed = given.unwrap_or_else(|| {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
            now.as_secs() ^ u64::from(now.subsec_nanos()) << 16
        });
        say(&format!("{who}: {SEED}={seed}"));
        seed
    }

    /// How much of something is to be done: what the variable `name` says, else as much as usual.
    pub fn count(name: &str, usual: usize) -> usize {
        std::env::var(name).map_or(usual, |text| text.parse().expect("a number in the environment"))
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() >> 11).expect("64 bits") % end
    }

    /// One of these.
    pub fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }
}

#[cfg(test)]
mod tests {
    use super::Dice;

    #[test]
    fn a_seed_gives_the_same_numbers_and_another_one_others() {
        let numbers = |seed| {
            let mut dice = Dice::of_seed(seed);
            (0..20).map(|_| dice.below(1000)).collect::<Vec<_>>()
        };
        assert_eq!(numbers(7), numbers(7));
        assert_ne!(numbers(7), numbers(8));
        assert!(numbers(0).iter().collect::<std::collections::BTreeSet<_>>().len() > 10);
    }
}
