//! How long requests wait for a remote origin that is away.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::plan::span::parse_span;

/// How long requests wait for a remote origin that is away before they fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OriginTimeout(Duration);

impl OriginTimeout {
    pub const fn span(self) -> Duration {
        self.0
    }
}

impl Default for OriginTimeout {
    /// Two minutes, since a storage cluster may take half a minute to detect a failed member.
    fn default() -> OriginTimeout {
        OriginTimeout(Duration::from_secs(120))
    }
}

impl FromStr for OriginTimeout {
    type Err = String;

    fn from_str(text: &str) -> Result<OriginTimeout, String> {
        let possible = Duration::from_secs(1)..=Duration::from_secs(86_400);
        let span = parse_span(text).filter(|span| possible.contains(span));
        let sentence = || format!("`{text}` is no time to wait; write 1s to 24h, such as 30s, 2m or 1h");
        span.map(OriginTimeout).ok_or_else(sentence)
    }
}

impl fmt::Display for OriginTimeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} s", self.0.as_secs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_people_write_them() {
        let read = |text: &str| text.parse::<OriginTimeout>().map(|timeout| timeout.span().as_secs());
        assert_eq!(["30", "30s", "2m", "1h"].map(read), [Ok(30), Ok(30), Ok(120), Ok(3600)]);
        for text in ["", "0", "-1", "2d", "25h", "1.s", "s", "99999999999999999999"] {
            assert!(read(text).unwrap_err().contains(&format!("`{text}`")));
        }
    }
}
