//! Verbs that report the state of a server.

use kickcache_engine::time::Instant;

use crate::serve::control::{ServerHealth, ServerSample, ServerStatus};

pub(crate) trait ReportVerbs {
    fn status(&mut self, now: Instant) -> ServerStatus;

    /// State and counters without the curves of other cache sizes.
    fn vitals(&mut self, now: Instant) -> ServerStatus;

    fn sample(&mut self) -> ServerSample;

    fn health(&self, now: Instant) -> ServerHealth;
}
