//! The ends of all servers become the end of the daemon.

use crate::control::server::DaemonEnd;
use crate::control::wire::LeftOnCache;
use crate::serve::error::ServeError;

/// The error that decides the exit code: an error that is not an incomplete stop comes first.
pub(crate) fn worst(errors: Vec<anyhow::Error>) -> anyhow::Result<()> {
    let is_stop = |error: &anyhow::Error| error.downcast_ref().is_some_and(ServeError::is_incomplete_stop);
    let (stopped, failed): (Vec<_>, Vec<_>) = errors.into_iter().partition(is_stop);
    failed.into_iter().chain(stopped).next().map_or(Ok(()), Err)
}

pub(crate) fn end_of(left: Vec<LeftOnCache>, errors: &[anyhow::Error]) -> DaemonEnd {
    let failed: Vec<String> = errors.iter().map(|error| format!("{error:#}")).collect();
    if failed.is_empty() { DaemonEnd::Clean(left) } else { DaemonEnd::Unclean(failed.join("; ")) }
}
