//! Bytes written to a cache device, as `status` reports them.

use kickcache_engine::stats::{GivenUp, Wear};
use serde::{Deserialize, Serialize};

use crate::plan::endurance::Endurance;

const DAY_SECONDS: f64 = 86_400.0;
const YEAR_DAYS: f64 = 365.25;
/// Writes of a shorter time cannot be extrapolated to years.
const COUNTED_SECONDS_MIN: f64 = 3_600.0;

/// Bytes written to a cache device.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct WearReport {
    /// Bytes that were written in the last 24 hours, or in the shorter time since the count began.
    pub day_bytes: u64,
    pub day_seconds: f64,
    /// Bytes that may be written in a day, if that is bounded.
    #[serde(default)]
    pub budget_bytes_per_day: Option<u64>,
    #[serde(default)]
    pub given_up: GivenUpWord,
    #[serde(default)]
    pub endurance_bytes: Option<u64>,
    /// Years that it takes to write `endurance_bytes`, if each day is like the last one; `None` without an
    /// endurance or writes, or if the count is shorter than an hour.
    #[serde(default)]
    pub life_years: Option<f64>,
}

/// The fills that are skipped for the write budget of the cache device.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GivenUpWord {
    /// No fill is skipped.
    #[default]
    Nothing,
    /// Misses read less than their fill window.
    ReadAhead,
    /// Of the blocks that are requested for the first time, only a share, or none, is filled.
    UnknownBlocks,
    /// Of blocks that were requested before, too, only a share is filled.
    KnownBlocks,
    /// Only blocks that have to be cached enter the cache, such as client writes in write-back mode.
    Everything,
}

impl GivenUpWord {
    /// A number from 0 to 4, which is larger if more fills are skipped.
    pub const fn rank(self) -> u64 {
        self as u64
    }

    /// The fills that are skipped, in words; `None` if none are.
    pub const fn effect(self) -> Option<&'static str> {
        match self {
            GivenUpWord::Nothing => None,
            GivenUpWord::ReadAhead => Some("less is read ahead"),
            GivenUpWord::UnknownBlocks => {
                Some("only a part of the blocks that are requested for the first time is cached")
            }
            GivenUpWord::KnownBlocks => Some("only a part of the misses is cached"),
            GivenUpWord::Everything => Some("no misses are cached"),
        }
    }
}

impl From<GivenUp> for GivenUpWord {
    fn from(given_up: GivenUp) -> GivenUpWord {
        match given_up {
            GivenUp::Nothing => GivenUpWord::Nothing,
            GivenUp::ReadAhead => GivenUpWord::ReadAhead,
            GivenUp::UnknownBlocks => GivenUpWord::UnknownBlocks,
            GivenUp::KnownBlocks => GivenUpWord::KnownBlocks,
            GivenUp::Everything => GivenUpWord::Everything,
        }
    }
}

impl WearReport {
    pub fn new(wear: &Wear, endurance: Option<Endurance>) -> WearReport {
        let day_seconds = wear.counted.as_nanos() as f64 / 1e9;
        let a_day = wear.day_bytes as f64 * DAY_SECONDS / day_seconds;
        let is_known = day_seconds >= COUNTED_SECONDS_MIN && wear.day_bytes > 0;
        let endurance_bytes = endurance.map(Endurance::bytes);
        WearReport {
            day_bytes: wear.day_bytes,
            day_seconds,
            budget_bytes_per_day: wear.budget.map(|budget| budget.get()),
            given_up: wear.given_up.into(),
            endurance_bytes,
            life_years: endurance_bytes.filter(|_| is_known).map(|bytes| bytes as f64 / a_day / YEAR_DAYS),
        }
    }
}

#[cfg(test)]
mod tests {
    use kickcache_engine::time::Duration;

    use super::*;

    fn life(hours: u64, day_bytes: u64) -> Option<f64> {
        let counted = Duration::from_millis(hours * 3_600_000);
        let wear = Wear { day_bytes, counted, ..Wear::default() };
        WearReport::new(&wear, "365250GB".parse().ok()).life_years
    }

    #[test]
    fn life_is_endurance_divided_by_the_last_days_writes() {
        assert_eq!(life(24, 100_000_000_000), Some(10.0));
        assert_eq!(life(6, 25_000_000_000), Some(10.0), "a quarter of a day");
        assert_eq!(life(0, 1 << 30), None, "too early for an estimate");
        assert_eq!(life(24, 0), None);
    }
}
