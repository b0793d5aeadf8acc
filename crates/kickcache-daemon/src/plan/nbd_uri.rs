//! Where a remote origin is: an export of an NBD server, as `nbd://HOST[:PORT]/EXPORT` or
//! `nbd+unix:///EXPORT?socket=PATH`; with TLS `nbds://` and `nbds+unix://`.
//!
//! The forms are defined in <https://github.com/NetworkBlockDevice/nbd/blob/master/doc/uri.md>.

use std::collections::BTreeSet;
use std::fmt;
use std::net::ToSocketAddrs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use kickcache_engine::config::OriginKind;
use kickcache_engine::format::superblock::ORIGIN_IDENTITY_MAX;
use kickcache_tls::TlsError;
use kickcache_tls::client::ClientTls;

use crate::driver::device::OpenError;
use crate::path_text::check_real_path;
use crate::plan::address::{AddressError, NbdAddress, check_socket_path};
use crate::plan::origin_source::spec::OriginSpec;
use crate::plan::percent::{decode, encode};
use crate::whole_path::real_path;

/// The port of NBD.
const PORT: &str = "10809";

/// An export of an NBD server.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct NbdUri {
    address: NbdAddress,
    export: String,
    tls: Option<UriTls>,
}

/// The TLS parameters of a URI.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct UriTls {
    /// `tls-certificates=DIR`
    certificates: Option<PathBuf>,
    /// The name that the server's certificate must have: `tls-hostname=NAME`.
    host: Option<String>,
}

const CERTIFICATES: &str = "/etc/kickcache/tls";
/// The name of a server behind a unix socket, if a URI gives none.
const LOCAL_NAME: &str = "localhost";

