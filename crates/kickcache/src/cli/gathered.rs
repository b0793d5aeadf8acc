//! What all servers of a daemon tell, as its report takes it.

use kickcache_daemon::control::report::CacheReport;
use kickcache_daemon::plan::cache_spec::Unserved;
use kickcache_daemon::serve::server::ServerStatus;

use crate::cli::orphans::told;
use crate::cli::start::{Served, Started};

/// It, as far as they were asked.
#[derive(Default)]
pub(super) struct Gathered {
    pub(super) caches: Vec<CacheReport>,
    pub(super) orphans: Vec<Unserved>,
    pub(super) tls_failure: Option<String>,
}

impl Gathered {
    /// Takes what a server tells that is not about its cache device.
    pub(super) fn take(&mut self, started: &Started, served: &Served, status: &ServerStatus) {
        self.orphans.extend(told(started, served, &status.orphans));
        if self.tls_failure.is_none() {
            self.tls_failure.clone_from(&status.tls_failure);
        }
    }
}
