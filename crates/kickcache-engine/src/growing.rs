//! A cache device that grows while the engine runs; see `path/grow`.

use crate::engine::{Engine, Phase};
use crate::error::Error;
use crate::format::superblock::Superblock;
use crate::inflight::growth::Stage;
use crate::path::grow;
use crate::stats::GrowthPhase;
use crate::time::Instant;

impl Engine {
    /// Begins to prepare for a cache device that was extended. `superblock` is the new superblock, which is not written
    /// yet.
    ///
    /// # Errors
    /// [`Error::Growth`] if the device is out of service, grows to another size already, or there is not enough memory.
    ///
    /// # Panics
    /// If the engine does not run, or the superblock is not that of this device with more segments.
    pub fn grow(&mut self, now: Instant, superblock: &Superblock) -> Result<(), Error> {
        assert!(self.phase() == Phase::Running, "only a running engine grows");
        self.state.now = now;
        self.is_stirred = true;
        grow::begin(&mut self.state, superblock)?;
        self.run_agenda();
        Ok(())
    }

    /// The progress of the growth.
    pub fn growth(&self) -> GrowthPhase {
        match &self.state.growth {
            None => GrowthPhase::None,
            Some(growth) if growth.stage == Stage::Ready => GrowthPhase::Prepared,
            Some(_) => GrowthPhase::Preparing,
        }
    }

    /// The new superblock is durable, in both copies.
    ///
    /// # Panics
    /// If no growth is prepared.
    pub fn use_grown(&mut self, now: Instant) {
        self.state.now = now;
        self.is_stirred = true;
        grow::finish(&mut self.state);
        self.run_agenda();
    }
}
