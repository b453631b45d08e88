//! What a set of rounds says: medians, their ratio, and how sure that ratio is. Pure.
//!
//! The spread of a ratio is a bootstrap: rounds are drawn again with replacement, both legs of a round
//! together, because what disturbs one disturbs the other. The draws are the same every time.

/// How often the rounds are drawn again.
const DRAWS: usize = 1000;

/// A ratio of two medians.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Ratio {
    /// Ours over theirs.
    pub(crate) value: f64,
    /// 95 in 100 draws are at or above this.
    pub(crate) low: f64,
    /// 95 in 100 draws are at or below this.
    pub(crate) high: f64,
}

/// The middle value; of an even number the mean of the two.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[middle],
        _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

/// The ratio of the medians of two legs of the same rounds, with its spread (central 90 %).
pub(crate) fn ratio(ours: &[f64], theirs: &[f64]) -> Ratio {
    let rounds = ours.len().min(theirs.len());
    let value = median(ours) / median(theirs);
    if rounds < 2 {
        return Ratio { value, low: value, high: value };
    }
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut draw = || {
        // xorshift64*: good enough to pick rounds.
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % rounds
    };
    let mut ratios: Vec<f64> = (0..DRAWS)
        .map(|_| {
            let picked: Vec<usize> = (0..rounds).map(|_| draw()).collect();
            let of = |values: &[f64]| median(&picked.iter().map(|at| values[*at]).collect::<Vec<_>>());
            of(ours) / of(theirs)
        })
        .collect();
    ratios.sort_by(f64::total_cmp);
    Ratio { value, low: ratios[DRAWS / 20], high: ratios[DRAWS - 1 - DRAWS / 20] }
}

#[cfg(test)]
mod tests {
    use super::{median, ratio};

    #[test]
    fn the_median_is_the_middle_or_the_mean_of_two() {
        assert!((median(&[3.0, 1.0, 2.0]) - 2.0).abs() < 1e-9);
        assert!((median(&[4.0, 1.0, 2.0, 3.0]) - 2.5).abs() < 1e-9);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn one_wild_round_moves_neither_the_ratio_nor_its_spread() {
        let theirs: Vec<f64> = (0..41).map(|n| 10.0 + f64::from(n % 5) * 0.1).collect();
        let mut ours: Vec<f64> = theirs.iter().map(|value| value * 0.5).collect();
        ours[7] = 900.0;
        let found = ratio(&ours, &theirs);
        assert!((found.value - 0.5).abs() < 0.01, "{found:?}");
        assert!(found.low > 0.48 && found.high < 0.52, "{found:?}");
    }

    #[test]
    fn the_spread_is_the_same_every_time() {
        let ours = [1.0, 2.0, 3.0, 4.0, 9.0];
        let theirs = [2.0, 2.0, 2.0, 3.0, 3.0];
        assert_eq!(ratio(&ours, &theirs), ratio(&ours, &theirs));
    }
}
