//! The verbs that operations call in a turn of the event loop.

use kickcache_engine::cache_engine::CacheEngine;
use kickcache_engine::device::Device;
use kickcache_engine::format::superblock::Superblock;
use kickcache_engine::time::Instant;
use kickcache_engine::units::VolumeId;

use super::EventLoop;
use crate::devices::cache_device::Extended;
use crate::serve::error::ServeError;
use crate::serve::verbs::Verbs;
use crate::serve::verbs::growth::{DeviceToGrow, GrowthStart};
use crate::serve::verbs::resizes::{AwaitedDevice, OriginToResize};
use crate::serve::verbs::superblock_lease::{LeaseAnswer, LeaseNumber, ResizeId, SuperblockWriter};

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
