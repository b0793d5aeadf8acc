//! What NBD is served with.

use kickcache_nbd::TlsPolicy;
use kickcache_tls::server::ServerCertificates;

use crate::plan::Exposure;
use crate::serve::config::ServerConfig;
use crate::serve::error::ServeError;

/// What all listeners have in common.
pub(crate) struct NbdSettings {
    pub(crate) exposure: Exposure,
    pub(crate) policy: TlsPolicy,
    pub(crate) certificates: Option<ServerCertificates>,
}

impl NbdSettings {
    /// Those of a server.
    ///
    /// # Errors
    /// If there is something wrong with the certificates.
    pub(crate) fn of(config: &ServerConfig) -> Result<NbdSettings, ServeError> {
        Ok(NbdSettings {
            exposure: config.tls.exposure(config.exposure),
            policy: config.tls.policy(),
            certificates: config.tls.open()?,
        })
    }

    /// In the clear, on this machine.
    #[cfg(test)]
    pub(crate) fn plain() -> NbdSettings {
        NbdSettings { exposure: Exposure::LocalOnly, policy: TlsPolicy::Off, certificates: None }
    }
}
