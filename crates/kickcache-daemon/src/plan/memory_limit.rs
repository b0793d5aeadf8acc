//! How much memory a daemon may use for the payload of requests.

use std::fmt;
use std::str::FromStr;

use kickcache_units::Size;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryLimit(usize);

impl MemoryLimit {
    /// In bytes: the largest request fits.
    const LEAST: usize = 64 << 20;
    const MOST: usize = 64 << 30;

    pub const fn bytes(self) -> usize {
        self.0
    }
}

impl Default for MemoryLimit {
    fn default() -> MemoryLimit {
        MemoryLimit(256 << 20)
    }
}

impl FromStr for MemoryLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<MemoryLimit, String> {
        let size: Size = text.parse().map_err(|error| format!("{error}; such as 256M"))?;
        let possible = MemoryLimit::LEAST..=MemoryLimit::MOST;
        usize::try_from(size.bytes())
            .ok()
            .filter(|bytes| possible.contains(bytes))
            .map(MemoryLimit)
            .ok_or_else(|| {
                format!(
                    "`{text}` is no memory limit; write 64M to 64G, such as 256M (docs/reference/memory.md)"
                )
            })
    }
}

impl fmt::Display for MemoryLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Size::from_bytes(self.0 as u64))
    }
}

impl<'de> Deserialize<'de> for MemoryLimit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<MemoryLimit, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_memory_limit_has_room_for_the_largest_request() {
        let bytes = |text: &str| text.parse().map(MemoryLimit::bytes);
        assert_eq!(["64M", "96MiB", "64G"].map(bytes), [64 << 20, 96 << 20, 64 << 30].map(Ok));
        for text in ["63M", "0", "65G"] {
            let refused = bytes(text).unwrap_err();
            assert!(refused.contains("write 64M to 64G"), "{refused}");
        }
        assert!(bytes("much").is_err());
        assert_eq!(MemoryLimit::default().to_string(), "256 MiB");
    }
}
