//! A server's TLS policy.

/// Whether a server's clients may or must use TLS.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TlsPolicy {
    #[default]
    Off,
    On,
    /// Clients must use TLS; without it they receive no information about exports.
    Require,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    Allowed,
    /// The client may not use the export, and does not get it in a list.
    Denied,
}
