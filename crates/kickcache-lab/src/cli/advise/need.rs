//! The requirements of a user.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use kickcache_units::{show_count, show_duration};

use crate::cli::advise::candidate::{Candidate, Layout};

#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Need {
    /// Reads and writes a second, at least.
    Iops(u64),
    /// The median latency, at most.
    P50(Duration),
    /// The 99th percentile of the latencies, at most.
    P99(Duration),
    /// The cost a month, at most.
    Cost(f64),
    /// The life of the cache device, at least.
    Years(f64),
}

impl FromStr for Need {
    type Err = String;

    fn from_str(text: &str) -> Result<Need, String> {
        let wrong = || {
            format!("`{text}` is not a need; write such as iops=5000, p50=1ms, p99=5ms, cost=10 or years=5")
        };
        let (name, value) = text.split_once('=').ok_or_else(wrong)?;
        let number = || value.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
        match name {
            "iops" => value.parse().map(Need::Iops).map_err(|_| wrong()),
            "p50" => latency(value).map(Need::P50).ok_or_else(wrong),
            "p99" => latency(value).map(Need::P99).ok_or_else(wrong),
            "cost" => number().map(Need::Cost).ok_or_else(wrong),
            "years" => number().map(Need::Years).ok_or_else(wrong),
            _ => Err(wrong()),
        }
    }
}

fn latency(text: &str) -> Option<Duration> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(split);
    let factor = match unit {
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        _ => return None,
    };
    let seconds = number.parse::<f64>().ok()? * factor;
    (seconds <= 3_600.0).then(|| Duration::from_secs_f64(seconds))
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Need::Iops(rate) => write!(f, "at least {} IOPS", show_count(*rate)),
            Need::P50(span) => write!(f, "p50 of at most {}", show_duration(*span)),
            Need::P99(span) => write!(f, "p99 of at most {}", show_duration(*span)),
            Need::Cost(amount) => write!(f, "a cost of at most {amount} a month"),
            Need::Years(years) => write!(f, "at least {years} years of life"),
        }
    }
}

impl Need {
    /// Whether a candidate meets the requirement.
    pub(crate) fn is_met_by(self, candidate: &Candidate) -> bool {
        match self {
            Need::Iops(rate) => candidate.iops >= rate as f64,
            Need::P50(span) => candidate.p50 <= span,
            Need::P99(span) => candidate.p99 <= span,
            Need::Cost(amount) => candidate.cost.is_some_and(|cost| cost <= amount),
            // --endurance describes the cache device; the life of a fast device with all data is unknown, and an origin needs none.
            Need::Years(years) => {
                candidate.layout == Layout::Origin || candidate.years.is_some_and(|life| life >= years)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needs_are_names_with_values() {
        assert_eq!("iops=5000".parse(), Ok(Need::Iops(5_000)));
        assert_eq!("p99=5ms".parse(), Ok(Need::P99(Duration::from_millis(5))));
        assert_eq!("p50=0.5s".parse(), Ok(Need::P50(Duration::from_millis(500))));
        assert_eq!("cost=6.5".parse(), Ok(Need::Cost(6.5)));
        for bad in ["", "iops", "iops=fast", "p99=5", "p99=5m", "p99=1.2.3ms", "years=-1", "speed=1"] {
            assert!(bad.parse::<Need>().unwrap_err().contains("is not a need"), "{bad}");
        }
    }
}
