//! A daemon that ended during an operation.

use anyhow::anyhow;
use kickcache_command::exit::Failure;
use kickcache_daemon::control::client::ClientError;

/// The failure of an operation whose daemon does not answer any more; `rest` describes the state of the
/// operation.
pub(crate) fn vanished(error: ClientError, rest: &str) -> Failure {
    match error {
        ClientError::NoDaemon(path) | ClientError::Io { path, .. } => {
            anyhow!("the daemon at {} ended before this was done: {rest}", path.display()).into()
        }
        error @ ClientError::AnotherDaemon(_) => anyhow!("{error}: {rest}").into(),
        // During a stop, the daemon refuses requests until its socket is closed.
        ClientError::Refused(reason) => anyhow!("{reason} before this was done: {rest}").into(),
        error => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ending_daemon_is_named_with_the_unfinished_operation() {
        let refused = ClientError::Refused("the daemon is stopping".into());
        let gone = ClientError::NoDaemon("/c".into());
        for (error, who) in [(refused, "the daemon is stopping"), (gone, "the daemon at /c ended")] {
            let expected = format!("{who} before this was done: start it");
            assert_eq!(vanished(error, "start it").sentence(), expected);
        }
    }
}
