//! The options of a client's connection.

use std::time::Duration;

use kickcache_tls::client::ClientTls;

/// The options that a client requests from the server.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    /// Name of the export; empty for the server's default.
    pub export: String,
    /// If set, TLS is required, and a server without TLS is refused.
    pub tls: Option<ClientTls>,
    /// Ask for structured replies; without them a failure is only an error number, without a text.
    pub structured: bool,
    /// Ask for base:allocation, which block status requests need; implies structured replies.
    pub allocation: bool,
    /// Longest wait for the whole handshake, and for any one read or write of a socket that [`super::Client`]
    /// connects itself; `None` waits forever.
    pub timeout: Option<Duration>,
}

impl Default for ConnectOptions {
    fn default() -> ConnectOptions {
        ConnectOptions {
            export: String::new(),
            tls: None,
            structured: false,
            allocation: false,
            timeout: Some(Duration::from_secs(30)),
        }
    }
}
