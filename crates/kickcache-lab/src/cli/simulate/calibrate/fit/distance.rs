//! The distance of a model to the measured figures.

use kickcache_model::device_model::device_file::DeviceKind;

use crate::cli::simulate::calibrate::probe::{Probe, ProbeResult};
use crate::cli::simulate::calibrate::simulated::Bench;

/// A tail counts less than a rate: it is known less well.
const TAIL_WEIGHT: f64 = 0.1;

pub(super) fn model_distance<'a>(
    bench: &Bench,
    kind: &DeviceKind,
    runs: impl Iterator<Item = (Probe, &'a ProbeResult)>,
) -> f64 {
    let of = |(probe, measured): (_, &ProbeResult)| {
        distance(probe, measured, &bench.probe(kind, probe, measured.iops))
    };
    runs.map(of).sum()
}

/// The distance of a model's figures to the measured ones: squares of logarithms. For transfers of more than 4 KiB only
/// the rate counts.
fn distance(probe: Probe, measured: &ProbeResult, given: &ProbeResult) -> f64 {
    let square = |wanted: f64, given: f64| {
        let ratio = (given.max(1e-6) / wanted.max(1e-6)).ln();
        ratio * ratio
    };
    let rate = square(measured.iops, given.iops);
    if probe.block != "4k" {
        return 2.0 * rate;
    }
    rate + square(measured.p50, given.p50)
        + TAIL_WEIGHT * (square(measured.p90, given.p90) + square(measured.p99, given.p99))
}
