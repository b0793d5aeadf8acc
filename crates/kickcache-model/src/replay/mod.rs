//! A bench in virtual time: a workload against a bare device, a model of another cache or the real engine.
//!
//! The same seed gives the same run. Memory, locks and interrupts cost no time.

pub mod bench;
pub mod cache_model;
pub mod cloud_duel;
pub mod devices;
pub mod duel;
mod jobs;
pub mod late_processor;
pub mod real_engine;
pub(crate) mod slots;
