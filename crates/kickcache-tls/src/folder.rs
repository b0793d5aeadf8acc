//! The files of a folder of certificates, all in PEM.

use std::fmt::Display;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};

use crate::error::TlsError;

/// The authorities that certificates of peers come from.
pub(crate) const AUTHORITIES: &str = "ca-cert.pem";
/// What they revoked; may be missing.
pub(crate) const REVOKED: &str = "ca-crl.pem";
/// A server's own.
pub(crate) const SERVER: PairNames = PairNames { certificate: "server-cert.pem", key: "server-key.pem" };
/// A client's own; may be missing.
pub(crate) const CLIENT: PairNames = PairNames { certificate: "client-cert.pem", key: "client-key.pem" };

/// The files of a certificate and its key.
#[derive(Clone, Copy)]
pub(crate) struct PairNames {
    pub(crate) certificate: &'static str,
    pub(crate) key: &'static str,
}

/// A certificate with those above it, and its key.
pub(crate) struct Pair {
    pub(crate) chain: Vec<CertificateDer<'static>>,
    pub(crate) key: PrivateKeyDer<'static>,
}

/// A folder.
#[derive(Clone, Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(path: &Path) -> Folder {
        Folder(path.into())
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(crate) fn authorities(&self) -> Result<Arc<RootCertStore>, TlsError> {
        let path = self.file(AUTHORITIES);
        let mut store = RootCertStore::empty();
        for certificate in items::<CertificateDer<'_>>(&path, "certificate")? {
            let unusable =
                |error| TlsError::new(&path, format!("a certificate in it cannot be used ({error})"));
            store.add(certificate).map_err(unusable)?;
        }
        Ok(Arc::new(store))
    }

    pub(crate) fn revoked(&self) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsError> {
        let path = self.file(REVOKED);
        if path.exists() { items(&path, "list of revoked certificates (X509 CRL)") } else { Ok(Vec::new()) }
    }

    pub(crate) fn pair(&self, names: PairNames) -> Result<Pair, TlsError> {
        let chain = items(&self.file(names.certificate), "certificate")?;
        let path = self.file(names.key);
        let key = items(&path, "private key without a password")?;
        let key =
            key.into_iter().next().ok_or_else(|| TlsError::new(&path, "there is no private key in it"))?;
        Ok(Pair { chain, key })
    }

    /// A list of revoked certificates that TLS does not take.
    pub(crate) fn unusable_revocations(&self, error: &impl Display) -> TlsError {
        TlsError::new(
            &self.file(REVOKED),
            format!("it cannot be used ({error}); a list of version 2 is expected, which has a CRL number"),
        )
    }

    /// A certificate that TLS does not take with its key.
    pub(crate) fn unusable_pair(&self, names: PairNames, error: &impl Display) -> TlsError {
        let what = format!("it cannot be used with {} ({error}); write both anew", names.key);
        TlsError::new(&self.file(names.certificate), what)
    }

    /// As [`Folder::pair`]; `None` if neither file is there.
    pub(crate) fn optional_pair(&self, names: PairNames) -> Result<Option<Pair>, TlsError> {
        let is_there = |name| self.file(name).exists();
        if is_there(names.certificate) || is_there(names.key) { self.pair(names).map(Some) } else { Ok(None) }
    }
}

/// Everything of one kind in a file, at least one.
fn items<T: PemObject>(path: &Path, what: &str) -> Result<Vec<T>, TlsError> {
    let text = read(path)?;
    let found: Result<Vec<T>, PemError> = T::pem_slice_iter(&text).collect();
    let found = found.map_err(|error| TlsError::new(path, format!("it is not PEM ({error})")))?;
    if found.is_empty() {
        return Err(TlsError::new(path, format!("there is no {what} in it; it must be PEM")));
    }
    Ok(found)
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    let unreadable = |error: io::Error| match error.kind() {
        ErrorKind::NotFound => TlsError::new(path, "there is no such file; docs/tls.md tells how to make it"),
        _ => TlsError::new(path, format!("it cannot be read ({error})")),
    };
    // Others cannot be opened without waiting for who writes to them.
    if !std::fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err(TlsError::new(path, "it is no regular file; write the certificates into one"));
    }
    std::fs::read(path).map_err(unreadable)
}

pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}
