//! Serving: one thread with engine, driver and front ends.
//!
//! [`config`] has the parameters; [`device_opening`] opens the devices, `startup` makes a loop, `event_loop` runs
//! it, and [`server`] is the interface for the rest of the program. The loop shares `core` with its front
//! ends, which are in `frontend`. [`origin_records`], [`bypassed_device`], [`older_copy`] and [`cache_device`] handle the
//! state on devices and in the state directory before any volume is served.

mod background;
pub mod bypassed_device;
pub mod cache_device;
mod cache_growth;
pub mod cache_insertion;
mod cache_takeover;
mod complaints;
pub mod config;
mod control;
mod core;
mod curves;
pub mod damaged_log;
pub mod device_opening;
mod engine_change;
pub mod error;
mod event_loop;
pub(crate) mod frontend;
mod journal_note;
pub mod known_origin;
pub mod known_volume;
mod leave_out;
pub mod lost_superblock;
pub mod membership;
pub mod missed_device;
pub mod older_copy;
mod open_volume;
pub mod origin;
mod origin_checks;
pub mod origin_records;
mod out_of_service;
mod own_export;
mod patience;
pub mod places_change;
mod rate_limit;
mod recognition;
mod record_queue;
mod recorders;
mod recovery;
mod removal_state;
mod reply_wait;
mod requests;
mod reservation_check;
mod resizes;
mod served_volumes;
pub mod server;
mod standby_engine;
mod startup;
mod stop_record_check;
mod stop_wait;
pub mod stop_wish;
pub mod succession;
mod takeover_order;
pub mod throttle;
mod times;
mod troubles;
mod unserved_records;
pub mod volume_addition;
pub(crate) mod volume_identity;
mod volume_info;
pub mod volume_removal;
mod wear_notes;
