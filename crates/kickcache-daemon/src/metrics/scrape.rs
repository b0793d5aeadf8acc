//! The source of metrics: a report of the daemon.

use crate::control::ControlError;
use crate::control::report::Report;

#[derive(Clone, PartialEq, Debug)]
pub struct Scrape {
    /// The answers of the loops.
    pub report: Report,
    /// Cache devices with a loop that did not answer, or has ended; none while the daemon stops.
    pub silent: Vec<String>,
}

/// The target of scrapes: a running daemon.
pub trait MetricsTarget: Send + Sync + 'static {
    /// # Errors
    /// The daemon is starting.
    fn scrape(&self) -> Result<Scrape, ControlError>;
}
