//! The names in a peer's certificate, and the allowed names.

use std::fmt;
use std::str::FromStr;

use rustls::pki_types::CertificateDer;

use crate::der::{Elements, OBJECT_ID, SEQUENCE, SET};

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PeerNames {
    common: Vec<String>,
    dns: Vec<String>,
}

impl PeerNames {
    /// The names of a verified certificate; none if it cannot be parsed.
    pub fn of(certificate: &CertificateDer<'_>) -> PeerNames {
        let Ok(certificate) = webpki::EndEntityCert::try_from(certificate) else {
            return PeerNames::default();
        };
        let dns = certificate.valid_dns_names().map(str::to_owned).collect();
        PeerNames { common: common_names(certificate.subject()), dns }
    }

    pub fn is_allowed(&self, allowed: &AllowedClient) -> bool {
        let is_common = |name: &str| self.common.iter().any(|known| known == name);
        let is_dns = |name: &str| self.dns.iter().any(|known| known.eq_ignore_ascii_case(name));
        match allowed {
            AllowedClient::CommonName(name) => is_common(name),
            AllowedClient::Dns(name) => is_dns(name),
            AllowedClient::Either(name) => is_common(name) || is_dns(name),
        }
    }
}

impl fmt::Display for PeerNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let common = self.common.iter().map(|name| format!("CN={}", name.escape_debug()));
        let dns = self.dns.iter().map(|name| format!("DNS={}", name.escape_debug()));
        let names: Vec<String> = common.chain(dns).collect();
        if names.is_empty() { f.write_str("no name") } else { f.write_str(&names.join(", ")) }
    }
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum AllowedClient {
    /// A common name of its subject: `CN=NAME`.
    CommonName(String),
    /// A DNS name among its alternative names: `DNS=NAME`.
    Dns(String),
    /// A common name of its subject, or a DNS name among its alternative names: `NAME`.
    Either(String),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "a client's name is empty; write one as it is in its certificate, such as vm1, CN=vm1 or DNS=vm1.example.org"
)]
pub struct NoName;

impl FromStr for AllowedClient {
    type Err = NoName;

    fn from_str(text: &str) -> Result<AllowedClient, NoName> {
        let (kind, name): (fn(String) -> AllowedClient, &str) = match text.split_once('=') {
            Some((key, name)) if key.eq_ignore_ascii_case("CN") => (AllowedClient::CommonName, name),
            Some((key, name)) if key.eq_ignore_ascii_case("DNS") => (AllowedClient::Dns, name),
            _ => (AllowedClient::Either, text),
        };
        if name.trim().is_empty() { Err(NoName) } else { Ok(kind(name.to_owned())) }
    }
}

impl fmt::Display for AllowedClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AllowedClient::CommonName(name) => write!(f, "CN={name}"),
            AllowedClient::Dns(name) => write!(f, "DNS={name}"),
            AllowedClient::Either(name) => f.write_str(name),
        }
    }
}

/// UTF8String, PrintableString and IA5String: all are UTF-8.
const STRINGS: [u8; 3] = [0x0c, 0x13, 0x16];
/// The object identifier 2.5.4.3 in DER.
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];

fn common_names(subject: &[u8]) -> Vec<String> {
    let sets = Elements(subject).filter(|element| element.tag == SET);
    let pairs = sets.flat_map(|set| Elements(set.content)).filter(|element| element.tag == SEQUENCE);
    pairs.filter_map(|pair| common_name(pair.content)).collect()
}

fn common_name(pair: &[u8]) -> Option<String> {
    let mut parts = Elements(pair);
    let (kind, value) = (parts.next()?, parts.next()?);
    let is_name = kind.tag == OBJECT_ID && kind.content == COMMON_NAME && STRINGS.contains(&value.tag);
    let name = std::str::from_utf8(value.content).ok()?;
    is_name.then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::pem::PemObject;

    use super::*;
    use crate::certificates::Authority;

    fn allowed(text: &str) -> AllowedClient {
        text.parse().unwrap()
    }

    #[test]
    fn a_certificate_has_its_common_name_and_its_dns_names() {
        let folder = tempfile::tempdir().unwrap();
        Authority::new(folder.path()).issue_as("client", "/O=An office/CN=vm 1", "DNS:vm1.example.org");
        let der = CertificateDer::from_pem_file(folder.path().join("client-cert.pem")).unwrap();
        let names = PeerNames::of(&der);
        assert_eq!(names.to_string(), "CN=vm 1, DNS=vm1.example.org");
        for text in ["vm 1", "CN=vm 1", "cn=vm 1", "vm1.example.org", "DNS=VM1.example.org"] {
            assert!(names.is_allowed(&allowed(text)), "{text}");
        }
        for text in ["vm", "An office", "CN=vm1.example.org", "DNS=vm 1", "example.org", "VM 1"] {
            assert!(!names.is_allowed(&allowed(text)), "{text}");
        }
    }

    #[test]
    fn names_are_shown_as_they_are_written() {
        for text in ["vm1", "CN=vm1", "DNS=vm1.example.org", "O=x"] {
            assert_eq!(allowed(text).to_string(), text);
        }
        assert!(["", "CN=", " "].iter().all(|text| text.parse::<AllowedClient>().is_err()));
    }

    #[test]
    fn broken_subjects_have_no_names() {
        let whole = [&[SET, 12, SEQUENCE, 10, OBJECT_ID, 3], COMMON_NAME, &[0x0c, 3], b"vm1"].concat();
        assert_eq!(common_names(&whole), ["vm1"]);
        for length in 0..whole.len() {
            assert!(common_names(&whole[..length]).is_empty(), "{length}");
        }
        assert!(common_names(&[SET, 0x84, 0xff, 0xff, 0xff, 0xff]).is_empty());
        assert!(common_names(&[SET, 0xff]).is_empty());
    }
}
