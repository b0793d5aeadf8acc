//! How much worse is bad.

use std::fmt;
use std::str::FromStr;

/// How much worse a command may be: 20 % means that 1.2 times the time, or 1/1.2 of the rate, is bad.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Margin {
    part: f64,
}

/// The smallest and largest margin that a practical number of rounds can test.
const PART_MIN: f64 = 0.01;
const PART_MAX: f64 = 10.0;

impl Margin {
    /// A loss up to here, as a logarithm of the ratio, is good: half of the margin.
    pub fn good_max(self) -> f64 {
        (self.part / 2.0).ln_1p()
    }

    /// A loss from here on, as a logarithm of the ratio, is bad: the margin.
    pub fn bad_min(self) -> f64 {
        self.part.ln_1p()
    }

    /// A control has drifted if its loss or gain, as a logarithm of the ratio, is more than this: a quarter of the
    /// margin.
    pub fn drift_max(self) -> f64 {
        (self.part / 4.0).ln_1p()
    }

    pub fn part(self) -> f64 {
        self.part
    }
}

impl Default for Margin {
    fn default() -> Margin {
        Margin { part: 0.2 }
    }
}

impl FromStr for Margin {
    type Err = String;

    fn from_str(text: &str) -> Result<Margin, String> {
        let Some(number) = text.trim().strip_suffix('%') else {
            return Err(format!("`{text}` has no % behind it; write a percentage such as 20%"));
        };
        let percent: f64 = number
            .trim_end()
            .parse()
            .map_err(|_| format!("`{text}` is not a percentage; write one such as 20% or 7.5%"))?;
        let part = percent / 100.0;
        if !(PART_MIN..=PART_MAX).contains(&part) {
            return Err(format!("`{text}` is not possible; write a percentage from 1% to 1000%"));
        }
        Ok(Margin { part })
    }
}

impl fmt::Display for Margin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The percentage as typed: 7.5 is stored as 0.075, and converting back does not give exactly 7.5.
        let percent = (self.part * 1e8).round() / 1e6;
        write!(f, "{percent}%")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_read_and_shown() {
        let margin: Margin = "20%".parse().unwrap();
        assert!((margin.bad_min().exp() - 1.2).abs() < 1e-12);
        assert!((margin.good_max().exp() - 1.1).abs() < 1e-12);
        assert!((margin.drift_max().exp() - 1.05).abs() < 1e-12);
        for text in ["20%", "7.5%", "1%", "1000%"] {
            assert_eq!(text.parse::<Margin>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn an_invalid_percentage_is_refused() {
        for text in ["20", "0.2", "", "%", "-5%", "0%", "0.5%", "nan%", "inf%", "2000%", "a%"] {
            assert!(text.parse::<Margin>().is_err(), "{text}");
        }
    }
}
