//! TLS for NBD clients, as configured by flags and configuration files.

use std::path::PathBuf;

use kickcache_nbd::TlsPolicy;
use kickcache_tls::TlsError;
use kickcache_tls::server::{PeerCheck, ServerCertificates};
use serde::Deserialize;

use crate::plan::exposure::Exposure;

/// Whether NBD clients may or must use TLS.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, clap::ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TlsWord {
    /// There is no TLS
    #[default]
    Off,
    /// Clients choose
    On,
    /// Clients without TLS are refused
    Require,
}

impl TlsWord {
    pub const fn as_str(self) -> &'static str {
        match self {
            TlsWord::Off => "off",
            TlsWord::On => "on",
            TlsWord::Require => "require",
        }
    }
}

impl VerifyPeerWord {
    pub const fn as_str(self) -> &'static str {
        match self {
            VerifyPeerWord::On => "on",
            VerifyPeerWord::Off => "off",
        }
    }
}

/// Whether NBD clients with TLS need a certificate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, clap::ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VerifyPeerWord {
    /// Clients need a certificate of an authority in ca-cert.pem
    #[default]
    On,
    /// Clients need none
    Off,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TlsPlan {
    pub tls: TlsWord,
    pub certificates: Option<PathBuf>,
    pub verify_peer: VerifyPeerWord,
}

impl TlsPlan {
    pub fn policy(&self) -> TlsPolicy {
        match self.tls {
            TlsWord::Off => TlsPolicy::Off,
            TlsWord::On => TlsPolicy::On,
            TlsWord::Require => TlsPolicy::Require,
        }
    }

    /// Whether every client needs a certificate.
    pub fn is_authenticated(&self) -> bool {
        self.tls == TlsWord::Require && self.verify_peer == VerifyPeerWord::On
    }

    pub fn exposure(&self, exposure: Exposure) -> Exposure {
        match exposure {
            Exposure::LocalOnly if self.is_authenticated() => Exposure::Authenticated,
            other => other,
        }
    }

    /// Reads the certificates, if there is TLS.
    ///
    /// # Errors
    /// Names the file and its defect.
    pub fn open(&self) -> Result<Option<ServerCertificates>, TlsError> {
        let Some(folder) = self.certificates.as_deref().filter(|_| self.tls != TlsWord::Off) else {
            return Ok(None);
        };
        let check = match self.verify_peer {
            VerifyPeerWord::On => PeerCheck::Required,
            VerifyPeerWord::Off => PeerCheck::Off,
        };
        ServerCertificates::open(folder, check).map(Some)
    }

    /// Refuses impossible combinations.
    pub(super) fn check(&self) -> Result<(), &'static str> {
        match (self.tls, &self.certificates, self.verify_peer) {
            (TlsWord::On | TlsWord::Require, None, _) => Err(
                "tls needs certificates; name their folder with --tls-certificates (tls-certificates = \"/etc/kickcache/tls\"), see docs/how-to/tls.md",
            ),
            (TlsWord::Off, Some(_), _) => Err(
                "there is a folder of certificates but no TLS; use --tls=require (tls = \"require\"), or omit the folder",
            ),
            (TlsWord::Off, None, VerifyPeerWord::Off) => Err(
                "tls-verify-peer is about clients with TLS, but TLS is off; use --tls=require (tls = \"require\"), or omit it",
            ),
            (TlsWord::On | TlsWord::Require, Some(_), _) | (TlsWord::Off, None, VerifyPeerWord::On) => Ok(()),
        }
    }
}
