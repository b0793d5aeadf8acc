//! A server's TLS policy.

/// Whether a server's clients may or must use TLS.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TlsPolicy {
    /// There is no TLS.
    #[default]
    Off,
    /// Clients may use TLS.
    On,
    /// Clients must use TLS; without it they receive no information about exports.
    Require,
}

/// Whether a client may use an export.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// The client may use the export.
    Allowed,
    /// The client may not use the export, and does not get it in a list.
    Denied,
}
