//! The source of metrics: a report, collected so that no loop is delayed for long.

use crate::control::ControlError;
use crate::control::report::Report;

/// The numbers of a scrape.
#[derive(Clone, PartialEq, Debug)]
pub struct Scrape {
    /// The answers of the loops. Recent requests are empty; of each cache device, one volume at most has a
    /// curve.
    pub report: Report,
    /// Cache devices with a loop that did not answer, or has ended.
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
