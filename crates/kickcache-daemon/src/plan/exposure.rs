//! Who may reach a TCP address.

/// Who may reach a TCP address.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Exposure {
    /// This machine.
    #[default]
    LocalOnly,
    /// Everybody with a certificate: NBD requires TLS.
    Authenticated,
    /// Everybody who can reach the port.
    InsecureTcp,
}
