//! Whether a device completes anything.

use kickcache_engine::time::Instant;

/// What a device has in flight, and since when it completed nothing.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Pulse {
    in_flight: u32,
    since: Instant,
}

impl Pulse {
    /// The device was asked for something.
    pub(crate) fn begin(&mut self, now: Instant) {
        if self.in_flight == 0 {
            self.since = now;
        }
        self.in_flight += 1;
    }

    /// It completed something, well or not.
    pub(crate) fn end(&mut self, now: Instant) {
        self.in_flight -= 1;
        self.since = now;
    }

    /// Since when it owes something and has completed nothing.
    pub(crate) fn silent_since(&self) -> Option<Instant> {
        (self.in_flight > 0).then_some(self.since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_silent_from_its_last_completion_on_while_it_owes_something() {
        let mut pulse = Pulse::default();
        let at = Instant::from_nanos;
        assert_eq!(pulse.silent_since(), None);
        pulse.begin(at(5));
        pulse.begin(at(7));
        assert_eq!(pulse.silent_since(), Some(at(5)));
        pulse.end(at(9));
        assert_eq!(pulse.silent_since(), Some(at(9)));
        pulse.end(at(11));
        assert_eq!(pulse.silent_since(), None);
        pulse.begin(at(90));
        assert_eq!(pulse.silent_since(), Some(at(90)));
    }
}
