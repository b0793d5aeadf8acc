//! The source of metrics: a report, collected so that no loop is delayed for long.

use crate::control::ControlError;
use crate::control::report::Report;

/// The numbers of a scrape.
#[derive(Clone, PartialEq, Debug)]
pub struct Scrape {
    /// The answers of the loops. Recent requests are empty; there is one curve for each cache device.
    pub report: Report,
    /// Cache devices with a loop that did not answer.
    pub silent: Vec<String>,
}

/// The target of scrapes: a running daemon.
pub trait MetricsTarget: Send + Sync + 'static {
    /// State and counters of all volumes and cache devices.
    ///
    /// # Errors
    /// The daemon is starting, or stopping.
    fn scrape(&self) -> Result<Scrape, ControlError>;
}
