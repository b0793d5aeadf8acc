//! The smallest cache that a larger one improves little.

use crate::cli::advise::candidate::Candidate;

/// The rise of the hit ratio for each doubling for which a larger cache is recommended.
pub(crate) const DOUBLING_GAIN_MIN: f64 = 0.1;

/// A size, and the gain of larger caches.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Knee {
    pub(crate) index: usize,
    /// The most that a larger cache adds to the hit ratio for each doubling; `None` if no larger cache was simulated.
    pub(crate) gain: Option<f64>,
}

/// The smallest cache for which no larger one raises the hit ratio by [`DOUBLING_GAIN_MIN`] for each doubling; `None`
/// without caches, or without reads.
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

    /// Hit ratios of three loads on hard disks, by `kickcache advise --repeat 1`.
    #[test]
    fn the_knee_of_three_loads_is_found_within_one_doubling() {
        let reads = [(15, 0.783), (31, 0.821), (61, 0.857), (128, 0.895), (256, 0.938), (512, 0.995)];
        let mix = [(15, 0.851), (31, 0.883), (61, 0.905), (128, 0.93), (256, 0.956), (512, 0.984)];
        let hot_set = [(14, 0.226), (30, 0.52), (59, 0.866), (119, 0.928)];
        let size = |curve: &[(u64, f64)]| curve[of(curve).unwrap().0 - 1].0;
        assert_eq!([size(&reads), size(&mix)], [15, 15]);
        assert!((20..=80).contains(&size(&hot_set)), "{}", size(&hot_set));
    }

    #[test]
    fn a_plateau_before_a_rise_is_no_knee() {
        assert_eq!(of(&[(16, 0.1), (32, 0.1), (64, 0.9), (128, 0.91)]), Some((3, Some(0.01))));
    }
}
