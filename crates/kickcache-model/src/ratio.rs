//! Whole numbers as parts of each other.

#[expect(clippy::cast_precision_loss, reason = "counts, bytes and times of a run are far below 2^53")]
pub(crate) fn float(number: u64) -> f64 {
    number as f64
}

/// The share of a part in the whole; if the whole is 0, the part itself.
pub(crate) fn share(part: u64, whole: u64) -> f64 {
    float(part) / float(whole.max(1))
}
