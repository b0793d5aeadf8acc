//! The ends of all servers become the end of the daemon.

use kickcache_daemon::control::server::DaemonEnd;
use kickcache_daemon::control::wire::LeftOnCache;

use crate::cli::exit::{Exit, Failure};

/// The end that counts: of several errors one that is no ordered stop, as whoever starts the daemon again goes by that.
pub(super) fn worst(errors: Vec<anyhow::Error>) -> anyhow::Result<()> {
    let (stopped, failed): (Vec<Failure>, Vec<Failure>) =
        errors.into_iter().map(Failure::from).partition(|failure| failure.exit == Exit::StoppedShort);
    failed.into_iter().chain(stopped).next().map_or(Ok(()), |failure| Err(failure.error))
}

/// How the daemon ended, for those who stopped it.
pub(super) fn end_of(left: Vec<LeftOnCache>, errors: &[anyhow::Error]) -> DaemonEnd {
    let failed: Vec<String> = errors.iter().map(|error| format!("{error:#}")).collect();
    if failed.is_empty() { DaemonEnd::Clean(left) } else { DaemonEnd::Unclean(failed.join("; ")) }
}
