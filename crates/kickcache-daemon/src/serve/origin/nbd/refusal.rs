//! The remedies if a server cannot be used at the start of a volume.

use std::io::ErrorKind;
use std::time::Duration;

use kickcache_nbd::client::ClientError;

use super::patience::PATIENCE_MAX;
use super::server_fault::cause;

pub(super) fn refusal(error: &ClientError, patience: Duration) -> String {
    format!("{}; {}", cause(error), advice(error, patience))
}

fn advice(error: &ClientError, patience: Duration) -> &'static str {
    match error {
        ClientError::Io(error) => match error.kind() {
            ErrorKind::PermissionDenied => "let this user connect to its socket, or give another origin",
            ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => {
                "see the server's log; it may accept no more clients, or not be an NBD server"
            }
            ErrorKind::TimedOut if patience < PATIENCE_MAX => {
                "give it more time (--origin-timeout; a start waits at most 10 s), check whether its \
                 server runs and is reachable, or give another origin"
            }
            ErrorKind::TimedOut => "check whether its server runs and is reachable, or give another origin",
            _ => "start its server, or give another origin",
        },
        ClientError::Protocol(_) => "give the address of an NBD server",
        ClientError::Refused { .. } => {
            "give an export that its server has and lets this machine use; if it requires TLS, write nbds:// (docs/how-to/tls.md)"
        }
        ClientError::Tls(_) => "see docs/how-to/tls.md for the certificates that it and this machine need",
        ClientError::Request(_) => "see the server's log",
        ClientError::TooLong(_) | ClientError::CookieInFlight(_) => "report this as a defect of kickcache",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_started_only_if_none_exists() {
        let told = |kind: ErrorKind| refusal(&ClientError::Io(kind.into()), PATIENCE_MAX);
        assert!(told(ErrorKind::ConnectionRefused).ends_with("; start its server, or give another origin"));
        assert!(told(ErrorKind::NotFound).contains("start its server"));
        assert!(!told(ErrorKind::TimedOut).contains("--origin-timeout"), "more than 10 s do not help");
        let short = refusal(&ClientError::Io(ErrorKind::TimedOut.into()), Duration::from_secs(2));
        assert!(short.contains("give it more time (--origin-timeout"), "{short}");
        assert!(told(ErrorKind::PermissionDenied).contains("let this user connect"));
        assert!(told(ErrorKind::UnexpectedEof).contains("no more clients"));
        let refused = ClientError::Refused { option: "the export", reply: 0x8000_0006, text: String::new() };
        assert_eq!(
            refusal(&refused, PATIENCE_MAX),
            "the NBD server refused the export (unknown export); give an export that its server has and lets this machine use; if it \
             requires TLS, write nbds:// (docs/how-to/tls.md)"
        );
    }
}
