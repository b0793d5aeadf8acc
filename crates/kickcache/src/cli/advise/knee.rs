//! The smallest cache that a larger one improves little.

use crate::cli::advise::candidate::Candidate;

/// Points of hit ratio that each doubling of the cache has to add, to be worth it.
pub(crate) const DOUBLING_GAIN_MIN: f64 = 0.05;

/// A size, and the gain of larger caches.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Knee {
    /// The index of the candidate.
    pub(crate) index: usize,
    /// The most that a doubling adds to its hit ratio; `None` if no larger cache was simulated.
    pub(crate) gain: Option<f64>,
}

/// The smallest cache of which no larger one has [`DOUBLING_GAIN_MIN`] more hits for each doubling; `None` without
/// caches, or without reads.
pub(crate) fn knee(candidates: &[Candidate]) -> Option<Knee> {
    let known = |(index, one): (usize, &Candidate)| Some((index, one.layout.cache_bytes()?, one.hits?.ratio));
    let mut sizes: Vec<(usize, u64, f64)> = candidates.iter().enumerate().filter_map(known).collect();
    sizes.sort_unstable_by_key(|(_, bytes, _)| *bytes);
    let gain = |at: usize| {
        let (_, bytes, hits) = sizes[at];
        let of = |(_, more, better): &(usize, u64, f64)| {
            (better - hits) / (*more as f64 / bytes.max(1) as f64).log2().max(f64::MIN_POSITIVE)
        };
        sizes[at + 1..].iter().map(of).reduce(f64::max)
    };
    let gains = (0..sizes.len()).map(|at| Knee { index: sizes[at].0, gain: gain(at) });
    gains.into_iter().find(|knee| knee.gain.is_none_or(|gain| gain < DOUBLING_GAIN_MIN))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::advise::candidate::tests::candidate;
    use crate::cli::advise::candidate::{Hits, Layout};

    fn of(sizes: &[(u64, f64)]) -> Option<(usize, Option<f64>)> {
        let cached = |(mib, ratio): &(u64, f64)| Candidate {
            hits: Some(Hits { ratio: *ratio, error: None }),
            ..candidate(Layout::Cached(mib << 20), 1_000.0, None)
        };
        let bare = candidate(Layout::Origin, 100.0, None);
        let all: Vec<Candidate> = [bare].into_iter().chain(sizes.iter().map(cached)).collect();
        knee(&all).map(|knee| (knee.index, knee.gain.map(|gain| (gain * 1e3).round() / 1e3)))
    }

    #[test]
    fn a_doubling_that_adds_little_makes_the_knee() {
        assert_eq!(of(&[(13, 0.55), (25, 0.77), (51, 0.8), (127, 0.83)]), Some((2, Some(0.029))));
        assert_eq!(of(&[(16, 0.3), (32, 0.5), (64, 0.7)]), Some((3, None)), "it still rises");
        assert_eq!(of(&[(64, 0.5)]), Some((1, None)));
        assert_eq!(of(&[]), None);
    }

    #[test]
    fn a_plateau_before_a_rise_is_no_knee() {
        assert_eq!(of(&[(16, 0.1), (32, 0.1), (64, 0.9), (128, 0.91)]), Some((3, Some(0.01))));
    }
}
