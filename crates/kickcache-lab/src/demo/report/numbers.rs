//! Numbers as the demo's table and sentences show them.

/// A time with three digits (more from 1,000 s on): `97.2 µs`, `1.05 ms`, `195 ms`.
pub(crate) fn time(nanos: u64) -> String {
    let micros = nanos as f64 / 1e3;
    let (value, unit) = match micros {
        small if small < 999.5 => (small, "µs"),
        middle if middle < 999_500.0 => (middle / 1e3, "ms"),
        large => (large / 1e6, "s"),
    };
    format!("{} {unit}", three_digits(value))
}

/// How many times one number is another: `1.0x`, `18.3x`, `157x`.
pub(crate) fn times(number: u64, base: u64) -> String {
    let factor = factor(number, base);
    if factor < 99.95 { format!("{factor:.1}x") } else { format!("{factor:.0}x") }
}

/// From how many times to how many times one number is another, with one place below 10 and none above:
/// `0.9-1.1`, `18-157`.
pub(crate) fn range(least: u64, most: u64, base: u64) -> String {
    let show = |number| {
        let factor = factor(number, base);
        if factor < 9.95 { format!("{factor:.1}") } else { format!("{factor:.0}") }
    };
    format!("{}-{}", show(least), show(most))
}

/// One number divided by another, or by 1 if that is 0.
pub(crate) fn factor(number: u64, base: u64) -> f64 {
    number as f64 / base.max(1) as f64
}

pub(crate) fn percent(part: f64) -> String {
    format!("{:.1} %", part * 100.0)
}

fn three_digits(value: f64) -> String {
    match value {
        small if small < 9.995 => format!("{small:.2}"),
        middle if middle < 99.95 => format!("{middle:.1}"),
        large => format!("{large:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let times_shown = [0, 950, 97_240, 999_600, 1_049_000, 195_400_000, 2_000_000_000].map(time);
        assert_eq!(times_shown, ["0.00 µs", "0.95 µs", "97.2 µs", "1.00 ms", "1.05 ms", "195 ms", "2.00 s"]);
        assert_eq!([(1, 1), (183, 10), (15_700, 100)].map(|(n, b)| times(n, b)), ["1.0x", "18.3x", "157x"]);
        assert_eq!([range(94, 105, 100), range(250, 9_960, 100)], ["0.9-1.1", "2.5-100"]);
        assert_eq!(percent(0.98765), "98.8 %");
    }
}
