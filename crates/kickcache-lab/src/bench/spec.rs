//! The user's description of a target.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::ValueEnum;
use kickcache_daemon::plan::nbd_uri::NbdUri;
use kickcache_daemon::plan::origin_source::OriginSource;
use kickcache_daemon::words::ModeWord;
use kickcache_units::Size;

#[derive(Clone, Debug)]
pub(crate) struct TargetSpec {
    pub(crate) name: String,
    /// The target as the user wrote it.
    pub(crate) text: String,
    pub(super) kind: TargetKind,
}

#[derive(Clone, Debug)]
pub(super) enum TargetKind {
    /// A path or the URI of an NBD export, measured without a cache of the bench.
    Place(String),
    Program(PathBuf),
    Cache(CacheTarget),
}

#[derive(Clone, Debug)]
pub(super) struct CacheTarget {
    pub(super) cache: PathBuf,
    pub(super) size: Option<Size>,
    pub(super) origin: OriginSource,
    pub(super) mode: ModeWord,
}

impl TargetSpec {
    pub(crate) fn own_mode(&self) -> Option<ModeWord> {
        match &self.kind {
            TargetKind::Cache(cache) => Some(cache.mode),
            TargetKind::Place(_) | TargetKind::Program(_) => None,
        }
    }

    /// The paths that the target names; for a place, its text, even if that is a URI.
    pub(crate) fn files(&self) -> Vec<&Path> {
        match &self.kind {
            TargetKind::Place(text) => vec![Path::new(text)],
            TargetKind::Program(path) => vec![path],
            TargetKind::Cache(cache) => {
                std::iter::once(cache.cache.as_path()).chain(cache.origin.path()).collect()
            }
        }
    }
}

const EXPECTED: &str = "write NAME=PATH, NAME=nbd+unix:///EXPORT?socket=PATH, NAME=cmd:EXECUTABLE, or \
NAME=cache:PATH,origin:PATH,mode:MODE,size:SIZE";

impl FromStr for TargetSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<TargetSpec, String> {
        let (name, what) = text.split_once('=').ok_or_else(|| format!("`{text}` has no name; {EXPECTED}"))?;
        if name.is_empty() || what.is_empty() || name.contains('/') || name.contains(char::is_control) {
            return Err(format!("`{}` is no target; {EXPECTED}", text.escape_debug()));
        }
        let kind = if let Some(program) = what.strip_prefix("cmd:") {
            TargetKind::Program(program.into())
        } else if what.starts_with("cache:") {
            TargetKind::Cache(cache(what)?)
        } else if let Some(scheme) = unknown_scheme(what) {
            return Err(format!(
                "a target cannot begin with `{scheme}:`; {EXPECTED}, or ./{what} for a file with this name"
            ));
        } else {
            TargetKind::Place(what.into())
        };
        Ok(TargetSpec { name: name.into(), text: what.into(), kind })
    }
}

/// The word before the first colon of a target that is neither a URI nor an existing path: a misspelt prefix must not
/// create a file.
fn unknown_scheme(what: &str) -> Option<&str> {
    let (scheme, _) = what.split_once(':')?;
    let is_word =
        !scheme.is_empty() && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'+');
    (is_word && !NbdUri::is_meant(what) && !Path::new(what).exists()).then_some(scheme)
}

fn cache(text: &str) -> Result<CacheTarget, String> {
    let (mut cache, mut origin, mut size, mut mode) = (None, None, None, ModeWord::default());
    for part in text.split(',') {
        let (key, value) = part.split_once(':').unwrap_or((part, ""));
        match key {
            "cache" if !value.is_empty() => cache = Some(PathBuf::from(value)),
            "origin" if !value.is_empty() => {
                origin = Some(OriginSource::parse(OsStr::new(value)).map_err(|error| error.to_string())?);
            }
            "mode" => mode = ModeWord::from_str(value, true).map_err(|_| format!("`{value}` is no mode"))?,
            "size" => size = Some(value.parse::<Size>().map_err(|error| error.to_string())?),
            _ => return Err(format!("`{part}` is not understood; {EXPECTED}")),
        }
    }
    let missing = |what: &str| format!("`{text}` has no {what}; {EXPECTED}");
    Ok(CacheTarget {
        cache: cache.ok_or_else(|| missing("cache device"))?,
        origin: origin.ok_or_else(|| missing("origin"))?,
        size,
        mode,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(text: &str) -> String {
        text.parse::<TargetSpec>().unwrap_err()
    }

    #[test]
    fn targets_are_read() {
        let spec: TargetSpec =
            "k=cache:/c,origin:nbd+unix:///e?socket=/s,mode:write-back,size:1G".parse().unwrap();
        let TargetKind::Cache(cache) = spec.kind else { panic!("{spec:?}") };
        assert_eq!((cache.mode, cache.size), (ModeWord::WriteBack, Some(Size::from_bytes(1 << 30))));
        assert_eq!(cache.origin.to_string(), "nbd+unix:///e?socket=/s");
        let spec: TargetSpec = "x=nbd+unix:///vm1?socket=/s".parse().unwrap();
        assert!(matches!(spec.kind, TargetKind::Place(uri) if uri.ends_with("socket=/s")));
        assert!(matches!("l=cmd:./up".parse::<TargetSpec>().unwrap().kind, TargetKind::Program(_)));
    }

    #[test]
    fn an_invalid_target_is_refused_with_the_valid_forms() {
        assert!(fault("/dev/sdb").starts_with("`/dev/sdb` has no name; write NAME=PATH"));
        assert!(fault("=x").contains("is no target"));
        assert!(fault("\x1b[31mred=x").starts_with("`\\u{1b}[31mred=x` is no target"));
        assert!(fault("a=bogus:x").starts_with("a target cannot begin with `bogus:`; write NAME=PATH"));
        assert!(fault("a=nbd:oops").contains("or ./nbd:oops for a file with this name"));
        assert!("a=/dev/disk/by-path/pci-0000:00:1f.2".parse::<TargetSpec>().is_ok());
        assert!("a=./x:y".parse::<TargetSpec>().is_ok());
        assert!(fault("k=cache:/c").contains("has no origin"));
        assert!(fault("k=cache:/c,origin:/o,mode:fast").contains("`fast` is no mode"));
        assert!(fault("k=cache:/c,origin:/o,colour:red").contains("`colour:red` is not understood"));
    }
}
