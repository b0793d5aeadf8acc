//! The limit of bytes written to a cache device, in the user's notation.

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

use kickcache_units::Size;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WriteBudget {
    Bytes(NonZeroU64, Period),
    /// Bytes a day, in thousandths of the cache device's size.
    DriveWrites(u64),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Period {
    Hour,
    Day,
    Week,
}

const PERIODS: [(&str, Period); 3] =
    [("/hour", Period::Hour), ("/day", Period::Day), ("/week", Period::Week)];
const DRIVE_WRITES: &str = "dwpd";
/// In bytes a day.
const LEAST: u64 = 64 << 20;
const DRIVE_WRITES_MAX: u64 = 1_000_000;

impl WriteBudget {
    /// The budget in bytes a day, for a cache device of `device_bytes` bytes.
    pub fn per_day(self, device_bytes: u64) -> NonZeroU64 {
        let (bytes, times, part) = match self {
            WriteBudget::Bytes(bytes, Period::Hour) => (bytes.get(), 24, 1),
            WriteBudget::Bytes(bytes, Period::Day) => (bytes.get(), 1, 1),
            WriteBudget::Bytes(bytes, Period::Week) => (bytes.get(), 1, 7),
            WriteBudget::DriveWrites(thousandths) => (device_bytes, thousandths, 1_000),
        };
        let a_day = u128::from(bytes) * u128::from(times) / part;
        NonZeroU64::new(u64::try_from(a_day).unwrap_or(u64::MAX)).unwrap_or(NonZeroU64::MIN)
    }
}

impl FromStr for WriteBudget {
    type Err = String;

    fn from_str(text: &str) -> Result<WriteBudget, String> {
        let example = "write bytes in an hour, a day or a week, such as 50G/day, or drive writes a day, such as 0.5dwpd";
        if let Some(number) = text.to_ascii_lowercase().strip_suffix(DRIVE_WRITES) {
            let found = thousandths(number).filter(|found| (1..=DRIVE_WRITES_MAX).contains(found));
            let wrong = || {
                format!(
                    "`{text}` is no number of drive writes a day; write 0.001dwpd to 1000dwpd, such as 0.5dwpd"
                )
            };
            return found.map(WriteBudget::DriveWrites).ok_or_else(wrong);
        }
        let found = PERIODS.iter().find_map(|(end, period)| Some((text.strip_suffix(end)?, *period)));
        let (size, period) = found.ok_or_else(|| format!("`{text}` is no write budget; {example}"))?;
        let size: Size = size.parse().map_err(|error| format!("{error}; {example}"))?;
        let budget = NonZeroU64::new(size.bytes()).map(|bytes| WriteBudget::Bytes(bytes, period));
        budget.filter(|budget| budget.per_day(0).get() >= LEAST).ok_or_else(|| {
            format!("`{text}` is less than a cache device needs for its journal; write 64M/day or more, such as 50G/day")
        })
    }
}

/// A decimal number with up to three digits behind the point.
fn thousandths(text: &str) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let is_number = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
    let is_right =
        is_number(whole) && is_number(part) && part.len() <= 3 && !(whole.is_empty() && part.is_empty());
    let whole: u64 = format!("0{whole}").parse().ok()?;
    let part: u64 = format!("{part:0<3}").parse().ok()?;
    is_right.then(|| whole.checked_mul(1_000)?.checked_add(part))?
}

impl fmt::Display for WriteBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            WriteBudget::Bytes(bytes, period) => {
                let end = PERIODS.iter().find(|(_, known)| *known == period).map_or("", |(end, _)| end);
                write!(f, "{}{end}", Size::from_bytes(bytes.get()))
            }
            WriteBudget::DriveWrites(thousandths) => write!(f, "{}{DRIVE_WRITES}", thousandths as f64 / 1e3),
        }
    }
}

impl<'de> Deserialize<'de> for WriteBudget {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<WriteBudget, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn per_day(text: &str) -> u64 {
        text.parse::<WriteBudget>().unwrap().per_day(100 * GIB).get()
    }

    #[test]
    fn budgets_are_read_as_people_write_them() {
        let texts = ["50G/day", "2G/hour", "350G/week", "0.5dwpd", "3DWPD", "1.25dwpd", ".1dwpd"];
        let gib = [50, 48, 50, 50, 300, 125, 10];
        assert_eq!(texts.map(per_day), gib.map(|gib| gib * GIB));
    }

    #[test]
    fn budgets_are_printed_as_they_are_parsed() {
        for text in ["50G/day", "2G/hour", "350G/week", "0.5dwpd", "3dwpd"] {
            let budget: WriteBudget = text.parse().unwrap();
            assert_eq!(budget.to_string().replace(" GiB", "G"), text);
        }
    }

    #[test]
    fn an_invalid_budget_is_refused_with_a_sentence() {
        for text in ["", "50G", "50G/month", "off", "-1G/day", "1x/day"] {
            assert!(text.parse::<WriteBudget>().unwrap_err().ends_with("such as 0.5dwpd"), "{text}");
        }
        for text in [
            "0dwpd",
            "dwpd",
            ".dwpd",
            "1.2345dwpd",
            "-1dwpd",
            "1e3dwpd",
            "1001dwpd",
            "99999999999999999999dwpd",
        ] {
            assert!(text.parse::<WriteBudget>().unwrap_err().contains("0.001dwpd to 1000dwpd"), "{text}");
        }
        for text in ["0/day", "1M/day", "1M/hour"] {
            assert!(text.parse::<WriteBudget>().unwrap_err().contains("64M/day or more"), "{text}");
        }
    }
}
