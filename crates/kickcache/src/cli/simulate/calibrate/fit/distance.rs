//! How far a model is from what was measured.

use crate::cli::simulate::calibrate::probe::Measured;

/// A tail counts less than a rate: it is known less well.
const TAIL_WEIGHT: f64 = 0.1;

/// How far what a model gives is from what was measured: squares of logarithms.
pub(super) fn distance(measured: &Measured, given: &Measured) -> f64 {
    let square = |wanted: f64, given: f64| {
        let ratio = (given.max(1e-6) / wanted.max(1e-6)).ln();
        ratio * ratio
    };
    square(measured.iops, given.iops)
        + square(measured.p50, given.p50)
        + TAIL_WEIGHT * (square(measured.p90, given.p90) + square(measured.p99, given.p99))
}
