//! The marks of a volume's dirty blocks in the log.

use std::fmt;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

/// Percent of a volume's share of the log.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct DirtyMark(u16);

impl DirtyMark {
    pub const LEAST: u16 = 1;
    /// Reclaim needs the rest of the log.
    pub const MOST: u16 = 90;
    pub const LIMIT: DirtyMark = DirtyMark(70);

    fn part(self) -> Part {
        Part { count: self.0.into(), of: 100 }
    }
}

/// The marks of a volume; a missing mark is computed from the next higher one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DirtyMarks {
    /// Above this mark, dirty blocks are written back even during requests of clients.
    pub low: Option<DirtyMark>,
    /// Above this mark, client writes are delayed.
    pub high: Option<DirtyMark>,
    /// At this mark, writes go to the origin, except writes that only replace dirty or unflushed blocks.
    pub limit: DirtyMark,
}

impl DirtyMarks {
    /// In 1/1024 of the volume's share of the log.
    pub fn limit(self) -> u16 {
        self.limit_part().of_1024()
    }

    /// In 1/1024 of the volume's share of the log.
    pub fn high(self) -> u16 {
        self.high_part().of_1024()
    }

    /// In 1/1024 of the volume's share of the log.
    pub fn low(self) -> u16 {
        self.low_part().of_1024()
    }

    /// Checks that the low mark is below the high one, and the high one at most the limit.
    ///
    /// # Errors
    /// A sentence that names the three marks.
    pub fn check(self) -> Result<(), String> {
        let (low, high, limit) = (self.low_part(), self.high_part(), self.limit_part());
        if low.thousandths() < high.thousandths() && high.thousandths() <= limit.thousandths() {
            return Ok(());
        }
        Err(format!(
            "dirty-low is {low}, dirty-high {high} and dirty-limit {limit}; low must be below high, and high at most the limit"
        ))
    }

    fn limit_part(self) -> Part {
        self.limit.part()
    }

    fn high_part(self) -> Part {
        self.high.map_or_else(|| self.limit_part().times(Part { count: 5, of: 7 }), DirtyMark::part)
    }

    fn low_part(self) -> Part {
        self.low.map_or_else(|| self.high_part().times(Part { count: 3, of: 5 }), DirtyMark::part)
    }
}

#[derive(Clone, Copy, Debug)]
struct Part {
    count: u32,
    of: u32,
}

impl Part {
    const fn times(self, other: Part) -> Part {
        Part { count: self.count * other.count, of: self.of * other.of }
    }

    fn of_1024(self) -> u16 {
        u16::try_from(self.count * 1024 / self.of).expect("at most 1024").max(1)
    }

    const fn thousandths(self) -> u32 {
        self.count * 1000 / self.of
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let thousandths = self.thousandths();
        match thousandths % 10 {
            0 => write!(f, "{}%", thousandths / 10),
            tenths => write!(f, "{}.{tenths}%", thousandths / 10),
        }
    }
}

impl fmt::Display for DirtyMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", self.0)
    }
}

impl FromStr for DirtyMark {
    type Err = String;

    fn from_str(text: &str) -> Result<DirtyMark, String> {
        let number = text.strip_suffix('%').unwrap_or(text);
        let percent = number.parse().ok().filter(|percent| (Self::LEAST..=Self::MOST).contains(percent));
        percent.map(DirtyMark).ok_or_else(|| {
            let (least, most) = (Self::LEAST, Self::MOST);
            format!("`{text}` is no mark for dirty blocks; write {least}% to {most}% of the cache device")
        })
    }
}

impl<'de> Deserialize<'de> for DirtyMark {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<DirtyMark, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use kickcache_engine::config::VolumeSettings;
    use kickcache_engine::units::VolumeId;

    use super::*;

    fn marks(low: &str, high: &str, limit: &str) -> DirtyMarks {
        let mark = |text: &str| (!text.is_empty()).then(|| text.parse().unwrap());
        DirtyMarks { low: mark(low), high: mark(high), limit: mark(limit).unwrap_or(DirtyMark::LIMIT) }
    }

    #[test]
    fn the_default_is_the_engines() {
        let (default, engine) = (marks("", "", ""), VolumeSettings::new(VolumeId::new(0)));
        let default = (default.low(), default.high(), default.limit());
        assert_eq!(default, (engine.dirty_low, engine.dirty_high, engine.dirty_limit));
    }

    #[test]
    fn marks_that_follow_others_keep_their_order() {
        for percent in DirtyMark::LEAST..=DirtyMark::MOST {
            let text = format!("{percent}%");
            for marks in [marks("", "", &text), marks("", &text, "90%")] {
                marks.check().unwrap();
                assert!(0 < marks.low() && marks.low() <= marks.high() && marks.high() <= marks.limit());
                assert!(marks.limit() < 1024);
            }
        }
    }

    #[test]
    fn marks_that_are_named_count_as_they_are() {
        let named = marks("10", "20%", "50%");
        assert_eq!((named.low(), named.high(), named.limit()), (102, 204, 512));
        assert_eq!((marks("", "20%", "50%").low(), marks("40%", "", "70%").low()), (122, 409));
        assert_eq!(marks("50%", "70%", "70%").check(), Ok(()));
    }

    #[test]
    fn marks_that_do_not_rise_are_refused_in_a_sentence() {
        let refused = |marks: DirtyMarks| marks.check().unwrap_err();
        let end = "; low must be below high, and high at most the limit";
        let sentence = |marks: &str| format!("{marks}{end}");
        assert_eq!(
            refused(marks("60%", "", "70%")),
            sentence("dirty-low is 60%, dirty-high 50% and dirty-limit 70%")
        );
        assert_eq!(
            refused(marks("", "80%", "75%")),
            sentence("dirty-low is 48%, dirty-high 80% and dirty-limit 75%")
        );
        assert_eq!(
            refused(marks("20%", "20%", "75%")),
            sentence("dirty-low is 20%, dirty-high 20% and dirty-limit 75%")
        );
    }

    #[test]
    fn an_invalid_mark_is_refused_with_a_sentence() {
        for text in ["", "0", "0%", "91%", "100%", "-1", "70.5%", "70 %", "half"] {
            let error = text.parse::<DirtyMark>().unwrap_err();
            let sentence =
                format!("`{text}` is no mark for dirty blocks; write 1% to 90% of the cache device");
            assert_eq!(error, sentence);
        }
    }
}
