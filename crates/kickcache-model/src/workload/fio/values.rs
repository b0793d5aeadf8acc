//! Values as fio 3.33 reads them.

use kickcache_engine::time::Duration;

use crate::quote::quote;
use crate::workload::fio::direction::PerDirection;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum KbBase {
    /// 1024, the default: k, kB and Ki are 1024 bytes and, against all standards, KiB is 1000.
    #[default]
    Binary,
    /// 1000: k, kB and Ki are 1000 bytes, KiB is 1024.
    Decimal,
}

impl KbBase {
    pub(crate) fn of(text: &str) -> Result<KbBase, String> {
        match text {
            "1024" => Ok(KbBase::Binary),
            "1000" => Ok(KbBase::Decimal),
            _ => Err(format!("{} was found; 1000 or 1024 was expected", quote(text))),
        }
    }

    const fn of_k(self) -> u64 {
        match self {
            KbBase::Binary => 1024,
            KbBase::Decimal => 1000,
        }
    }

    const fn of_kib(self) -> u64 {
        match self {
            KbBase::Binary => 1000,
            KbBase::Decimal => 1024,
        }
    }
}

pub(crate) fn size(text: &str, base: KbBase) -> Result<u64, String> {
    let wrong = || format!("{} was found; a size such as 4k or 2g was expected", quote(text));
    let lower = text.to_ascii_lowercase();
    if let Some(digits) = lower.strip_prefix("0x") {
        return u64::from_str_radix(digits, 16).map_err(|_| wrong());
    }
    let split = lower.find(|c: char| !c.is_ascii_digit()).unwrap_or(lower.len());
    let (number, unit) = lower.split_at(split);
    let number: u64 = number.parse().map_err(|_| wrong())?;
    if unit.is_empty() || unit == "b" {
        return Ok(number);
    }
    let (letter, rest) = unit.split_at_checked(1).ok_or_else(wrong)?;
    let power = "kmgtp".find(letter).ok_or_else(wrong)?;
    let unit = match rest {
        "" | "b" | "i" => base.of_k(),
        "ib" => base.of_kib(),
        _ => return Err(wrong()),
    };
    (0..=power).try_fold(number, |bytes, _| bytes.checked_mul(unit)).ok_or_else(wrong)
}

/// Sizes for reads, writes and trims, separated by commas, colons or dashes. A missing size keeps its value; without a
/// separator behind it, the last size also applies to the directions that follow.
pub(crate) fn sizes(
    text: &str,
    base: KbBase,
    before: PerDirection<u64>,
) -> Result<PerDirection<u64>, String> {
    let mut all = before.0;
    let mut rest = text;
    for place in 0..all.len() {
        let separator = rest.find(',').or_else(|| rest.find(':')).or_else(|| rest.find('-'));
        let part = &rest[..separator.unwrap_or(rest.len())];
        if !part.is_empty() {
            let until = if separator.is_some() { place + 1 } else { all.len() };
            all[place..until].fill(size(part, base)?);
        }
        match separator {
            Some(separator) => rest = &rest[separator + 1..],
            None if text.is_empty() => return Err(size(text, base).err().unwrap_or_default()),
            None => return Ok(PerDirection(all)),
        }
    }
    if rest.is_empty() {
        return Ok(PerDirection(all));
    }
    Err(format!("{} was found; at most three values were expected: for reads, writes and trims", quote(text)))
}

/// A time; a bare number counts in units of this many nanoseconds.
///
/// # Errors
/// If the text is no time.
pub fn time(text: &str, unit: u64) -> Result<Duration, String> {
    let wrong = || format!("{} was found; a time such as 30, 500ms or 5m was expected", quote(text));
    let lower = text.to_ascii_lowercase();
    let split = lower.find(|c: char| !c.is_ascii_digit()).unwrap_or(lower.len());
    let (number, suffix) = lower.split_at(split);
    // fio reads `sec` and `min` as microseconds.
    let unit = match suffix {
        "" => unit,
        "us" | "usec" => 1_000,
        "ms" | "msec" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        "d" => 86_400_000_000_000,
        _ => return Err(wrong()),
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    number.checked_mul(unit).map(Duration::from_nanos).ok_or_else(wrong)
}

pub(crate) fn count(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{} was found; a whole number was expected", quote(text)))
}

/// A switch; without a value it is on.
pub(crate) fn switch(text: &str) -> Result<bool, String> {
    match text {
        "" | "1" | "true" | "yes" => Ok(true),
        "0" | "false" | "no" => Ok(false),
        _ => Err(format!("{} was found; 0 or 1 was expected", quote(text))),
    }
}
