//! Sizes as people write them, and sizes, rates and times as tables show them; text without control characters.

pub mod printable;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::de::{Deserialize, Deserializer, Visitor};

/// A number of bytes as users write it, such as `10G`, `4k`, `1.5MiB` or `4096`. `G` and `GiB` are binary,
/// `GB` is decimal, as in dd and on the labels of disks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Size(u64);

impl Size {
    pub const fn from_bytes(bytes: u64) -> Size {
        Size(bytes)
    }

    pub const fn bytes(self) -> u64 {
        self.0
    }
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SizeError {
    #[error("the size is empty; write a number with K, M, G or T, such as 512M or 10G")]
    Empty,
    /// The text begins with a minus sign and a digit.
    #[error("`{0}` is negative; a size is a number of bytes, such as 512M or 10G")]
    Negative(String),
    #[error("`{0}` has a space in it; write the number and its unit together, such as 10GB")]
    Space(String),
    #[error("`{0}` is not a size; write a number with K, M, G or T, such as 512M or 10G")]
    NotANumber(String),
    #[error(
        "`{text}` ends in the unknown unit `{unit}`; use K, M, G or T (1K is 1024 bytes, 1KB is 1000), such as 512M or 10G"
    )]
    Unit {
        text: String,
        /// The part behind the number.
        unit: String,
    },
    #[error("`{0}` is not a whole number of bytes; write it with a smaller unit")]
    Fraction(String),
    #[error("`{0}` is larger than any device: a size must be below 16777216T")]
    TooLarge(String),
}

impl FromStr for Size {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<Size, SizeError> {
        if text.is_empty() {
            return Err(SizeError::Empty);
        }
        if text.strip_prefix('-').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit())) {
            return Err(SizeError::Negative(text.into()));
        }
        if text.chars().any(char::is_whitespace) {
            return Err(SizeError::Space(text.into()));
        }
        let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(split);
        let Some(factor) = unit_factor(unit) else { return Err(unknown_unit(text, number, unit)) };
        whole_bytes(text, number, factor).map(Size)
    }
}

fn unit_factor(unit: &str) -> Option<u64> {
    let power = match unit.to_ascii_lowercase().chars().next() {
        None | Some('b') => 0,
        Some('k') => 1,
        Some('m') => 2,
        Some('g') => 3,
        Some('t') => 4,
        Some(_) => return None,
    };
    match unit.to_ascii_lowercase().as_str() {
        "" | "b" | "k" | "m" | "g" | "t" | "kib" | "mib" | "gib" | "tib" => Some(1024_u64.pow(power)),
        "kb" | "mb" | "gb" | "tb" => Some(1000_u64.pow(power)),
        _ => None,
    }
}

fn unknown_unit(text: &str, number: &str, unit: &str) -> SizeError {
    if number.is_empty() || unit.contains(|c: char| c.is_ascii_digit()) {
        return SizeError::NotANumber(text.into());
    }
    SizeError::Unit { text: text.into(), unit: unit.into() }
}

fn whole_bytes(text: &str, number: &str, factor: u64) -> Result<u64, SizeError> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || (number.contains('.') && !digits(fraction)) {
        return Err(SizeError::NotANumber(text.into()));
    }
    let whole: u64 = whole.parse().map_err(|_| SizeError::TooLarge(text.into()))?;
    let bytes = whole.checked_mul(factor).ok_or_else(|| SizeError::TooLarge(text.into()))?;
    let rest = fraction_bytes(fraction, factor).ok_or_else(|| SizeError::Fraction(text.into()))?;
    bytes.checked_add(rest).ok_or_else(|| SizeError::TooLarge(text.into()))
}

/// `0.fraction` times `factor`, if that is a whole number.
fn fraction_bytes(fraction: &str, factor: u64) -> Option<u64> {
    let digits = fraction.trim_end_matches('0');
    if digits.is_empty() {
        return Some(0);
    }
    let scale = 10u128.checked_pow(u32::try_from(digits.len()).ok()?)?;
    let product = digits.parse::<u128>().ok()?.checked_mul(u128::from(factor))?;
    product.is_multiple_of(scale).then(|| u64::try_from(product / scale).ok()).flatten()
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&show_bytes(self.0))
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Size, D::Error> {
        deserializer.deserialize_any(SizeVisitor)
    }
}

struct SizeVisitor;

