//! A server's TLS configuration.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};

use crate::error::TlsError;
use crate::folder::{AUTHORITIES, Folder, Pair, REVOKED, SERVER, provider};
use crate::stamp::Stamp;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PeerCheck {
    /// Clients need a certificate of an authority in ca-cert.pem.
    #[default]
    Required,
    Off,
}

/// A server's certificates as of the last check that found usable files.
#[derive(Clone, Debug)]
pub struct ServerCertificates {
    folder: Folder,
    check: PeerCheck,
    stamp: Stamp,
    config: Arc<ServerConfig>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refreshed {
    Unchanged,
    Renewed,
    /// New files cannot be used; the previous files stay in use. Returned once for each change.
    Failed(TlsError),
}

impl ServerCertificates {
    /// Reads the certificates.
    ///
    /// # Errors
    /// Names the file and its defect.
    pub fn open(folder: &Path, check: PeerCheck) -> Result<ServerCertificates, TlsError> {
        let folder = Folder::new(folder);
        // The stamp is taken before the files are read, so that the next check detects a change
        // made meanwhile.
        let stamp = Stamp::of(&files(&folder, check));
        let config = Arc::new(config(&folder, check)?);
        Ok(ServerCertificates { folder, check, stamp, config })
    }

    pub fn refresh(&mut self) -> Refreshed {
        let stamp = Stamp::of(&files(&self.folder, self.check));
        if stamp == self.stamp {
            return Refreshed::Unchanged;
        }
        self.stamp = stamp;
        match config(&self.folder, self.check) {
            Ok(config) => {
                self.config = Arc::new(config);
                Refreshed::Renewed
            }
            Err(error) => Refreshed::Failed(error),
        }
    }

    pub fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.config)
    }
}

fn files(folder: &Folder, check: PeerCheck) -> Vec<PathBuf> {
    let of_clients = match check {
        PeerCheck::Required => [AUTHORITIES, REVOKED].as_slice(),
        PeerCheck::Off => &[],
    };
    let names = [SERVER.certificate, SERVER.key].into_iter().chain(of_clients.iter().copied());
    names.map(|name| folder.file(name)).collect()
}

fn config(folder: &Folder, check: PeerCheck) -> Result<ServerConfig, TlsError> {
    let provider = provider();
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
    let builder = builder.with_safe_default_protocol_versions().expect("ring has TLS 1.2 and 1.3");
    let builder = match check {
        PeerCheck::Off => builder.with_no_client_auth(),
        PeerCheck::Required => {
            // A certificate that no list names is not revoked, as in GnuTLS.
            let verifier = WebPkiClientVerifier::builder_with_provider(folder.authorities()?, provider)
                .with_crls(folder.revoked()?)
                .allow_unknown_revocation_status();
            let verifier = verifier.build().map_err(|error| folder.unusable_revocations(&error))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let Pair { chain, key } = folder.pair(SERVER)?;
    let config = builder.with_single_cert(chain, key);
    let mut config = config.map_err(|error| folder.unusable_pair(SERVER, &error))?;
    // A resumed session would ignore that certificates were replaced or revoked.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certificates::Authority;

    #[test]
    fn new_files_are_used_and_broken_ones_reported_once() {
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::new(folder.path());
        authority.issue("server", "localhost");
        let mut certificates = ServerCertificates::open(folder.path(), PeerCheck::Required).unwrap();
        assert_eq!(certificates.refresh(), Refreshed::Unchanged);
        let before = Arc::clone(&certificates.config);
        std::fs::write(folder.path().join("server-key.pem"), "nonsense").unwrap();
        let Refreshed::Failed(error) = certificates.refresh() else { panic!("it was used") };
        assert!(error.to_string().contains("server-key.pem: there is no private key"), "{error}");
        assert_eq!(certificates.refresh(), Refreshed::Unchanged, "told once");
        assert!(Arc::ptr_eq(&before, &certificates.config));
        authority.issue("server", "localhost");
        assert_eq!(certificates.refresh(), Refreshed::Renewed);
        assert!(!Arc::ptr_eq(&before, &certificates.config));
    }

    /// Files of the client's side do not concern a server that requests no certificate.
    #[test]
    fn each_file_of_the_folder_is_watched() {
        let all = ["server-cert.pem", "server-key.pem", "ca-cert.pem", "ca-crl.pem"];
        for (check, watched) in [(PeerCheck::Required, 4), (PeerCheck::Off, 2)] {
            for (number, file) in all.iter().enumerate() {
                let folder = tempfile::tempdir().unwrap();
                let authority = Authority::new(folder.path());
                authority.issue("server", "localhost");
                let mut certificates = ServerCertificates::open(folder.path(), check).unwrap();
                let path = folder.path().join(file);
                let bytes = std::fs::read(&path).unwrap_or_default();
                std::fs::write(&path, [bytes, vec![b'\n'; 9]].concat()).unwrap();
                let refreshed = certificates.refresh();
                assert_eq!(
                    refreshed != Refreshed::Unchanged,
                    number < watched,
                    "{check:?}: {file}: {refreshed:?}"
                );
            }
        }
    }

    #[test]
    fn a_certificate_with_another_s_key_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::new(folder.path());
        authority.issue("server", "localhost");
        authority.issue("client", "vm1");
        std::fs::copy(folder.path().join("client-key.pem"), folder.path().join("server-key.pem")).unwrap();
        let refused = ServerCertificates::open(folder.path(), PeerCheck::Off).unwrap_err().to_string();
        assert!(refused.contains("server-cert.pem: it cannot be used with server-key.pem"), "{refused}");
    }

    #[test]
    fn missing_files_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let told = |check| ServerCertificates::open(folder.path(), check).unwrap_err().to_string();
        assert!(told(PeerCheck::Required).contains("ca-cert.pem: there is no such file"));
        assert!(told(PeerCheck::Off).contains("server-cert.pem: there is no such file"));
    }
}
