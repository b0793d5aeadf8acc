//! Why TLS failed, in words.

use rustls::{CertificateError, Error};

/// What is wrong, seen from this side: `its` is the peer's.
pub fn explain(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(error) => explain_certificate(error),
        Error::NoCertificatesPresented => "it has no certificate".into(),
        Error::AlertReceived(alert) => format!("it refuses, with the TLS alert {alert:?}"),
        Error::InvalidMessage(_) => format!("it does not speak TLS ({error})"),
        _ => error.to_string(),
    }
}

fn explain_certificate(error: &CertificateError) -> String {
    match error {
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "its certificate is of no authority in ca-cert.pem".into()
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "its certificate has expired".into()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "its certificate is not valid yet".into()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            format!("its certificate is for another name: {error}")
        }
        CertificateError::Revoked => "its certificate was revoked (ca-crl.pem)".into(),
        _ => format!("its certificate cannot be used: {error}"),
    }
}