impl Visitor<'_> for SizeVisitor {
    type Value = Size;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a size such as \"10G\", or a number of bytes")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Size, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Size, E> {
        let bytes = u64::try_from(number).map_err(|_| E::custom(SizeError::Negative(number.to_string())))?;
        Ok(Size(bytes))
    }
}

const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/// A number of bytes for people: `0 B`, `4 KiB`, `1.5 GiB`; with one decimal at most.
pub fn show_bytes(bytes: u64) -> String {
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let exact = (value - value.round()).abs() < 0.005;
    let digits = if unit == 0 || exact || value >= 99.95 { 0 } else { 1 };
    format!("{value:.digits$} {}", UNITS[unit])
}

/// A number of things for people: `7`, `1,204`.
pub fn show_count(count: u64) -> String {
    let digits = count.to_string();
    let mut shown = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

/// A number of things, in words: `1 block`, `1,204 blocks`.
pub fn counted(count: u64, noun: &str) -> String {
    format!("{} {noun}{}", show_count(count), if count == 1 { "" } else { "s" })
}

pub const fn are(count: u64) -> &'static str {
    if count == 1 { "is" } else { "are" }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "rates are positive and saturate"
)]
pub fn show_whole(rate: f64) -> String {
    show_count(rate.round() as u64)
}

/// A rate per second for people: `0`, `950`, `12.3k`, `1.25M`.
pub fn show_rate(per_second: f64) -> String {
    match per_second {
        rate if rate < 9.95 && rate > 0.0 => format!("{rate:.1}"),
        rate if rate < 999.5 => format!("{rate:.0}"),
        rate if rate < 99_950.0 => format!("{:.1}k", rate / 1e3),
        rate if rate < 999_500.0 => format!("{:.0}k", rate / 1e3),
        rate => format!("{:.2}M", rate / 1e6),
    }
}

/// A span of time for people: `850 ns`, `12.5 µs`, `4.20 ms`, `1.5 s`, `3 min 20 s`, `2 h 5 min`, `1 d 3 h`.
pub fn show_duration(span: Duration) -> String {
    let nanos = span.as_nanos();
    let seconds = span.as_secs();
    match nanos {
        0..1_000 => format!("{nanos} ns"),
        1_000..1_000_000 => format!("{:.1} µs", span.as_secs_f64() * 1e6),
        1_000_000..1_000_000_000 => format!("{:.2} ms", span.as_secs_f64() * 1e3),
        _ if seconds < 60 => format!("{:.1} s", span.as_secs_f64()),
        _ if seconds < 3_600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ if seconds < 86_400 => format!("{} h {} min", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds / 3_600 % 24),
    }
}

/// A share in percent for display; `-` if the whole is 0.
pub fn show_ratio(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "-".into();
    }
    format!("{:.1} %", part as f64 * 100.0 / whole as f64)
}

