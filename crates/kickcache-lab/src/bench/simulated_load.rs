//! The load of a bench, as input of a simulation.

use anyhow::Context;

use crate::bench::job::{JobSource, stale_extent, stale_text};
use crate::bench::options::Options;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SimulatedLoad {
    pub(crate) job: String,
    pub(crate) stale: String,
    /// Bytes of a volume that has room for both.
    pub(crate) volume_bytes: u64,
    pub(crate) description: String,
}

impl SimulatedLoad {
    /// The load of a bench.
    ///
    /// # Errors
    /// If the job cannot be read, or cannot be simulated.
    pub(crate) fn of(options: &Options) -> anyhow::Result<SimulatedLoad> {
        let source = JobSource::read(&options.job)?;
        let bytes = source.bytes.context(
            "the job has options that cannot be simulated (simulate run --job names them), so there is \
             no prediction; omit --predict",
        )?;
        let stale = stale_extent(bytes, options.stale_bytes.unwrap_or(bytes));
        Ok(SimulatedLoad {
            job: source.simulated_text(),
            stale: stale_text("filename=shared", stale),
            volume_bytes: stale.end(),
            description: source.description,
        })
    }
}
