//! A cache on a case, in virtual time.

use kickcache_engine::config::Mode;
use kickcache_engine::time::{Duration, Instant};

use crate::cache_model::cache_kind::CacheKind;
use crate::cache_model::dm_cache::WriteMode;
use crate::cache_model::dm_cache::age::Age;
use crate::device_model::device_file::DeviceFile;
use crate::grid::case::Case;
use crate::grid::figures::Figures;
use crate::replay::bench::{Course, Progress, run};
use crate::replay::devices::Devices;
use crate::result::RunResult;
use crate::workload::Workload;
use crate::workload::fio::FioWorkload;

pub const JUDGED: CacheKind = CacheKind::Kickcache(Mode::WriteBack);
/// The caches that [`JUDGED`] is compared with; the first is no cache.
pub const OTHERS: [CacheKind; 3] = [
    CacheKind::None,
    CacheKind::DmCache(Age::REPAIRED, WriteMode::Back),
    CacheKind::Bcache { cutoff: 4 << 20 },
];
pub const BEGINNING_SECONDS: u64 = 60;

#[derive(Clone, Debug)]
pub struct Setup {
    pub case: Case,
    pub origin: DeviceFile,
    pub cache_device: DeviceFile,
    pub access_cost: Duration,
    /// Length of the beginning: [`BEGINNING_SECONDS`], or 0 if it is not judged apart.
    pub beginning_seconds: u64,
}

impl Setup {
    /// The beginning is a separate run, which is not longer and otherwise the same.
    ///
    /// # Errors
    /// A sentence if the case cannot be simulated.
    pub fn figures(&self, kind: CacheKind, progress: Progress<'_>) -> Result<Figures, String> {
        let seconds = self.case.seconds;
        let beginning = self.simulate(kind, seconds.min(self.beginning_seconds), &mut |_| ())?;
        let whole = self.simulate(kind, seconds, progress)?;
        Ok(Figures::new(&whole, &beginning))
    }

    fn simulate(&self, kind: CacheKind, seconds: u64, progress: Progress<'_>) -> Result<RunResult, String> {
        let seed = self.case.seed;
        let load = FioWorkload::parse(&self.case.job_file(), seed);
        let mut load = load.map_err(|error| error.to_string())?;
        let mut model = kind.start(self.case.cache_bytes()?, load.volume_bytes(), seed)?;
        let origin = self.origin.start(seed.wrapping_add(1));
        let mut devices = match kind {
            CacheKind::None => Devices::bare(origin),
            CacheKind::Kickcache(_) | CacheKind::DmCache(..) | CacheKind::Bcache { .. } | CacheKind::Lru => {
                Devices::cached(self.cache_device.start(seed), origin)
            }
        };
        let length = Duration::from_millis(seconds * 1_000);
        let course = Course { start: Instant::ZERO, length, cost: self.access_cost, ..Course::default() };
        Ok(run(course, &mut load, model.as_mut(), &mut devices, progress))
    }
}
