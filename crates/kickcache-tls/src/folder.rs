//! The files of a folder of certificates, all in PEM.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use rustls::server::VerifierBuilderError;
use rustls::{Error, RootCertStore};

use crate::certificate::Certificate;
use crate::error::TlsError;
use crate::explanation::{explain_revocations, explain_webpki};
use crate::key_type::{KeyType, SUPPORTED};
use crate::pem;

pub(crate) const AUTHORITIES: &str = "ca-cert.pem";
/// Certificates that the authorities revoked; the file may be missing.
pub(crate) const REVOKED: &str = "ca-crl.pem";
pub(crate) const SERVER: PairNames = PairNames { certificate: "server-cert.pem", key: "server-key.pem" };
/// A client's own certificate and key; both may be missing.
pub(crate) const CLIENT: PairNames = PairNames { certificate: "client-cert.pem", key: "client-key.pem" };

#[derive(Clone, Copy)]
pub(crate) struct PairNames {
    pub(crate) certificate: &'static str,
    pub(crate) key: &'static str,
}

/// A certificate with the intermediate certificates of its file, and its key.
pub(crate) struct Pair {
    pub(crate) chain: Vec<CertificateDer<'static>>,
    pub(crate) key: PrivateKeyDer<'static>,
}

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
        let mut unsupported = None;
        for (number, certificate) in (1..).zip(items::<CertificateDer<'_>>(&path, "certificate")?) {
            let key = Certificate::of(&certificate).map(|certificate| certificate.key);
            let damaged = |_| TlsError::new(&path, format!("certificate {number} in it is damaged"));
            store.add(certificate).map_err(damaged)?;
            unsupported = unsupported.or_else(|| key.filter(|key| !key.can_be_verified()));
        }
        match unsupported {
            // Another authority in the file may have issued the certificates.
            Some(key) if store.len() == 1 => Err(TlsError::new(
                &path,
                format!("the authority's key is {key}, which is not supported; supported are {SUPPORTED}"),
            )),
            Some(_) | None => Ok(Arc::new(store)),
        }
    }

    pub(crate) fn revoked(&self) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsError> {
        let path = self.file(REVOKED);
        if path.exists() { items(&path, "list of revoked certificates") } else { Ok(Vec::new()) }
    }

    pub(crate) fn pair(&self, names: PairNames) -> Result<Pair, TlsError> {
        let certificate = self.file(names.certificate);
        let chain: Vec<CertificateDer<'_>> = items(&certificate, "certificate")?;
        let path = self.file(names.key);
        let key = items(&path, "private key")?;
        let key =
            key.into_iter().next().ok_or_else(|| TlsError::new(&path, "there is no private key in it"))?;
        check_key(&path, &key)?;
        check_own(&certificate, &chain)?;
        Ok(Pair { chain, key })
    }

    pub(crate) fn unusable_revocations(&self, error: &VerifierBuilderError) -> TlsError {
        let why = match error {
            VerifierBuilderError::InvalidCrl(error) => explain_revocations(error),
            _ => "there is no authority for it in ca-cert.pem".into(),
        };
        TlsError::new(&self.file(REVOKED), format!("it cannot be used: {why}"))
    }

    pub(crate) fn unusable_pair(&self, names: PairNames, error: &Error) -> TlsError {
        let why = match error {
            Error::InconsistentKeys(_) => "that key is of another certificate; replace both files",
            Error::InvalidCertificate(_) => "the certificate is damaged; replace both files",
            _ => "that key is damaged; replace both files",
        };
        let what = format!("it cannot be used with {}: {why}", names.key);
        TlsError::new(&self.file(names.certificate), what)
    }

    /// As [`Folder::pair`]; `None` if neither file is there.
    pub(crate) fn optional_pair(&self, names: PairNames) -> Result<Option<Pair>, TlsError> {
        let is_there = |name| self.file(name).exists();
        if is_there(names.certificate) || is_there(names.key) { self.pair(names).map(Some) } else { Ok(None) }
    }
}

fn check_key(path: &Path, key: &PrivateKeyDer<'_>) -> Result<(), TlsError> {
    match KeyType::of_private_key(key) {
        None => Err(TlsError::new(path, "its key is damaged; make a new key and a certificate for it")),
        Some(found) if !found.can_sign() => Err(TlsError::new(
            path,
            format!("its key is {found}, which is not supported; supported are {SUPPORTED}"),
        )),
        Some(_) => Ok(()),
    }
}

fn check_own(path: &Path, chain: &[CertificateDer<'_>]) -> Result<(), TlsError> {
    let first = chain.first().ok_or_else(|| TlsError::new(path, "there is no certificate in it"))?;
    webpki::EndEntityCert::try_from(first).map(drop).map_err(|error| {
        let version = Certificate::of(first).map(|certificate| certificate.version);
        let why = match version {
            Some(1 | 2) => explain_webpki(&webpki::Error::UnsupportedCertVersion),
            Some(_) => explain_webpki(&error),
            None => "is damaged",
        };
        TlsError::new(path, format!("its certificate {why}"))
    })
}

/// All items of one kind in a file, at least one.
fn items<T: PemObject>(path: &Path, what: &str) -> Result<Vec<T>, TlsError> {
    let text = read(path)?;
    let found: Result<Vec<T>, PemError> = T::pem_slice_iter(&text).collect();
    let found = found.map_err(|error| TlsError::new(path, pem::explain_error(&error, &text, what)))?;
    if found.is_empty() {
        return Err(TlsError::new(path, pem::explain_missing(&text, what)));
    }
    Ok(found)
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    let unreadable = |error: io::Error| match error.kind() {
        ErrorKind::NotFound => {
            TlsError::new(path, "there is no such file; docs/how-to/tls.md shows how to create it")
        }
        _ => TlsError::new(path, format!("it cannot be read ({error})")),
    };
    // Opening a FIFO would wait until a writer opens it.
    if !std::fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err(TlsError::new(path, "it is no regular file; write the certificates into one"));
    }
    std::fs::read(path).map_err(unreadable)
}

pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}
