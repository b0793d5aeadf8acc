//! Operations on a running daemon that change the served volumes and cache devices.
//!
//! * `changes`: the served volumes, changed by one operation at a time; `operation_lock`: the order of operations.
//! * `remove`, `leave_out`, `take_in`: operations of several steps; `new_device`: the device that a
//!   replacement names.
//! * `reload_result`: a reload for the log and the client, which may have failed after some changes;
//!   `control_error`: errors of servers for the client.
//! * `kept_state`, `devices_in_file`: volumes and devices of a configuration file that is read again.
//! * `volume_addition`, `volume_removal`, `places_change`: volumes come and go, with their addresses.
//! * `resize`, `grow`: an origin or a cache device with a new size; `script`: the thread of such an operation, and its caller;
//!   `held_superblock`: the right of a script to write the superblock.
//! * `cache_removal`, `cache_insertion`, `standby_engine`: a cache device is left out, or taken in; `engine_exchange`: the engine is
//!   replaced for that.
//!
//! Start with `changes.rs`.

pub(crate) mod cache_insertion;
pub(crate) mod cache_removal;
pub(crate) mod changes;
pub mod control_error;
pub(crate) mod devices_in_file;
pub(crate) mod engine_exchange;
pub(crate) mod grow;
pub(crate) mod held_superblock;
pub(crate) mod kept_state;
pub(crate) mod leave_out;
pub(crate) mod new_device;
pub(crate) mod operation_lock;
pub(crate) mod places_change;
pub(crate) mod reload_result;
pub(crate) mod remove;
pub(crate) mod resize;
pub(crate) mod script;
pub(crate) mod standby_engine;
pub(crate) mod take_in;
pub(crate) mod volume_addition;
pub(crate) mod volume_removal;

#[cfg(test)]
mod tests;
