//! Sequential streams that are bypassed.

use kickcache_engine::config::{STREAM_BYTES, SequentialCutoff};
use kickcache_units::Size;

/// Which sequential streams are bypassed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Cutoff {
    /// Long streams that are reused less often than the blocks that they would displace.
    #[default]
    Auto,
    Off,
    /// Streams of more than this many bytes.
    Above(Size),
}

impl Cutoff {
    pub fn to_engine(self) -> SequentialCutoff {
        match self {
            Cutoff::Auto => SequentialCutoff::Auto(STREAM_BYTES),
            Cutoff::Off => SequentialCutoff::Off,
            Cutoff::Above(size) => SequentialCutoff::Above(size.bytes()),
        }
    }

    /// In a form that can be parsed again for any size.
    pub fn exact(self) -> String {
        match self {
            Cutoff::Auto | Cutoff::Off => self.to_string(),
            Cutoff::Above(size) => size.bytes().to_string(),
        }
    }
}

impl std::fmt::Display for Cutoff {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Cutoff::Auto => f.write_str("auto"),
            Cutoff::Off => f.write_str("off"),
            Cutoff::Above(size) => write!(f, "{size}"),
        }
    }
}

impl std::str::FromStr for Cutoff {
    type Err = String;

    fn from_str(text: &str) -> Result<Cutoff, String> {
        match text {
            "auto" => return Ok(Cutoff::Auto),
            "off" => return Ok(Cutoff::Off),
            _ => {}
        }
        match text.parse::<Size>() {
            Ok(size) if size.bytes() == 0 => {
                Err("a cut-off of 0 would bypass every read; write `off` to cache streams too".into())
            }
            Ok(size) => Ok(Cutoff::Above(size)),
            Err(error) => Err(format!("{error}, or `auto` or `off`")),
        }
    }
}
