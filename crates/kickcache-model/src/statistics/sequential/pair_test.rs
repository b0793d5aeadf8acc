//! The sequential test: losses of rounds in, a verdict as soon as there is enough evidence.

use serde::{Deserialize, Serialize};

use crate::statistics::median;
use crate::statistics::sequential::evidence::{Claim, ENOUGH, Evidence};
use crate::statistics::sequential::interval::Interval;
use crate::statistics::sequential::margin::Margin;

/// Rounds before which there is no verdict.
pub const ROUNDS_MIN: usize = 5;
/// A loss beyond all expected ones: each bet stakes its maximum.
const FAR: f64 = 1e3;

/// The least rounds that can end with a verdict, if the new command is as much better or worse as can be in each.
pub fn rounds_least() -> usize {
    let margin = Margin::default();
    let rounds = |loss: f64| {
        let mut test = PairTest::new(margin);
        (1..).find(|_| {
            test.add(loss);
            test.verdict().is_some()
        })
    };
    let [good, bad] = [-FAR, FAR].map(|loss| rounds(loss).unwrap_or(ROUNDS_MIN));
    good.min(bad)
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The new command is worse by less than the margin.
    Good,
    /// The new command is worse by more than half of the margin.
    Bad,
}

#[derive(Clone, PartialEq, Debug)]
pub struct PairTest {
    margin: Margin,
    losses: Vec<f64>,
    good: Evidence,
    bad: Evidence,
    verdict: Option<Verdict>,
}

impl PairTest {
    pub fn new(margin: Margin) -> PairTest {
        let scale = margin.bad_min();
        PairTest {
            margin,
            losses: Vec::new(),
            good: Evidence::new(Claim::Below, margin.bad_min(), scale),
            bad: Evidence::new(Claim::Above, margin.good_max(), scale),
            verdict: None,
        }
    }

    /// Takes the loss of one more round; the first verdict stays.
    pub fn add(&mut self, loss: f64) {
        self.losses.push(loss);
        self.good.add(loss);
        self.bad.add(loss);
        if self.verdict.is_none() && self.losses.len() >= ROUNDS_MIN {
            self.verdict = if self.good.amount() >= ENOUGH {
                Some(Verdict::Good)
            } else if self.bad.amount() >= ENOUGH {
                Some(Verdict::Bad)
            } else {
                None
            };
        }
    }

    pub fn verdict(&self) -> Option<Verdict> {
        self.verdict
    }

    pub fn rounds(&self) -> usize {
        self.losses.len()
    }

    /// Evidence that the new command is not worse than the margin; [`ENOUGH`] decides.
    pub fn evidence_good(&self) -> f64 {
        self.good.amount()
    }

    /// Evidence that the new command is worse than half of the margin.
    pub fn evidence_bad(&self) -> f64 {
        self.bad.amount()
    }

    /// The median of the losses; 0 without losses.
    pub fn median_loss(&self) -> f64 {
        median(&self.losses).unwrap_or(0.0)
    }

    /// The losses that are not excluded. Once there is a verdict, all of them are on one side of the boundary that
    /// decided.
    pub fn interval(&self) -> Interval {
        Interval::of(&self.losses, self.margin)
    }
}
