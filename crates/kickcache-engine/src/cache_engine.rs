//! The interface for the user of an engine, or of a substitute: a daemon's loop, a simulation, a test.

use alloc::string::ToString;
use alloc::vec::Vec;
use core::num::NonZeroU64;

use crate::config::{Mode, VolumeSettings};
use crate::device::{Completion, Device, Submission};
use crate::engine::{Engine, Phase};
use crate::error::Error;
use crate::format::durable_blocks::DurableBlocks;
use crate::format::superblock::Superblock;
use crate::request::{Reply, Request};
use crate::samples::Sample;
use crate::stats::{CacheHealth, GrowthPhase, Record, Status, Wear, WearHistory};
use crate::time::{Duration, Instant};
use crate::units::{BlockIndex, BlockKey, Location, VolumeId};

/// The interface of [`Engine`]; each method except [`CacheEngine::give_way`] corresponds to the engine's method of the
/// same name. The defaults are those of an engine without a cache.
pub trait CacheEngine {
    /// See [`Engine::phase`].
    fn phase(&self) -> Phase;
    /// See [`Engine::handle_request`].
    fn handle_request(&mut self, now: Instant, request: Request<'_>);
    /// See [`Engine::handle_completion`].
    fn handle_completion(&mut self, now: Instant, completion: Completion<'_>);
    /// See [`Engine::poll_submission`].
    fn poll_submission(&mut self) -> Option<Submission>;
    /// See [`Engine::poll_reply`].
    fn poll_reply(&mut self) -> Option<Reply>;
    /// See [`Engine::stop`].
    fn stop(&mut self, now: Instant);

    /// See [`Engine::handle_timeout`].
    fn handle_timeout(&mut self, _now: Instant) {}
    /// See [`Engine::handle_sleep`].
    fn handle_sleep(&mut self, _slept: Duration) {}
    /// See [`Engine::poll_timeout`].
    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
    /// See [`Engine::silent_since`].
    fn silent_since(&self, _device: Device) -> Option<Instant> {
        None
    }
    /// See [`Engine::set_mode`].
    fn set_mode(&mut self, _now: Instant, _volume: VolumeId, _mode: Mode) {}
    /// See [`Engine::change_settings`].
    fn change_settings(&mut self, _now: Instant, _wanted: &VolumeSettings) {}
    /// See [`Engine::drain`].
    fn drain(&mut self, _now: Instant, _volume: VolumeId) {}
    /// See [`Engine::origin_restarted`].
    fn origin_restarted(&mut self, _now: Instant, _volume: VolumeId) {}
    /// See [`Engine::grow_volume`].
    fn grow_volume(&mut self, _volume: VolumeId, _size: u64) {}
    /// See [`Engine::add_volume`].
    fn add_volume(&mut self, _now: Instant, _settings: &VolumeSettings, _size: u64) {}
    /// See [`Engine::not_clean_blocks`].
    fn not_clean_blocks(&self, _volume: VolumeId) -> u64 {
        0
    }
    /// See [`Engine::has_ended`].
    fn has_ended(&self, _volume: VolumeId) -> bool {
        true
    }
    /// See [`Engine::is_idle`].
    fn is_idle(&self, _volume: VolumeId) -> bool {
        true
    }
    /// See [`Engine::flush_soon`].
    fn flush_soon(&mut self, _now: Instant, _volume: VolumeId) {}
    /// See [`Engine::cached_blocks`].
    fn cached_blocks(&self, _volume: VolumeId) -> u64 {
        0
    }
    /// See [`Engine::forget_some`].
    fn forget_some(&mut self, _now: Instant, _volume: VolumeId, from: Location) -> Location {
        from
    }
    /// See [`Engine::seal_forgotten`].
    fn seal_forgotten(&mut self, _now: Instant, _volume: VolumeId) {}
    /// See [`Engine::is_forgotten`].
    fn is_forgotten(&self, _volume: VolumeId) -> bool {
        true
    }
    /// See [`Engine::remove_volume`].
    fn remove_volume(&mut self, _volume: VolumeId) {}
    /// See [`Engine::grow`].
    ///
    /// # Errors
    /// [`Error::Growth`] if the cache device cannot grow.
    fn grow(&mut self, _now: Instant, _superblock: &Superblock) -> Result<(), Error> {
        Err(Error::Growth { what: "no cache device is in use at present".to_string() })
    }
    /// See [`Engine::growth`].
    fn growth(&self) -> GrowthPhase {
        GrowthPhase::None
    }
    /// See [`Engine::use_grown`].
    fn use_grown(&mut self, _now: Instant) {}
    /// See [`Engine::leave_out`].
    fn leave_out(&mut self, _now: Instant) {}
    /// Replaces this engine by another one, which goes on with the counters of the volumes. By default, the engine
    /// stays.
    fn give_way(&mut self, _to: Engine) {}
    /// See [`Engine::pause_caching`].
    fn pause_caching(&mut self, _volume: VolumeId, _until: Instant) {}
    /// See [`Engine::status`].
    fn status(&self) -> Status {
        Status::default()
    }
    /// See [`Engine::wear`].
    fn wear(&self, _now: Instant) -> Wear {
        Wear::default()
    }
    /// See [`Engine::wear_history`].
    fn wear_history(&self, _now: Instant) -> WearHistory {
        WearHistory::default()
    }
    /// See [`Engine::set_write_budget`].
    fn set_write_budget(&mut self, _now: Instant, _budget: Option<NonZeroU64>) {}
    /// See [`Engine::health`].
    fn health(&self) -> CacheHealth {
        CacheHealth::Good
    }
    /// See [`Engine::record`].
    fn record(&self) -> Option<Record> {
        None
    }
    /// See [`Engine::is_cached`].
    fn is_cached(&self, _volume: VolumeId, _block: BlockIndex) -> bool {
        false
    }
    /// See [`Engine::clean_samples`].
    fn clean_samples(&self, _volume: VolumeId, _count: u32) -> Vec<Sample> {
        Vec::new()
    }
    /// See [`Engine::dirty_blocks`].
    fn dirty_blocks(&self, _volume: VolumeId) -> Vec<BlockIndex> {
        Vec::new()
    }
    /// See [`Engine::unwritten_blocks`].
    fn unwritten_blocks(&self, _volume: VolumeId) -> Vec<BlockIndex> {
        Vec::new()
    }
    /// See [`Engine::damaged_blocks`].
    fn damaged_blocks(&self) -> Vec<BlockKey> {
        Vec::new()
    }
    /// See [`Engine::stopped_journal`].
    fn stopped_journal(&self) -> Option<DurableBlocks> {
        None
    }
    /// See [`Engine::pool_pages_used`].
    fn pool_pages_used(&self) -> u32 {
        0
    }
}

impl CacheEngine for Engine {
    fn phase(&self) -> Phase {
        Engine::phase(self)
    }

    #[inline]
    fn handle_request(&mut self, now: Instant, request: Request<'_>) {
        Engine::handle_request(self, now, request);
    }

    #[inline]
    fn handle_completion(&mut self, now: Instant, completion: Completion<'_>) {
        Engine::handle_completion(self, now, completion);
    }

    #[inline]
    fn poll_submission(&mut self) -> Option<Submission> {
        Engine::poll_submission(self)
    }

    #[inline]
    fn poll_reply(&mut self) -> Option<Reply> {
        Engine::poll_reply(self)
    }

    fn stop(&mut self, now: Instant) {
        Engine::stop(self, now);
    }

    #[inline]
    fn handle_timeout(&mut self, now: Instant) {
        Engine::handle_timeout(self, now);
    }

    #[inline]
    fn handle_sleep(&mut self, slept: Duration) {
        Engine::handle_sleep(self, slept);
    }

    #[inline]
    fn poll_timeout(&self) -> Option<Instant> {
        Engine::poll_timeout(self)
    }

    fn silent_since(&self, device: Device) -> Option<Instant> {
        Engine::silent_since(self, device)
    }

    fn set_mode(&mut self, now: Instant, volume: VolumeId, mode: Mode) {
        Engine::set_mode(self, now, volume, mode);
    }

    fn change_settings(&mut self, now: Instant, wanted: &VolumeSettings) {
        Engine::change_settings(self, now, wanted);
    }

    fn drain(&mut self, now: Instant, volume: VolumeId) {
        Engine::drain(self, now, volume);
    }

    fn pause_caching(&mut self, volume: VolumeId, until: Instant) {
        Engine::pause_caching(self, volume, until);
    }

    fn origin_restarted(&mut self, now: Instant, volume: VolumeId) {
        Engine::origin_restarted(self, now, volume);
    }

    fn grow_volume(&mut self, volume: VolumeId, size: u64) {
        Engine::grow_volume(self, volume, size);
    }

    fn add_volume(&mut self, now: Instant, settings: &VolumeSettings, size: u64) {
        Engine::add_volume(self, now, settings, size);
    }

    fn not_clean_blocks(&self, volume: VolumeId) -> u64 {
        Engine::not_clean_blocks(self, volume)
    }

    fn has_ended(&self, volume: VolumeId) -> bool {
        Engine::has_ended(self, volume)
    }

    fn is_idle(&self, volume: VolumeId) -> bool {
        Engine::is_idle(self, volume)
    }

    fn flush_soon(&mut self, now: Instant, volume: VolumeId) {
        Engine::flush_soon(self, now, volume);
    }

    fn cached_blocks(&self, volume: VolumeId) -> u64 {
        Engine::cached_blocks(self, volume)
    }

    fn forget_some(&mut self, now: Instant, volume: VolumeId, from: Location) -> Location {
        Engine::forget_some(self, now, volume, from)
    }

    fn seal_forgotten(&mut self, now: Instant, volume: VolumeId) {
        Engine::seal_forgotten(self, now, volume);
    }

    fn is_forgotten(&self, volume: VolumeId) -> bool {
        Engine::is_forgotten(self, volume)
    }

    fn remove_volume(&mut self, volume: VolumeId) {
        Engine::remove_volume(self, volume);
    }

    fn grow(&mut self, now: Instant, superblock: &Superblock) -> Result<(), Error> {
        Engine::grow(self, now, superblock)
    }

    fn growth(&self) -> GrowthPhase {
        Engine::growth(self)
    }

    fn use_grown(&mut self, now: Instant) {
        Engine::use_grown(self, now);
    }

    fn leave_out(&mut self, now: Instant) {
        Engine::leave_out(self, now);
    }

    fn give_way(&mut self, mut to: Engine) {
        to.keep_counters_of(self);
        *self = to;
    }

    fn status(&self) -> Status {
        Engine::status(self)
    }

    fn wear(&self, now: Instant) -> Wear {
        Engine::wear(self, now)
    }

    fn wear_history(&self, now: Instant) -> WearHistory {
        Engine::wear_history(self, now)
    }

    fn set_write_budget(&mut self, now: Instant, budget: Option<NonZeroU64>) {
        Engine::set_write_budget(self, now, budget);
    }

    fn health(&self) -> CacheHealth {
        Engine::health(self)
    }

    fn record(&self) -> Option<Record> {
        Engine::record(self)
    }

    fn is_cached(&self, volume: VolumeId, block: BlockIndex) -> bool {
        Engine::is_cached(self, volume, block)
    }

    fn clean_samples(&self, volume: VolumeId, count: u32) -> Vec<Sample> {
        Engine::clean_samples(self, volume, count)
    }

    fn dirty_blocks(&self, volume: VolumeId) -> Vec<BlockIndex> {
        Engine::dirty_blocks(self, volume)
    }

    fn unwritten_blocks(&self, volume: VolumeId) -> Vec<BlockIndex> {
        Engine::unwritten_blocks(self, volume)
    }

    fn damaged_blocks(&self) -> Vec<BlockKey> {
        Engine::damaged_blocks(self)
    }

    fn stopped_journal(&self) -> Option<DurableBlocks> {
        Engine::stopped_journal(self)
    }

    fn pool_pages_used(&self) -> u32 {
        Engine::pool_pages_used(self)
    }
}
