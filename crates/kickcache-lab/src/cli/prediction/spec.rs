//! The user's description of a predicted target.

use std::path::Path;
use std::str::FromStr;

use kickcache_model::cache_model::cache_kind::CacheKind;
use kickcache_units::Size;

/// The devices of a target, and the cache between them.
#[derive(Clone, Debug)]
pub(crate) struct PredictionSpec {
    pub(super) target: String,
    /// The origin, or the device alone: a name or a file.
    pub(super) origin: String,
    pub(super) cache: Option<String>,
    /// The model of the cache, if it is given.
    pub(super) model: Option<CacheKind>,
    pub(super) size: Option<Size>,
}

impl PredictionSpec {
    /// The files of devices that the prediction may read.
    pub(crate) fn files(&self) -> impl Iterator<Item = &Path> {
        std::iter::once(&self.origin).chain(&self.cache).map(Path::new)
    }
}

const EXPECTED: &str = "write TARGET=DEVICE, or TARGET=origin:DEVICE,cache:DEVICE with model:CACHE and size:SIZE if they differ from the target's";

impl FromStr for PredictionSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<PredictionSpec, String> {
        let wrong = || format!("`{text}` is no prediction; {EXPECTED}");
        let (target, what) = text.split_once('=').ok_or_else(wrong)?;
        if target.is_empty() || what.is_empty() {
            return Err(wrong());
        }
        let bare = PredictionSpec {
            target: target.into(),
            origin: what.into(),
            cache: None,
            model: None,
            size: None,
        };
        if !what.starts_with("origin:") && !what.starts_with("cache:") {
            return Ok(bare);
        }
        let mut spec = PredictionSpec { origin: String::new(), ..bare };
        for part in what.split(',') {
            match part.split_once(':') {
                Some(("origin", name)) => spec.origin = name.into(),
                Some(("cache", name)) => spec.cache = Some(name.into()),
                Some(("model", name)) => spec.model = Some(name.parse()?),
                Some(("size", size)) => {
                    spec.size = Some(size.parse::<Size>().map_err(|error| error.to_string())?);
                }
                _ => return Err(format!("`{part}` is not understood; {EXPECTED}")),
            }
        }
        if spec.origin.is_empty() || spec.cache.is_none() {
            return Err(wrong());
        }
        Ok(spec)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn predictions_are_read() {
        let bare: PredictionSpec = "hdd=my-disk.toml".parse().unwrap();
        assert_eq!((bare.target.as_str(), bare.origin.as_str(), bare.cache), ("hdd", "my-disk.toml", None));
        let cached: PredictionSpec =
            "lvm=origin:disk-7200,cache:ssd.toml,model:dm-cache-write-back,size:4G".parse().unwrap();
        assert_eq!(
            (cached.cache.as_deref(), cached.size),
            (Some("ssd.toml"), Some(Size::from_bytes(4 << 30)))
        );
        assert_eq!(cached.model.map(CacheKind::name), Some("dm-cache-write-back"));
        for wrong in ["hdd", "=x", "hdd=", "a=origin:x", "a=cache:x", "a=origin:x,cache:y,colour:red"] {
            assert!(wrong.parse::<PredictionSpec>().is_err(), "{wrong}");
        }
    }
}
