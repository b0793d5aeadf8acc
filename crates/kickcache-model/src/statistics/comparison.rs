//! Whether one thing is faster than another, from pairs of figures that were measured in one round each.

use serde::{Deserialize, Serialize};

use crate::statistics::student::quantile;

/// The fewest rounds with which there is a verdict.
pub const ROUNDS_MIN: usize = 3;
/// An interval is not shown if its end is more than this many times its beginning.
const WIDE: f64 = 100.0;
/// The probability of a wrong verdict of each kind.
const ERROR: f64 = 0.05;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Better {
    Higher,
    Lower,
}

/// Two figures of one round; the pair counts only if both are above 0.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Pair {
    pub base: f64,
    pub other: f64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    Faster,
    Slower,
    /// Within the margin, shown by an equivalence test.
    Equal,
    /// The rounds are too few, or too far from each other.
    NotEnoughData,
}

#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Comparison {
    pub ratio: f64,
    /// Lower end of the interval that contains the true ratio with 95 % confidence; `None` after a single
    /// round.
    pub low: Option<f64>,
    /// Upper end of the interval; `None` after a single round.
    pub high: Option<f64>,
    pub rounds: usize,
    /// The difference, as a part, within which figures count as equal if the rounds prove it.
    pub margin: f64,
    pub verdict: Verdict,
}

#[derive(Clone, Copy)]
struct Estimate {
    mean: f64,
    error: f64,
    freedom: f64,
}

impl Estimate {
    /// The estimate; `None` without numbers. The error of a single number is infinite.
    fn of(numbers: &[f64]) -> Option<Estimate> {
        let count = f64::from(u32::try_from(numbers.len()).ok().filter(|count| *count > 0)?);
        let mean = numbers.iter().sum::<f64>() / count;
        let squares: f64 = numbers.iter().map(|number| (number - mean).powi(2)).sum();
        let error = if count < 2.0 { f64::INFINITY } else { (squares / (count - 1.0) / count).sqrt() };
        Some(Estimate { mean, error, freedom: count - 1.0 })
    }

    /// Half the width of the interval that leaves out a part of the distribution on each side.
    fn reach(self, outside: f64) -> f64 {
        if self.error.is_finite() {
            quantile(1.0 - outside, self.freedom) * self.error
        } else {
            f64::INFINITY
        }
    }
}

/// Compares by the logarithms of the ratios, a t test and two one-sided ones for equivalence; `None` without
/// a pair with both figures above 0.
///
/// A significant difference within the margin counts as equal.
pub fn compare(pairs: &[Pair], margin: f64, better: Better) -> Option<Comparison> {
    let ratios: Vec<f64> = pairs
        .iter()
        .filter(|pair| pair.base > 0.0 && pair.other > 0.0)
        .map(|pair| (pair.other / pair.base).ln())
        .collect();
    let estimate = Estimate::of(&ratios)?;
    let reach = estimate.reach(ERROR / 2.0);
    let (low, high) = (estimate.mean - reach, estimate.mean + reach);
    let narrow = estimate.reach(ERROR);
    let bound = margin.ln_1p();
    let is_equal = estimate.mean - narrow > -bound && estimate.mean + narrow < bound;
    let verdict = match better {
        _ if ratios.len() < ROUNDS_MIN => Verdict::NotEnoughData,
        _ if is_equal => Verdict::Equal,
        Better::Higher if low > 0.0 => Verdict::Faster,
        Better::Higher if high < 0.0 => Verdict::Slower,
        Better::Lower if high < 0.0 => Verdict::Faster,
        Better::Lower if low > 0.0 => Verdict::Slower,
        Better::Higher | Better::Lower => Verdict::NotEnoughData,
    };
    let known = |end: f64| Some(end.exp()).filter(|_| reach.is_finite());
    Some(Comparison {
        ratio: estimate.mean.exp(),
        low: known(low),
        high: known(high),
        rounds: ratios.len(),
        margin,
        verdict,
    })
}

