//! The fields of a line, converted to values.

use kickcache_engine::time::Duration;

use crate::quote::quote;
use crate::workload::Kind;

pub(crate) fn fields(line: &str, count: usize) -> Result<Vec<&str>, String> {
    let fields: Vec<&str> = line.split(',').map(str::trim).collect();
    if fields.len() < count {
        return Err(format!("{} fields were found; {count} were expected", fields.len()));
    }
    Ok(fields)
}

pub(crate) fn number(text: &str, what: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{what} {} was found; a whole number was expected", quote(text)))
}

/// Sectors of 512 bytes as bytes.
pub(crate) fn sectors(text: &str, what: &str) -> Result<u64, String> {
    let count = number(text, what)?;
    count.checked_mul(512).ok_or_else(|| format!("{what} {count} was found; it is out of range"))
}

/// A point in time in a unit of this many nanoseconds, with or without decimals.
pub(crate) fn time(text: &str, unit: u64) -> Result<Duration, String> {
    let wrong = || format!("time {} was found; a number was expected", quote(text));
    let too_late = || format!("time {} was found; it is out of range", quote(text));
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    let whole: u64 = whole.parse().map_err(|_| wrong())?;
    let (mut rest, mut step) = (0, unit);
    for digit in decimals.chars() {
        step /= 10;
        rest += u64::from(digit.to_digit(10).ok_or_else(wrong)?) * step;
    }
    let nanos = whole.checked_mul(unit).and_then(|nanos| nanos.checked_add(rest));
    nanos.map(Duration::from_nanos).ok_or_else(too_late)
}

/// The operation of a letter R, W, D or F, or of its word, in upper or lower case.
pub(crate) fn kind(text: &str) -> Result<Kind, String> {
    match text.to_ascii_lowercase().as_str() {
        "r" | "read" => Ok(Kind::Read),
        "w" | "write" => Ok(Kind::Write),
        "d" | "discard" => Ok(Kind::Discard),
        "f" | "flush" => Ok(Kind::Flush),
        _ => Err(format!(
            "operation {} was found; R, W, D or F (read, write, discard, flush) was expected",
            quote(text)
        )),
    }
}
