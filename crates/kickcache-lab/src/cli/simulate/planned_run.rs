//! A run that a simulation makes.

use kickcache_engine::time::Instant;
use kickcache_model::cache_model::cache_kind::{CacheKind, Tuning};
use kickcache_model::device_model::device_file::DeviceFile;
use kickcache_model::replay::bench::{Course, run};
use kickcache_model::replay::devices::Devices;
use kickcache_model::result::{Pacing, RunResult};
use kickcache_units::{Size, show_bytes};

use crate::cli::simulate::load::{Load, PROGRESS_MAX};
use crate::cli::simulate::pool::Task;

#[derive(Clone)]
pub(crate) struct PlannedRun {
    pub(crate) choice: CacheKind,
    pub(crate) size: Size,
    pub(crate) tuning: Tuning,
    pub(crate) seed: u64,
    pub(crate) load: Load,
    pub(crate) origin: DeviceFile,
    pub(crate) cache: DeviceFile,
}

impl PlannedRun {
    pub(crate) fn cache_bytes(&self) -> Option<u64> {
        self.sized().map(Size::bytes)
    }

    pub(crate) fn sized(&self) -> Option<Size> {
        (self.choice != CacheKind::None).then_some(self.size)
    }

    /// Whether another run has the same cache and size.
    pub(crate) fn repeats(&self, other: &PlannedRun) -> bool {
        self.choice == other.choice && self.sized() == other.sized()
    }

    pub(crate) fn task(self) -> Task<Result<RunResult, String>> {
        let nanos = if self.load.is_trace() { PROGRESS_MAX } else { self.load.expected.as_nanos() };
        let name = self.name();
        Task { name, weight: 1, nanos, work: Box::new(move |progress| self.simulate(progress)) }
    }

    fn name(&self) -> String {
        match self.choice {
            CacheKind::None => "no cache".into(),
            choice => format!("{}, {}", choice.name(), show_bytes(self.size.bytes())),
        }
    }

    fn simulate(&self, progress: &mut dyn FnMut(u64)) -> Result<RunResult, String> {
        let mut opened = self.load.open(self.seed)?;
        let share = opened.share();
        let mut tell = |nanos: u64| progress(share.as_ref().map_or(nanos, |share| share()));
        let (cache_bytes, volume_bytes) = (self.size.bytes(), self.load.volume_bytes);
        let mut model = self.choice.start_tuned(cache_bytes, volume_bytes, self.seed, self.tuning)?;
        let origin = self.origin.start(self.seed.wrapping_add(1));
        let mut devices = match self.choice {
            CacheKind::None => Devices::bare(origin),
            CacheKind::Kickcache(_) | CacheKind::DmCache(..) | CacheKind::Bcache { .. } | CacheKind::Lru => {
                Devices::cached(self.cache.start(self.seed), origin)
            }
        };
        let length = self.load.length;
        let cost = self.load.access_cost([&self.origin, &self.cache]);
        let course = Course { start: Instant::ZERO, length, cost, steady: None, ..Course::default() };
        let workload = opened.workload.as_mut();
        let mut result = run(course, workload, model.as_mut(), &mut devices, &mut tell);
        result.name = self.name();
        result.family = (self.choice != CacheKind::None).then(|| self.choice.name().to_owned());
        result.cache_bytes = self.cache_bytes();
        result.pacing = if self.load.span().is_some() { Pacing::Open } else { Pacing::Closed };
        result.cache = (self.choice != CacheKind::None).then(|| self.cache.name.clone());
        result.origin.clone_from(&self.origin.name);
        result.workload.clone_from(&self.load.description);
        result.seed = self.seed;
        Ok(result)
    }
}
