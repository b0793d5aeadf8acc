//! The options of a client's connection.

use std::time::Duration;

use kickcache_tls::client::ClientTls;

#[derive(Clone, Debug)]
pub struct ConnectOptions {
    /// Name of the export; empty for the server's default.
    pub export: String,
    /// If set, TLS is required, and a server without TLS is refused.
    pub tls: Option<ClientTls>,
    pub structured: bool,
    /// Request base:allocation, which block status requests need; implies `structured`.
    pub allocation: bool,
    /// Longest duration of the handshake, checked whenever it waits for bytes of the server, and of any one
    /// read or write of a socket that [`super::Client`] connects itself; `None` sets no limit.
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
