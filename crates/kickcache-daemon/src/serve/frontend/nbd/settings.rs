//! The parameters of NBD.

use kickcache_nbd::TlsPolicy;

use crate::plan::Exposure;
use crate::serve::config::ServerConfig;
use crate::serve::error::ServeError;
use crate::serve::frontend::nbd::certificates::Certificates;

pub(crate) struct NbdSettings {
    pub(crate) exposure: Exposure,
    pub(crate) policy: TlsPolicy,
    pub(crate) certificates: Option<Certificates>,
}

impl NbdSettings {
    /// # Errors
    /// If the certificates cannot be used, or no thread can be started to follow the files.
    pub(crate) fn of(config: &ServerConfig) -> Result<NbdSettings, ServeError> {
        let certificates = config.tls.open()?.map(Certificates::follow).transpose();
        let action = "start a thread for certificates";
        Ok(NbdSettings {
            exposure: config.tls.exposure(config.exposure),
            policy: config.tls.policy(),
            certificates: certificates.map_err(|source| ServeError::System { action, source })?,
        })
    }

    #[cfg(test)]
    pub(crate) fn plain() -> NbdSettings {
        NbdSettings { exposure: Exposure::LocalOnly, policy: TlsPolicy::Off, certificates: None }
    }
}
