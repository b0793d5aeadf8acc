//! The address of an NBD server or of the metrics: `unix:PATH` or `tcp:HOST:PORT`.

use std::ffi::OsStr;
use std::fmt;
use std::net::IpAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde::de::{Deserialize, Deserializer, Error as _};

use crate::plan::percent::encode;
use crate::whole_path::{real_path, whole_path};

/// Longest path of a unix socket in bytes: it fits into `sockaddr_un` with its closing zero.
pub const UNIX_PATH_MAX: usize = 107;

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum NbdAddress {
    Unix(PathBuf),
    Tcp {
        /// Host name or address, without brackets.
        host: String,
        /// Port; 0 lets the system choose.
        port: u16,
    },
}

/// Why a text is not an address.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AddressError {
    #[error("`{0}` is not an NBD address; write unix:PATH or tcp:HOST:PORT")]
    Unknown(String),
    #[error("`unix:` has no path behind it; write unix:PATH, such as unix:/run/kickcache/vm1.sock")]
    NoPath,
    #[error("the path of a socket is empty; name a file, such as /run/kickcache/control.sock")]
    EmptyPath,
    #[error(
        "the socket path `{path}` has {found} bytes, a unix socket takes at most {UNIX_PATH_MAX}; choose a shorter one"
    )]
    PathTooLong {
        path: String,
        /// In bytes.
        found: usize,
    },
    #[error(
        "`{0}` is not a TCP address; write tcp:HOST:PORT, such as tcp:127.0.0.1:10809 or tcp:[::1]:10809"
    )]
    Tcp(String),
}

impl NbdAddress {
    /// # Errors
    /// Names the text found and the expected form.
    pub fn parse(text: &OsStr) -> Result<NbdAddress, AddressError> {
        if let Some(path) = text.as_bytes().strip_prefix(b"unix:") {
            return parse_unix(Path::new(OsStr::from_bytes(path)));
        }
        let shown = text.to_string_lossy();
        match text.to_str().and_then(|text| text.strip_prefix("tcp:")) {
            Some(rest) => parse_tcp(rest).ok_or_else(|| AddressError::Tcp(shown.into())),
            None => Err(AddressError::Unknown(shown.into())),
        }
    }

    pub fn unix_path(&self) -> Option<&Path> {
        match self {
            NbdAddress::Unix(path) => Some(path),
            NbdAddress::Tcp { .. } => None,
        }
    }

    /// The address, with symbolic links in the path of a unix socket resolved.
    pub(super) fn place(&self) -> NbdAddress {
        match self {
            NbdAddress::Unix(path) => NbdAddress::Unix(real_path(path)),
            NbdAddress::Tcp { .. } => self.clone(),
        }
    }

    pub fn is_any_port(&self) -> bool {
        matches!(self, NbdAddress::Tcp { port: 0, .. })
    }

    /// Whether the address is a unix socket, a loopback address or `localhost`: only this machine can reach it.
    pub fn is_local(&self) -> bool {
        match self {
            NbdAddress::Unix(_) => true,
            NbdAddress::Tcp { host, .. } => is_loopback(host),
        }
    }

    /// The URI of a volume at this address, for NBD clients in any folder.
    pub fn uri(&self, name: &str) -> String {
        let name = encode(name.as_bytes());
        match self {
            NbdAddress::Unix(path) => {
                format!("nbd+unix:///{name}?socket={}", encode(whole_path(path).as_os_str().as_bytes()))
            }
            NbdAddress::Tcp { host, port } if host.contains(':') => format!("nbd://[{host}]:{port}/{name}"),
            NbdAddress::Tcp { host, port } => format!("nbd://{host}:{port}/{name}"),
        }
    }
}

impl<'de> Deserialize<'de> for NbdAddress {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<NbdAddress, D::Error> {
        let text = String::deserialize(deserializer)?;
        NbdAddress::parse(OsStr::new(&text)).map_err(D::Error::custom)
    }
}

impl fmt::Display for NbdAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NbdAddress::Unix(path) => write!(f, "unix:{}", path.display()),
            NbdAddress::Tcp { host, port } if host.contains(':') => write!(f, "tcp:[{host}]:{port}"),
            NbdAddress::Tcp { host, port } => write!(f, "tcp:{host}:{port}"),
        }
    }
}

fn parse_unix(path: &Path) -> Result<NbdAddress, AddressError> {
    if path.as_os_str().is_empty() {
        return Err(AddressError::NoPath);
    }
    check_socket_path(path)?;
    Ok(NbdAddress::Unix(path.into()))
}

/// # Errors
/// [`AddressError::EmptyPath`], [`AddressError::PathTooLong`].
pub fn check_socket_path(path: &Path) -> Result<(), AddressError> {
    let found = path.as_os_str().len();
    if found == 0 {
        return Err(AddressError::EmptyPath);
    }
    if found > UNIX_PATH_MAX {
        return Err(AddressError::PathTooLong { path: path.display().to_string(), found });
    }
    Ok(())
}

fn parse_tcp(rest: &str) -> Option<NbdAddress> {
    let (host, port) = rest.rsplit_once(':')?;
    let host = match host.strip_prefix('[') {
        Some(inner) => inner.strip_suffix(']').filter(|inner| inner.parse::<IpAddr>().is_ok())?,
        None => Some(host).filter(|host| !host.contains(':'))?,
    };
    let wellformed = !host.is_empty() && !host.contains(|c: char| c.is_whitespace() || c == '/');
    let port = Some(port).filter(|port| port.bytes().all(|b| b.is_ascii_digit()))?.parse().ok()?;
    wellformed.then(|| NbdAddress::Tcp { host: host.into(), port })
}

