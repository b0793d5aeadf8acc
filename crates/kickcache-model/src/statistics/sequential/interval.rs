//! The losses that the rounds do not exclude: at these boundaries, neither bet would have reached a decision.

use crate::statistics::median;
use crate::statistics::sequential::evidence::{Claim, Evidence};
use crate::statistics::sequential::margin::Margin;

/// The interval of the true loss, with 99 % confidence over all rounds together: each end is wrong with 0.5 %
/// at most.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Interval {
    /// The lower end; minus infinity if no small loss is excluded.
    pub low: f64,
    /// The upper end; infinity if no large loss is excluded.
    pub high: f64,
}

/// The farthest end that is searched for, as a distance from the median: a factor of e^8, about 3,000.
const FAR: f64 = 8.0;
const STEP: f64 = 1e-4;

impl Interval {
    /// The ends that decide are computed first, so that the interval agrees with the verdict.
    pub fn of(losses: &[f64], margin: Margin) -> Interval {
        let scale = margin.bad_min();
        let below = |boundary: f64| Evidence::decides(Claim::Below, boundary, scale, losses);
        let above = |boundary: f64| Evidence::decides(Claim::Above, boundary, scale, losses);
        let middle = median(losses).unwrap_or(0.0);
        let high = first_excluded(middle, margin.bad_min(), below);
        let low = -first_excluded(-middle, -margin.good_max(), |boundary| above(-boundary));
        Interval { low, high }
    }
}

/// The first excluded boundary above the middle, or `known` if that is excluded and lower.
fn first_excluded(middle: f64, known: f64, is_excluded: impl Fn(f64) -> bool) -> f64 {
    let mut outside = if is_excluded(known) { known } else { middle + FAR };
    if !is_excluded(outside) {
        return f64::INFINITY;
    }
    let mut inside = middle.min(outside);
    while outside - inside > STEP {
        let between = f64::midpoint(inside, outside);
        if is_excluded(between) {
            outside = between;
        } else {
            inside = between;
        }
    }
    outside
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_rounds_exclude_no_loss() {
        let interval = Interval::of(&[0.1; 5], "20%".parse().unwrap());
        assert_eq!((interval.low, interval.high), (f64::NEG_INFINITY, f64::INFINITY));
    }

    #[test]
    fn more_rounds_make_it_narrower_around_the_middle() {
        let margin = "20%".parse().unwrap();
        let losses: Vec<f64> = (0..60).map(|round| 0.1 + 0.02 * f64::from(round % 5 - 2)).collect();
        let (few, many) = (Interval::of(&losses[..20], margin), Interval::of(&losses, margin));
        assert!(few.low < many.low && many.low < 0.1, "{few:?} {many:?}");
        assert!(few.high > many.high && many.high > 0.1, "{few:?} {many:?}");
    }
}
