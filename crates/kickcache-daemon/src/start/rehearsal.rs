//! Checks of a start that change nothing.

use std::path::Path;

use crate::devices::device_opening::{rehearse, rehearse_volumes};
use crate::driver::io_engine::IoEngine;
use crate::driver::payload_memory::PayloadMemory;
use crate::plan::Exposure;
use crate::plan::cache_spec::{CacheService, CacheSpec};
use crate::plan::tls_plan::TlsPlan;
use crate::serve::config::{ServerConfig, StatePlace};
use crate::serve::error::ServeError;
use crate::serve::stop_wish::StopWish;

use crate::start::refusal::Refusals;

/// The properties that all servers of a plan share.
pub(crate) struct Common<'a> {
    pub(crate) io_engine: IoEngine,
    pub(crate) memory: &'a PayloadMemory,
    pub(crate) exposure: Exposure,
    pub(crate) tls: &'a TlsPlan,
    pub(crate) state: &'a StatePlace,
    pub(crate) control: &'a Path,
    pub(crate) stop_wish: &'a StopWish,
}

impl Common<'_> {
    pub(crate) fn config(&self, cache: &CacheSpec) -> ServerConfig {
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

/// A trial of a start, without changes.
pub(crate) struct Rehearsal<'a> {
    pub(crate) common: &'a Common<'a>,
    pub(crate) refusals: &'a Refusals<'a>,
}

impl Rehearsal<'_> {
    /// Skips volumes of a cache device in service that fail the checks.
    ///
    /// # Errors
    /// If an error concerns the whole start.
    pub(crate) fn whole(&self, cache: &mut CacheSpec) -> anyhow::Result<()> {
        match cache.service {
            CacheService::InService => self.leave(cache, rehearse),
            CacheService::LeftOut | CacheService::OutOfService | CacheService::WrittenBackOnly => Ok(()),
        }
    }

    /// Skips the volumes that cannot be served, independent of their cache device.
    ///
    /// # Errors
    /// If an error concerns the whole start.
    pub(crate) fn volumes(&self, cache: &mut CacheSpec) -> anyhow::Result<()> {
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
