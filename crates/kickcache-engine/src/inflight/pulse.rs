//! Whether devices complete anything.

use crate::config::VOLUME_COUNT_MAX;
use crate::device::Device;
use crate::time::Instant;

/// What a device has in flight, and since when it completed nothing.
#[derive(Clone, Copy, Default, Debug)]
struct Pulse {
    in_flight: u32,
    since: Instant,
}

/// The pulse of each device.
#[derive(Default, Debug)]
pub(crate) struct Pulses([Pulse; VOLUME_COUNT_MAX + 1]);

impl Pulses {
    fn of(&mut self, device: Device) -> &mut Pulse {
        &mut self.0[slot(device)]
    }

    /// A device was asked for something.
    pub(crate) fn begin(&mut self, now: Instant, device: Device) {
        let pulse = self.of(device);
        if pulse.in_flight == 0 {
            pulse.since = now;
        }
        pulse.in_flight += 1;
    }

    /// It completed something, well or not.
    pub(crate) fn end(&mut self, now: Instant, device: Device) {
        let pulse = self.of(device);
        pulse.in_flight -= 1;
        pulse.since = now;
    }

    /// Since when a device owes something and has completed nothing.
    pub(crate) fn silent_since(&self, device: Device) -> Option<Instant> {
        let pulse = self.0[slot(device)];
        (pulse.in_flight > 0).then_some(pulse.since)
    }
}

fn slot(device: Device) -> usize {
    match device {
        Device::Cache => 0,
        Device::Origin(volume) => 1 + usize::from(volume.get()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::VolumeId;

    #[test]
    fn a_device_is_silent_from_its_last_completion_on_while_it_owes_something() {
        let mut pulses = Pulses::default();
        let (at, origin) = (Instant::from_nanos, Device::Origin(VolumeId::new(15)));
        assert_eq!(pulses.silent_since(origin), None);
        pulses.begin(at(5), origin);
        pulses.begin(at(7), origin);
        assert_eq!((pulses.silent_since(origin), pulses.silent_since(Device::Cache)), (Some(at(5)), None));
        pulses.end(at(9), origin);
        assert_eq!(pulses.silent_since(origin), Some(at(9)));
        pulses.end(at(11), origin);
        assert_eq!(pulses.silent_since(origin), None);
        pulses.begin(at(90), origin);
        assert_eq!(pulses.silent_since(origin), Some(at(90)));
    }
}
