//! The cache device grows while it is served: extended and examined, prepared for by the engine, recorded durably, and then used.

use std::sync::Arc;

use kickcache_engine::cache_engine::CacheEngine;
use kickcache_engine::device::Device;
use kickcache_engine::engine::Phase;
use kickcache_engine::error::Error;
use kickcache_engine::format::superblock::Superblock;
use kickcache_engine::stats::{CacheHealth, GrowthPhase};
use kickcache_engine::time::Instant;

use super::EventLoop;
use crate::devices::cache_device::Extended;
use crate::driver::device::BlockFile;
use crate::serve::control::{CacheGrown, Growth};
use crate::serve::core::LoopPhase;
use crate::serve::error::ServeError;
use crate::serve::event_loop::cache_growth::{GrowthAnswer, GrowthOutcome, GrowthStep};

impl<E: CacheEngine> EventLoop<E> {
    /// Begins to use more of the cache device: a cache file is extended to `wanted` bytes, a block device has
    /// been extended already. The answer is sent once the new size is known to be possible.
    pub(super) fn begin_growth(&mut self, now: Instant, wanted: Option<u64>, answer: GrowthAnswer) {
        match self.growth.step() {
            // An earlier client was answered before the end, because the device was late: the present client
            // waits for the same growth.
            Some(GrowthStep::Looking(before)) if before == wanted && self.growth.reply_wait.is_nobody() => {
                return self.growth.reply_wait.wait(now, answer);
            }
            Some(
                GrowthStep::Preparing(Extended { size, .. }) | GrowthStep::Storing(Extended { size, .. }),
            ) if wanted.is_none_or(|wanted| wanted == size) => {
                let before = self.superblock.geometry.device_size;
                return drop(answer.send(Ok(CacheGrown { before, size, growth: Growth::Grown })));
            }
            Some(_) | None => {}
        }
        let begun = self.device_to_grow().and_then(|cache| {
            let begun = self.growth.look(cache, self.superblock.clone(), wanted);
            begun.map_err(ServeError::system("start a thread"))
        });
        match begun {
            Ok(()) => self.growth.reply_wait.wait(now, answer),
            // If the caller does not wait any more, the failed send is harmless.
            Err(error) => drop(answer.send(Err(error))),
        }
    }

    fn refuse_growth(&self, what: &str) -> ServeError {
        ServeError::Engine { path: self.cache.clone(), source: Error::Growth { what: what.into() } }
    }

