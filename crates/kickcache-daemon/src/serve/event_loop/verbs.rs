//! The verbs that operations call in a turn of the event loop.

use std::sync::mpsc::Sender;

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
use crate::serve::verbs::resizes::{AwaitedDevice, OriginToResize, ResizeId};
use crate::serve::verbs::superblock_lease::SuperblockLease;

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

    fn begin_resize(&mut self, volume: &str) -> Result<OriginToResize, ServeError> {
        EventLoop::begin_resize(self, volume)
    }

    fn wait_for_superblock(&mut self, resize: ResizeId, answer: Sender<Result<SuperblockLease, ServeError>>) {
        EventLoop::wait_for_superblock(self, resize, answer);
    }

    fn awaited_by_resize(&self, volume: &str) -> Result<AwaitedDevice, ServeError> {
        let id = self.volume_id(volume)?;
        Ok(if self.resizes.stores(id) { AwaitedDevice::Cache } else { AwaitedDevice::Origin(id) })
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

    fn wait_to_store_growth(&mut self, answer: Sender<Result<SuperblockLease, ServeError>>) {
        if let Some(growth) = &mut self.growth {
            growth.waiting = Some(answer);
        }
        self.lease_to_growth();
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
