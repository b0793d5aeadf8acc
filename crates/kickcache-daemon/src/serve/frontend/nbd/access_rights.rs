//! Access rights of clients: certificates, and the names that volumes allow.

use kickcache_nbd::{Access, TlsPolicy};
use kickcache_tls::names::PeerNames;
use kickcache_tls::rustls::server::UnbufferedServerConnection;

use crate::serve::frontend::nbd::certificates::Certificates;
use crate::serve::frontend::nbd::settings::NbdSettings;
use crate::serve::served_volumes::ServedVolumes;

#[derive(Default)]
pub(super) struct AccessRights {
    policy: TlsPolicy,
    certificates: Option<Certificates>,
}

impl AccessRights {
    pub(super) fn of(settings: NbdSettings) -> AccessRights {
        let NbdSettings { policy, certificates, .. } = settings;
        AccessRights { policy, certificates }
    }

    pub(super) fn policy(&self) -> TlsPolicy {
        self.policy
    }

    /// TLS for a client, with the present certificates; `None` without certificates, or if TLS cannot begin.
    pub(super) fn accept(&self) -> Option<UnbufferedServerConnection> {
        self.certificates.as_ref()?.accept()
    }

    pub(super) fn failure(&self) -> Option<String> {
        self.certificates.as_ref()?.failure()
    }
}

/// The access of a client with these names to the volumes of some indices.
pub(super) fn access(names: &PeerNames, indices: &[usize], volumes: &ServedVolumes) -> Vec<Access> {
    let of_volume = |index: &usize| {
        let allowed = &volumes[*index].allowed;
        let is_allowed = allowed.is_empty() || allowed.iter().any(|name| names.is_allowed(name));
        if is_allowed { Access::Allowed } else { Access::Denied }
    };
    indices.iter().map(of_volume).collect()
}