/// The least difference between two targets, as a part, that rounds with this number and spread of figures could prove;
/// `None` for fewer than three figures above 0.
pub fn noise_floor(figures: &[f64]) -> Option<f64> {
    let logarithms: Vec<f64> =
        figures.iter().filter(|figure| **figure > 0.0).map(|figure| figure.ln()).collect();
    if logarithms.len() < ROUNDS_MIN {
        return None;
    }
    // A comparison has the errors of two series of rounds.
    let reach = Estimate::of(&logarithms)?.reach(ERROR / 2.0) * std::f64::consts::SQRT_2;
    Some(reach.exp_m1())
}

impl Verdict {
    pub fn words(self, margin: f64) -> String {
        match self {
            Verdict::Faster => "faster".into(),
            Verdict::Slower => "slower".into(),
            Verdict::Equal => format!("equal within +-{} %", (margin * 1e3).round() / 10.0),
            Verdict::NotEnoughData => "not enough data".into(),
        }
    }
}

impl Comparison {
    pub fn words(&self) -> String {
        self.verdict.words(self.margin)
    }

    /// The verdict on `name` as a clause, as in `b is slower than a: 0.59 times its IOPS (0.53 to 0.65, 4 rounds)`.
    pub fn clause(&self, name: &str, base: &str, figure: &str) -> String {
        let verdict = match self.verdict {
            Verdict::Faster => format!("is faster than {base}"),
            Verdict::Slower => format!("is slower than {base}"),
            Verdict::Equal => format!("is as fast as {base}"),
            Verdict::NotEnoughData if self.rounds < ROUNDS_MIN => {
                format!("has no verdict against {base} because there are too few rounds")
            }
            Verdict::NotEnoughData => {
                format!("has no verdict against {base} because the rounds differ too much")
            }
        };
        let rounds = format!("{} round{}", self.rounds, if self.rounds == 1 { "" } else { "s" });
        let basis = match self.low.zip(self.high).filter(|(low, high)| *high <= *low * WIDE) {
            Some((low, high)) => format!("{} to {}, {rounds}", show_factor(low), show_factor(high)),
            None => rounds,
        };
        format!("{name} {verdict}: {} times its {figure} ({basis})", show_factor(self.ratio))
    }
}

/// A ratio as a text: `0.59`, `1.40`, `12.3`, `62`.
pub fn show_factor(ratio: f64) -> String {
    let digits = match ratio {
        small if small < 0.095 => 3,
        small if small < 9.95 => 2,
        small if small < 19.95 => 1,
        _ => 0,
    };
    format!("{ratio:.digits$}")
}

#[cfg(test)]
mod tests {
    use kickcache_random::Random;

    use super::*;

    fn pairs(ratios: &[f64]) -> Vec<Pair> {
        let pair = |(index, ratio): (usize, &f64)| {
            let base = if index % 2 == 0 { 100.0 } else { 250.0 };
            Pair { base, other: base * ratio }
        };
        ratios.iter().enumerate().map(pair).collect()
    }

    fn verdict(ratios: &[f64], better: Better) -> Verdict {
        compare(&pairs(ratios), 0.05, better).unwrap().verdict
    }

    #[test]
    fn a_verdict_is_a_clause_with_its_basis() {
        let clause =
            |ratios: &[f64]| compare(&pairs(ratios), 0.05, Better::Higher).unwrap().clause("b", "a", "IOPS");
        assert_eq!(clause(&[0.59; 4]), "b is slower than a: 0.59 times its IOPS (0.59 to 0.59, 4 rounds)");
        assert_eq!(clause(&[62.0; 3]), "b is faster than a: 62 times its IOPS (62 to 62, 3 rounds)");
        assert_eq!(clause(&[1.0; 3]), "b is as fast as a: 1.00 times its IOPS (1.00 to 1.00, 3 rounds)");
        let few =
            "b has no verdict against a because there are too few rounds: 2.00 times its IOPS (1 round)";
        assert_eq!(clause(&[2.0]), few);
        assert!(
            clause(&[0.5, 1.0, 2.0])
                .starts_with("b has no verdict against a because the rounds differ too much: ")
        );
    }

