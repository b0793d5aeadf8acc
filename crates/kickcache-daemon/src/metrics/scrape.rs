//! The source of metrics: a report, collected so that no loop is delayed for long.

use crate::control::ControlError;
use crate::control::report::Report;

/// The numbers of a scrape.
#[derive(Clone, PartialEq, Debug)]
pub struct Scrape {
    /// The answers of the loops. It has no activities; of each cache device, one volume at most has a curve, until
    /// the server adds the curves of earlier scrapes.
    pub report: Report,
    /// Cache devices with a loop that did not answer, or has ended; none while the daemon stops.
    pub silent: Vec<String>,
}

/// The target of scrapes: a running daemon.
pub trait MetricsTarget: Send + Sync + 'static {
    /// State and counters of all volumes and cache devices.
    ///
    /// # Errors
    /// The daemon is starting.
    fn scrape(&self) -> Result<Scrape, ControlError>;
}
