//! The errors of the two devices of a replacement.

use kickcache_engine::device::{Device, DeviceError, DeviceOperation};

use crate::host::in_flight::InFlight;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TakeoverErrors {
    is_sealed: bool,
    /// Failed submissions to the successor of this replacement, except discards.
    successor: u64,
    /// Errors of the cache device and the successor between the sealing of a replacement and the begin of the next one,
    /// in this life.
    sealed: u64,
}

impl TakeoverErrors {
    pub(super) fn begin(&mut self) {
        (self.is_sealed, self.successor) = (false, 0);
    }

    pub(super) fn note_sealed(&mut self) {
        self.is_sealed = true;
    }

    pub(super) fn on_failed(&mut self, flight: &InFlight) {
        let is_discard = matches!(flight.operation, DeviceOperation::Discard { .. });
        self.successor += u64::from(flight.device == Device::Successor && !is_discard);
    }

    pub(super) fn on_end(&mut self, flight: &InFlight, result: Result<(), DeviceError>) {
        let is_origins = matches!(flight.device, Device::Origin(_));
        self.sealed += u64::from(self.is_sealed && result.is_err() && !is_origins);
    }

    pub fn has_successor_failed(&self) -> bool {
        self.successor > 0
    }

    /// Whether an error may have reached the engine in a plan whose faults [`are_of_takeovers`].
    ///
    /// [`are_of_takeovers`]: crate::plan::faults::Faults::are_of_takeovers
    pub fn reached_engine(&self) -> bool {
        self.sealed > 0
    }
}
