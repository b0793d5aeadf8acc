//! The verbs of the data plane: each completes in one turn of the event loop, which calls it for another thread.

pub(crate) mod membership;
pub(crate) mod resizes;
pub(crate) mod takeover_order;

use std::sync::mpsc::Sender;

use kickcache_engine::cache_engine::CacheEngine;
use kickcache_engine::device::Device;
use kickcache_engine::format::superblock::Superblock;
use kickcache_engine::time::Instant;
use kickcache_engine::units::VolumeId;

use crate::serve::error::ServeError;
use crate::serve::verbs::resizes::{OriginToResize, SizeLease};

/// Verbs that another thread calls in a turn of the event loop.
pub(crate) type VerbCall = Box<dyn FnOnce(&mut dyn Verbs, Instant) + Send>;

/// The event loop as the operations use it.
pub(crate) trait Verbs {
    /// The number of a served volume.
    ///
    /// # Errors
    /// If no volume has the name.
    fn volume_id(&self, name: &str) -> Result<VolumeId, ServeError>;

    /// The engine, for verbs of its own.
    fn engine(&mut self) -> &mut dyn CacheEngine;

    /// A device as messages name it.
    fn show_device(&self, device: Device) -> String;

    /// Begins a resize of a volume: until its end, the volume cannot be removed, and has no second resize.
    ///
    /// # Errors
    /// The volume is not served or is being removed, a resize of it is in progress, the size of its origin cannot be read while it is
    /// served, or the server is stopping.
    fn begin_resize(&mut self, volume: &str) -> Result<OriginToResize, ServeError>;

    /// Answers with the superblock, which the caller may write until the end of the resize, once no other operation writes it.
    fn wait_for_superblock(&mut self, volume: VolumeId, answer: Sender<Result<SizeLease, ServeError>>);

    /// Ends a resize; a superblock was written, with the new size of the volume.
    fn end_resize(&mut self, volume: VolumeId, superblock: Option<Box<Superblock>>);
}
