//! Runs a plan: one server for each cache device, and the control socket.

pub mod cache_report;
mod condition_book;
mod exit;
mod greeting;
mod other_user;
mod requests;
mod running_daemon;
mod service_manager;
mod status_report;

use std::io::Write;
use std::sync::Arc;

use anyhow::Context;
use kickcache_units::counted;
use tracing_subscriber::fmt::MakeWriter;

use crate::config::plan_source::PlanSource;
use crate::control::server::ControlServer;
use crate::daemon::condition_book::ConditionThread;
use crate::daemon::exit::{end_of, worst};
use crate::daemon::greeting::{Greeting, greet};
use crate::daemon::other_user::{become_user, watch};
use crate::daemon::running_daemon::Daemon;
use crate::daemon::service_manager::ServiceManager;
use crate::driver::inherited_sockets::inherited_sockets;
use crate::log::outlet::Outlet;
use crate::log::start_log;
use crate::metrics::server::MetricsServer;
use crate::operations::changes::Changes;
use crate::plan::ServePlan;
use crate::serve::config::StatePlace;
use crate::signals;
use crate::start::folders::{MissingFolders, make_runtime_dir};
use crate::start::servers::{StartResult, go_on_replacing, start_servers};
use crate::start::skipped_volumes::{tell_again, tell_orphans};
use crate::start::socket_activation::ActivationSockets;
use crate::start::unserved_volumes::orphans;

/// Serves a plan.
pub fn run(plan: ServePlan, source: PlanSource, out: &mut dyn Write) -> anyhow::Result<()> {
    let separated = become_user(&plan, &source)?;
    let log = start_log(plan.log).context("cannot start a thread for the log")?;
    let served = watch(separated).and_then(|()| serve(plan, source, out, &log));
    if let Err(error) = &served
        && !log.is_text()
    {
        tracing::error!(event = "failed", "{error:#}");
    }
    log.end();
    served
}

fn serve(mut plan: ServePlan, source: PlanSource, out: &mut dyn Write, log: &Outlet) -> anyhow::Result<()> {
    let activated = ActivationSockets::take(inherited_sockets(), &mut plan)?;
    let before = MissingFolders::of(&plan);
    make_runtime_dir(&plan)?;
    let (tls, state) = (plan.tls.tls, StatePlace::named(plan.state.as_deref()));
    let daemon = Arc::new(Daemon::new(Changes::new(source, plan.clone())));
    service_manager::tell_start();
    let told = Arc::clone(&daemon);
    let _signals = signals::catch(move |wish| told.handle_signal(wish)).context("cannot catch signals")?;
    // The control socket listens before the volumes do: clients of a volume can then reach its daemon.
    let control = ControlServer::start(&plan.control, daemon.clone())?;
    let status = start_status_socket(&plan, &daemon)?;
    let started = start_metrics(&plan, &daemon)
        .and_then(|metrics| Ok((metrics, start_servers(plan, activated, &daemon.stop_wish)?)));
    let (metrics, started) = match started {
        Ok(started) => started,
        Err(error) => {
            drop((control, status));
            before.remove_again();
            return daemon.judge_failed_start(error);
        }
    };
    let StartResult { servers, unserved, .. } = started.clone();
    // A service manager that passes sockets has their addresses.
    let greeting = Greeting {
        control: control.path(),
        state: &state,
        metrics: metrics.as_ref(),
        servers: &servers,
        tls,
    };
    match std::env::var_os("LISTEN_FDS") {
        Some(_) if log.is_text() => greet(&mut log.make_writer(), &greeting),
        Some(_) => {}
        None => greet(out, &greeting),
    }
    let volumes: usize = servers.iter().map(|served| served.cache.volumes.len()).sum();
    tracing::info!(
        event = "started",
        "kickcache {} serves {}",
        env!("CARGO_PKG_VERSION"),
        counted(volumes as u64, "volume")
    );
    tell_orphans(&orphans(&started));
    daemon.started(started.clone());
    go_on_replacing(&servers);
    let conditions =
        ConditionThread::start(daemon.clone()).context("cannot start a thread for conditions")?;
    let service_manager = ServiceManager::tell_ready(daemon).context("cannot start a thread for systemd")?;
    let (mut left, mut errors) = (Vec::new(), Vec::new());
    for served in &servers {
        served.wait(&state).map_or_else(|error| errors.push(error), |blocks| left.extend(blocks));
    }
    drop((service_manager, conditions, status));
    tell_again(&unserved);
    control.end(end_of(left, &errors));
    worst(errors)
}

fn start_status_socket(plan: &ServePlan, daemon: &Arc<Daemon>) -> anyhow::Result<Option<ControlServer>> {
    let start = |path| ControlServer::start_status(path, daemon.clone());
    Ok(plan.status_socket.as_deref().map(start).transpose()?)
}

fn start_metrics(plan: &ServePlan, daemon: &Arc<Daemon>) -> anyhow::Result<Option<MetricsServer>> {
    let start = |address| MetricsServer::start(address, plan.exposure, daemon.clone());
    plan.metrics.as_ref().map(start).transpose().context("cannot serve metrics")
}
