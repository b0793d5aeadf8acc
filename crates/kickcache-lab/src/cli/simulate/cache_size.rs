//! The size of a cache as people write it.

use std::fmt;
use std::str::FromStr;

use kickcache_command::options::parse_blocks;
use kickcache_engine::units::BLOCK_SIZE;
use kickcache_units::{Size, show_bytes};

#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum CacheSize {
    /// Percent of the footprint of a load.
    Percent(f64),
    Bytes(Size),
}

impl FromStr for CacheSize {
    type Err = String;

    fn from_str(text: &str) -> Result<CacheSize, String> {
        let Some(number) = text.strip_suffix('%') else {
            return parse_blocks(text).map(CacheSize::Bytes);
        };
        let percent = number.parse::<f64>().ok().filter(|percent| *percent > 0.0 && *percent <= 100.0);
        percent
            .map(CacheSize::Percent)
            .ok_or_else(|| format!("`{text}` is not a percentage above 0, up to 100"))
    }
}

impl fmt::Display for CacheSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CacheSize::Percent(percent) => write!(f, "{percent} %"),
            CacheSize::Bytes(size) => f.write_str(&show_bytes(size.bytes())),
        }
    }
}

impl CacheSize {
    /// Bytes, for a load with this footprint.
    pub(crate) fn of(self, footprint_bytes: u64) -> Size {
        match self {
            CacheSize::Percent(_) => Size::from_bytes(self.blocks(footprint_bytes / BLOCK_SIZE) * BLOCK_SIZE),
            CacheSize::Bytes(size) => size,
        }
    }

    /// Blocks of 4 KiB, for a trace that touches this many different ones.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a part of a block count"
    )]
    pub(crate) fn blocks(self, footprint: u64) -> u64 {
        match self {
            CacheSize::Percent(percent) => (footprint as f64 * percent / 100.0).round() as u64,
            CacheSize::Bytes(size) => size.bytes() / BLOCK_SIZE,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_parts_or_bytes() {
        assert_eq!("5%".parse(), Ok(CacheSize::Percent(5.0)));
        assert_eq!("0.5%".parse::<CacheSize>().unwrap().blocks(10_000), 50);
        assert_eq!("4M".parse::<CacheSize>().unwrap().blocks(10_000), 1_024);
        for bad in ["0%", "101%", "x%", "%", "4X"] {
            assert!(bad.parse::<CacheSize>().is_err(), "{bad}");
        }
    }
}
