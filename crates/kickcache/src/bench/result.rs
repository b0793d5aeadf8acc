//! What a bench gave, as it is printed, stored and read again.

use kickcache_model::result::RunResult;
use serde::{Deserialize, Serialize};

use crate::bench::machine::Machine;
use crate::bench::phase::Phase;

/// Version of the JSON that [`BenchResult`] is stored as.
pub(super) const RESULT_VERSION: u32 = 1;
/// What the JSON says that it is.
pub(crate) const KIND: &str = "kickcache-bench";

/// The whole result.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct BenchResult {
    /// [`KIND`].
    pub(crate) kind: String,
    /// [`RESULT_VERSION`] of its writer.
    pub(crate) version: u32,
    /// What it was measured on.
    pub(crate) machine: Machine,
    /// The load, in few words.
    pub(crate) job: String,
    /// Differences up to this part are called none.
    pub(crate) margin: f64,
    /// The part of the processors above which other programs void a round.
    pub(crate) busy_limit: f64,
    /// The targets; the first is what the others are compared with.
    pub(crate) targets: Vec<TargetFacts>,
    /// The rounds, in their order, with those that do not count.
    pub(crate) rounds: Vec<Round>,
    /// How it ended.
    pub(crate) end: End,
}

/// A target.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct TargetFacts {
    /// Its name in tables.
    pub(crate) name: String,
    /// As it was written.
    pub(crate) target: String,
}

/// How a bench ended.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum End {
    /// All rounds were measured.
    Complete,
    /// As many rounds as may be were measured, and too few of them count.
    Busy,
    /// A signal came.
    Interrupted,
    /// Something failed; this says what.
    Failed(String),
}

/// One round: every target in every phase.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Round {
    /// Its runs, in the order that they were made in.
    pub(crate) runs: Vec<BenchRun>,
    /// Whether it counts.
    pub(crate) standing: Standing,
}

/// Whether a round counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Standing {
    /// It does.
    Counts,
    /// Other programs took too much of the processors.
    Discarded,
    /// It was not finished.
    Incomplete,
}

/// One run of fio.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct BenchRun {
    /// The target's name.
    pub(crate) target: String,
    /// The state of its cache when the run began.
    pub(crate) phase: Phase,
    /// The part of all processors that other programs took.
    pub(crate) others: f64,
    /// What it gave.
    pub(crate) result: RunResult,
}

impl BenchResult {
    /// The rounds that count.
    pub(crate) fn counted(&self) -> impl Iterator<Item = &Round> {
        self.rounds.iter().filter(|round| round.standing == Standing::Counts)
    }

    /// The runs of all rounds that count; of what was measured at all, if none does.
    pub(crate) fn runs(&self) -> Vec<RunResult> {
        let counts = self.counted().next().is_some();
        let rounds = self.rounds.iter().filter(|round| !counts || round.standing == Standing::Counts);
        let mut runs: Vec<&BenchRun> = rounds.flat_map(|round| &round.runs).collect();
        // In the order that the targets were named in, whatever the order of a round.
        let place = |run: &BenchRun| self.targets.iter().position(|target| target.name == run.target);
        runs.sort_by_key(|run| place(run));
        runs.into_iter().map(|run| run.result.clone()).collect()
    }
}
