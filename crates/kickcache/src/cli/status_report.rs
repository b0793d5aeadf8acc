//! The status of all servers of a daemon, collected for its report.

use kickcache_daemon::control::memory_report::MemoryReport;
use kickcache_daemon::control::report::{CacheReport, UnservedReport};
use kickcache_daemon::plan::memory_limit::MemoryLimit;
use kickcache_daemon::serve::server::ServerStatus;
use kickcache_daemon::shell_command::DaemonCommands;

use kickcache_daemon::start::servers::{PlannedServer, StartResult};
use kickcache_daemon::start::unserved_volumes::orphan_reports;

/// The collected parts of the servers queried so far.
#[derive(Default)]
pub(super) struct StatusParts {
    pub(super) caches: Vec<CacheReport>,
    pub(super) orphans: Vec<UnservedReport>,
    /// Cache devices whose servers did not answer.
    pub(super) silent: Vec<String>,
    pub(super) tls_failure: Option<String>,
    memory: MemoryReport,
}

impl StatusParts {
    /// The memory for payload, within the limit of the daemon.
    pub(super) fn memory(&self, limit: MemoryLimit) -> MemoryReport {
        MemoryReport { limit_bytes: limit.bytes() as u64, ..self.memory }
    }

    /// Adds the status of a server, except that of its cache device.
    pub(super) fn take(
        &mut self,
        started: &StartResult,
        served: &PlannedServer,
        status: &ServerStatus,
        commands: &DaemonCommands,
    ) {
        self.memory.used_bytes += status.memory.bytes as u64;
        self.memory.waiting_requests += status.memory.waiting as u64;
        self.orphans.extend(orphan_reports(started, served, &status.orphans, commands));
        if self.tls_failure.is_none() {
            self.tls_failure.clone_from(&status.tls_failure);
        }
    }
}
