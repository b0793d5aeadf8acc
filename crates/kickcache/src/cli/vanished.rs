//! A daemon that ended in the midst of what it was asked for.

use anyhow::anyhow;
use kickcache_daemon::control::client::ClientError;

use crate::cli::exit::Failure;

/// Why it cannot be asked any more; `rest` says what becomes of what it had begun. It was there, so this is not a daemon
/// that was never found.
pub(crate) fn vanished(error: ClientError, rest: &str) -> Failure {
    match error {
        ClientError::NoDaemon(path) | ClientError::Io { path, .. } => {
            anyhow!("the daemon at {} ended before this was done: {rest}", path.display()).into()
        }
        error => error.into(),
    }
}
