//! Virtual devices, workloads, faults and an oracle for the cache engine.
//!
//! * [`model`]: how long devices take (rotating disk, mirror, SSD, capped cloud disk), in virtual time.
//! * [`world`]: the real engine on simulated devices with faults, and an oracle.
//! * [`replay`]: a bench in virtual time: a workload against the real engine or a model, on virtual devices.
//! * [`others`]: models of the other caches.
//! * [`published`]: the published runs that the project answers to.
//! * [`yardstick`]: policies without a log, to compare miss ratios with.
//! * [`zipf`], [`pareto`]: the skewed random offsets of fio.
//! * [`workload`]: what clients do, in virtual time.
//! * [`instant`]: the real engine on devices that take no time, for hit ratios and bytes written.
//! * [`trace_file`]: recorded accesses, read from the usual formats.
//! * [`memory`]: whether there is enough of it.
//! * [`result`]: what a run gave; its JSON.
//! * [`random`]: the one source of chance; a seed decides everything.

pub mod instant;
pub mod memory;
pub mod model;
pub mod others;
pub mod pareto;
pub mod published;
pub mod random;
pub mod replay;
pub mod result;
pub mod trace_file;
pub mod workload;
pub mod world;
pub mod yardstick;
pub mod zipf;