    #[test]
    fn the_verdict_follows_from_the_rounds() {
        let higher = |ratios: &[f64]| verdict(ratios, Better::Higher);
        assert_eq!(higher(&[1.9, 2.1, 2.0, 2.05]), Verdict::Faster);
        assert_eq!(higher(&[0.5, 0.52, 0.49]), Verdict::Slower);
        assert_eq!(higher(&[1.01, 0.99, 1.0, 1.005]), Verdict::Equal);
        assert_eq!(higher(&[1.02, 1.021, 1.019, 1.02]), Verdict::Equal, "within the margin, however certain");
        assert_eq!(higher(&[0.7, 1.6, 1.1]), Verdict::NotEnoughData);
        assert_eq!(higher(&[62.0, 62.0]), Verdict::NotEnoughData, "two rounds give no verdict");
        assert_eq!(verdict(&[0.5, 0.52, 0.49], Better::Lower), Verdict::Faster);
        assert_eq!(verdict(&[1.9, 2.1, 2.0], Better::Lower), Verdict::Slower);
    }

    #[test]
    fn the_interval_matches_the_t_distribution() {
        let found = compare(&pairs(&[1.0, 2.0, 4.0]), 0.05, Better::Higher).unwrap();
        // The logarithms are 0, 1 and 2 times ln 2: mean 1, deviation 1, error 1 / sqrt(3), t = 4.3027.
        let reach = 4.302_652_73 * std::f64::consts::LN_2 / 3.0_f64.sqrt();
        assert!((found.ratio - 2.0).abs() < 1e-9);
        assert!((found.low.unwrap().ln() - (std::f64::consts::LN_2 - reach)).abs() < 1e-6, "{found:?}");
        assert!((found.high.unwrap().ln() - (std::f64::consts::LN_2 + reach)).abs() < 1e-6, "{found:?}");
    }

    #[test]
    fn no_pairs_give_no_comparison() {
        assert_eq!(compare(&[], 0.05, Better::Higher), None);
        assert_eq!(compare(&[Pair { base: 0.0, other: 5.0 }], 0.05, Better::Higher), None);
        let one = compare(&pairs(&[3.0]), 0.05, Better::Higher).unwrap();
        assert_eq!((one.low, one.high, one.verdict), (None, None, Verdict::NotEnoughData));
        assert_eq!(noise_floor(&[5.0, 5.0]), None);
    }

    #[test]
    fn a_noise_floor_grows_with_the_noise() {
        let quiet = noise_floor(&[100.0, 101.0, 99.0, 100.0]).unwrap();
        let loud = noise_floor(&[100.0, 130.0, 70.0, 100.0]).unwrap();
        assert!((0.005..0.03).contains(&quiet) && loud > 10.0 * quiet, "{quiet} {loud}");
    }

    #[test]
    fn a_thing_against_itself_is_seldom_called_faster_or_slower() {
        let mut random = Random::new(7);
        let mut wrong = 0;
        for _ in 0..2_000 {
            let ratios: Vec<f64> = (0..5).map(|_| random.log_normal(1.0, 0.2)).collect();
            wrong += u32::from(matches!(verdict(&ratios, Better::Higher), Verdict::Faster | Verdict::Slower));
        }
        // 5 % of 2,000 are 100, give or take 10.
        assert!((60..=140).contains(&wrong), "{wrong}");
    }

    #[test]
    fn words_name_the_margin() {
        assert_eq!(Verdict::Equal.words(0.05), "equal within +-5 %");
        assert_eq!(Verdict::Equal.words(0.025), "equal within +-2.5 %");
    }
}
