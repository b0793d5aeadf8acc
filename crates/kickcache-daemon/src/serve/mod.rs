//! The data plane: one thread with engine, driver and front ends.
//!
//! [`config`] has the parameters; `startup` makes a loop, `event_loop` runs it, and [`server`] is the
//! interface for the rest of the program.

pub(crate) mod background;
pub(crate) mod complaints;
pub mod config;
pub(crate) mod control;
pub(crate) mod core;
pub(crate) mod curves;
pub(crate) mod device_layer;
pub mod error;
pub(crate) mod event_loop;
pub(crate) mod frontend;
pub mod known_volume;
pub mod origin;
pub(crate) mod out_of_service;
pub(crate) mod own_export;
pub(crate) mod rate_limit;
pub(crate) mod recorders;
pub(crate) mod recovery;
pub(crate) mod requests;
pub(crate) mod served_volumes;
pub mod server;
pub(crate) mod startup;
pub(crate) mod stop_wait;
pub mod stop_wish;
pub mod throttle;
pub(crate) mod times;
pub(crate) mod troubles;
pub(crate) mod verbs;
pub(crate) mod volume_info;
