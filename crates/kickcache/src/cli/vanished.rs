//! A daemon that ended during an operation.

use anyhow::anyhow;
use kickcache_daemon::control::client::ClientError;

use crate::cli::exit::Failure;

/// The reason why the daemon does not answer any more; `rest` describes the state of the unfinished
/// operation. The daemon answered before, so this is not a missing daemon.
pub(crate) fn vanished(error: ClientError, rest: &str) -> Failure {
    match error {
        ClientError::NoDaemon(path) | ClientError::Io { path, .. } => {
            anyhow!("the daemon at {} ended before this was done: {rest}", path.display()).into()
        }
        error => error.into(),
    }
}
