//! The options of a bench.

use std::path::PathBuf;

use crate::bench::article_job::ArticleJob;
use crate::bench::phase::Phase;
use crate::bench::spec::TargetSpec;

/// The job of fio.
#[derive(Clone, Debug)]
pub(crate) enum Job {
    /// The job of a file.
    File(PathBuf),
    /// The job of the articles, to scale.
    Article(ArticleJob),
}

/// Whether devices that hold data may be written to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Data {
    /// The bench must not write to devices that hold data.
    Keep,
    /// The bench may write to devices that hold data; the data is lost.
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

/// The options of a bench.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// The targets; the first is the base of the comparisons.
    pub(crate) targets: Vec<TargetSpec>,
    /// The job of fio.
    pub(crate) job: Job,
    /// The states of the caches that are measured; `None` for the default of each kind of target.
    pub(crate) phases: Option<Vec<Phase>>,
    /// The number of rounds that must count.
    pub(crate) rounds: u32,
    /// Upper limit of rounds, discarded ones included.
    pub(crate) rounds_max: u32,
    /// The difference, as a part, within which figures count as equal if the rounds prove it.
    pub(crate) margin: f64,
    /// The way in which the difference of the first target from itself is found.
    pub(crate) noise_floor: NoiseFloor,
    /// The part of the processors above which other programs void a round.
    pub(crate) busy_limit: f64,
    /// Bytes of stale data; `None` for as many as the job has.
    pub(crate) stale_bytes: Option<u64>,
    /// Seed of the first round; each later round has the next number.
    pub(crate) seed: u64,
    /// Whether devices that hold data may be written to.
    pub(crate) data: Data,
    /// The commit that kickcache was built from, if that is known.
    pub(crate) commit: Option<&'static str>,
}
