//! Where a remote origin is: an export of an NBD server, as `nbd://HOST[:PORT]/EXPORT` or
//! `nbd+unix:///EXPORT?socket=PATH`.
//!
//! The forms are those of <https://github.com/NetworkBlockDevice/nbd/blob/master/doc/uri.md>.

use std::fmt::{self, Write as _};
use std::path::Path;

use crate::plan::address::{AddressError, NbdAddress, check_socket_path};

/// The port of NBD.
const PORT: &str = "10809";

/// An export of an NBD server.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct NbdUri {
    address: NbdAddress,
    export: String,
}

/// Why a text is not the URI of an export.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum UriError {
    /// Of a kind that cannot be an origin.
    #[error("`{0}` is no origin; write a path, nbd://HOST:PORT/EXPORT, or nbd+unix:///EXPORT?socket=PATH")]
    Unknown(String),
    /// With TLS.
    #[error(
        "`{0}` asks for TLS, which origins do not have here; use nbd:// through a tunnel (ssh -L, stunnel), or a unix socket"
    )]
    Tls(String),
    /// Host, port or path missing or wrong.
    #[error("`{text}` is not the URI of an NBD export: {what}")]
    Wrong {
        /// The text.
        text: String,
        /// What is wrong.
        what: &'static str,
    },
    /// A socket path that the kernel does not take.
    #[error(transparent)]
    Socket(#[from] AddressError),
}

impl NbdUri {
    /// Whether a text is meant as a URI, and not as a path.
    pub fn is_meant(text: &str) -> bool {
        text.split_once("://").is_some_and(|(scheme, _)| {
            !scheme.is_empty() && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'+')
        })
    }

    /// Reads a URI.
    ///
    /// # Errors
    /// Says what was found and what was expected.
    pub fn parse(text: &str) -> Result<NbdUri, UriError> {
        let (scheme, rest) = text.split_once("://").ok_or_else(|| UriError::Unknown(text.into()))?;
        let wrong = |what| UriError::Wrong { text: text.into(), what };
        let (place, query) = rest.split_once('?').map_or((rest, None), |(place, query)| (place, Some(query)));
        let (host, export) = place.split_once('/').unwrap_or((place, ""));
        let export = decode(export).ok_or_else(|| wrong("behind a % stand two hexadecimal digits"))?;
        let address = match (scheme, query) {
            ("nbds" | "nbds+unix", _) => return Err(UriError::Tls(text.into())),
            ("nbd", None) => tcp(host).ok_or_else(|| wrong("write nbd://HOST:PORT/EXPORT"))?,
            ("nbd", Some(_)) => return Err(wrong("nothing may stand behind a ?")),
            ("nbd+unix", Some(query)) if host.is_empty() => {
                let path = query.strip_prefix("socket=").and_then(decode).filter(|path| !path.is_empty());
                let path = path.ok_or_else(|| wrong("write nbd+unix:///EXPORT?socket=PATH"))?;
                check_socket_path(Path::new(&path))?;
                NbdAddress::Unix(path.into())
            }
            ("nbd+unix", _) => return Err(wrong("write nbd+unix:///EXPORT?socket=PATH")),
            _ => return Err(UriError::Unknown(text.into())),
        };
        Ok(NbdUri { address, export })
    }

    /// Where the server is.
    pub fn address(&self) -> &NbdAddress {
        &self.address
    }

    /// Name of the export; empty for the server's default.
    pub fn export(&self) -> &str {
        &self.export
    }
}

impl fmt::Display for NbdUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let export = encode(&self.export);
        match &self.address {
            NbdAddress::Unix(path) => {
                write!(f, "nbd+unix:///{export}?socket={}", encode(&path.to_string_lossy()))
            }
            NbdAddress::Tcp { .. } => f.write_str(&self.address.uri(&export)),
        }
    }
}

fn tcp(host: &str) -> Option<NbdAddress> {
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| !port.contains(']'));
    let text = if has_port { format!("tcp:{host}") } else { format!("tcp:{host}:{PORT}") };
    NbdAddress::parse(text.as_ref()).ok()
}

fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut left = text.as_bytes();
    while let Some((&first, rest)) = left.split_first() {
        if first != b'%' {
            bytes.push(first);
            left = rest;
            continue;
        }
        let digits = rest.get(..2).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))?;
        bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
        left = &rest[2..];
    }
    String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'))
}

fn encode(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~:@,+=".contains(&byte);
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if is_plain(byte) {
            out.push(char::from(byte));
        } else {
            // A string takes everything.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_are_read_and_shown_alike() {
        let cases = [
            ("nbd://store:10810/vm1", "nbd://store:10810/vm1"),
            ("nbd://store/vm1", "nbd://store:10809/vm1"),
            ("nbd://store", "nbd://store:10809/"),
            ("nbd://[::1]/a%20b", "nbd://[::1]:10809/a%20b"),
            ("nbd://127.0.0.1:1/pool/image", "nbd://127.0.0.1:1/pool/image"),
            ("nbd+unix:///vm1?socket=/run/a.sock", "nbd+unix:///vm1?socket=/run/a.sock"),
            ("nbd+unix:///?socket=/run/a%3fb", "nbd+unix:///?socket=/run/a%3Fb"),
        ];
        for (text, shown) in cases {
            let uri = NbdUri::parse(text).unwrap();
            assert_eq!(uri.to_string(), shown);
            assert_eq!(NbdUri::parse(shown).unwrap(), uri);
        }
        assert_eq!(NbdUri::parse("nbd://store/a%2Fb").unwrap().export(), "a/b");
    }

    #[test]
    fn what_is_no_export_is_told() {
        let cases = [
            ("http://store/vm1", "is no origin"),
            ("nbds://store/vm1", "asks for TLS"),
            ("nbd:///vm1", "write nbd://HOST:PORT/EXPORT"),
            ("nbd://store:port/vm1", "write nbd://HOST:PORT/EXPORT"),
            ("nbd://store/vm1?tls=1", "behind a ?"),
            ("nbd+unix:///vm1", "socket=PATH"),
            ("nbd+unix:///vm1?socket=", "socket=PATH"),
            ("nbd+unix://host/vm1?socket=/a", "socket=PATH"),
            ("nbd://store/%zz", "hexadecimal"),
        ];
        for (text, part) in cases {
            let told = NbdUri::parse(text).unwrap_err().to_string();
            assert!(told.contains(part) && told.contains(text), "{told}");
        }
        assert!(["/dev/sdb", "a:b", "./nbd:x", "://"].iter().all(|path| !NbdUri::is_meant(path)));
    }
}
