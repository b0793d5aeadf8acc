//! Models of devices and of other caches, workloads, traces and the published results, in virtual time. The
//! engine in these models is the shipped one.
//!
//! Invariants: the same input and seed give the same result on every machine; this crate never reads a clock.
//!
//! Start with [`replay`], which runs a workload on a cache, and with [`untimed`], which only counts.

pub mod cache_model;
pub mod device_model;
pub mod grid;
pub mod memory;
pub mod pareto;
pub mod policy_study;
pub mod published;
mod quote;
mod ratio;
pub mod reference_policy;
pub mod replay;
pub mod result;
pub mod statistics;
pub mod trace_file;
pub mod untimed;
pub mod workload;
pub mod zipf;
