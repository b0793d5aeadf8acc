//! The demo: what a cache is worth, shown on a simulated slow disk.
//!
//! It runs the load of the articles through a real server and real sockets against a slow disk, a fast file, and the
//! one cached by the other: with an empty cache, with one full of junk, and after a restart.

mod content;
mod interrupt;
mod load;
mod phases;
mod progress;
mod report;
pub mod result;
mod slow_disk;
mod stage;
mod workload;

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use kickcache_engine::units::BLOCK_SIZE;
use serde::{Deserialize, Serialize};

use crate::demo::interrupt::Interrupt;
use crate::demo::phases::Context;
use crate::demo::progress::Progress;
use crate::demo::result::{DemoResult, Phase, PhaseResult, RESULT_VERSION, Settings};
use crate::demo::stage::Stage;
use crate::demo::workload::{DEPTH, JOB_COUNT, Scale, THETA};

/// Time of a run with a cache, unless something else is asked for.
pub const SECONDS: u64 = 14;

/// What to show.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// Who makes the load.
    pub load: Load,
    /// Whether the result is JSON.
    pub json: bool,
    /// Time of a run with a cache; one without takes two thirds of it.
    pub seconds: u64,
    /// Where the temporary files go; `$TMPDIR` or /var/tmp if nothing is said.
    pub directory: Option<PathBuf>,
    /// Seed of the load and of the simulated disk.
    pub seed: u64,
}

/// Who makes the load.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Load {
    /// The demo itself.
    BuiltIn,
    /// fio, over its NBD engine.
    Fio,
}

/// Runs the demo and prints its result to `out`.
///
/// # Errors
/// When a file or a socket cannot be made, a server fails, or the demo is interrupted.
pub fn run(options: &Options, out: &mut dyn Write) -> anyhow::Result<()> {
    let scale = Scale::full(options.seconds.max(1));
    let result = measure(options, scale, out)?;
    writeln!(out, "{}", serde_json::to_string_pretty(&result)?)?;
    Ok(())
}

fn measure(options: &Options, scale: Scale, _out: &mut dyn Write) -> anyhow::Result<DemoResult> {
    let interrupt = Interrupt::listen()?;
    let whole: Duration = Phase::ALL.iter().map(|phase| phase.duration(&scale)).sum();
    let mut progress = Progress::new(whole);
    progress.say("writing the fast file");
    let stage = Stage::set_up(options.directory.as_deref(), scale, options.seed, &interrupt)?;
    let context =
        Context { stage: &stage, scale, seed: options.seed, load: options.load, interrupt: &interrupt };
    let run = |phase: &Phase| phases::run(&context, *phase, &mut progress);
    let phases = Phase::ALL.iter().map(run).collect::<anyhow::Result<Vec<PhaseResult>>>()?;
    progress.finish();
    Ok(DemoResult { version: RESULT_VERSION, settings: settings(options, &scale), phases })
}

fn settings(options: &Options, scale: &Scale) -> Settings {
    Settings {
        kickcache: env!("CARGO_PKG_VERSION").into(),
        load: options.load,
        seed: options.seed,
        jobs: JOB_COUNT,
        depth: u64::try_from(DEPTH).expect("small"),
        block_bytes: BLOCK_SIZE,
        zipf_theta: THETA,
        job_bytes: scale.job_bytes,
        cache_bytes: scale.cache_bytes,
        slow_disk: slow_disk::DESCRIPTION.into(),
    }
}
