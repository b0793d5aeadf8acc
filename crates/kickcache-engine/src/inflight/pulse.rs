//! Tracks whether devices complete submissions.

use crate::config::VOLUME_COUNT_MAX;
use crate::device::Device;
use crate::time::Instant;

/// The submissions that a device has in flight, and the time since which it has completed none.
#[derive(Clone, Copy, Default, Debug)]
struct Pulse {
    in_flight: u32,
    since: Instant,
}

/// The cache device, an origin, or the host's memory, which never counts as silent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PulseId(u8);

impl PulseId {
    pub(crate) const CACHE: PulseId = PulseId(0);
    const MEMORY: PulseId = PulseId(31);
    const REDO_JOURNAL: PulseId = PulseId(30);

    /// The id of a device, or of the host's memory for `None`.
    #[inline]
    pub(crate) const fn of(device: Option<Device>) -> PulseId {
        match device {
            Some(Device::Cache | Device::Successor) => PulseId::CACHE,
            Some(Device::Origin(volume)) => PulseId(1 + volume.get()),
            Some(Device::RedoJournal) => PulseId::REDO_JOURNAL,
            None => PulseId::MEMORY,
        }
    }

    const fn index(self) -> usize {
        self.0 as usize % PULSES
    }
}

/// A power of two, so that an index needs no bounds check.
const PULSES: usize = 32;
const _: () = assert!(VOLUME_COUNT_MAX + 3 <= PULSES);

#[derive(Default, Debug)]
pub(crate) struct Pulses([Pulse; PULSES]);

impl Pulses {
    #[inline]
    pub(crate) fn begin(&mut self, now: Instant, id: PulseId) {
        let pulse = &mut self.0[id.index()];
        if pulse.in_flight == 0 {
            pulse.since = now;
        }
        pulse.in_flight += 1;
    }

    #[inline]
    pub(crate) fn end(&mut self, now: Instant, id: PulseId) {
        let pulse = &mut self.0[id.index()];
        pulse.in_flight -= 1;
        pulse.since = now;
    }

    /// The time since which a device with submissions in flight has completed none.
    pub(crate) fn silent_since(&self, device: Device) -> Option<Instant> {
        let pulse = self.0[PulseId::of(Some(device)).index()];
        (pulse.in_flight > 0).then_some(pulse.since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::VolumeId;

    #[test]
    fn a_device_is_silent_since_its_last_completion() {
        let mut pulses = Pulses::default();
        let (at, origin) = (Instant::from_nanos, Device::Origin(VolumeId::new(15)));
        let id = PulseId::of(Some(origin));
        assert_eq!(pulses.silent_since(origin), None);
        pulses.begin(at(5), id);
        pulses.begin(at(7), id);
        assert_eq!((pulses.silent_since(origin), pulses.silent_since(Device::Cache)), (Some(at(5)), None));
        pulses.end(at(9), id);
        assert_eq!(pulses.silent_since(origin), Some(at(9)));
        pulses.end(at(11), id);
        assert_eq!(pulses.silent_since(origin), None);
        pulses.begin(at(90), id);
        assert_eq!(pulses.silent_since(origin), Some(at(90)));
    }
}
