//! The verbs that operations call in a turn of the event loop.

use std::sync::mpsc::Sender;

use kickcache_engine::cache_engine::CacheEngine;
use kickcache_engine::device::Device;
use kickcache_engine::format::superblock::Superblock;
use kickcache_engine::units::VolumeId;

use super::EventLoop;
use crate::serve::error::ServeError;
use crate::serve::verbs::Verbs;
use crate::serve::verbs::resizes::{OriginToResize, SizeLease};

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
        self.origin_to_resize(volume)
    }

    fn wait_for_superblock(&mut self, volume: VolumeId, answer: Sender<Result<SizeLease, ServeError>>) {
        self.queue_resize(volume, answer);
    }

    fn end_resize(&mut self, volume: VolumeId, superblock: Option<Box<Superblock>>) {
        self.finish_resize(volume, superblock);
    }
}
