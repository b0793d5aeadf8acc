//! Above which length a sequential stream is bypassed.

use kickcache_units::Size;

/// Above which length a sequential stream is bypassed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cutoff {
    /// Streams are cached like everything else.
    Off,
    /// Above this many bytes.
    Above(Size),
}

impl Default for Cutoff {
    fn default() -> Cutoff {
        Cutoff::Above(Size::from_bytes(4 << 20))
    }
}

impl Cutoff {
    /// The length, or nothing if streams are cached too.
    pub fn bytes(self) -> Option<u64> {
        match self {
            Cutoff::Off => None,
            Cutoff::Above(size) => Some(size.bytes()),
        }
    }
}

impl std::fmt::Display for Cutoff {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Cutoff::Off => f.write_str("off"),
            Cutoff::Above(size) => write!(f, "{size}"),
        }
    }
}

impl std::str::FromStr for Cutoff {
    type Err = String;

    fn from_str(text: &str) -> Result<Cutoff, String> {
        if text == "off" {
            return Ok(Cutoff::Off);
        }
        match text.parse::<Size>() {
            Ok(size) if size.bytes() == 0 => {
                Err("a cut-off of 0 would bypass every read; write `off` to cache streams too".into())
            }
            Ok(size) => Ok(Cutoff::Above(size)),
            Err(error) => Err(format!("{error}, or `off`")),
        }
    }
}
