//! A cache device that is taken out of service: said once, with what is on it alone.

use super::EventLoop;
use crate::extents::{EXTENTS_LOGGED, extents, show_extents};
use crate::serve::cache_engine::CacheEngine;

/// Whether the log tells of a cache device that is out of service.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OutOfService {
    /// It was told, or is by order.
    Told,
    /// It will be.
    Untold,
}

impl<E: CacheEngine> EventLoop<E> {
    /// Says what a cache device held that went out of service. Once the daemon has ended, nobody else can.
    pub(super) fn tell_out_of_service(&mut self) {
        if self.out_of_service == OutOfService::Told || !self.engine.is_out_of_service() {
            return;
        }
        self.out_of_service = OutOfService::Told;
        let device = self.cache.display();
        tracing::error!("{device} failed too often and is out of service: volumes go on from their origins");
        for volume in &self.volumes {
            let blocks = self.engine.dirty_blocks(volume.info.id);
            if blocks.is_empty() {
                continue;
            }
            let which = show_extents(&extents(&blocks), EXTENTS_LOGGED);
            tracing::error!(
                "{} blocks of {} are dirty and on {device} alone, as {which}",
                blocks.len(),
                volume.info.name
            );
        }
    }
}
