//! Which cache device belongs to which origin: found before a volume is served, and recorded while it is.
//!
//! * [`device_opening`] opens the devices of a start, the origins as [`open_volume`]; [`cache_device`] has the
//!   superblock, and formats devices; [`reservation_check`]: whether a device has the room that its volumes
//!   reserve.
//! * [`volume_identity`], [`recognition`], [`origin_checks`], [`stop_record_check`]: whether an origin is the disk of the
//!   cached blocks; [`bypassed_device`]: whether it was used without its cache.
//! * [`older_copy`], [`succession`], [`missed_device`], [`lost_superblock`], [`known_origin`], [`damaged_log`]: which device
//!   is the cache, and messages about unsuitable ones.
//! * [`state`]: the records in the state directory; [`origin_records`], [`record_queue`], [`wear_notes`] and
//!   [`unserved_records`] write them while volumes are served. [`journal_note`] writes the superblock.
//! * [`offline`]: tools for a cache device that no daemon serves.
//!
//! Start with `device_opening.rs`.

pub mod bypassed_device;
pub mod cache_device;
pub mod damaged_log;
pub mod device_opening;
pub(crate) mod journal_note;
pub mod known_origin;
pub mod lost_superblock;
pub mod missed_device;
pub mod offline;
pub mod older_copy;
pub(crate) mod open_volume;
pub(crate) mod origin_checks;
pub mod origin_records;
pub(crate) mod recognition;
pub(crate) mod record_queue;
pub(crate) mod reservation_check;
pub mod state;
pub(crate) mod stop_record_check;
pub mod succession;
pub(crate) mod unserved_records;
pub(crate) mod volume_identity;
pub(crate) mod wear_notes;
