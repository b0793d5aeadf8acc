//! The fault simulation: the real engine on simulated devices, with many clients, crashes and an oracle, in virtual
//! time. The seed and the kind of plan decide the whole run.
//!
//! Modules:
//! * [`plan`] draws the parameters of a run: sizes, settings, faults, and a random choice of features.
//! * [`device`] is a block device with a volatile write cache.
//! * [`host`] plays the driver for one life of an engine.
//! * [`workload`] is the activity of the clients.
//! * [`oracle`] decides which values a read may return.
//! * [`run`] plays a whole run: lives, crashes, the final check of the origins.
//!
//! Invariants: the same seed and kind of plan give the same events and the same hash on every machine; the wall clock
//! is used only to measure and to limit the duration of a series and of its runs.
//!
//! Start with [`run`], then [`oracle`].

pub mod content;
pub mod device;
mod drained;
mod growing;
pub mod host;
mod index;
pub mod memory;
mod operation;
pub mod oracle;
pub mod payload;
pub mod plan;
pub mod queue;
mod replacing;
pub mod report;
pub mod rot;
pub mod run;
mod run_records;
pub mod sectors;
pub mod seeds;
pub mod series;
mod setup;
pub mod subject;
mod superblock;
pub mod trace;
pub mod workload;
mod zeroed_segments;
