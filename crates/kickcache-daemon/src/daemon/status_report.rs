//! The status of all servers of a daemon, collected for its report.

use crate::control::memory_report::MemoryReport;
use crate::control::report::{CacheReport, UnservedReport};
use crate::plan::memory_limit::MemoryLimit;
use crate::serve::server::ServerStatus;
use crate::shell_command::DaemonCommands;

use crate::start::servers::{PlannedServer, StartResult};
use crate::start::unserved_volumes::orphan_reports;

#[derive(Default)]
pub(crate) struct StatusParts {
    pub(crate) caches: Vec<CacheReport>,
    pub(crate) orphans: Vec<UnservedReport>,
    /// Cache devices with a server that did not answer, or has ended.
    pub(crate) silent: Vec<String>,
    pub(crate) tls_failure: Option<String>,
    memory: MemoryReport,
}

impl StatusParts {
    pub(crate) fn memory(&self, limit: MemoryLimit) -> MemoryReport {
        MemoryReport { limit_bytes: limit.bytes() as u64, ..self.memory }
    }

    /// Adds the memory, the unserved volumes and the TLS failure of a server.
    pub(crate) fn take(
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
