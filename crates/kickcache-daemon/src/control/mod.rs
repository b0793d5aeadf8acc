//! The control socket: queries and commands to a running daemon.
//!
//! Each request and each reply is a line with a JSON object, except the parcels of a recording.

pub mod activity;
pub mod client;
pub mod condition;
mod condition_kind;
mod connections;
pub mod error_count;
mod feed;
pub mod host_report;
pub mod last_error;
pub mod limits_report;
pub mod lru_curve;
pub mod memory_report;
pub mod recording_client;
pub mod remedy;
pub mod replacing_report;
pub mod report;
mod request_handler;
pub mod server;
pub mod socket_file;
mod unique_keys;
pub mod wear_report;
pub mod wire;
mod workers;

pub use request_handler::{Answer, ControlError, RequestHandler};

#[cfg(test)]
mod tests;
