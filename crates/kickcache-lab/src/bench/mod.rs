//! The bench: real fio on named targets, in turns, in rounds.
//!
//! A complete round runs every target, in an order that is reversed in every other round (A B, B A). A device on which
//! data is found is not overwritten unless the user permits it.

mod article_job;
mod bench_lock;
mod busy;
mod contents;
mod disk_statistics;
mod in_use;
mod job;
mod job_options;
mod machine;
mod options;
mod own_cache;
mod phase;
mod place;
mod prepare;
mod program;
mod progress;
mod result;
mod rounds;
mod run;
mod same_disk;
mod scratch_file;
mod section;
mod simulated_load;
mod spec;
mod summary;
mod target;
mod write_check;

use std::sync::Arc;

use kickcache_command::interrupt::Interrupt;

use crate::bench::bench_lock::BenchLocks;
use crate::bench::job::JobSource;
use crate::fio::child;

pub(crate) use crate::bench::article_job::ArticleJob;
pub(crate) use crate::bench::in_use::check_unused;
pub(crate) use crate::bench::options::{Data, Job, NoiseFloor, Options};
pub(crate) use crate::bench::phase::Phase;
pub(crate) use crate::bench::place::{Place, has_holes};
pub(crate) use crate::bench::result::{BenchResult, End, KIND, Prediction, RESULT_VERSION};
pub(crate) use crate::bench::simulated_load::SimulatedLoad;
pub(crate) use crate::bench::spec::TargetSpec;
pub(crate) use crate::bench::summary::{Noise, PredictedFigures, Row, Summary};

/// Measures the targets.
///
/// # Errors
/// If fio, a target or the job cannot be used, the preparation is interrupted, or a run fails before the first round is
/// complete. A later failure, or an interruption of the rounds, is no error.
pub(crate) fn run(options: &Options) -> anyhow::Result<BenchResult> {
    let fio = child::version()?;
    let interrupt = Arc::new(Interrupt::listen("the bench was interrupted")?);
    let job = JobSource::read(&options.job)?;
    let directory = child::folder("kickcache-bench-")?;
    // This process becomes the parent of background processes that a program leaves, so that their time does not
    // count as that of other programs.
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    let holds = BenchLocks::default();
    let targets = prepare::targets(options, &job, directory.path(), &interrupt, &holds)?;
    rounds::measure(
        options,
        &job,
        targets,
        &rounds::Place { directory: directory.path(), interrupt: &interrupt, fio },
    )
}
