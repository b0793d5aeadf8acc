//! Serving: one thread with engine, driver and the connections of clients.

mod block_status;
pub mod cache_device;
mod cache_engine;
pub mod config;
mod connection;
mod control;
pub mod error;
mod event_loop;
mod guests;
mod input;
mod listener;
pub mod notes;
pub mod older_copy;
mod outbox;
pub mod overtaken;
pub mod prepare;
mod rate_limit;
mod requests;
pub mod server;
mod startup;
mod times;
#[cfg(test)]
mod toy;
mod troubles;
