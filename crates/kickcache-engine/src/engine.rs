//! The switchboard: `handle_*` takes events in, `poll_*` gives effects out.

use alloc::vec::Vec;

use crate::config::{EngineSettings, Mode, VolumeSettings};
use crate::device::{Completion, Submission};
use crate::error::Error;
use crate::format::superblock::Superblock;
use crate::request::{Reply, Request};
use crate::stats::Status;
use crate::time::Instant;
use crate::units::{BlockIndex, VolumeId};

/// Where an engine is in its life.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Reads its log back; requests must wait.
    Recovering,
    /// Serves requests.
    Running,
    /// Finishes what it has: no new requests, please.
    Stopping,
    /// Everything acknowledged is durable; nothing is in flight.
    Stopped,
    /// Recovery failed; nothing was changed.
    Failed(Error),
}

/// A cache device with its volumes.
///
/// Drive it in a loop: hand in what happened ([`Engine::handle_request`], [`Engine::handle_completion`],
/// [`Engine::handle_timeout`]); then drain [`Engine::poll_submission`], then [`Engine::poll_reply`]; then sleep
/// until [`Engine::poll_timeout`] or the next event.
pub struct Engine {}

impl Engine {
    /// Opens a cache device whose superblock was read; the first submissions are those of recovery. `volumes` must
    /// name volumes of the superblock; those that it does not name stay as they are on the device.
    ///
    /// # Errors
    /// [`Error::Volume`] for impossible settings.
    pub fn open(
        now: Instant,
        superblock: &Superblock,
        settings: EngineSettings,
        volumes: &[VolumeSettings],
    ) -> Result<Engine, Error> {
        let _ = (now, superblock, settings, volumes);
        todo!()
    }

    /// Where the engine is in its life.
    pub fn phase(&self) -> Phase {
        todo!()
    }

    /// Takes a request of a client; its reply comes out of [`Engine::poll_reply`].
    pub fn handle_request(&mut self, now: Instant, request: Request<'_>) {
        let _ = (now, request);
        todo!()
    }

    /// Takes the end of a submission.
    pub fn handle_completion(&mut self, now: Instant, completion: Completion<'_>) {
        let _ = (now, completion);
        todo!()
    }

    /// Lets time pass; call when [`Engine::poll_timeout`] is due.
    pub fn handle_timeout(&mut self, now: Instant) {
        let _ = now;
        todo!()
    }

    /// The next thing to do for the driver. Drain this first.
    pub fn poll_submission(&mut self) -> Option<Submission> {
        todo!()
    }

    /// The next request that ended. Drain this second.
    pub fn poll_reply(&mut self) -> Option<Reply> {
        todo!()
    }

    /// When [`Engine::handle_timeout`] must be called, if nothing else happens before.
    pub fn poll_timeout(&self) -> Option<Instant> {
        todo!()
    }

    /// Changes a volume's mode; leaving write-back drains first, and the new mode holds for new writes at once.
    pub fn set_mode(&mut self, now: Instant, volume: VolumeId, mode: Mode) {
        let _ = (now, volume, mode);
        todo!()
    }

    /// Writes all dirty data of a volume back at full speed; done when its status says 0 dirty and 0 unflushed.
    pub fn drain(&mut self, now: Instant, volume: VolumeId) {
        let _ = (now, volume);
        todo!()
    }

    /// Ends the engine: lands what is gathering, writes the journal, flushes; see [`Phase::Stopped`]. Dirty blocks
    /// stay dirty on the cache device.
    pub fn stop(&mut self, now: Instant) {
        let _ = now;
        todo!()
    }

    /// State and counters.
    pub fn status(&self) -> Status {
        todo!()
    }

    /// Whether the newest data of a block is in the cache, at any place of the log.
    pub fn is_cached(&self, volume: VolumeId, block: BlockIndex) -> bool {
        let _ = (volume, block);
        todo!()
    }

    /// The dirty blocks of a volume, ascending. Walks the whole table: for tools, not for serving.
    pub fn dirty_blocks(&self, volume: VolumeId) -> Vec<BlockIndex> {
        let _ = volume;
        todo!()
    }

    /// Whether the books agree with each other, recomputed from scratch.
    ///
    /// # Panics
    /// If they do not.
    pub fn check(&self) {
        todo!()
    }
}
