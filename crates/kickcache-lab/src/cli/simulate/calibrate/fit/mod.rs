//! A model that reproduces the measured figures.

mod distance;
mod flash;
mod kind;
mod remote;
mod rotating;
#[cfg(test)]
mod tests;

use kickcache_model::device_model::device_file::DeviceKind;

use crate::cli::simulate::calibrate::fit::kind::DeviceClass;
use crate::cli::simulate::calibrate::probe::Runs;
use crate::cli::simulate::calibrate::simulated::Bench;

pub(super) fn describe(measured: &Runs, bench: &Bench) -> DeviceKind {
    match kind::seen(measured) {
        DeviceClass::Flash => flash::describe(measured, bench),
        DeviceClass::Rotating => rotating::describe(measured, bench),
        DeviceClass::Remote => remote::describe(measured, bench),
    }
}
