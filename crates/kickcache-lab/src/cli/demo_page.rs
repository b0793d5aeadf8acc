//! The live page of the demo: the page of a daemon, for the server of the latest run.

use std::ffi::OsStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use anyhow::Context;
use kickcache_daemon::conditions::Surroundings;
use kickcache_daemon::conditions::watch::ConditionWatch;
use kickcache_daemon::control::ControlError;
use kickcache_daemon::control::condition::Health;
use kickcache_daemon::control::host_report::HostReport;
use kickcache_daemon::control::memory_report::MemoryReport;
use kickcache_daemon::control::report::Report;
use kickcache_daemon::daemon::cache_report::sample_report;
use kickcache_daemon::metrics::scrape::{MetricsTarget, Scrape};
use kickcache_daemon::metrics::server::MetricsServer;
use kickcache_daemon::operations::control_error::{control_error, starting};
use kickcache_daemon::plan::Exposure;
use kickcache_daemon::plan::cache_spec::CacheSpec;
use kickcache_daemon::plan::metrics_address::MetricsAddress;
use kickcache_daemon::serve::server::ServerHandle;
use kickcache_daemon::shell_command::DaemonCommands;

use crate::demo::RunDisplay;

/// A free port of this host, for its own users.
const ADDRESS: &str = "tcp:127.0.0.1:0";

pub(super) struct DemoPage {
    target: Arc<RunTarget>,
    server: MetricsServer,
}

impl DemoPage {
    /// Opens the page.
    ///
    /// # Errors
    /// If the page cannot be served.
    pub(super) fn open() -> anyhow::Result<DemoPage> {
        let address = MetricsAddress::parse(OsStr::new(ADDRESS))?;
        let target = Arc::new(RunTarget::default());
        let server = MetricsServer::start(&address, Exposure::LocalOnly, target.clone());
        Ok(DemoPage { target, server: server.context("the page cannot be served")? })
    }
}

impl RunDisplay for DemoPage {
    fn address(&self) -> &str {
        self.server.page().unwrap_or_else(|| self.server.address())
    }

    fn show(&self, server: &ServerHandle, cache: CacheSpec) {
        let run = ShownRun {
            server: server.clone(),
            cache,
            watch: ConditionWatch::default(),
            began: Instant::now(),
        };
        *self.target.run.lock().unwrap_or_else(PoisonError::into_inner) = Some(run);
    }
}

#[derive(Default)]
struct RunTarget {
    run: Mutex<Option<ShownRun>>,
}

struct ShownRun {
    server: ServerHandle,
    cache: CacheSpec,
    watch: ConditionWatch,
    began: Instant,
}

impl ShownRun {
    fn scrape(&mut self) -> Result<Scrape, ControlError> {
        let sample = self.server.sample().map_err(control_error)?;
        let io_engine = sample.status.io_engine.as_str().into();
        let commands = DaemonCommands::default();
        let mut report = Report {
            version: env!("CARGO_PKG_VERSION").into(),
            pid: std::process::id(),
            uptime_seconds: self.began.elapsed().as_secs_f64(),
            io_engine,
            state_directory: None,
            caches: vec![sample_report(sample, &self.cache)],
            unserved: Vec::new(),
            monitor_ended: false,
            memory: MemoryReport::default(),
            tls_failure: None,
            health: Health::default(),
            conditions: Vec::new(),
            host: HostReport::own(&commands),
        };
        let around = Surroundings { silent: &[], state_failure: None, commands: &commands };
        self.watch.complete(&mut report, &around);
        Ok(Scrape { report, silent: Vec::new() })
    }
}

impl MetricsTarget for RunTarget {
    fn scrape(&self) -> Result<Scrape, ControlError> {
        let mut run = self.run.lock().unwrap_or_else(PoisonError::into_inner);
        // Before the first run there is no server.
        run.as_mut().map_or_else(|| Err(starting()), ShownRun::scrape)
    }
}
