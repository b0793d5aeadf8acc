//! Serving: one thread with engine, driver and front ends.
//!
//! [`config`] has the parameters; [`prepare`] opens the devices, `startup` makes a loop, `event_loop` runs
//! it, and [`server`] is the interface for the rest of the program. The loop shares `core` with its front
//! ends, which are in `frontend`. [`notes`], [`overtaken`], [`older_copy`] and [`cache_device`] handle the
//! state on devices and in the state directory before any volume is served.

mod aside;
mod asker;
mod background;
pub mod cache_device;
mod cache_growth;
mod cache_takeover;
mod complaints;
pub mod config;
mod control;
mod core;
mod curves;
pub mod damaged_log;
mod engine_change;
pub mod error;
mod event_loop;
pub(crate) mod frontend;
pub mod joining;
mod journal_note;
pub mod known_origin;
pub mod known_volume;
mod leaving;
mod leaving_out;
pub mod lost_superblock;
pub mod membership;
pub mod missed_device;
mod note_queue;
pub mod notes;
pub mod older_copy;
mod open_volume;
pub mod origin;
mod origin_checks;
mod out_of_service;
pub mod overtaken;
mod own_export;
pub mod parting;
mod patience;
pub mod places_change;
pub mod prepare;
mod rate_limit;
mod recognition;
mod recorders;
mod recovery;
mod requests;
mod resizes;
mod rooms;
mod served_volumes;
pub mod server;
mod startup;
mod stop_wait;
pub mod stop_wish;
pub mod succession;
mod takeover_order;
pub mod taking_in;
pub mod throttle;
mod times;
mod troubles;
mod unserved;
mod unserved_records;
pub(crate) mod volume_identity;
mod volume_info;
mod wear_notes;
