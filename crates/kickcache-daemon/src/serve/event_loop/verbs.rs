//! The verbs that operations call in a turn of the event loop.

use std::time::SystemTime;

use kickcache_engine::cache_engine::CacheEngine;
use kickcache_engine::config::VolumeSettings;
use kickcache_engine::device::Device;
use kickcache_engine::format::superblock::Superblock;
use kickcache_engine::time::Instant;
use kickcache_engine::units::VolumeId;

use super::EventLoop;
use crate::devices::cache_device::Extended;
use crate::plan::write_budget::WriteBudget;
use crate::recording::ring::Recorder;
use crate::serve::control::{DeviceInUse, NamedSettings, Recorded};
use crate::serve::error::ServeError;
use crate::serve::recorders::RECORDING_COUNT_MAX;
use crate::serve::verbs::Verbs;
use crate::serve::verbs::growth::{DeviceToGrow, GrowthStart};
use crate::serve::verbs::resizes::{AwaitedDevice, OriginToResize};
use crate::serve::verbs::superblock_lease::{LeaseAnswer, LeaseNumber, ResizeId, SuperblockWriter};
use crate::serve::verbs::takeover_order::{TakeoverAnswer, TakeoverOrder};

impl<E: CacheEngine> Verbs for EventLoop<E> {
    fn volume_id(&self, name: &str) -> Result<VolumeId, ServeError> {
        EventLoop::volume_id(self, name)
    }

    fn engine(&mut self) -> &mut dyn CacheEngine {
        &mut self.core.engine
    }

    fn show_device(&self, device: Device) -> String {
        EventLoop::show_device(self, device)
    }

    fn change_settings(&mut self, now: Instant, wanted: &[NamedSettings]) -> Result<(), ServeError> {
        let ids =
            wanted.iter().map(|wanted| self.volume_id(&wanted.volume)).collect::<Result<Vec<_>, _>>()?;
        for (volume, NamedSettings { settings, client_cap, .. }) in ids.into_iter().zip(wanted) {
            self.core.throttles.set(volume, *client_cap);
            self.core.engine.change_settings(now, &VolumeSettings { volume, ..*settings });
        }
        Ok(())
    }

    fn set_write_budget(&mut self, now: Instant, budget: Option<WriteBudget>) {
        self.write_budget = budget;
        self.apply_write_budget(now);
    }

    fn begin_recording(
        &mut self,
        now: Instant,
        volume: &str,
        recorder: Recorder,
    ) -> Result<Recorded, ServeError> {
        let id = self.volume_id(volume)?;
        if !self.core.recorders.add(now, id, recorder) {
            let what = format!(
                "{RECORDING_COUNT_MAX} recordings run already on its cache device, and no more are possible; end one first"
            );
            return Err(ServeError::Volume { name: volume.into(), what });
        }
        tracing::info!(event = "recording_begun", volume, "a recording of {volume} begins");
        let found = self.core.volumes.iter().find(|found| found.info.id == id);
        let volume_bytes = found.map_or(0, |found| found.info.size);
        Ok(Recorded { volume_bytes, started: SystemTime::now() })
    }

    fn end_recordings(&mut self) {
        self.core.recorders.sweep();
        tracing::info!(event = "recording_ended", "a recording has ended");
    }

    fn device_to_replace(&self) -> Result<DeviceInUse, ServeError> {
        let cache = EventLoop::device_to_replace(self)?;
        Ok(DeviceInUse { superblock: self.superblock.clone(), cache })
    }

    fn begin_takeover(&mut self, order: TakeoverOrder, answer: TakeoverAnswer) {
        EventLoop::begin_takeover(self, order, answer);
    }

    fn wait_for_superblock(&mut self, writer: SuperblockWriter, answer: LeaseAnswer) -> LeaseNumber {
        EventLoop::wait_for_superblock(self, writer, answer)
    }

    fn end_lease(&mut self, number: LeaseNumber) {
        EventLoop::end_lease(self, number);
    }

    fn begin_resize(&mut self, volume: &str) -> Result<OriginToResize, ServeError> {
        EventLoop::begin_resize(self, volume)
    }

    fn awaited_by_resize(&self, volume: &str) -> Result<AwaitedDevice, ServeError> {
        let id = self.volume_id(volume)?;
        let is_storing = self.superblock_queue.has_resize_of(id);
        Ok(if is_storing { AwaitedDevice::Cache } else { AwaitedDevice::Origin(id) })
    }

    fn end_resize(&mut self, resize: ResizeId, superblock: Option<Box<Superblock>>) {
        EventLoop::end_resize(self, resize, superblock);
    }

    fn device_to_grow(&self) -> Result<DeviceToGrow, ServeError> {
        EventLoop::device_to_grow(self)
    }

    fn begin_growth(&mut self, wanted: Option<u64>) -> Result<GrowthStart, ServeError> {
        EventLoop::begin_growth(self, wanted)
    }

    fn prepare_growth(&mut self, now: Instant, extended: Extended) -> Result<(), ServeError> {
        EventLoop::prepare_growth(self, now, extended)
    }

    fn wait_to_store_growth(&mut self, answer: LeaseAnswer) -> LeaseNumber {
        let number = self.superblock_queue.number();
        if let Some(growth) = &mut self.growth {
            growth.waiting = Some((number, answer));
        }
        self.lend_to_growth();
        number
    }

    fn use_grown(&mut self, now: Instant, superblock: Superblock) {
        EventLoop::use_grown(self, now, superblock);
    }

    fn give_up_growth(&mut self, error: &ServeError) {
        EventLoop::give_up_growth(self, error);
    }

    fn end_growth(&mut self) {
        EventLoop::end_growth(self);
    }
}
