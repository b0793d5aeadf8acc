//! Caches by name, ready to run.

use std::num::NonZeroU64;
use std::str::FromStr;

use kickcache_engine::config::{EngineSettings, Mode, SequentialCutoff};
use kickcache_engine::format::geometry::DEVICE_SIZE_MAX;
use kickcache_engine::units::BLOCK_SIZE;

use crate::cache_model::bare::Bare;
use crate::cache_model::bcache::{Bcache, BcacheShape};
use crate::cache_model::dm_cache::age::Age;
use crate::cache_model::dm_cache::{DmCache, DmCacheShape, WriteMode};
use crate::cache_model::lru::Lru;
use crate::memory;
use crate::replay::cache_model::CacheModel;
use crate::replay::real_engine::Kickcache;

/// Bytes of a block of dm-cache: lvm's default.
const DM_BLOCK_BYTES: u64 = 64 << 10;
/// Bytes of bcache's default sequential cut-off.
const BCACHE_CUTOFF: u64 = 4 << 20;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CacheKind {
    None,
    Kickcache(Mode),
    DmCache(Age, WriteMode),
    Bcache {
        /// Sequential cut-off in bytes; 0 for none.
        cutoff: u64,
    },
    Lru,
}

/// Settings of kickcache's engine, in addition to sizes and mode; other caches ignore them.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Tuning {
    pub sequential_cutoff: SequentialCutoff,
    /// Bytes that may be written to the cache device a day; `None` for no limit.
    pub write_budget: Option<NonZeroU64>,
}

const NAMES: [(&str, CacheKind); 10] = [
    ("none", CacheKind::None),
    ("kickcache", CacheKind::Kickcache(Mode::WriteThrough)),
    ("kickcache-write-back", CacheKind::Kickcache(Mode::WriteBack)),
    ("dm-cache", CacheKind::DmCache(Age::REPAIRED, WriteMode::Through)),
    ("dm-cache-write-back", CacheKind::DmCache(Age::REPAIRED, WriteMode::Back)),
    ("dm-cache-4.11", CacheKind::DmCache(Age::LINUX_4_11, WriteMode::Through)),
    ("dm-cache-4.12-rc1", CacheKind::DmCache(Age::LINUX_4_12_RC1, WriteMode::Through)),
    ("bcache", CacheKind::Bcache { cutoff: BCACHE_CUTOFF }),
    ("bcache-no-cutoff", CacheKind::Bcache { cutoff: 0 }),
    ("lru", CacheKind::Lru),
];

impl FromStr for CacheKind {
    type Err = String;

    fn from_str(name: &str) -> Result<CacheKind, String> {
        let found = NAMES.iter().find(|known| known.0 == name).map(|known| known.1);
        found.ok_or_else(|| {
            let names: Vec<&str> = NAMES.iter().map(|known| known.0).collect();
            format!("no cache is called `{name}`; there are {}", names.join(", "))
        })
    }
}

impl CacheKind {
    /// The name of the cache, `another cache` if it has none.
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|known| known.1 == self).map_or("another cache", |known| known.0)
    }

    fn table_bytes(self, cache_bytes: u64, origin_bytes: u64) -> u64 {
        match self {
            CacheKind::None | CacheKind::Lru => 0,
            CacheKind::Kickcache(_) => memory::of_engine(cache_bytes),
            CacheKind::DmCache(..) => (cache_bytes * 8).saturating_add(origin_bytes) / DM_BLOCK_BYTES * 4,
            CacheKind::Bcache { .. } => origin_bytes / BLOCK_SIZE * 4,
        }
    }

    /// An empty cache with default settings.
    ///
    /// # Errors
    /// A sentence if the sizes are impossible, or the tables of the model need too much memory.
    pub fn start(
        self,
        cache_bytes: u64,
        origin_bytes: u64,
        seed: u64,
    ) -> Result<Box<dyn CacheModel>, String> {
        self.start_tuned(cache_bytes, origin_bytes, seed, Tuning::default())
    }

    /// An empty cache with these settings.
    ///
    /// # Errors
    /// As [`CacheKind::start`].
    pub fn start_tuned(
        self,
        cache_bytes: u64,
        origin_bytes: u64,
        seed: u64,
        tuning: Tuning,
    ) -> Result<Box<dyn CacheModel>, String> {
        if self != CacheKind::None && cache_bytes > DEVICE_SIZE_MAX {
            return Err(format!("a cache has at most {DEVICE_SIZE_MAX} bytes, this one {cache_bytes}"));
        }
        memory::check(self.table_bytes(cache_bytes, origin_bytes))?;
        Ok(match self {
            CacheKind::None => Box::new(Bare::default()),
            CacheKind::Kickcache(mode) => {
                let engine =
                    EngineSettings { write_budget: tuning.write_budget, ..EngineSettings::default() };
                let started = Kickcache::with(engine, cache_bytes, origin_bytes, |settings| {
                    (settings.mode, settings.sequential_cutoff) = (mode, tuning.sequential_cutoff);
                });
                Box::new(started.map_err(|error| error.to_string())?)
            }
            CacheKind::DmCache(age, mode) => {
                let shape =
                    DmCacheShape { age, block_bytes: DM_BLOCK_BYTES, cache_bytes, origin_bytes, mode };
                Box::new(DmCache::new(shape))
            }
            CacheKind::Bcache { cutoff } => {
                let shape = BcacheShape { cache_bytes, origin_bytes, sequential_cutoff: cutoff, seed };
                Box::new(Bcache::new(shape))
            }
            CacheKind::Lru => Box::new(Lru::new(cache_bytes)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_read_and_starts() {
        for (name, choice) in NAMES {
            assert_eq!(name.parse(), Ok(choice));
            assert_eq!(choice.name(), name);
            assert!(choice.start(256 << 20, 1 << 30, 1).is_ok(), "{name}");
        }
        for (name, choice) in NAMES.into_iter().filter(|(name, _)| *name != "none") {
            for cache_bytes in [DEVICE_SIZE_MAX + 4_096, u64::MAX] {
                let sentence = choice.start(cache_bytes, 1 << 30, 1).err().unwrap();
                assert!(sentence.contains("a cache has at most"), "{name}: {sentence}");
            }
        }
        assert!(
            CacheKind::None.start(u64::MAX, 1 << 30, 1).is_ok(),
            "a device needs no memory of the cache's size"
        );
        let sentence = CacheKind::Bcache { cutoff: 0 }.start(1 << 30, 1 << 60, 1).err().unwrap();
        assert!(sentence.contains("of memory"), "{sentence}");
        assert!("zfs".parse::<CacheKind>().unwrap_err().contains("dm-cache-4.11"));
    }
}
