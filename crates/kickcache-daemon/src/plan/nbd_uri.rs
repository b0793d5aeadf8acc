//! Where a remote origin is: an export of an NBD server, as `nbd://HOST[:PORT]/EXPORT` or
//! `nbd+unix:///EXPORT?socket=PATH`.
//!
//! The forms are those of <https://github.com/NetworkBlockDevice/nbd/blob/master/doc/uri.md>.

use std::collections::BTreeSet;
use std::fmt::{self, Write as _};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

use kickcache_engine::config::OriginKind;
use kickcache_engine::format::superblock::ORIGIN_IDENTITY_MAX;

use crate::driver::device::OpenError;
use crate::plan::address::{AddressError, NbdAddress, check_socket_path};
use crate::plan::origin_source::spec::OriginSpec;
use crate::whole_path::real_path;

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
    /// Of another kind.
    #[error("`{0}` is no NBD export; write nbd://HOST:PORT/EXPORT, or nbd+unix:///EXPORT?socket=PATH")]
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

    /// Whether URIs of a scheme are exports.
    pub fn has_scheme(scheme: &str) -> bool {
        ["nbd", "nbd+unix", "nbds", "nbds+unix"].iter().any(|known| scheme.eq_ignore_ascii_case(known))
    }

    /// Reads a URI.
    ///
    /// # Errors
    /// Says what was found and what was expected.
    pub fn parse(text: &str) -> Result<NbdUri, UriError> {
        let (scheme, rest) = text.split_once("://").ok_or_else(|| UriError::Unknown(text.into()))?;
        let scheme = scheme.to_ascii_lowercase();
        let wrong = |what| UriError::Wrong { text: text.into(), what };
        let (place, query) = rest.split_once('?').map_or((rest, None), |(place, query)| (place, Some(query)));
        let (host, export) = place.split_once('/').unwrap_or((place, ""));
        let export = decode(export).map_err(wrong)?;
        let address = match (scheme.as_str(), query) {
            ("nbds" | "nbds+unix", _) => return Err(UriError::Tls(text.into())),
            ("nbd", None) => tcp(host).ok_or_else(|| wrong("write nbd://HOST:PORT/EXPORT"))?,
            ("nbd", Some(_)) => return Err(wrong("nothing may stand behind a ?")),
            ("nbd+unix", Some(query)) if host.is_empty() => NbdAddress::Unix(socket(query).map_err(wrong)?),
            ("nbd+unix", _) => return Err(wrong("write nbd+unix:///EXPORT?socket=PATH")),
            _ => return Err(UriError::Unknown(text.into())),
        };
        if let NbdAddress::Unix(path) = &address {
            check_socket_path(path)?;
        }
        let uri = NbdUri { address, export };
        if uri.to_string().len() > ORIGIN_IDENTITY_MAX {
            return Err(wrong(
                "a cache device records at most 511 bytes of a URI; give the export a shorter name",
            ));
        }
        Ok(uri)
    }

    /// What a cache device recognises the export by: the URI, with the socket's path free of links and `..`.
    pub fn identity(&self) -> String {
        match &self.address {
            NbdAddress::Unix(path) => {
                NbdUri { address: NbdAddress::Unix(real_path(path)), export: self.export.clone() }.to_string()
            }
            NbdAddress::Tcp { .. } => self.to_string(),
        }
    }

    /// The same with each address of its host in place of the host's name, where that is known and not the identity itself. Looks
    /// the name up, which may take long.
    pub fn numeric_identities(&self) -> Vec<String> {
        let NbdAddress::Tcp { host, port } = &self.address else { return Vec::new() };
        let found = (host.as_str(), *port).to_socket_addrs().into_iter().flatten();
        let numeric = |address: SocketAddr| NbdUri {
            address: NbdAddress::Tcp { host: address.ip().to_canonical().to_string(), port: *port },
            export: self.export.clone(),
        };
        let names: BTreeSet<String> = found.map(|address| numeric(address).identity()).collect();
        names.into_iter().filter(|name| *name != self.identity()).collect()
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

impl OriginSpec for NbdUri {
    fn shown(&self) -> String {
        self.to_string()
    }

    fn name(&self) -> Option<&str> {
        Some(self.export()).filter(|name| !name.is_empty())
    }

    fn identity(&self) -> Result<String, OpenError> {
        Ok(NbdUri::identity(self))
    }

    fn kind(&self) -> OriginKind {
        OriginKind::Remote
    }

    fn has_server(&self) -> bool {
        true
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

/// The path of a socket, from the part of a URI behind the `?`.
fn socket(query: &str) -> Result<PathBuf, &'static str> {
    if query.contains('&') {
        return Err("nothing but socket=PATH may stand behind the ?, and an & of a path is written %26");
    }
    let path = query.strip_prefix("socket=").ok_or("write nbd+unix:///EXPORT?socket=PATH")?;
    let path = PathBuf::from(decode(path)?);
    match path.is_absolute() {
        true => Ok(path),
        false => Err("write nbd+unix:///EXPORT?socket=PATH with a path from the root"),
    }
}

fn tcp(host: &str) -> Option<NbdAddress> {
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| !port.contains(']'));
    let text = if has_port { format!("tcp:{host}") } else { format!("tcp:{host}:{PORT}") };
    NbdAddress::parse(text.as_ref()).ok()
}

fn decode(text: &str) -> Result<String, &'static str> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut left = text.as_bytes();
    while let Some((&first, rest)) = left.split_first() {
        if first != b'%' {
            bytes.push(first);
            left = rest;
            continue;
        }
        let digits = rest.get(..2).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(byte.ok_or("behind a % stand two hexadecimal digits")?);
        left = &rest[2..];
    }
    let text = String::from_utf8(bytes).map_err(|_| "names and paths must be UTF-8")?;
    if text.contains('\0') { Err("names and paths have no zero byte") } else { Ok(text) }
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
            ("NBD+Unix:///?socket=/run/a%26b", "nbd+unix:///?socket=/run/a%26b"),
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
            ("http://store/vm1", "is no NBD export"),
            ("nbds://store/vm1", "asks for TLS"),
            ("nbd:///vm1", "write nbd://HOST:PORT/EXPORT"),
            ("nbd://store:port/vm1", "write nbd://HOST:PORT/EXPORT"),
            ("nbd://store/vm1?tls=1", "behind a ?"),
            ("nbd+unix:///vm1", "socket=PATH"),
            ("nbd+unix:///vm1?socket=", "socket=PATH"),
            ("nbd+unix://host/vm1?socket=/a", "socket=PATH"),
            ("nbd+unix:///?socket=o.sock", "from the root"),
            ("nbd+unix:///?socket=/x&tls=y", "%26"),
            ("nbd://store/%zz", "hexadecimal"),
            ("nbd://store/%00", "zero byte"),
            ("nbd://store/%ff", "UTF-8"),
        ];
        for (text, part) in cases {
            let told = NbdUri::parse(text).unwrap_err().to_string();
            assert!(told.contains(part) && told.contains(text), "{told}");
        }
        let long = format!("nbd://store/{}", "x".repeat(512));
        assert!(NbdUri::parse(&long).unwrap_err().to_string().contains("511"));
        assert!(["/dev/sdb", "a:b", "./nbd:x", "://"].iter().all(|path| !NbdUri::is_meant(path)));
    }

    #[test]
    fn one_socket_has_one_identity_by_whatever_name() {
        let folder = tempfile::tempdir().unwrap();
        let real = std::fs::canonicalize(folder.path()).unwrap();
        std::fs::create_dir(real.join("a")).unwrap();
        std::fs::write(real.join("a/o.sock"), "").unwrap();
        std::os::unix::fs::symlink(real.join("a"), real.join("b")).unwrap();
        std::os::unix::fs::symlink(real.join("a/o.sock"), real.join("l.sock")).unwrap();
        let identity = |path: &str| {
            NbdUri::parse(&format!("nbd+unix:///v?socket={}/{path}", real.display())).unwrap().identity()
        };
        let expected = format!("nbd+unix:///v?socket={}/a/o.sock", real.display());
        for path in ["a/o.sock", "b/o.sock", "l.sock", "b/../a/o.sock", "a/./o.sock"] {
            assert_eq!(identity(path), expected, "{path}");
        }
        std::fs::remove_file(real.join("a/o.sock")).unwrap();
        assert_eq!(identity("b/o.sock"), expected, "its server is away");
        assert_eq!(NbdUri::parse("nbd://store/a").unwrap().identity(), "nbd://store:10809/a");
    }

    #[test]
    fn a_host_is_known_by_its_addresses_too() {
        let others = |text: &str| NbdUri::parse(text).unwrap().numeric_identities();
        assert!(others("nbd://localhost/x").contains(&"nbd://127.0.0.1:10809/x".into()));
        assert!(others("nbd://127.0.0.1/x").is_empty(), "its own name");
        assert_eq!(others("nbd://[::ffff:127.0.0.1]/x"), ["nbd://127.0.0.1:10809/x"]);
        assert_eq!(others("nbd://[0:0::1]:7/x"), ["nbd://[::1]:7/x"]);
        assert!(others("nbd+unix:///x?socket=/run/a.sock").is_empty());
    }
}
