//! The ends of all servers become the end of the daemon.

use kickcache_daemon::control::server::DaemonEnd;
use kickcache_daemon::control::wire::LeftOnCache;

use crate::cli::exit::{Exit, Failure};

/// The error that decides the exit code: of several errors, the first that is not a stop before the work was complete,
/// because the service manager restarts by this code.
pub(super) fn worst(errors: Vec<anyhow::Error>) -> anyhow::Result<()> {
    let (stopped, failed): (Vec<Failure>, Vec<Failure>) =
        errors.into_iter().map(Failure::from).partition(|failure| failure.exit == Exit::StoppedShort);
    failed.into_iter().chain(stopped).next().map_or(Ok(()), |failure| Err(failure.error))
}

/// The end of the daemon, for the clients that stopped it.
pub(super) fn end_of(left: Vec<LeftOnCache>, errors: &[anyhow::Error]) -> DaemonEnd {
    let failed: Vec<String> = errors.iter().map(|error| format!("{error:#}")).collect();
    if failed.is_empty() { DaemonEnd::Clean(left) } else { DaemonEnd::Unclean(failed.join("; ")) }
}
