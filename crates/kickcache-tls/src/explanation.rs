//! Failures of TLS in words.

use rustls::{AlertDescription, CertificateError, Error, PeerIncompatible};

use crate::key_type::{KeyType, SUPPORTED, signature_name};

/// The defect, as seen from this side: `it` and `its` in the text mean the peer; after `ca-crl.pem:`, the list.
pub fn explain(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(error) => format!("its certificate {}", explain_certificate(error)),
        Error::NoCertificatesPresented => "it has no certificate".into(),
        Error::AlertReceived(alert) => format!("it refuses: {}", explain_alert(*alert)),
        Error::InvalidMessage(_) => "it does not use TLS".into(),
        Error::PeerIncompatible(error) => explain_incompatible(error).into(),
        Error::PeerMisbehaved(_) | Error::InappropriateMessage { .. } => {
            "it breaks the rules of TLS, or signs with a key of an unsupported type".into()
        }
        Error::InappropriateHandshakeMessage { .. } => "it breaks the rules of TLS".into(),
        Error::DecryptError => "a message was damaged in transit".into(),
        Error::PeerSentOversizedRecord => "it sent a record that is too long".into(),
        Error::InvalidCertRevocationList(error) => {
            format!("its certificate cannot be looked up in ca-crl.pem: {}", explain_revocations(error))
        }
        Error::FailedToGetCurrentTime => "the system gives no time".into(),
        Error::FailedToGetRandomBytes => "the system gives no random numbers".into(),
        _ => "the connection cannot be encrypted".into(),
    }
}

fn explain_certificate(error: &CertificateError) -> String {
    match error {
        CertificateError::UnknownIssuer => {
            "is of no authority in ca-cert.pem, or an intermediate certificate is missing".into()
        }
        CertificateError::BadSignature => "is of no authority in ca-cert.pem".into(),
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "has expired".into(),
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "is not valid yet".into()
        }
        CertificateError::NotValidForName => "is for another name".into(),
        CertificateError::NotValidForNameContext { expected, presented } => {
            let presented = presented.iter().take(8).map(|name| plain_name(name)).collect::<Vec<_>>();
            let names = if presented.is_empty() { "none".into() } else { presented.join(", ") };
            let expected = expected.to_str();
            format!("is for another name: {expected} was expected, and its alternative names are {names}")
        }
        CertificateError::Revoked => "was revoked (ca-crl.pem)".into(),
        CertificateError::UnsupportedSignatureAlgorithmContext { signature_algorithm_id, .. } => {
            unsupported_signature(signature_algorithm_id)
        }
        CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext {
            signature_algorithm_id,
            public_key_algorithm_id,
        } => unsupported_key(signature_algorithm_id, public_key_algorithm_id),
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "is for another purpose: its extended key usage must include clientAuth for a client, serverAuth for a server".into()
        }
        CertificateError::BadEncoding => "is damaged".into(),
        CertificateError::UnhandledCriticalExtension => "has a critical extension that is not supported".into(),
        CertificateError::UnknownRevocationStatus => "is in no list of ca-crl.pem".into(),
        CertificateError::ExpiredRevocationList | CertificateError::ExpiredRevocationListContext { .. } => {
            "cannot be looked up: ca-crl.pem has expired".into()
        }
        CertificateError::Other(error) => {
            error.0.downcast_ref().map_or("cannot be used", explain_webpki).into()
        }
        _ => "cannot be used".into(),
    }
}

/// The name in the form of a library, such as `DnsName("x")`: its first 80 characters.
fn plain_name(name: &str) -> String {
    let inner = name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')')).unwrap_or(name);
    inner.trim_matches('"').chars().take(80).flat_map(char::escape_debug).collect()
}

fn unsupported_signature(algorithm: &[u8]) -> String {
    let name = signature_name(algorithm);
    let why = if name.contains("SHA-1") || name.contains("MD") { "insecure" } else { "not supported" };
    format!("is signed by {name}, which is {why}; issue a new one with SHA-256 (supported keys: {SUPPORTED})")
}

fn unsupported_key(signature: &[u8], key: &[u8]) -> String {
    let signature = signature_name(signature);
    match KeyType::of_identifier(key) {
        Some(key) => format!(
            "has or is signed by a key of an unsupported type: {key}, {signature}; supported are {SUPPORTED}"
        ),
        None => format!(
            "is signed by {signature}, which is not supported with its key; supported are {SUPPORTED}"
        ),
    }
}

