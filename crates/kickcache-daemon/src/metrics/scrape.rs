//! What metrics are made of: a report, gathered so that no loop is held up for long.

use crate::control::ControlError;
use crate::control::report::Report;

/// The numbers of a scrape.
#[derive(Clone, PartialEq, Debug)]
pub struct Scrape {
    /// What the loops answered. What requests did recently is empty; of the curves of a cache device there is one.
    pub report: Report,
    /// Cache devices whose loop did not answer.
    pub silent: Vec<String>,
}

/// Where metrics come from: a running daemon.
pub trait MetricsTarget: Send + Sync + 'static {
    /// State and counters of everything that is served.
    ///
    /// # Errors
    /// The daemon is starting, or stopping.
    fn scrape(&self) -> Result<Scrape, ControlError>;
}
