//! Operations on a running daemon that change the served volumes and cache devices.
//!
//! * [`changes`]: the served volumes, changed by one operation at a time; [`operation_lock`]: the order of operations.
//! * [`remove`], [`leave_out`], [`take_in`]: the operations of several steps; [`new_device`]: the device that a
//!   replacement names.
//! * [`kept_state`], [`devices_in_file`]: volumes and devices of a configuration file that is read again.
//!
//! Start with `changes.rs`.

pub mod changes;
pub mod control_error;
pub mod devices_in_file;
pub mod kept_state;
pub mod leave_out;
pub mod new_device;
pub mod operation_lock;
pub mod remove;
pub mod take_in;
