//! Spans of time as people write them.

use std::time::Duration;

/// Parses a number followed by `ms`, `s`, `m`, `min`, `h` or `d`, as in `500ms` or `1.5h`; a number without a unit is in seconds.
pub fn parse_span(text: &str) -> Option<Duration> {
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let seconds = match &text[number.len()..] {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3_600.0,
        "d" => 86_400.0,
        _ => return None,
    };
    let is_plain =
        number.split('.').all(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()));
    let count: f64 = number.parse().ok().filter(|_| is_plain)?;
    Duration::try_from_secs_f64(count * seconds).ok()
}

/// In a form that [`parse_span`] reads, to the millisecond.
pub(super) fn show_span(span: Duration) -> String {
    let millis = span.as_millis();
    if millis.is_multiple_of(1_000) { format!("{}s", millis / 1_000) } else { format!("{millis}ms") }
}

/// # Errors
/// If it is not 10ms to 24h.
pub fn parse_idle_time(text: &str) -> Result<Duration, String> {
    let possible = Duration::from_millis(10)..=Duration::from_secs(86_400);
    let span = parse_span(text).filter(|span| possible.contains(span));
    span.ok_or_else(|| format!("`{text}` is no idle time; write 10ms to 24h, such as 500ms, 5s or 2m"))
}

/// # Errors
/// If it is not 10ms to 1h.
pub fn parse_burst(text: &str) -> Result<Duration, String> {
    let possible = Duration::from_millis(10)..=Duration::from_secs(3_600);
    let span = parse_span(text).filter(|span| possible.contains(span));
    span.ok_or_else(|| format!("`{text}` is no time for a burst; write 10ms to 1h, such as 1s or 30s"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_times_are_read_as_people_write_them() {
        let millis = |text| parse_idle_time(text).map(|span| span.as_millis());
        let texts = ["10ms", "2", "2s", "3m", "3min", "24h", "1d", "1.5s"];
        assert_eq!(
            texts.map(millis),
            [10, 2_000, 2_000, 180_000, 180_000, 86_400_000, 86_400_000, 1_500].map(Ok)
        );
        assert_eq!(["500ms", "2m"].map(|text| show_span(parse_span(text).unwrap())), ["500ms", "120s"]);
        for text in
            ["", "0", "9ms", "-1s", "25h", "2d", "1.s", "1e3", ".5s", "ms", "1 s", "99999999999999999999"]
        {
            let sentence = format!("`{text}` is no idle time; write 10ms to 24h, such as 500ms, 5s or 2m");
            assert_eq!(millis(text), Err(sentence));
        }
    }
}
