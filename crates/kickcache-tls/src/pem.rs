//! Files that are not the expected PEM.

use rustls::pki_types::pem::Error;

use crate::der::{Elements, INTEGER, SEQUENCE};
use crate::key_type::SUPPORTED;

pub(crate) fn explain_missing(bytes: &[u8], kind: &str) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut labels = text.lines().filter_map(|line| {
        line.trim().trim_start_matches('\u{feff}').strip_prefix("-----BEGIN ")?.strip_suffix("-----")
    });
    if bytes.trim_ascii().is_empty() {
        return format!("the file is empty; a {kind} in PEM is expected");
    }
    if is_der(bytes) {
        return explain_der(bytes, kind);
    }
    let Some(label) = labels.next() else {
        return format!(
            "there is no {kind} in it; it must be PEM, with a line such as -----BEGIN CERTIFICATE-----"
        );
    };
    match label {
        "ENCRYPTED PRIVATE KEY" => has_password(),
        _ if label.ends_with("PRIVATE KEY") && text.contains("Proc-Type: 4,ENCRYPTED") => has_password(),
        "DSA PRIVATE KEY" => format!("its key is DSA, which is not supported; supported are {SUPPORTED}"),
        "OPENSSH PRIVATE KEY" => {
            "it has a key of OpenSSH, and a key in PKCS#8 is expected; convert it with `ssh-keygen -p -m PKCS8 -f FILE`".into()
        }
        "TRUSTED CERTIFICATE" => {
            "it has a trusted certificate of OpenSSL; convert it with `openssl x509 -in FILE -out FILE`".into()
        }
        label => {
            let label: String = label.chars().take(40).flat_map(char::escape_debug).collect();
            format!("there is no {kind} in it, but {label}; a {kind} in PEM is expected")
        }
    }
}

pub(crate) fn explain_error(error: &Error, bytes: &[u8], kind: &str) -> String {
    if String::from_utf8_lossy(bytes).contains("Proc-Type: 4,ENCRYPTED") {
        return has_password();
    }
    let what = match error {
        Error::MissingSectionEnd { .. } => "the line -----END that ends a section is missing",
        Error::IllegalSectionStart { .. } => "a line -----BEGIN is damaged",
        Error::Base64Decode(_) => "a section has characters that are not base64",
        _ => return explain_missing(bytes, kind),
    };
    format!("it is damaged PEM: {what}; copy the file again")
}

fn has_password() -> String {
    "its key has a password, which is not supported; remove it with `openssl pkey -in FILE -out FILE`".into()
}

/// Whether a file is one DER sequence, with nothing but white space behind it.
fn is_der(bytes: &[u8]) -> bool {
    let mut elements = Elements(bytes);
    elements.expect(SEQUENCE).is_some() && elements.0.trim_ascii().is_empty()
}

fn explain_der(bytes: &[u8], kind: &str) -> String {
    let mut fields = Elements(Elements(bytes).expect(SEQUENCE).unwrap_or_default());
    if fields.expect(INTEGER) == Some(&[3]) {
        return "it is PKCS#12, and PEM is expected; convert it with `openssl pkcs12 -in FILE -nodes -out FILE.pem`".into();
    }
    let tool = match kind {
        "certificate" => "openssl x509",
        "private key" => "openssl pkey",
        _ => "openssl crl",
    };
    format!("it is DER, and PEM is expected; convert it with `{tool} -inform DER -in FILE -out FILE.pem`")
}
