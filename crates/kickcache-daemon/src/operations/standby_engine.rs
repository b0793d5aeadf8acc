//! An engine that reads its log back outside of the loop's thread, while another engine serves.

use std::sync::Arc;

use kickcache_engine::config::{EngineSettings, VolumeSettings};
use kickcache_engine::device::Device;
use kickcache_engine::engine::{Engine, Phase};
use kickcache_engine::format::superblock::Superblock;

use crate::driver::budget::Budget;
use crate::driver::clock::Clock;
use crate::driver::device::BlockFile;
use crate::driver::executor::{Driver, DriverSettings, Medium, NamedMedium};
use crate::driver::io_engine::IoEngine;
use crate::serve::error::ServeError;

/// The parts of a standby engine.
pub(crate) struct StandbyParts<'a> {
    pub(crate) clock: Clock,
    pub(crate) io_engine: IoEngine,
    pub(crate) settings: EngineSettings,
    pub(crate) superblock: &'a Superblock,
    pub(crate) volumes: &'a [VolumeSettings],
    pub(crate) path: &'a std::path::Path,
}

/// A recovered engine that is ready to serve, and its cache device.
pub(crate) struct Recovered {
    pub(crate) engine: Engine,
    /// The cache device; `None` if it is not a file or block device, or has another owner.
    pub(crate) cache: Option<BlockFile>,
}

/// Bytes of payload memory.
const REQUEST_BYTES_MAX: usize = 1 << 20;

impl StandbyParts<'_> {
    /// Runs the engine until it could serve.
    ///
    /// # Errors
    /// If its log cannot be read back, or input and output cannot be set up.
    pub(crate) fn recover(&self, cache: Medium) -> Result<Recovered, ServeError> {
        let StandbyParts { clock, io_engine, settings, superblock, volumes, path } = self;
        let media = vec![NamedMedium { device: Device::Cache, medium: cache }];
        let driver = DriverSettings {
            io_engine: *io_engine,
            budget: Budget::alone(REQUEST_BYTES_MAX),
            pool_pages: settings.pool_pages,
            media,
        };
        let mut driver = Driver::open(driver).map_err(ServeError::system("set up input and output"))?;
        let refuse = |source| ServeError::Engine { path: (*path).into(), source };
        let mut engine = Engine::open(clock.now(), superblock, *settings, volumes).map_err(refuse)?;
        loop {
            let now = clock.now();
            while engine.phase() == Phase::Recovering
                && let Some(submission) = engine.poll_submission()
            {
                driver.submit(now, submission);
            }
            while let Some(completion) = driver.poll_completion(now) {
                engine.handle_completion(now, completion);
            }
            if let Phase::Failed(source) = engine.phase() {
                return Err(refuse(source));
            }
            if driver.in_flight() == 0 && engine.phase() != Phase::Recovering {
                let shared = driver.shared_file(Device::Cache);
                drop(driver);
                return Ok(Recovered { engine, cache: shared.and_then(Arc::into_inner) });
            }
            if driver.in_flight() > 0 {
                driver.wait(now, None).map_err(ServeError::system("wait for the cache device"))?;
            }
        }
    }
}