/// Why a text is not the URI of an export.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum UriError {
    #[error(
        "`{0}` is no NBD export; write nbd://HOST:PORT/EXPORT, or nbd+unix:///EXPORT?socket=PATH (with TLS: nbds, nbds+unix)"
    )]
    Unknown(String),
    #[error("`{text}` is not the URI of an NBD export: {what}")]
    Wrong { text: String, what: &'static str },
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

    pub fn has_scheme(scheme: &str) -> bool {
        ["nbd", "nbd+unix", "nbds", "nbds+unix"].iter().any(|known| scheme.eq_ignore_ascii_case(known))
    }

    /// # Errors
    /// Names the text found and the expected form.
    pub fn parse(text: &str) -> Result<NbdUri, UriError> {
        let (scheme, rest) = text.split_once("://").ok_or_else(|| UriError::Unknown(text.into()))?;
        let scheme = scheme.to_ascii_lowercase();
        let wrong = |what| UriError::Wrong { text: text.into(), what };
        let (scheme, tls) = match scheme.as_str() {
            "nbds" => ("nbd", Some(UriTls::default())),
            "nbds+unix" => ("nbd+unix", Some(UriTls::default())),
            scheme => (scheme, None),
        };
        let (place, query) = rest.split_once('?').map_or((rest, None), |(place, query)| (place, Some(query)));
        let (host, export) = place.split_once('/').unwrap_or((place, ""));
        let export = decode(export).map_err(wrong)?;
        let Query { tls, socket: rest } = Query::read(tls, query).map_err(wrong)?;
        let address = match (scheme, rest.as_deref()) {
            ("nbd", None) => tcp(host).ok_or_else(|| wrong("write nbd://HOST:PORT/EXPORT"))?,
            ("nbd", Some(_)) if tls.is_none() => return Err(wrong("no parameters may follow a ?")),
            ("nbd", Some(_)) => {
                return Err(wrong("only tls-certificates=DIR and tls-hostname=NAME may follow the ?"));
            }
            ("nbd+unix", Some(query)) if host.is_empty() => NbdAddress::Unix(socket(query).map_err(wrong)?),
            ("nbd+unix", _) => return Err(wrong("write nbd+unix:///EXPORT?socket=PATH")),
            _ => return Err(UriError::Unknown(text.into())),
        };
        if let NbdAddress::Unix(path) = &address {
            check_socket_path(path)?;
        }
        let uri = NbdUri { address, export, tls };
        if uri.plain_name().to_string().len() > ORIGIN_IDENTITY_MAX {
            return Err(wrong(
                "a cache device records at most 511 bytes of a URI; give the export a shorter name",
            ));
        }
        Ok(uri)
    }

    /// The identity of the export on a cache device: the URI without certificate parameters, and with links
    /// and `..` in the path of a socket resolved.
    pub fn identity(&self) -> String {
        let name = self.plain_name();
        match &self.address {
            NbdAddress::Unix(path) => {
                NbdUri { address: NbdAddress::Unix(real_path(path)), ..name }.to_string()
            }
            NbdAddress::Tcp { .. } => name.to_string(),
        }
    }

    pub fn socket_path(&self) -> Option<&Path> {
        match &self.address {
            NbdAddress::Unix(path) => Some(path),
            NbdAddress::Tcp { .. } => None,
        }
    }

    /// Other identities of the export: with the addresses of the host in place of its name, and with and
    /// without TLS. Looks up the name of the host.
    pub fn other_identities(&self) -> Vec<String> {
        let mut names = vec![self.clone()];
        if let NbdAddress::Tcp { host, port } = &self.address {
            let found = (host.as_str(), *port).to_socket_addrs().into_iter().flatten();
            names.extend(found.map(|address| NbdUri {
                address: NbdAddress::Tcp { host: address.ip().to_canonical().to_string(), port: *port },
                ..self.clone()
            }));
        }
        let forms = names.iter().flat_map(|name| {
            [None, Some(UriTls::default())].map(|tls| NbdUri { tls, ..name.clone() }.identity())
        });
        let names: BTreeSet<String> = forms.collect();
        names.into_iter().filter(|name| *name != self.identity()).collect()
    }

    /// The configuration that verifies the server's certificate; `None` without TLS.
    ///
    /// # Errors
    /// Names the file and its defect.
    pub fn client_tls(&self) -> Result<Option<ClientTls>, TlsError> {
        let Some(tls) = &self.tls else { return Ok(None) };
        let folder = tls.certificates.as_deref().unwrap_or_else(|| Path::new(CERTIFICATES));
        let host = match (&tls.host, &self.address) {
            (Some(host), _) | (None, NbdAddress::Tcp { host, .. }) => host,
            (None, NbdAddress::Unix(_)) => LOCAL_NAME,
        };
        ClientTls::open(folder, host).map(Some)
    }

    fn plain_name(&self) -> NbdUri {
        NbdUri { tls: self.tls.as_ref().map(|_| UriTls::default()), ..self.clone() }
    }

    pub fn address(&self) -> &NbdAddress {
        &self.address
    }

    /// Empty for the server's default.
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
        self.address.unix_path().map_or(Ok(()), check_real_path)?;
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
        let scheme = if self.tls.is_some() { "nbds" } else { "nbd" };
        let mut separator = '?';
        match &self.address {
            NbdAddress::Unix(path) => {
                let [export, path] = [self.export.as_bytes(), path.as_os_str().as_bytes()].map(encode);
                write!(f, "{scheme}+unix:///{export}?socket={path}")?;
                separator = '&';
            }
            NbdAddress::Tcp { .. } => {
                let uri = self.address.uri(&self.export);
                write!(f, "{scheme}{}", uri.strip_prefix("nbd").unwrap_or(&uri))?;
            }
        }
        let tls = self.tls.iter();
        let folder = tls.clone().filter_map(|tls| {
            Some(("tls-certificates", encode(tls.certificates.as_ref()?.as_os_str().as_bytes())))
        });
        let host = tls.filter_map(|tls| Some(("tls-hostname", encode(tls.host.as_ref()?.as_bytes()))));
        for (key, value) in folder.chain(host) {
            write!(f, "{separator}{key}={value}")?;
            separator = '&';
        }
        Ok(())
    }
}

struct Query {
    tls: Option<UriTls>,
    /// The query without the parameters of TLS; the whole query of a URI without TLS.
    socket: Option<String>,
}

