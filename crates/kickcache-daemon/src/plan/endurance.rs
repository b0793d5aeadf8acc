//! The bytes that a device can be written in its life, in the notation of its maker.

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

use kickcache_units::Size;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

const TERABYTE: u64 = 1_000_000_000_000;

/// Bytes, such as `600TBW`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Endurance(NonZeroU64);

impl Endurance {
    /// The number of bytes.
    pub const fn bytes(self) -> u64 {
        self.0.get()
    }
}

impl FromStr for Endurance {
    type Err = String;

    fn from_str(text: &str) -> Result<Endurance, String> {
        if text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(format!("`{text}` has no unit; an endurance is such as 600TBW"));
        }
        let size = text.strip_suffix(['W', 'w']).unwrap_or(text);
        let size: Size = size.parse().map_err(|error| format!("{error}; an endurance is such as 600TBW"))?;
        let nothing = || format!("`{text}` is 0; an endurance is such as 600TBW");
        NonZeroU64::new(size.bytes()).map(Endurance).ok_or_else(nothing)
    }
}

impl fmt::Display for Endurance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.bytes() {
            bytes if bytes.is_multiple_of(TERABYTE) => write!(f, "{}TBW", bytes / TERABYTE),
            bytes => Size::from_bytes(bytes).fmt(f),
        }
    }
}

impl<'de> Deserialize<'de> for Endurance {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Endurance, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endurance_is_parsed_in_the_notation_of_makers() {
        let bytes = |text: &str| text.parse::<Endurance>().map(Endurance::bytes);
        assert_eq!(
            ["600TBW", "600TB", "1T"].map(bytes),
            [600_000_000_000_000, 600_000_000_000_000, 1 << 40].map(Ok)
        );
        for text in ["", "0", "600", "ever", "-1TBW"] {
            assert!(text.parse::<Endurance>().unwrap_err().ends_with("such as 600TBW"), "{text}");
        }
    }
}
