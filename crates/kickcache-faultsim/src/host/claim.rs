//! The extent of a device that a submission in flight uses.

use kickcache_engine::device::Device;
use kickcache_engine::units::ByteExtent;

use crate::host::in_flight::InFlight;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Claim {
    pub(super) id: u64,
    device: Device,
    pub(super) extent: ByteExtent,
    writes: bool,
}

impl Claim {
    pub(super) fn new(flight: &InFlight) -> Claim {
        let InFlight { id, device, extent, writes, .. } = *flight;
        Claim { id, device, extent, writes }
    }

    /// Whether a submission must not be in flight together with the submission of this claim.
    pub(super) fn clashes(&self, flight: &InFlight) -> bool {
        let both_write = self.writes && flight.writes;
        let one_writes = self.writes || flight.writes;
        self.device == flight.device
            && overlap(self.extent, flight.extent)
            && (both_write || (flight.device == Device::Cache && one_writes))
    }
}

const fn overlap(one: ByteExtent, other: ByteExtent) -> bool {
    one.start < other.start + other.length && other.start < one.start + one.length
}
