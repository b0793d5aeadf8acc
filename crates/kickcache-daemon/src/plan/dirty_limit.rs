//! How much of its cache device a volume may fill with dirty blocks.

use std::fmt;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

/// Percent of what a volume may have of the log: that is the whole cache device for a volume alone, and at least its share of
/// half of it beside others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DirtyLimit(u16);

impl DirtyLimit {
    /// The least that can be asked for.
    pub const LEAST: u16 = 1;
    /// The most: reclaim needs the rest.
    pub const MOST: u16 = 90;

    /// New writes go through to the origin from here on, in 1/1024.
    pub fn limit(self) -> u16 {
        self.of_1024(1, 1)
    }

    /// Writeback runs at full speed from here on, in 1/1024: as far below the limit as by default.
    pub fn high(self) -> u16 {
        self.of_1024(5, 7)
    }

    /// Writeback begins here, in 1/1024.
    pub fn low(self) -> u16 {
        self.of_1024(3, 7)
    }

    fn of_1024(self, part: u32, of: u32) -> u16 {
        let value = u32::from(self.0) * 1024 * part / of / 100;
        u16::try_from(value).expect("below 1024").max(1)
    }
}

impl Default for DirtyLimit {
    fn default() -> DirtyLimit {
        DirtyLimit(70)
    }
}

impl fmt::Display for DirtyLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", self.0)
    }
}

impl FromStr for DirtyLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<DirtyLimit, String> {
        let number = text.strip_suffix('%').unwrap_or(text);
        let percent = number.parse().ok().filter(|percent| (Self::LEAST..=Self::MOST).contains(percent));
        percent.map(DirtyLimit).ok_or_else(|| {
            let (least, most) = (Self::LEAST, Self::MOST);
            format!("`{text}` is no limit for dirty blocks; write {least}% to {most}% of the cache device")
        })
    }
}

impl<'de> Deserialize<'de> for DirtyLimit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<DirtyLimit, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use kickcache_engine::config::VolumeSettings;
    use kickcache_engine::units::VolumeId;

    use super::*;

    #[test]
    fn the_default_is_the_engines() {
        let (default, engine) = (DirtyLimit::default(), VolumeSettings::new(VolumeId::new(0)));
        let marks = (default.low(), default.high(), default.limit());
        assert_eq!(marks, (engine.dirty_low, engine.dirty_high, engine.dirty_limit));
    }

    #[test]
    fn marks_keep_their_order() {
        for percent in DirtyLimit::LEAST..=DirtyLimit::MOST {
            let limit: DirtyLimit = format!("{percent}%").parse().unwrap();
            assert!(0 < limit.low() && limit.low() <= limit.high() && limit.high() <= limit.limit());
            assert!(limit.limit() < 1024);
        }
    }

    #[test]
    fn what_is_no_limit_is_refused_in_a_sentence() {
        for text in ["", "0", "0%", "91%", "100%", "-1", "70.5%", "70 %", "half"] {
            let error = text.parse::<DirtyLimit>().unwrap_err();
            assert_eq!(
                error,
                format!("`{text}` is no limit for dirty blocks; write 1% to 90% of the cache device")
            );
        }
    }
}
