//! A target on models of its devices, in the phases that were measured.

use kickcache_engine::time::{Duration, Instant};
use kickcache_model::cache_model::cache_kind::CacheKind;
use kickcache_model::device_model::device_file::DeviceFile;
use kickcache_model::replay::bench::{Course, Progress, run, run_idle};
use kickcache_model::replay::cache_model::CacheModel;
use kickcache_model::replay::devices::Devices;
use kickcache_model::result::RunResult;
use kickcache_model::workload::fio::FioWorkload;

use crate::bench::{Phase, Prediction, SimulatedLoad};
use crate::cli::simulate::load::fio_cost;

/// Virtual time after which a job is stopped.
const LENGTH_MAX: Duration = Duration::from_millis(3_600_000);
/// Idle virtual time after a run.
const BETWEEN: Duration = Duration::from_millis(1_000);
/// How often stale data is read.
const STALE_READS: u32 = 2;

pub(super) struct SimulatedTarget {
    pub(super) name: String,
    pub(super) cache: CacheKind,
    pub(super) size: u64,
    pub(super) origin: DeviceFile,
    pub(super) cache_device: Option<DeviceFile>,
    pub(super) load: SimulatedLoad,
    pub(super) seed: u64,
    pub(super) phases: Vec<SimulatedPhase>,
}

pub(super) struct SimulatedPhase {
    pub(super) phase: Phase,
    /// The run that predicts this phase, without figures.
    pub(super) run: RunResult,
}

/// A cache model with its devices, and the time of its clock.
struct Ready {
    model: Box<dyn CacheModel>,
    devices: Devices,
    at: Instant,
    /// Processor time of an access.
    cost: Duration,
}

impl SimulatedTarget {
    /// The approximate length of the simulation, in virtual nanoseconds.
    pub(super) fn expected_nanos(&self) -> u64 {
        let jobs = FioWorkload::parse(&self.load.job, self.seed).ok();
        let one = jobs.and_then(|jobs| jobs.longest()).unwrap_or(LENGTH_MAX).as_nanos();
        one.saturating_mul(self.phases.len() as u64).max(1)
    }

    /// Runs all phases.
    ///
    /// # Errors
    /// A sentence, if the cache cannot be simulated.
    pub(super) fn run(&self, progress: Progress<'_>) -> Result<Vec<Prediction>, String> {
        let mut ready: Option<Ready> = None;
        let mut found = Vec::new();
        let mut before = 0;
        for SimulatedPhase { phase, run } in &self.phases {
            let goes_on = matches!(phase, Phase::Repeated | Phase::Restart);
            let mut one = match ready.take().filter(|_| goes_on) {
                Some(as_left) => as_left,
                None => self.start()?,
            };
            if *phase == Phase::Stale {
                (0..STALE_READS)
                    .try_for_each(|_| one.run(&self.load.stale, self.seed, &mut |_| ()).map(drop))?;
            }
            let mut tell = |nanos: u64| progress(before + nanos);
            let figures = one.run(&self.load.job, self.seed, &mut tell)?;
            before += figures.nanos;
            let result = self.filled(run, figures);
            found.push(Prediction { target: self.name.clone(), phase: *phase, result });
            ready = Some(one);
        }
        Ok(found)
    }

    /// An empty cache, and devices at rest.
    fn start(&self) -> Result<Ready, String> {
        let failed = |error: String| format!("{} cannot be predicted: {error}", self.name);
        let model = self.cache.start(self.size, self.load.volume_bytes, self.seed).map_err(failed)?;
        let origin = self.origin.start(self.seed.wrapping_add(1));
        let devices = match &self.cache_device {
            Some(cache) => Devices::cached(cache.start(self.seed), origin),
            None => Devices::bare(origin),
        };
        let cost = fio_cost([&self.origin, self.cache_device.as_ref().unwrap_or(&self.origin)]);
        Ok(Ready { model, devices, at: Instant::ZERO, cost })
    }

    fn filled(&self, named: &RunResult, figures: RunResult) -> RunResult {
        RunResult {
            name: named.name.clone(),
            family: named.family.clone(),
            predicts: named.predicts.clone(),
            workload: named.workload.clone(),
            seed: self.seed,
            cache: self.cache_device.as_ref().map(|device| device.name.clone()),
            cache_bytes: self.cache_device.as_ref().map(|_| self.size),
            origin: self.origin.name.clone(),
            ..figures
        }
    }
}

impl Ready {
    fn run(&mut self, job: &str, seed: u64, progress: Progress<'_>) -> Result<RunResult, String> {
        let mut jobs = FioWorkload::parse(job, seed).map_err(|error| error.to_string())?;
        let course =
            Course { start: self.at, length: LENGTH_MAX, cost: self.cost, steady: None, ..Course::default() };
        let result = run(course, &mut jobs, self.model.as_mut(), &mut self.devices, progress);
        let ended = self.at.plus(Duration::from_nanos(result.nanos + result.ramp_nanos));
        self.at = run_idle(self.model.as_mut(), &mut self.devices, ended, BETWEEN);
        Ok(result)
    }
}
