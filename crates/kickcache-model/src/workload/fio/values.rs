//! Values as fio reads them: sizes in powers of 1024, times in seconds unless a unit says otherwise.

use kickcache_engine::time::Duration;

/// A size in bytes.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text:?} was found; a size such as 4k or 2g was expected");
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let shift = match unit.to_ascii_lowercase().trim_end_matches("ib").trim_end_matches('b') {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        "p" => 50,
        _ => return Err(wrong()),
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    number.checked_mul(1 << shift).ok_or_else(wrong)
}

/// A size for reads and one for writes, which may be the same.
pub(crate) fn sizes(text: &str) -> Result<[u64; 2], String> {
    let mut parts = text.split(',');
    let first = size(parts.next().unwrap_or_default())?;
    let second = parts.next().filter(|part| !part.is_empty()).map_or(Ok(first), size)?;
    Ok([first, second])
}

/// A time; a bare number counts in units of this many nanoseconds.
///
/// # Errors
/// If it is none.
pub fn time(text: &str, unit: u64) -> Result<Duration, String> {
    let wrong = || format!("{text:?} was found; a time such as 30, 500ms or 5m was expected");
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, suffix) = text.split_at(split);
    let unit = match suffix {
        "" => unit,
        "us" | "usec" => 1_000,
        "ms" | "msec" => 1_000_000,
        "s" | "sec" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        "d" => 86_400_000_000_000,
        _ => return Err(wrong()),
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    number.checked_mul(unit).map(Duration::from_nanos).ok_or_else(wrong)
}

/// A whole number.
pub(crate) fn count(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{text:?} was found; a whole number was expected"))
}

/// A switch; standing alone means on.
pub(crate) fn switch(text: &str) -> Result<bool, String> {
    match text {
        "" | "1" | "true" | "yes" => Ok(true),
        "0" | "false" | "no" => Ok(false),
        _ => Err(format!("{text:?} was found; 0 or 1 was expected")),
    }
}
