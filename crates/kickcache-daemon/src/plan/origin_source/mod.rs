//! The place of a volume's origin: its kind, and the interface of all kinds.
//!
//! To add a kind: a file here with an [`OriginSpec`], its variant of [`OriginSource`], and how people write it ([`OriginSource::parse`]).

pub mod outside;
pub mod spec;

use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};

use kickcache_engine::config::OriginKind;

use crate::driver::device::OpenError;
use crate::driver::device::identity::path_of_identity;
use crate::path_text::{NotUtf8, path_text};
use crate::plan::nbd_uri::{NbdUri, UriError};
use crate::plan::origin_source::outside::OutsideSource;
use crate::plan::origin_source::spec::OriginSpec;

#[derive(Clone, PartialEq, Debug)]
pub enum OriginSource {
    Path(PathBuf),
    Nbd(NbdUri),
    /// An implementation of the caller: a simulation, or the device of a test.
    Outside(OutsideSource),
}

/// Why a text is no origin.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum OriginError {
    /// An empty text, or a URI with an unknown scheme.
    #[error("`{0}` is no origin; write a path, nbd://HOST:PORT/EXPORT, or nbd+unix:///EXPORT?socket=PATH")]
    Unknown(String),
    #[error(transparent)]
    Text(#[from] NotUtf8),
    #[error(transparent)]
    Nbd(#[from] UriError),
}

impl OriginSource {
    /// A path, or a URI.
    ///
    /// # Errors
    /// If the text is empty, is not UTF-8, or is a URI that cannot be an origin.
    pub fn parse(text: &OsStr) -> Result<OriginSource, OriginError> {
        let whole = path_text(text)?;
        let Some(scheme) = scheme(whole) else {
            return match whole.is_empty() {
                true => Err(OriginError::Unknown(String::new())),
                false => Ok(OriginSource::Path(text.into())),
            };
        };
        match scheme {
            _ if NbdUri::has_scheme(scheme) => Ok(OriginSource::Nbd(NbdUri::parse(whole)?)),
            _ => Err(OriginError::Unknown(whole.into())),
        }
    }

    /// The place of an origin with this identity.
    pub fn of_identity(identity: &str) -> OriginSource {
        if let Some(path) = path_of_identity(identity) {
            return OriginSource::Path(path);
        }
        match OriginSource::parse(OsStr::new(identity)) {
            Ok(OriginSource::Path(_)) | Err(_) => {
                let path = ["file:", "block:"].iter().find_map(|kind| identity.strip_prefix(kind));
                OriginSource::Path(path.unwrap_or(identity).into())
            }
            Ok(remote) => remote,
        }
    }

    pub fn socket_path(&self) -> Option<&Path> {
        match self {
            OriginSource::Nbd(uri) => uri.socket_path(),
            OriginSource::Path(_) | OriginSource::Outside(_) => None,
        }
    }

    fn spec(&self) -> &dyn OriginSpec {
        match self {
            OriginSource::Path(path) => path,
            OriginSource::Nbd(uri) => uri,
            OriginSource::Outside(source) => source,
        }
    }

    /// See [`OriginSpec::name`].
    pub fn name(&self) -> Option<&str> {
        self.spec().name()
    }

    /// See [`OriginSpec::identity`].
    ///
    /// # Errors
    /// [`OpenError`] if there is none.
    pub fn identity(&self) -> Result<String, OpenError> {
        self.spec().identity()
    }

    /// See [`OriginSpec::path`].
    pub fn path(&self) -> Option<&Path> {
        self.spec().path()
    }

    /// The path of the file, of the block device, or of the server's socket.
    pub fn local_path(&self) -> Option<&Path> {
        match self {
            OriginSource::Path(path) => Some(path),
            OriginSource::Nbd(uri) => uri.address().unix_path(),
            OriginSource::Outside(_) => None,
        }
    }

    /// See [`OriginSpec::kind`].
    pub fn kind(&self) -> OriginKind {
        self.spec().kind()
    }

    /// See [`OriginSpec::has_server`].
    pub fn has_server(&self) -> bool {
        self.spec().has_server()
    }
}

/// `None` if a text is a path.
fn scheme(text: &str) -> Option<&str> {
    let (scheme, _) = text.split_once("://")?;
    let is_scheme = scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'+');
    Some(scheme).filter(|scheme| is_scheme && !scheme.is_empty())
}

impl From<&Path> for OriginSource {
    fn from(path: &Path) -> OriginSource {
        OriginSource::Path(path.into())
    }
}

impl fmt::Display for OriginSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.spec().shown())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_found_again_by_its_recorded_identity() {
        let of = |identity| OriginSource::of_identity(identity);
        assert_eq!(of("block:/dev/sdb"), OriginSource::Path("/dev/sdb".into()));
        assert_eq!(of("file:/srv/a:b"), OriginSource::Path("/srv/a:b".into()));
        assert_eq!(of("disk:serial:absent"), OriginSource::Path("disk:serial:absent".into()));
        assert_eq!(of("file:/srv/nbd://x"), OriginSource::Path("/srv/nbd://x".into()));
        let uri = "nbd+unix:///v?socket=/run/a.sock";
        assert_eq!(of(uri), OriginSource::Nbd(NbdUri::parse(uri).unwrap()));
    }

    #[test]
    fn a_uri_is_never_treated_as_a_path() {
        let read = |text: &str| OriginSource::parse(OsStr::new(text));
        assert!(matches!(read("./nbd:x"), Ok(OriginSource::Path(_))));
        assert!(matches!(read("NBD://store/x"), Ok(OriginSource::Nbd(_))));
        for text in ["http://store/vm1", ""] {
            let said = read(text).unwrap_err().to_string();
            assert!(said.starts_with(&format!("`{text}` is no origin; write a path, nbd://")), "{said}");
        }
        assert!(read("nbds://store/x?tls=1").unwrap_err().to_string().contains("tls-certificates=DIR"));
    }
}
