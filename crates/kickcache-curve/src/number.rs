//! Numbers as fractions.

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53; beyond it the loss is harmless")]
pub(crate) fn float(count: u64) -> f64 {
    count as f64
}

/// The integer part of a fraction, limited to 0 and `u64::MAX`.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
pub(crate) fn floor(number: f64) -> u64 {
    number as u64
}