pub(crate) fn explain_webpki(error: &webpki::Error) -> &'static str {
    match error {
        webpki::Error::UnsupportedCertVersion => {
            "is of version 1 or 2, without extensions; issue a new one of version 3 with alternative names (openssl x509 -extfile)"
        }
        webpki::Error::CaUsedAsEndEntity => {
            "belongs to an authority (CA:TRUE), and a server or client needs a certificate with CA:FALSE; issue a new one"
        }
        webpki::Error::EndEntityUsedAsCa => "has an issuer without the rights of an authority (CA:FALSE)",
        webpki::Error::PathLenConstraintViolated => "has more authorities above it than they allow (pathlen)",
        webpki::Error::NameConstraintViolation => "has a name that its authority must not issue",
        webpki::Error::MalformedExtensions | webpki::Error::ExtensionValueInvalid => {
            "has a damaged extension"
        }
        webpki::Error::MalformedDnsIdentifier => "has a damaged DNS name",
        webpki::Error::UnsupportedCriticalExtension => "has a critical extension that is not supported",
        webpki::Error::SignatureAlgorithmMismatch => "is damaged: it names two algorithms for its signature",
        webpki::Error::InvalidSerialNumber => "has an invalid serial number",
        webpki::Error::EmptyEkuExtension => "is for no purpose: its extended key usage is empty",
        webpki::Error::MaximumPathDepthExceeded => "has too many authorities above it",
        _ => "cannot be used",
    }
}

fn explain_alert(alert: AlertDescription) -> String {
    let words = match alert {
        AlertDescription::CloseNotify | AlertDescription::UserCanceled => "it ended the connection",
        AlertDescription::BadCertificate => "this side's certificate is damaged or cannot be verified",
        AlertDescription::UnsupportedCertificate => "this side's certificate is of an unsupported type",
        AlertDescription::CertificateRevoked => "this side's certificate was revoked",
        AlertDescription::CertificateExpired => "this side's certificate has expired or is not valid yet",
        AlertDescription::CertificateUnknown => "this side's certificate is not acceptable to it",
        AlertDescription::UnknownCA => "this side's certificate is of no authority that it trusts",
        AlertDescription::CertificateRequired | AlertDescription::NoCertificate => {
            "it requires a certificate of this side"
        }
        AlertDescription::AccessDenied => "this side's certificate gives no access",
        AlertDescription::HandshakeFailure | AlertDescription::InsufficientSecurity => {
            "the two sides have no cipher, group or signature in common"
        }
        AlertDescription::ProtocolVersion => "the two sides have no version of TLS in common",
        AlertDescription::UnrecognisedName => "it has no certificate for this name",
        AlertDescription::DecryptError => "it cannot verify a signature of this side",
        AlertDescription::InternalError => "it has an internal error",
        other => return format!("TLS alert {}", u8::from(other)),
    };
    words.into()
}

const fn explain_incompatible(error: &PeerIncompatible) -> &'static str {
    match error {
        PeerIncompatible::NoCipherSuitesInCommon => "it has no cipher in common with this side",
        PeerIncompatible::NoKxGroupsInCommon | PeerIncompatible::NamedGroupsExtensionRequired => {
            "it has no key exchange in common with this side"
        }
        PeerIncompatible::NoSignatureSchemesInCommon
        | PeerIncompatible::NoCertificateRequestSignatureSchemesInCommon
        | PeerIncompatible::SignatureAlgorithmsExtensionRequired => {
            "it has no signature in common with this side's certificate"
        }
        PeerIncompatible::ServerDoesNotSupportTls12Or13
        | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig
        | PeerIncompatible::SupportedVersionsExtensionRequired
        | PeerIncompatible::Tls12NotOffered
        | PeerIncompatible::Tls12NotOfferedOrEnabled => "it has neither TLS 1.2 nor TLS 1.3",
        _ => "it lacks an extension of TLS that is required",
    }
}

pub(crate) fn explain_revocations(error: &rustls::CertRevocationListError) -> String {
    use rustls::CertRevocationListError as List;
    match error {
        List::BadSignature => "it was not signed by the authority".into(),
        List::UnsupportedSignatureAlgorithmContext { signature_algorithm_id, .. }
        | List::UnsupportedSignatureAlgorithmForPublicKeyContext { signature_algorithm_id, .. } => {
            format!("it is signed by {}, which is not supported", signature_name(signature_algorithm_id))
        }
        List::UnsupportedCrlVersion | List::InvalidCrlNumber => {
            "a list of version 2 is expected, which has a CRL number".into()
        }
        List::IssuerInvalidForCrl => "its authority must not sign lists (key usage cRLSign)".into(),
        List::UnsupportedDeltaCrl | List::UnsupportedIndirectCrl => {
            "delta lists and indirect lists are not supported; a complete one is expected".into()
        }
        List::UnsupportedCriticalExtension | List::UnsupportedRevocationReason => {
            "it has an extension or a reason that is not supported".into()
        }
        _ => "it is damaged".into(),
    }
}
