//! Verbs that report the state of a server.

use kickcache_engine::time::Instant;

use crate::serve::control::{ServerHealth, ServerSample, ServerStatus};

/// The event loop as reports use it.
pub(crate) trait ReportVerbs {
    fn status(&mut self, now: Instant) -> ServerStatus;

    /// State and counters without the curves of other cache sizes.
    fn vitals(&mut self, now: Instant) -> ServerStatus;

    /// The data for a scrape of metrics.
    fn sample(&mut self) -> ServerSample;

    fn health(&self, now: Instant) -> ServerHealth;
}
