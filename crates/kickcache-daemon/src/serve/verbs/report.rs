//! Verbs that report the state of a server.

use kickcache_engine::time::Instant;

use crate::serve::control::{ServerHealth, ServerSample, ServerStatus};

/// The event loop as reports use it.
pub(crate) trait ReportVerbs {
    /// State and counters.
    fn status(&mut self, now: Instant) -> ServerStatus;

    /// State and counters without the curves of other cache sizes, which take long.
    fn vitals(&mut self, now: Instant) -> ServerStatus;

    /// The data for a scrape of metrics, which is frequent: requests wait meanwhile.
    fn sample(&mut self) -> ServerSample;

    /// The number of volumes, the dirty data, and the devices that a stop waits for.
    fn health(&self, now: Instant) -> ServerHealth;
}
