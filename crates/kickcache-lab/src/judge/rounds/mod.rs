//! The rounds: runs in pairs, until there is a verdict or there cannot be one.

use kickcache_random::Random;
use serde::Serialize;

use crate::judge::failure::{NoVerdict, RunFailure};
use crate::judge::metric::MetricDirection;
use crate::judge::numbers::show_ratio;
use crate::judge::side::Side;
use crate::judge::stored_result::StoredResult;
use kickcache_model::statistics::sequential::drift::{Drift, DriftVerdict};
use kickcache_model::statistics::sequential::margin::Margin;
use kickcache_model::statistics::sequential::pair_test::{PairTest, Verdict};

#[derive(Clone, PartialEq, Debug)]
pub struct Rules {
    /// How much worse is bad.
    pub margin: Margin,
    pub worse: MetricDirection,
    pub rounds_max: usize,
    /// Seed of the order in each round.
    pub seed: u64,
}

/// One round: a run of each side.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Round {
    pub first: Side,
    /// The metric of the known-good command, or of the control.
    pub good: f64,
    pub new: f64,
}

#[derive(Debug)]
pub struct Judge {
    rules: Rules,
    random: Random,
    test: PairTest,
    rounds: Vec<Round>,
    stored: Option<Comparison>,
}

#[derive(Debug)]
struct Comparison {
    drift: Drift,
    /// The loss against the control that is as good as the stored result.
    offset: f64,
}

/// Runs a side's command, and gives its metric.
pub type Runner<'a> = dyn FnMut(Side) -> Result<f64, RunFailure> + 'a;

impl Judge {
    /// A comparison without rounds; with a stored result, the known-good command is its control.
    ///
    /// # Errors
    /// If the stored result is too noisy.
    pub fn new(rules: Rules, stored: Option<&StoredResult>) -> Result<Judge, NoVerdict> {
        let compare = |stored: &StoredResult| {
            stored.check_noise(rules.margin)?;
            let drift = Drift::new(stored.control_logs(), rules.margin);
            Ok(Comparison { drift, offset: stored.offset() })
        };
        let stored = stored.map(compare).transpose()?;
        let (random, test) = (Random::new(rules.seed), PairTest::new(rules.margin));
        Ok(Judge { rules, random, test, rounds: Vec::new(), stored })
    }

    /// Runs one round more.
    ///
    /// # Errors
    /// If a run fails, the control has drifted, or may have drifted when there is a verdict, or the last
    /// permitted round gave no verdict.
    pub fn run(&mut self, runner: &mut Runner<'_>) -> Result<Option<Verdict>, NoVerdict> {
        let first = if self.random.chance(500) { Side::Good } else { Side::New };
        let round = self.pair(first, runner)?;
        self.rounds.push(round);
        let loss = self.rules.worse.loss(round.good, round.new);
        self.test.add(loss - self.stored.as_ref().map_or(0.0, |stored| stored.offset));
        if let Some(stored) = &mut self.stored {
            stored.drift.add(round.good.ln());
        }
        let verdict = self.test.verdict();
        self.check_drift(verdict)?;
        if verdict.is_none() && self.rounds.len() >= self.rules.rounds_max {
            return Err(NoVerdict::Skip(format!(
                "{} rounds were not enough for a verdict; a quieter machine, longer runs or more --rounds-max may be",
                self.rounds.len()
            )));
        }
        Ok(verdict)
    }

    fn pair(&self, first: Side, runner: &mut Runner<'_>) -> Result<Round, NoVerdict> {
        let mut run = |side: Side| match runner(side) {
            Ok(value) => Ok(value),
            // The known-good command may fail as well: then its failure is reported instead.
            Err(failure @ RunFailure::Failed(_)) if side == Side::New && self.rounds.is_empty() => {
                match runner(Side::Good) {
                    Ok(_) => Err(NoVerdict::of(side, failure)),
                    Err(of_good) => Err(NoVerdict::of(Side::Good, of_good)),
                }
            }
            Err(failure) => Err(NoVerdict::of(side, failure)),
        };
        let (one, other) = (run(first)?, run(first.other())?);
        let (good, new) = if first == Side::Good { (one, other) } else { (other, one) };
        Ok(Round { first, good, new })
    }

    /// A control that may have drifted prevents a verdict; one that has certainly drifted ends the rounds.
    fn check_drift(&self, verdict: Option<Verdict>) -> Result<(), NoVerdict> {
        let Some(stored) = &self.stored else { return Ok(()) };
        match (stored.drift.standing(), verdict) {
            (DriftVerdict::Drifted, _) | (DriftVerdict::Doubtful, Some(_)) => Err(NoVerdict::Skip(format!(
                "the control is {} the stored value, but at most a quarter of the margin is allowed: the \
                 machine has changed",
                show_ratio(self.drift().unwrap_or(1.0))
            ))),
            (DriftVerdict::Same, _) | (DriftVerdict::Doubtful, None) => Ok(()),
        }
    }

    pub fn rounds(&self) -> &[Round] {
        &self.rounds
    }

    pub fn test(&self) -> &PairTest {
        &self.test
    }

    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// The present control, as a multiple of the stored one; `None` without a stored result, and before the
    /// first round.
    pub fn drift(&self) -> Option<f64> {
        self.stored.as_ref()?.drift.change().map(f64::exp)
    }
}

#[cfg(test)]
mod tests;
