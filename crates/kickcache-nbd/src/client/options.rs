//! The options of a client's connection.

use std::time::Duration;

use kickcache_tls::client::ClientTls;

/// The options that a client requests from the server.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    /// Name of the export; empty for the server's default.
    pub export: String,
    /// Require TLS; refuse a connection in the clear.
    pub tls: Option<ClientTls>,
    /// Ask for structured replies; without them a failure is only an error number, without a text.
    pub structured: bool,
    /// Ask for base:allocation, which block status requests need; implies structured replies.
    pub allocation: bool,
    /// Longest wait for the whole handshake, and afterwards for any one read or write of the socket; `None` waits forever.
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
