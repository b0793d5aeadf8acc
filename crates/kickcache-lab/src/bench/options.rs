//! The options of a bench.

use std::path::PathBuf;

use crate::bench::article_job::ArticleJob;
use crate::bench::phase::Phase;
use crate::bench::spec::TargetSpec;

#[derive(Clone, Debug)]
pub(crate) enum Job {
    File(PathBuf),
    /// The job of the articles, to scale.
    Article(ArticleJob),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Data {
    Keep,
    Destroy,
}

/// How the difference of the first target from itself is found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum NoiseFloor {
    /// The first target is run twice in each round, first and last
    Measured,
    /// From the scatter of its rounds
    Computed,
}

#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// The targets; the first is the base of the comparisons.
    pub(crate) targets: Vec<TargetSpec>,
    pub(crate) job: Job,
    /// The states of the caches that are measured; `None` for the default of each kind of target.
    pub(crate) phases: Option<Vec<Phase>>,
    /// The number of rounds that must count.
    pub(crate) rounds: u32,
    /// Upper limit of rounds, discarded ones included.
    pub(crate) rounds_max: u32,
    /// The difference, as a part, within which figures count as equal if the rounds prove it.
    pub(crate) margin: f64,
    pub(crate) noise_floor: NoiseFloor,
    /// The part of the processors above which other programs void a round.
    pub(crate) busy_limit: f64,
    /// Bytes of stale data; `None` for as many as the job has.
    pub(crate) stale_bytes: Option<u64>,
    /// Seed of the first round; each later round has the next number.
    pub(crate) seed: u64,
    pub(crate) data: Data,
    pub(crate) commit: Option<&'static str>,
}