/// Years, such as `7.3 years`; `> 100 years` from 100 on.
pub fn show_years(years: f64) -> String {
    if years >= 100.0 { "> 100 years".into() } else { format!("{years:.1} years") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn sizes_are_read_with_their_units() {
        let cases = [
            ("0", 0),
            ("4096", 4096),
            ("512b", 512),
            ("4k", 4 << 10),
            ("4K", 4 << 10),
            ("4KiB", 4 << 10),
            ("4kb", 4_000),
            ("10G", 10 << 30),
            ("10GiB", 10 << 30),
            ("10gib", 10 << 30),
            ("20GB", 20_000_000_000),
            ("20G", 20 << 30),
            ("1.5tb", 1_500_000_000_000),
            ("1.5M", 3 << 19),
            ("0.5k", 512),
            ("1.0", 1),
            ("15T", 15 << 40),
            ("18446744073709551615", u64::MAX),
        ];
        for (text, bytes) in cases {
            assert_eq!(text.parse::<Size>().map(Size::bytes), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn counts_are_grouped_by_thousands() {
        let counts = [0, 7, 999, 1204, 10_000, 123_456, 1_234_567];
        let shown = ["0", "7", "999", "1,204", "10,000", "123,456", "1,234,567"];
        assert_eq!(counts.map(show_count), shown);
    }

    #[test]
    fn an_invalid_size_is_refused_with_a_sentence() {
        let texts = [
            "",
            "-1",
            "-1G",
            "--force",
            "1e3",
            "10 gb",
            " 10G",
            "G",
            "abc",
            "10X",
            "10GiBs",
            "1.3",
            "1.2345K",
            ".5G",
            "1.G",
            "1.2.3G",
            "0x10",
            "18446744073709551616",
            "16777216T",
            "99999999999999999999999",
            "10,5G",
            "\u{661}G",
        ];
        let found: String =
            texts.iter().map(|text| format!("{:?}: {}\n", text, text.parse::<Size>().unwrap_err())).collect();
        expect![[r#"
            "": the size is empty; write a number with K, M, G or T, such as 512M or 10G
            "-1": `-1` is negative; a size is a number of bytes, such as 512M or 10G
            "-1G": `-1G` is negative; a size is a number of bytes, such as 512M or 10G
            "--force": `--force` is not a size; write a number with K, M, G or T, such as 512M or 10G
            "1e3": `1e3` is not a size; write a number with K, M, G or T, such as 512M or 10G
            "10 gb": `10 gb` has a space in it; write the number and its unit together, such as 10GB
            " 10G": ` 10G` has a space in it; write the number and its unit together, such as 10GB
            "G": `G` is not a size; write a number with K, M, G or T, such as 512M or 10G
            "abc": `abc` is not a size; write a number with K, M, G or T, such as 512M or 10G
            "10X": `10X` ends in the unknown unit `X`; use K, M, G or T (1K is 1024 bytes, 1KB is 1000), such as 512M or 10G
            "10GiBs": `10GiBs` ends in the unknown unit `GiBs`; use K, M, G or T (1K is 1024 bytes, 1KB is 1000), such as 512M or 10G
            "1.3": `1.3` is not a whole number of bytes; write it with a smaller unit
            "1.2345K": `1.2345K` is not a whole number of bytes; write it with a smaller unit
            ".5G": `.5G` is not a size; write a number with K, M, G or T, such as 512M or 10G
            "1.G": `1.G` is not a size; write a number with K, M, G or T, such as 512M or 10G
            "1.2.3G": `1.2.3G` is not a size; write a number with K, M, G or T, such as 512M or 10G
            "0x10": `0x10` is not a size; write a number with K, M, G or T, such as 512M or 10G
            "18446744073709551616": `18446744073709551616` is larger than any device: a size must be below 16777216T
            "16777216T": `16777216T` is larger than any device: a size must be below 16777216T
            "99999999999999999999999": `99999999999999999999999` is larger than any device: a size must be below 16777216T
            "10,5G": `10,5G` is not a size; write a number with K, M, G or T, such as 512M or 10G
            "١G": `١G` is not a size; write a number with K, M, G or T, such as 512M or 10G
        "#]].assert_eq(&found);
    }

    #[test]
    fn bytes_are_shown_short() {
        let shown: Vec<String> = [0, 511, 1000, 1024, 1536, 4096, 999 << 10, 1023 << 10, 10 << 30, u64::MAX]
            .map(show_bytes)
            .to_vec();
        assert_eq!(
            shown,
            [
                "0 B",
                "511 B",
                "1.0 KiB",
                "1 KiB",
                "1.5 KiB",
                "4 KiB",
                "999 KiB",
                "1 MiB",
                "10 GiB",
                "16384 PiB"
            ]
        );
    }

    #[test]
    fn rates_are_shown_short() {
        let shown = [0.0, 0.26, 7.0, 9.96, 950.4, 999.6, 12_345.0, 123_456.0, 1_250_000.0].map(show_rate);
        assert_eq!(shown, ["0", "0.3", "7.0", "10", "950", "1.0k", "12.3k", "123k", "1.25M"]);
    }

    #[test]
    fn times_are_shown_short() {
        let shown =
            [5, 12_500, 4_200_000, 1_500_000_000, 185_000_000_000, 7_500_000_000_000, 97_200_000_000_000]
                .map(|nanos| show_duration(Duration::from_nanos(nanos)));
        assert_eq!(shown, ["5 ns", "12.5 µs", "4.20 ms", "1.5 s", "3 min 5 s", "2 h 5 min", "1 d 3 h"]);
    }

    #[test]
    fn a_ratio_to_zero_is_a_dash() {
        assert_eq!(show_ratio(0, 0), "-");
        assert_eq!(show_ratio(947, 1000), "94.7 %");
    }
}
