//! Models of devices and of other caches, workloads, traces and the published results, in virtual time: they
//! predict the performance of a cache before it is built. The engine in these models is the shipped one.
//!
//! Modules:
//! * [`device_model`]: how long devices take (rotating disk, mirror, SSD, capped cloud disk, remote disk).
//! * [`workload`]: the requests of clients; [`zipf`], [`pareto`]: the skewed random offsets of fio.
//! * [`trace_file`]: recorded accesses, read from the usual formats.
//! * [`cache_model`]: models of no cache, of the other caches and of an LRU cache, and the choice of a cache by name.
//! * [`reference_policy`]: policies without a log, to compare hit ratios with.
//! * [`untimed`]: the engine on devices that take no time, except possibly for writes, for hit ratios and bytes
//!   written.
//! * [`policy_study`]: the engine compared with those policies, case by case.
//! * [`replay`]: a workload against the engine or a model, on virtual devices.
//! * [`grid`]: many mixed loads, on which kickcache is judged against the best of the other caches.
//! * [`published`]: the published runs that the project answers to.
//! * [`result`]: the results of a run, and their JSON. [`statistics`]: conclusions from several rounds of
//!   runs.
//! * [`memory`]: a check that enough memory is free.
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
