//! The allowed clients of a TCP address.

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Exposure {
    /// This machine.
    #[default]
    LocalOnly,
    /// All clients with a certificate: NBD requires TLS.
    Authenticated,
    /// All clients that can reach the port.
    InsecureTcp,
}
