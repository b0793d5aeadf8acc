//! Numbers as the judge's lines show them: short, for any printed value.

/// Numbers outside of this range are written with a power of ten.
const PLAIN: std::ops::Range<f64> = 1e-3..1e9;

/// A metric with at least four significant digits.
pub(crate) fn show_value(value: f64) -> String {
    match value {
        value if !PLAIN.contains(&value) => format!("{value:.3e}"),
        value if value >= 1000.0 => format!("{value:.0}"),
        value if value >= 100.0 => format!("{value:.1}"),
        value if value >= 1.0 => format!("{value:.3}"),
        value if value >= 0.1 => format!("{value:.4}"),
        value if value >= 0.01 => format!("{value:.5}"),
        value => format!("{value:.6}"),
    }
}

/// A ratio: `1.358x`; `2.50e12x`; a word for a ratio beyond the range of numbers.
pub(crate) fn show_ratio(ratio: f64) -> String {
    match ratio {
        ratio if ratio > f64::MAX => "more than 1e308x".into(),
        ratio if ratio < f64::MIN_POSITIVE => "less than 1e-307x".into(),
        ratio if PLAIN.contains(&ratio) => format!("{ratio:.3}x"),
        ratio => format!("{ratio:.2e}x"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_short_however_large_or_small() {
        let values = [979.0, 1_360.0, 0.25, 0.0394, 0.002_5, 1e300, 1e-300].map(show_value);
        assert_eq!(values, ["979.0", "1360", "0.2500", "0.03940", "0.002500", "1.000e300", "1.000e-300"]);
        let ratios = [1.3576, 0.833, 4e-9, 2.5e12, f64::INFINITY, 0.0].map(show_ratio);
        let expected = ["1.358x", "0.833x", "4.00e-9x", "2.50e12x", "more than 1e308x", "less than 1e-307x"];
        assert_eq!(ratios, expected);
    }
}