fn is_loopback(host: &str) -> bool {
    match host.parse::<IpAddr>() {
        Ok(address) => address.is_loopback(),
        Err(_) => host.eq_ignore_ascii_case("localhost"),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn addresses_read_back_as_written() {
        for text in ["unix:/run/x.sock", "unix:x", "tcp:127.0.0.1:10809", "tcp:[::1]:1", "tcp:localhost:0"] {
            assert_eq!(NbdAddress::parse(OsStr::new(text)).unwrap().to_string(), text);
        }
    }

    #[test]
    fn socket_paths_may_be_any_bytes() {
        let address = NbdAddress::parse(OsStr::from_bytes(b"unix:/tmp/\xff.sock")).unwrap();
        assert_eq!(address, NbdAddress::Unix(PathBuf::from(OsStr::from_bytes(b"/tmp/\xff.sock"))));
    }

    #[test]
    fn an_invalid_address_is_refused_with_a_sentence() {
        let long = format!("unix:/{}", "a".repeat(UNIX_PATH_MAX));
        let texts = [
            "",
            "/run/x.sock",
            "unix:",
            &long,
            "tcp:",
            "tcp:10809",
            "tcp:host:",
            "tcp::1",
            "tcp:::1:5",
            "tcp:h:65536",
            "tcp:h:-1",
            "tcp:h:+1",
            "tcp:[host]:1",
            "tcp:a b:1",
            "http://x",
        ];
        let found: String = texts
            .iter()
            .map(|text| format!("{text:?}: {}\n", NbdAddress::parse(OsStr::new(text)).unwrap_err()))
            .collect();
        expect![[r#"
            "": `` is not an NBD address; write unix:PATH or tcp:HOST:PORT
            "/run/x.sock": `/run/x.sock` is not an NBD address; write unix:PATH or tcp:HOST:PORT
            "unix:": `unix:` has no path behind it; write unix:PATH, such as unix:/run/kickcache/vm1.sock
            "unix:/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa": the socket path `/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa` has 108 bytes, a unix socket takes at most 107; choose a shorter one
            "tcp:": `tcp:` is not a TCP address; write tcp:HOST:PORT, such as tcp:127.0.0.1:10809 or tcp:[::1]:10809
            "tcp:10809": `tcp:10809` is not a TCP address; write tcp:HOST:PORT, such as tcp:127.0.0.1:10809 or tcp:[::1]:10809
            "tcp:host:": `tcp:host:` is not a TCP address; write tcp:HOST:PORT, such as tcp:127.0.0.1:10809 or tcp:[::1]:10809
            "tcp::1": `tcp::1` is not a TCP address; write tcp:HOST:PORT, such as tcp:127.0.0.1:10809 or tcp:[::1]:10809
            "tcp:::1:5": `tcp:::1:5` is not a TCP address; write tcp:HOST:PORT, such as tcp:127.0.0.1:10809 or tcp:[::1]:10809
            "tcp:h:65536": `tcp:h:65536` is not a TCP address; write tcp:HOST:PORT, such as tcp:127.0.0.1:10809 or tcp:[::1]:10809
            "tcp:h:-1": `tcp:h:-1` is not a TCP address; write tcp:HOST:PORT, such as tcp:127.0.0.1:10809 or tcp:[::1]:10809
            "tcp:h:+1": `tcp:h:+1` is not a TCP address; write tcp:HOST:PORT, such as tcp:127.0.0.1:10809 or tcp:[::1]:10809
            "tcp:[host]:1": `tcp:[host]:1` is not a TCP address; write tcp:HOST:PORT, such as tcp:127.0.0.1:10809 or tcp:[::1]:10809
            "tcp:a b:1": `tcp:a b:1` is not a TCP address; write tcp:HOST:PORT, such as tcp:127.0.0.1:10809 or tcp:[::1]:10809
            "http://x": `http://x` is not an NBD address; write unix:PATH or tcp:HOST:PORT
        "#]].assert_eq(&found);
    }

    #[test]
    fn only_loopback_is_local() {
        let local = |text: &str| NbdAddress::parse(OsStr::new(text)).unwrap().is_local();
        assert!(
            local("unix:x") && local("tcp:127.9.9.9:1") && local("tcp:[::1]:1") && local("tcp:localhost:1")
        );
        assert!(!local("tcp:0.0.0.0:1") && !local("tcp:[::]:1") && !local("tcp:example.org:1"));
    }

    #[test]
    fn uris_have_the_form_that_clients_accept() {
        let uri = |text: &str| NbdAddress::parse(OsStr::new(text)).unwrap().uri("vm1");
        assert_eq!(uri("unix:/run/x.sock"), "nbd+unix:///vm1?socket=/run/x.sock");
        assert_eq!(uri("tcp:[::1]:10809"), "nbd://[::1]:10809/vm1");
        let here = std::env::current_dir().unwrap();
        assert_eq!(uri("unix:s1"), format!("nbd+unix:///vm1?socket={}/s1", here.display()));
        let odd = NbdAddress::parse(OsStr::from_bytes("unix:/run/a b?c#d%é&\u{1}".as_bytes())).unwrap();
        assert_eq!(
            odd.uri("v 1/#?%"),
            "nbd+unix:///v%201/%23%3F%25?socket=/run/a%20b%3Fc%23d%25%C3%A9%26%01"
        );
        let bytes = NbdAddress::parse(OsStr::from_bytes(b"unix:/tmp/\xff")).unwrap();
        assert_eq!(bytes.uri("v"), "nbd+unix:///v?socket=/tmp/%FF");
    }
}