    pub(super) fn device_to_grow(&self) -> Result<Arc<BlockFile>, ServeError> {
        if self.core.stage != LoopPhase::Serving || self.core.engine.phase() != Phase::Running {
            return Err(self.refuse_growth("the server is stopping; grow it after the next start"));
        }
        if let Some(step) = self.growth.step() {
            return Err(self.refuse_growth(match step {
                GrowthStep::Looking(_) => {
                    "it is growing already, and the device has yet to respond; try again later"
                }
                GrowthStep::Preparing(_) | GrowthStep::Storing(_) => "it is growing already",
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
        cache.ok_or_else(|| self.refuse_growth("its volumes are served without a cache"))
    }

    /// Continues with the results of threads, and with results of the engine.
    pub(super) fn take_growth(&mut self, now: Instant) {
        while let Some(outcome) = self.growth.poll() {
            match outcome {
                GrowthOutcome::Looked(looked) => self.prepare_growth(now, looked),
                GrowthOutcome::Stored(superblock, Ok(())) => self.use_grown(now, *superblock),
                GrowthOutcome::Stored(_, Err(error)) => self.give_up_growth(&error),
            }
        }
        self.store_growth();
    }

    fn prepare_growth(&mut self, now: Instant, looked: Result<Option<Extended>, ServeError>) {
        let old = self.superblock.geometry.device_size;
        let begun = looked.and_then(|extended| {
            let Some(extended) = extended else { return Ok(None) };
            if self.core.stage != LoopPhase::Serving {
                return Err(ServeError::Stopped);
            }
            let grown = self.grown_by(extended)?;
            let refused = |source| ServeError::Engine { path: self.cache.clone(), source };
            self.core.engine.grow(now, &grown).map_err(refused)?;
            Ok(Some(extended))
        });
        match begun {
            Ok(Some(extended)) => {
                self.growth.prepare(extended);
                let size = extended.size;
                tracing::info!(
                    event = "cache_growth_begun",
                    "the cache device {} grows from {old} to {size} bytes",
                    self.cache.display()
                );
                self.growth.reply_wait.answer(Ok(CacheGrown { before: old, size, growth: Growth::Grown }));
            }
            Ok(None) => {
                self.growth.end();
                self.growth.reply_wait.answer(Ok(CacheGrown {
                    before: old,
                    size: old,
                    growth: Growth::Unchanged,
                }));
            }
            Err(error) => {
                self.growth.end();
                self.growth.reply_wait.answer(Err(error));
            }
        }
    }

    /// The superblock of the device after the growth.
    fn grown_by(&self, extended: Extended) -> Result<Box<Superblock>, ServeError> {
        let mut grown = Box::new(self.superblock.clone());
        let done = grown.grow(extended.size, extended.found);
        done.map_err(|source| ServeError::Engine { path: self.cache.clone(), source })?;
        Ok(grown)
    }

    /// Writes the superblock once the engine is prepared and no other superblock write is in progress. During a stop, or if
    /// the cache device is out of service, the growth ends instead.
    fn store_growth(&mut self) {
        let Some(GrowthStep::Preparing(extended)) = self.growth.step() else { return };
        if self.core.stage != LoopPhase::Serving || self.core.engine.health() != CacheHealth::Good {
            return self.growth.end();
        }
        if self.core.engine.growth() != GrowthPhase::Prepared || self.is_storing_superblock() {
            return;
        }
        let cache = self.core.driver.shared_file(Device::Cache);
        let cache = cache.ok_or_else(|| self.refuse_growth("its device is missing"));
        let stored = cache.and_then(|cache| {
            let grown = self.grown_by(extended)?;
            self.growth.store(extended, cache, grown).map_err(ServeError::system("start a thread"))
        });
        if let Err(error) = stored {
            self.give_up_growth(&error);
        }
    }

    /// Whether a superblock is being written, its lease is in use, or a volume is being removed.
    pub(super) fn is_storing_superblock(&self) -> bool {
        self.takeover.is_storing() || self.is_storing_for_others()
    }

    /// Whether another operation than a takeover writes a superblock, its lease is in use, or a volume is
    /// being removed.
    pub(super) fn is_storing_for_others(&self) -> bool {
        let is_written = self.growth.is_storing() || self.journal_note.is_storing();
        is_written || self.is_leased || self.leaving.is_some()
    }

    fn use_grown(&mut self, now: Instant, superblock: Superblock) {
        let size = superblock.geometry.device_size;
        self.superblock = superblock;
        self.core.engine.use_grown(now);
        self.apply_write_budget(now);
        self.growth.end();
        tracing::info!(
            event = "cache_grown",
            "the cache device {} now has {size} bytes",
            self.cache.display()
        );
    }

    /// Gives the growth up: the cache device keeps its old size. A partly written new superblock is harmless,
    /// as its new segments are free.
    fn give_up_growth(&mut self, error: &ServeError) {
        self.growth.end();
        tracing::error!(
            event = "cache_growth_failed",
            "the cache device {} keeps {} bytes, as its superblock cannot be written: {error}",
            self.cache.display(),
            self.superblock.geometry.device_size
        );
    }

    /// Answers the caller if the device takes too long.
    pub(super) fn tell_late_growth(&mut self, now: Instant) {
        if self.growth.reply_wait.is_overdue(now) {
            let what = "the device has not been extended and read for 8 s; it grows when that is done, \
                        which is logged: check it, or repeat the command";
            let device = self.cache.display().to_string();
            self.growth.reply_wait.answer(Err(ServeError::StillRunning { device, what: what.into() }));
        }
    }
}
