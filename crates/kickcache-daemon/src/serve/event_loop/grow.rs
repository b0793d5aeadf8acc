//! The cache device grows while it is served.

use kickcache_engine::cache_engine::CacheEngine;
use kickcache_engine::device::Device;
use kickcache_engine::engine::Phase;
use kickcache_engine::error::Error;
use kickcache_engine::format::superblock::Superblock;
use kickcache_engine::stats::{CacheHealth, GrowthPhase};
use kickcache_engine::time::Instant;

use super::EventLoop;
use crate::devices::cache_device::Extended;
use crate::serve::core::LoopPhase;
use crate::serve::error::ServeError;
use crate::serve::verbs::growth::{CacheGrown, DeviceToGrow, Growth, GrowthStart, RunningGrowth};
use crate::serve::verbs::superblock_lease::SuperblockWriter;

impl<E: CacheEngine> EventLoop<E> {
    pub(super) fn begin_growth(&mut self, wanted: Option<u64>) -> Result<GrowthStart, ServeError> {
        if let Some(RunningGrowth { size: Some(size), .. }) = self.growth
            && wanted.is_none_or(|wanted| wanted == size)
        {
            let before = self.superblock.geometry.device_size;
            return Ok(GrowthStart::Running(CacheGrown { before, size, growth: Growth::Grown }));
        }
        let device = self.device_to_grow()?;
        self.growth = Some(RunningGrowth::default());
        Ok(GrowthStart::Begun(device))
    }

    fn refuse_growth(&self, what: &str) -> ServeError {
        ServeError::Engine { path: self.cache.clone(), source: Error::Growth { what: what.into() } }
    }

    pub(super) fn device_to_grow(&self) -> Result<DeviceToGrow, ServeError> {
        if self.core.stage != LoopPhase::Serving || self.core.engine.phase() != Phase::Running {
            return Err(self.refuse_growth("the server is stopping; grow it after the next start"));
        }
        if let Some(RunningGrowth { size, .. }) = &self.growth {
            return Err(self.refuse_growth(match size {
                None => "it is growing already, and the device has yet to respond; try again later",
                Some(_) => "it is growing already",
            }));
        }
        if self.is_exchanging() {
            return Err(self.refuse_growth("it is being left out, or another one taken in"));
        }
        if self.takeover.step.is_some() {
            return Err(
                self.refuse_growth("it is being replaced; let the other device grow when that is done")
            );
        }
        if self.core.engine.health() != CacheHealth::Good {
            return Err(self.refuse_growth("it is out of service"));
        }
        let cache = self.core.driver.shared_file(Device::Cache);
        let cache = cache.ok_or_else(|| self.refuse_growth("its volumes are served without a cache"))?;
        Ok(DeviceToGrow { superblock: self.superblock.clone(), cache })
    }

    pub(super) fn prepare_growth(&mut self, now: Instant, extended: Extended) -> Result<(), ServeError> {
        if self.core.stage != LoopPhase::Serving {
            return Err(ServeError::Stopped);
        }
        let (old, size) = (self.superblock.geometry.device_size, extended.size);
        let grown = extended.grown(&self.superblock, &self.cache)?;
        let refused = |source| ServeError::Engine { path: self.cache.clone(), source };
        self.core.engine.grow(now, &grown).map_err(refused)?;
        if let Some(growth) = &mut self.growth {
            growth.size = Some(size);
        }
        tracing::info!(
            event = "cache_growth_begun",
            "the cache device {} grows from {old} to {size} bytes",
            self.cache.display()
        );
        Ok(())
    }

    /// Answers the growth that waits for the superblock, when it can have it or cannot be completed.
    pub(super) fn lend_to_growth(&mut self) {
        if self.growth.as_ref().is_none_or(|growth| growth.waiting.is_none()) {
            return;
        }
        let end = self.end_of_growth(self.core.engine.health());
        let is_prepared = self.core.engine.growth() == GrowthPhase::Prepared;
        if end.is_none() && (!is_prepared || self.is_storing_superblock()) {
            return;
        }
        let waiting = self.growth.as_mut().and_then(|growth| growth.waiting.take());
        let Some((number, answer)) = waiting else { return };
        match end {
            None => self.lend_superblock(number, SuperblockWriter::Growth, &answer),
            // The caller may have stopped waiting.
            Some(error) => drop(answer.send(Err(error))),
        }
    }

    /// The reason why a growth that has begun cannot be completed, if there is one.
    pub(super) fn end_of_growth(&self, health: CacheHealth) -> Option<ServeError> {
        if self.core.stage != LoopPhase::Serving {
            return Some(ServeError::Stopped);
        }
        (health != CacheHealth::Good).then(|| self.refuse_growth("it is out of service now"))
    }

    pub(super) fn end_growth(&mut self) {
        self.growth = None;
    }

    pub(super) fn use_grown(&mut self, now: Instant, superblock: Superblock) {
        let size = superblock.geometry.device_size;
        self.superblock = superblock;
        self.core.engine.use_grown(now);
        self.apply_write_budget(now);
        self.end_growth();
        tracing::info!(
            event = "cache_grown",
            "the cache device {} now has {size} bytes",
            self.cache.display()
        );
    }

    /// A partly written new superblock is harmless, as its new segments are free.
    pub(super) fn give_up_growth(&mut self, error: &ServeError) {
        self.end_growth();
        tracing::error!(
            event = "cache_growth_failed",
            "the cache device {} keeps {} bytes: {error}",
            self.cache.display(),
            self.superblock.geometry.device_size
        );
    }
}
