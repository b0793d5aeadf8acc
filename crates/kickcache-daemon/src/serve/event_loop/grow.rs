//! The cache device grows while it is served: extended and examined, prepared for by the engine, recorded durably, and then used.

use std::sync::mpsc::Sender;

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
use crate::serve::verbs::superblock_lease::SuperblockLease;

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

    /// The device; an error if there is an obstacle to its growth.
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
        if self.engine_lease.is_some() {
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

    /// Gives the superblock to the growth that waits for it, once the engine is prepared and no other
    /// operation writes it; ends the wait with an error at a stop, or if the device is out of service.
    pub(super) fn lease_to_growth(&mut self) {
        if self.growth.as_ref().is_none_or(|growth| growth.waiting.is_none()) {
            return;
        }
        let is_over = self.core.stage != LoopPhase::Serving || self.core.engine.health() != CacheHealth::Good;
        if !is_over && (self.core.engine.growth() != GrowthPhase::Prepared || self.is_storing_superblock()) {
            return;
        }
        let Some(answer) = self.growth.as_mut().and_then(|growth| growth.waiting.take()) else { return };
        if is_over {
            // If the caller does not wait any more, the failed send is harmless.
            return drop(answer.send(Err(ServeError::Stopped)));
        }
        self.lend_superblock(&answer);
        if let Some(growth) = &mut self.growth {
            growth.is_leased = self.is_leased;
        }
    }

    /// Gives the superblock to a script; it stays with the loop if the script does not wait any more.
    pub(super) fn lend_superblock(&mut self, answer: &Sender<Result<SuperblockLease, ServeError>>) {
        let cache = self.core.driver.shared_file(Device::Cache);
        let lease = SuperblockLease { superblock: self.superblock.clone(), cache };
        self.is_leased = answer.send(Ok(lease)).is_ok();
    }

    /// Ends the growth, and its lease of the superblock.
    pub(super) fn end_growth(&mut self) {
        if self.growth.take().is_some_and(|growth| growth.is_leased) {
            self.end_lease(None);
        }
    }

    /// Whether a superblock is being written or about to be, its lease is in use, or a volume is being
    /// removed.
    pub(super) fn is_storing_superblock(&self) -> bool {
        self.takeover.is_storing() || self.is_storing_for_others()
    }

    /// Whether another operation than a takeover writes a superblock, its lease is in use, or a volume is
    /// being removed.
    pub(super) fn is_storing_for_others(&self) -> bool {
        self.journal_note.is_storing() || self.is_leased || self.leaving.is_some()
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
            "the cache device {} keeps {} bytes, as its superblock cannot be written: {error}",
            self.cache.display(),
            self.superblock.geometry.device_size
        );
    }
}
