//! The kind of device that fits the measured figures.

use crate::cli::simulate::calibrate::probe::Runs;

/// If a device's single random read takes longer than this, in microseconds, it is no local flash disk.
const FAR: f64 = 300.0;
/// A disk with moving parts takes longer than this for a single random read, in microseconds.
const TURNS: f64 = 1_500.0;
/// With 8 random reads in flight, a disk with moving parts has at most this many times its rate with one.
const PARALLEL: f64 = 3.0;
/// On a disk with moving parts the place decides the time: its p90 is more than this many times its p10.
const SPREAD: f64 = 1.3;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum DeviceClass {
    Flash,
    Rotating,
    /// A disk behind a network, or another slow device.
    Remote,
}

pub(super) fn seen(measured: &Runs) -> DeviceClass {
    let [single, _, several, _] = measured.random();
    let is_parallel = several.iops > PARALLEL * single.iops;
    let is_spread = single.p90 > SPREAD * single.p10;
    if single.p50 <= FAR {
        DeviceClass::Flash
    } else if single.p50 > TURNS && is_spread && !is_parallel {
        DeviceClass::Rotating
    } else {
        DeviceClass::Remote
    }
}
