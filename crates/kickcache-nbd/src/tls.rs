//! A server's TLS policy.

/// Whether a server's clients may or must use TLS.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TlsPolicy {
    /// There is no TLS.
    #[default]
    Off,
    /// As a client likes it.
    On,
    /// Clients must use TLS; without it they receive no information about exports.
    Require,
}

/// Whether a client may use an export.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// It may.
    Allowed,
    /// It may not, and the export is not in the list that it gets.
    Denied,
}
