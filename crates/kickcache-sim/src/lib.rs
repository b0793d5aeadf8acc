//! Virtual devices, workloads, faults and an oracle for the cache engine.
//!
//! * [`model`]: how long devices take (rotating disk, mirror, SSD, capped cloud disk), in virtual time.
//! * [`world`]: the real engine on simulated devices with faults, and an oracle.
//! * [`zipf`]: the skewed random offsets of fio.
//! * [`workload`]: what clients do, in virtual time.
//! * [`result`]: what a run gave; its JSON.
//! * [`random`]: the one source of chance; a seed decides everything.

pub mod model;
pub mod random;
pub mod result;
pub mod workload;
pub mod world;
pub mod zipf;
