//! Figures with as many digits as a measurement can know.

/// Rounds a positive number to three digits.
pub(super) fn three_digits(number: f64) -> f64 {
    if number <= 0.0 {
        return 0.0;
    }
    let scale = 10_f64.powf(2.0 - number.log10().floor());
    (number * scale).round() / scale
}
