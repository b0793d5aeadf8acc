//! The verbs of the data plane: another thread calls them in a turn of the event loop.

pub(crate) mod exchange;
pub(crate) mod growth;
pub(crate) mod membership;
pub(crate) mod report;
pub(crate) mod resizes;
pub(crate) mod superblock_lease;
pub(crate) mod takeover_order;

use kickcache_engine::cache_engine::CacheEngine;
use kickcache_engine::device::Device;
use kickcache_engine::format::superblock::Superblock;
use kickcache_engine::time::Instant;
use kickcache_engine::units::VolumeId;

use crate::devices::cache_device::Extended;
use crate::plan::write_budget::WriteBudget;
use crate::recording::ring::Recorder;
use crate::serve::control::{DeviceInUse, NamedSettings, Recorded};
use crate::serve::error::ServeError;
use crate::serve::verbs::exchange::ExchangeVerbs;
use crate::serve::verbs::growth::{DeviceToGrow, GrowthStart};
use crate::serve::verbs::membership::MembershipVerbs;
use crate::serve::verbs::report::ReportVerbs;
use crate::serve::verbs::resizes::{AwaitedDevice, OriginToResize};
use crate::serve::verbs::superblock_lease::{LeaseAnswer, LeaseNumber, ResizeId, SuperblockWriter};
use crate::serve::verbs::takeover_order::{TakeoverAnswer, TakeoverOrder};

pub(crate) type VerbCall = Box<dyn FnOnce(&mut dyn Verbs, Instant) + Send>;

pub(crate) enum Control {
    Verbs(VerbCall),
    /// Also sent when the last handle of the server is dropped.
    Stop,
    /// Stop; if the log has named the reason why a stop waits, this ends the wait.
    Insist,
}

pub(crate) trait Verbs: ReportVerbs + MembershipVerbs + ExchangeVerbs {
    /// # Errors
    /// If no volume has the name.
    fn volume_id(&self, name: &str) -> Result<VolumeId, ServeError>;

    fn engine(&mut self) -> &mut dyn CacheEngine;

    fn show_device(&self, device: Device) -> String;

    /// Changes modes, policies and client caps of volumes, all or none.
    ///
    /// # Errors
    /// If a volume is not served.
    fn change_settings(&mut self, now: Instant, wanted: &[NamedSettings]) -> Result<(), ServeError>;

    fn set_write_budget(&mut self, now: Instant, budget: Option<WriteBudget>);

    /// # Errors
    /// If the volume is not served, or the limit of recordings is reached.
    fn begin_recording(
        &mut self,
        now: Instant,
        volume: &str,
        recorder: Recorder,
    ) -> Result<Recorded, ServeError>;

    /// Ends the recordings whose clients have disconnected.
    fn end_recordings(&mut self);

    /// # Errors
    /// An obstacle to a replacement.
    fn device_to_replace(&self) -> Result<DeviceInUse, ServeError>;

    /// Begins a takeover; the answer comes when the copy begins or the takeover fails.
    fn begin_takeover(&mut self, order: TakeoverOrder, answer: TakeoverAnswer);

    /// Requests the lease of the superblock: the caller may write the superblock from a good answer until
    /// [`Verbs::end_lease`].
    fn wait_for_superblock(&mut self, writer: SuperblockWriter, answer: LeaseAnswer) -> LeaseNumber;

    /// Ends the request or the lease of this number.
    fn end_lease(&mut self, number: LeaseNumber);

    /// Begins a resize of a volume, which has no second resize until its end.
    ///
    /// # Errors
    /// The volume is not served or is being removed, a resize of it is in progress, the size of its origin cannot be read while it is
    /// served, or the server is stopping.
    fn begin_resize(&mut self, volume: &str) -> Result<OriginToResize, ServeError>;

    /// # Errors
    /// If the volume is not served.
    fn awaited_by_resize(&self, volume: &str) -> Result<AwaitedDevice, ServeError>;

    /// Ends a resize; a superblock, if given, was written, with the new size of the volume.
    fn end_resize(&mut self, resize: ResizeId, superblock: Option<Box<Superblock>>);

    /// # Errors
    /// An obstacle to a growth.
    fn device_to_grow(&self) -> Result<DeviceToGrow, ServeError>;

    /// Begins a growth of the cache device to this many bytes, or to its end.
    ///
    /// # Errors
    /// As [`Verbs::device_to_grow`].
    fn begin_growth(&mut self, wanted: Option<u64>) -> Result<GrowthStart, ServeError>;

    /// Has the engine prepare for the new size.
    ///
    /// # Errors
    /// The engine refuses the size, or the server is stopping.
    fn prepare_growth(&mut self, now: Instant, extended: Extended) -> Result<(), ServeError>;

    /// Requests the superblock for a growth; the answer comes when the engine is prepared, or with the
    /// obstacle.
    fn wait_to_store_growth(&mut self, answer: LeaseAnswer) -> LeaseNumber;

    /// Ends the growth and uses the new size, after the superblock with it was written.
    fn use_grown(&mut self, now: Instant, superblock: Superblock);

    /// The growth ends with an error: the device keeps its old size.
    fn give_up_growth(&mut self, error: &ServeError);

    /// Ends a growth without a message.
    fn end_growth(&mut self);
}
