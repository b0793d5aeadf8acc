//! Operations on a running daemon that change the served volumes and cache devices.
//!
//! * [`changes`]: the served volumes, changed by one operation at a time; [`operation_lock`]: the order of operations.
//! * [`remove`], [`leave_out`], [`take_in`]: the operations of several steps; [`new_device`]: the device that a
//!   replacement names.
//! * [`kept_state`], [`devices_in_file`]: volumes and devices of a configuration file that is read again.
//!
//! Start with `changes.rs`.

pub(crate) mod changes;
pub mod control_error;
pub(crate) mod devices_in_file;
pub(crate) mod kept_state;
pub(crate) mod leave_out;
pub(crate) mod new_device;
pub(crate) mod operation_lock;
pub(crate) mod remove;
pub(crate) mod take_in;
