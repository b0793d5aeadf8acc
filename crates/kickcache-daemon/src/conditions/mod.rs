//! Finds the conditions of a daemon in its report, and follows them from report to report.
//!
//! Invariant: a condition is found from a report, the [`Surroundings`], the memory of [`watch`] and the time
//! alone.
//!
//! To add a condition: a row in `control/condition_kind.rs`, its finder here. Shown: docs/reference/status.md.

mod of_cache;
mod of_daemon;
mod of_volume;
pub mod state_probe;
pub mod unlinked;
mod volume_history;
pub mod watch;

#[cfg(test)]
mod tests;

pub use self::of_volume::damage;

use crate::shell_command::DaemonCommands;

/// Facts about a daemon that its report does not have.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings<'a> {
    /// Cache devices with an event loop that did not answer, or has ended; none while the daemon stops.
    pub silent: &'a [String],
    /// Why the state directory cannot be written.
    pub state_failure: Option<&'a str>,
    pub commands: &'a DaemonCommands,
}