impl Query {
    fn read(tls: Option<UriTls>, query: Option<&str>) -> Result<Query, &'static str> {
        let Some(mut tls) = tls else { return Ok(Query { tls: None, socket: query.map(Into::into) }) };
        let mut others = Vec::new();
        for part in query.into_iter().flat_map(|query| query.split('&')) {
            match part.split_once('=') {
                Some(("tls-certificates", folder)) => {
                    let folder = PathBuf::from(decode(folder)?);
                    if !folder.is_absolute() {
                        return Err("write tls-certificates=DIR with a path from the root");
                    }
                    tls.certificates = Some(folder);
                }
                Some(("tls-hostname", host)) => tls.host = Some(decode(host)?),
                _ => others.push(part),
            }
        }
        let socket = Some(others.join("&")).filter(|others| !others.is_empty());
        Ok(Query { tls: Some(tls), socket })
    }
}

fn socket(query: &str) -> Result<PathBuf, &'static str> {
    if query.contains('&') {
        return Err("only socket=PATH may follow the ?, and an & of a path is written %26");
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
            ("nbds://store/vm1", "nbds://store:10809/vm1"),
            ("nbds://[::1]:7/?tls-certificates=/etc/a%20b", "nbds://[::1]:7/?tls-certificates=/etc/a%20b"),
            (
                "nbds+unix:///v?tls-hostname=store&tls-certificates=/c&socket=/s",
                "nbds+unix:///v?socket=/s&tls-certificates=/c&tls-hostname=store",
            ),
        ];
        for (text, shown) in cases {
            let uri = NbdUri::parse(text).unwrap();
            assert_eq!(uri.to_string(), shown);
            assert_eq!(NbdUri::parse(shown).unwrap(), uri);
        }
        assert_eq!(NbdUri::parse("nbd://store/a%2Fb").unwrap().export(), "a/b");
    }

    #[test]
    fn an_invalid_export_is_reported() {
        let cases = [
            ("http://store/vm1", "is no NBD export"),
            ("nbds://store/vm1?tls-certificates=tls", "from the root"),
            ("nbds://store/vm1?socket=/x", "tls-certificates=DIR"),
            ("nbds+unix:///vm1?tls-certificates=/x", "socket=PATH"),
            ("nbd://store/vm1?tls-certificates=/x", "may follow a ?"),
            ("nbd:///vm1", "write nbd://HOST:PORT/EXPORT"),
            ("nbd://store:port/vm1", "write nbd://HOST:PORT/EXPORT"),
            ("nbd://store/vm1?tls=1", "may follow a ?"),
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
        let tls = NbdUri::parse("nbds://store/a?tls-certificates=/c&tls-hostname=x").unwrap();
        assert_eq!(tls.identity(), "nbds://store:10809/a", "certificates may move");
        assert_eq!(NbdUri::parse(&tls.identity()).unwrap().identity(), tls.identity());
    }

    #[test]
    fn a_host_is_identified_by_its_addresses_despite_tls() {
        let all = |text: &str| NbdUri::parse(text).unwrap().other_identities();
        let others = |text: &str| {
            let mut names = all(text);
            names.retain(|name| name.starts_with("nbd:"));
            names
        };
        assert!(others("nbd://localhost/x").contains(&"nbd://127.0.0.1:10809/x".into()));
        assert!(others("nbd://127.0.0.1/x").is_empty(), "its own name");
        assert_eq!(others("nbd://[::ffff:127.0.0.1]/x"), ["nbd://127.0.0.1:10809/x"]);
        assert_eq!(others("nbd://[0:0::1]:7/x"), ["nbd://[::1]:7/x"]);
        assert_eq!(all("nbd+unix:///x?socket=/run/a.sock"), ["nbds+unix:///x?socket=/run/a.sock"]);
        assert_eq!(all("nbds://127.0.0.1/x?tls-certificates=/c"), ["nbd://127.0.0.1:10809/x"]);
        assert!(all("nbd://localhost/x").contains(&"nbds://127.0.0.1:10809/x".into()));
    }
}
