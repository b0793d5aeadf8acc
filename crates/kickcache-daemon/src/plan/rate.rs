//! Rates as people write them: bytes and requests a second.

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

use kickcache_units::Size;
use serde::de::{Error as _, Visitor};
use serde::{Deserialize, Deserializer};

/// Bytes a second, such as `50M/s`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ByteRate(NonZeroU64);

impl ByteRate {
    const LEAST: u64 = 64 << 10;

    pub const fn per_second(self) -> NonZeroU64 {
        self.0
    }
}

impl FromStr for ByteRate {
    type Err = String;

    fn from_str(text: &str) -> Result<ByteRate, String> {
        let size: Size = text
            .strip_suffix("/s")
            .unwrap_or(text)
            .parse()
            .map_err(|error| format!("{error}; a rate is the same with /s behind it, such as 50M/s"))?;
        NonZeroU64::new(size.bytes()).filter(|bytes| bytes.get() >= Self::LEAST).map(ByteRate).ok_or_else(
            || format!("`{text}` is too little to go on with; write a rate of 64K/s or more, such as 50M/s"),
        )
    }
}

impl fmt::Display for ByteRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/s", Size::from_bytes(self.0.get()))
    }
}

impl<'de> Deserialize<'de> for ByteRate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ByteRate, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RequestRate(NonZeroU64);

impl RequestRate {
    const MOST: u64 = 100_000_000;

    pub const fn per_second(self) -> NonZeroU64 {
        self.0
    }

    fn new(text: &str, number: Option<u64>) -> Result<RequestRate, String> {
        let number = number.filter(|number| *number <= Self::MOST).and_then(NonZeroU64::new);
        number.map(RequestRate).ok_or_else(|| {
            format!("`{text}` is no number of requests a second; write 1 to {}, such as 200", Self::MOST)
        })
    }
}

impl FromStr for RequestRate {
    type Err = String;

    fn from_str(text: &str) -> Result<RequestRate, String> {
        RequestRate::new(text, text.parse().ok())
    }
}

impl fmt::Display for RequestRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<'de> Deserialize<'de> for RequestRate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<RequestRate, D::Error> {
        struct Number;
        impl Visitor<'_> for Number {
            type Value = RequestRate;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of requests a second, such as 200")
            }

            fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<RequestRate, E> {
                RequestRate::new(&number.to_string(), u64::try_from(number).ok()).map_err(E::custom)
            }

            // The TOML parser passes whole numbers as i64, the JSON parser positive ones as u64.
            fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<RequestRate, E> {
                RequestRate::new(&number.to_string(), Some(number)).map_err(E::custom)
            }
        }
        deserializer.deserialize_i64(Number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_as_people_write_them() {
        let bytes = |text: &str| text.parse::<ByteRate>().map(|rate| rate.per_second().get());
        assert_eq!(
            ["50M/s", "50M", "100MB/s", "64K"].map(bytes),
            [50 << 20, 50 << 20, 100_000_000, 65_536].map(Ok)
        );
        let requests = |text: &str| text.parse::<RequestRate>().map(|rate| rate.per_second().get());
        assert_eq!(["1", "200", "100000000"].map(requests), [1, 200, 100_000_000].map(Ok));
    }

    #[test]
    fn an_invalid_rate_is_refused_with_a_sentence() {
        for text in ["", "0", "-1", "1.5", "200/s", "100000001", "off"] {
            let error = text.parse::<RequestRate>().unwrap_err();
            assert!(error.starts_with(&format!("`{text}` is no number of requests")), "{error}");
        }
        for text in ["0", "4K/s"] {
            assert!(text.parse::<ByteRate>().unwrap_err().contains("64K/s or more"));
        }
        for text in ["", "-1M/s", "50M/min", "fast"] {
            assert!(text.parse::<ByteRate>().unwrap_err().ends_with("such as 50M/s"), "{text}");
        }
    }
}
