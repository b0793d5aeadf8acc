//! A search for figures above 0 that make a distance small.

/// The first step: a factor.
const FIRST: f64 = 1.6;
/// No step is finer than this factor.
const LAST: f64 = 1.005;
/// Rounds at most.
const ROUNDS: usize = 40;

/// The figures near `start` with the least distance, as far as the search finds them.
pub(super) fn least<const N: usize>(start: [f64; N], distance: impl Fn(&[f64; N]) -> f64) -> [f64; N] {
    let mut best = start;
    let mut reached = distance(&best);
    let mut factor = FIRST;
    for _ in 0..ROUNDS {
        let before = best;
        for figure in 0..N {
            for way in [factor, factor.recip()] {
                let mut tried = best;
                tried[figure] *= way;
                let found = distance(&tried);
                if found < reached {
                    (best, reached) = (tried, found);
                    break;
                }
            }
        }
        if best.iter().zip(&before).all(|(new, old)| new.total_cmp(old).is_eq()) {
            factor = factor.sqrt();
            if factor < LAST {
                break;
            }
        } else {
            // A successful step is tried once more.
            let further = std::array::from_fn(|figure| best[figure] * best[figure] / before[figure]);
            let found = distance(&further);
            if found < reached {
                (best, reached) = (further, found);
            }
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_valley_that_lies_askew_is_followed_to_its_ground() {
        let distance = |[x, y, z]: &[f64; 3]| {
            let (x, y, z) = ((x / 70.0).ln(), (y / 0.2).ln(), (z / 1_000.0).ln());
            x * x + 3.0 * (x + y) * (x + y) + z * z
        };
        let found = least([10.0, 1.0, 1.0], distance);
        for (found, wanted) in found.iter().zip([70.0, 0.2, 1_000.0]) {
            assert!((found / wanted - 1.0).abs() < 0.02, "{found} {wanted}");
        }
    }
}
