//! The result of a bench, as it is printed, stored and read again.

use kickcache_model::result::RunResult;
use serde::{Deserialize, Serialize};

use crate::bench::machine::Machine;
use crate::bench::phase::Phase;

pub(crate) const RESULT_VERSION: u32 = 1;
pub(crate) const KIND: &str = "kickcache-bench";

/// The addition to the names of runs, if no round counts.
pub(crate) const DISCARDED: &str = "does not count";

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct BenchResult {
    pub(crate) kind: String,
    pub(crate) version: u32,
    pub(crate) machine: Machine,
    pub(crate) job: String,
    pub(crate) margin: f64,
    pub(crate) busy_limit: f64,
    pub(crate) targets: Vec<TargetFacts>,
    pub(crate) rounds: Vec<Round>,
    #[serde(default)]
    pub(crate) predictions: Vec<Prediction>,
    pub(crate) end: End,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct TargetFacts {
    pub(crate) name: String,
    pub(crate) target: String,
    /// Whether the target or its origin was found to be a file with holes, which are read faster than data.
    #[serde(default)]
    pub(crate) has_holes: bool,
    /// Whether the target's cache device and its origin are on the same disk; false unless the bench serves
    /// the target.
    #[serde(default)]
    pub(crate) shares_disk: bool,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum End {
    /// The requested number of rounds that count was measured.
    Complete,
    /// Too few rounds of the permitted ones count.
    Busy,
    /// A signal, or the end of the output, interrupted the bench.
    Interrupted,
    /// A run, its preparation or a prediction failed, with this error.
    Failed(String),
}

/// One round: the targets in their phases, unless the round is incomplete.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Round {
    pub(crate) runs: Vec<BenchRun>,
    pub(crate) standing: RoundValidity,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RoundValidity {
    Counts,
    Discarded,
    Incomplete,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct BenchRun {
    pub(crate) target: String,
    /// The state of the target's cache when the run began.
    pub(crate) phase: Phase,
    #[serde(default)]
    pub(crate) turn: Turn,
    /// The part of all processors that other programs took.
    pub(crate) others: f64,
    pub(crate) result: RunResult,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Turn {
    #[default]
    Own,
    /// The first target once more, at the other end of the round.
    Again,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Prediction {
    pub(crate) target: String,
    pub(crate) phase: Phase,
    pub(crate) result: RunResult,
}

impl BenchRun {
    /// Whether this is the run of a target in a phase, in the target's own turn.
    pub(crate) fn is_of(&self, target: &str, phase: Phase) -> bool {
        self.turn == Turn::Own && self.target == target && self.phase == phase
    }
}

impl BenchResult {
    pub(crate) fn counted(&self) -> impl Iterator<Item = &Round> {
        self.rounds.iter().filter(|round| round.standing == RoundValidity::Counts)
    }

    /// The first run of a target in each of its phases, in the order of the runs.
    pub(crate) fn measured(&self, target: &str) -> Vec<&BenchRun> {
        let mut found: Vec<&BenchRun> = Vec::new();
        for run in self.rounds.iter().flat_map(|round| &round.runs) {
            let is_new = found.iter().all(|known| known.phase != run.phase);
            if is_new && run.is_of(target, run.phase) {
                found.push(run);
            }
        }
        found
    }

    /// The runs of all valid rounds in the targets' own turns, grouped by target and phase, with the predictions;
    /// without a valid round, the runs of all rounds, with names that mark them.
    pub(crate) fn runs(&self) -> Vec<RunResult> {
        let counts = self.counted().next().is_some();
        let rounds = self.rounds.iter().filter(|round| !counts || round.standing == RoundValidity::Counts);
        let own = |run: &&BenchRun| run.turn == Turn::Own;
        let mut runs: Vec<&BenchRun> = rounds.flat_map(|round| &round.runs).filter(own).collect();
        // In the order of the targets, even if a round ran them in another order.
        let target = |run: &BenchRun| self.targets.iter().position(|target| target.name == run.target);
        let phase = |run: &BenchRun| self.measured(&run.target).iter().position(|one| one.phase == run.phase);
        runs.sort_by_key(|run| (target(run), phase(run)));
        let marked = |run: RunResult| RunResult {
            name: format!("{} ({DISCARDED})", run.name),
            standing: kickcache_model::result::Validity::Void,
            ..run
        };
        let mut named: Vec<RunResult> = Vec::new();
        for run in runs {
            named.push(if counts { run.result.clone() } else { marked(run.result.clone()) });
        }
        for prediction in self.predictions.iter().map(|prediction| &prediction.result).filter(|_| counts) {
            let last = named.iter().rposition(|run| prediction.predicts.as_ref() == Some(&run.name));
            named.insert(last.map_or(named.len(), |index| index + 1), prediction.clone());
        }
        named
    }
}
