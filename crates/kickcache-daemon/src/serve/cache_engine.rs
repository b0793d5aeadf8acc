//! What the event loop asks of an engine, so that tests can put a plain one in its place.

use kickcache_engine::config::Mode;
use kickcache_engine::device::{Completion, Device, Submission};
use kickcache_engine::engine::{Engine, Phase};
use kickcache_engine::request::{Reply, Request};
use kickcache_engine::stats::{Record, Status};
use kickcache_engine::time::{Duration, Instant};
use kickcache_engine::units::{BlockIndex, VolumeId};

/// The methods of [`Engine`] that serving needs.
pub(crate) trait CacheEngine {
    fn phase(&self) -> Phase;
    fn handle_request(&mut self, now: Instant, request: Request<'_>);
    fn handle_completion(&mut self, now: Instant, completion: Completion<'_>);
    fn handle_timeout(&mut self, now: Instant);
    fn handle_sleep(&mut self, slept: Duration);
    fn poll_submission(&mut self) -> Option<Submission>;
    fn poll_reply(&mut self) -> Option<Reply>;
    fn poll_timeout(&self) -> Option<Instant>;
    fn silent_since(&self, device: Device) -> Option<Instant>;
    fn set_mode(&mut self, now: Instant, volume: VolumeId, mode: Mode);
    fn drain(&mut self, now: Instant, volume: VolumeId);
    fn grow_volume(&mut self, volume: VolumeId, size: u64);
    fn stop(&mut self, now: Instant);
    fn status(&self) -> Status;
    fn is_cached(&self, volume: VolumeId, block: BlockIndex) -> bool;
    fn record(&self) -> Option<Record>;
    fn unwritten_blocks(&self, volume: VolumeId) -> Vec<BlockIndex>;
    fn damaged_blocks(&self) -> Vec<(VolumeId, BlockIndex)>;
}

impl CacheEngine for Engine {
    fn phase(&self) -> Phase {
        Engine::phase(self)
    }

    fn handle_request(&mut self, now: Instant, request: Request<'_>) {
        Engine::handle_request(self, now, request);
    }

    fn handle_completion(&mut self, now: Instant, completion: Completion<'_>) {
        Engine::handle_completion(self, now, completion);
    }

    fn handle_timeout(&mut self, now: Instant) {
        Engine::handle_timeout(self, now);
    }

    fn handle_sleep(&mut self, slept: Duration) {
        Engine::handle_sleep(self, slept);
    }

    fn poll_submission(&mut self) -> Option<Submission> {
        Engine::poll_submission(self)
    }

    fn poll_reply(&mut self) -> Option<Reply> {
        Engine::poll_reply(self)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        Engine::poll_timeout(self)
    }

    fn silent_since(&self, device: Device) -> Option<Instant> {
        Engine::silent_since(self, device)
    }

    fn set_mode(&mut self, now: Instant, volume: VolumeId, mode: Mode) {
        Engine::set_mode(self, now, volume, mode);
    }

    fn drain(&mut self, now: Instant, volume: VolumeId) {
        Engine::drain(self, now, volume);
    }

    fn grow_volume(&mut self, volume: VolumeId, size: u64) {
        Engine::grow_volume(self, volume, size);
    }

    fn stop(&mut self, now: Instant) {
        Engine::stop(self, now);
    }

    fn status(&self) -> Status {
        Engine::status(self)
    }

    fn is_cached(&self, volume: VolumeId, block: BlockIndex) -> bool {
        Engine::is_cached(self, volume, block)
    }

    fn record(&self) -> Option<Record> {
        Engine::record(self)
    }

    fn unwritten_blocks(&self, volume: VolumeId) -> Vec<BlockIndex> {
        Engine::unwritten_blocks(self, volume)
    }

    fn damaged_blocks(&self) -> Vec<(VolumeId, BlockIndex)> {
        Engine::damaged_blocks(self)
    }
}
