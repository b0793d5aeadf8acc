//! A client's TLS configuration.

use std::path::Path;
use std::sync::Arc;

use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};

use crate::error::TlsError;
use crate::folder::{CLIENT, Folder, Pair, provider};

/// A client's certificates, and the name that its server must have.
#[derive(Clone, Debug)]
pub struct ClientTls {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl ClientTls {
    /// Reads ca-cert.pem and, if they are there, ca-crl.pem and client-cert.pem with client-key.pem; the server's certificate must
    /// be for `host`, a name or an address.
    ///
    /// # Errors
    /// Names the file and its defect, or a host that no certificate can be for.
    pub fn open(folder: &Path, host: &str) -> Result<ClientTls, TlsError> {
        let place = folder;
        let folder = Folder::new(folder);
        let provider = provider();
        let verifier =
            WebPkiServerVerifier::builder_with_provider(folder.authorities()?, Arc::clone(&provider))
                .with_crls(folder.revoked()?)
                .allow_unknown_revocation_status()
                .build()
                .map_err(|error| folder.unusable_revocations(&error))?;
        let builder = ClientConfig::builder_with_provider(provider);
        let builder = builder.with_safe_default_protocol_versions().expect("ring has TLS 1.2 and 1.3");
        let builder = builder.with_webpki_verifier(verifier);
        let mut config = match folder.optional_pair(CLIENT)? {
            None => builder.with_no_client_auth(),
            Some(Pair { chain, key }) => builder
                .with_client_auth_cert(chain, key)
                .map_err(|error| folder.unusable_pair(CLIENT, &error))?,
        };
        config.resumption = Resumption::disabled();
        let name = ServerName::try_from(host.to_owned());
        let name = name.map_err(|_| TlsError::new(place, format!("no certificate can be for `{host}`")))?;
        Ok(ClientTls { config: Arc::new(config), name })
    }

    /// Starts the TLS connection to a server.
    ///
    /// # Errors
    /// If the system gives no random numbers.
    pub fn connect(&self) -> Result<ClientConnection, rustls::Error> {
        ClientConnection::new(Arc::clone(&self.config), self.name.clone())
    }
}
