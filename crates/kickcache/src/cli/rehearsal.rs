//! Checks a start for all errors before it changes anything.

use std::path::Path;

use kickcache_daemon::driver::io_engine::IoEngine;
use kickcache_daemon::driver::payload_memory::PayloadMemory;
use kickcache_daemon::plan::Exposure;
use kickcache_daemon::plan::cache_spec::{CacheService, CacheSpec};
use kickcache_daemon::plan::tls_plan::TlsPlan;
use kickcache_daemon::serve::config::{ServerConfig, StatePlace};
use kickcache_daemon::serve::device_opening::{rehearse, rehearse_volumes};
use kickcache_daemon::serve::error::ServeError;
use kickcache_daemon::serve::stop_wish::StopWish;

use crate::cli::refusal::Refusals;

/// The properties that all servers of a plan share.
pub(super) struct Common<'a> {
    pub(super) io_engine: IoEngine,
    pub(super) memory: &'a PayloadMemory,
    pub(super) exposure: Exposure,
    pub(super) tls: &'a TlsPlan,
    pub(super) state: &'a StatePlace,
    pub(super) control: &'a Path,
    pub(super) stop_wish: &'a StopWish,
}

impl Common<'_> {
    /// The settings of the server of a cache device.
    pub(super) fn config(&self, cache: &CacheSpec) -> ServerConfig {
        ServerConfig {
            io_engine: self.io_engine,
            memory: self.memory.clone(),
            exposure: self.exposure,
            tls: self.tls.clone(),
            state: self.state.clone(),
            control: Some(self.control.into()),
            stop_wish: self.stop_wish.clone(),
            ..ServerConfig::new(cache.clone())
        }
    }
}

/// A start that is tried without changes; it skips whatever a real start would refuse.
pub(super) struct Rehearsal<'a> {
    pub(super) common: &'a Common<'a>,
    pub(super) refusals: &'a Refusals<'a>,
}

impl Rehearsal<'_> {
    /// Skips a cache device in service that fails the checks, or its volumes that do.
    ///
    /// # Errors
    /// If an error concerns the whole start.
    pub(super) fn whole(&self, cache: &mut CacheSpec) -> anyhow::Result<()> {
        match cache.service {
            CacheService::InService => self.leave(cache, rehearse),
            CacheService::LeftOut | CacheService::OutOfService | CacheService::WrittenBackOnly => Ok(()),
        }
    }

    /// Skips the volumes that cannot be served, independent of their cache device.
    ///
    /// # Errors
    /// If an error concerns the whole start.
    pub(super) fn volumes(&self, cache: &mut CacheSpec) -> anyhow::Result<()> {
        self.leave(cache, rehearse_volumes)
    }

    fn leave(
        &self,
        cache: &mut CacheSpec,
        look: impl Fn(&ServerConfig) -> Result<(), ServeError>,
    ) -> anyhow::Result<()> {
        while !cache.volumes.is_empty() {
            match look(&self.common.config(cache)) {
                Ok(()) => break,
                Err(error) => self.refusals.leave(cache, error)?,
            }
        }
        Ok(())
    }
}
