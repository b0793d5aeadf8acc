//! Errors and silences of devices.

use std::collections::BTreeMap;

use kickcache_engine::device::Device;
use kickcache_engine::time::{Duration, Instant, earlier};

use crate::driver::errno::{errno_name, errno_text};
use crate::driver::fault::{Cause, Fault};
use crate::serve::control::FaultCount;
use crate::serve::rate_limit::{RateLimit, SPAN, SuppressedKind};

/// The least time without a completed operation after which a device is reported as silent.
pub(crate) const SILENT_MIN: Duration = Duration::from_millis(10_000);
/// The least interval of checks for silences and damage.
const LOOK_EVERY: Duration = Duration::from_millis(1_000);

pub(crate) struct Troubles {
    /// The first error of each kind in a span is logged at once, later errors are counted.
    limit: RateLimit<FaultKind>,
    tallies: Vec<(Device, Tally)>,
    counts: BTreeMap<FaultKind, u64>,
    silent: Vec<(Device, Instant)>,
    look_at: Instant,
    /// Whether the loop has handled a completion since the last check.
    has_work: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Tally {
    pub(crate) count: u64,
    pub(crate) last: Fault,
    /// The time when the last error was reported.
    pub(crate) at: Instant,
}

/// Errors that share a log message.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct FaultKind {
    pub(crate) device: Device,
    pub(crate) operation: &'static str,
    pub(crate) cause: Cause,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Silence {
    Began(Duration),
    Ended(Duration),
}

impl FaultKind {
    pub(crate) fn of(fault: &Fault) -> FaultKind {
        FaultKind { device: fault.device, operation: fault.operation, cause: fault.cause }
    }
}

impl Troubles {
    pub(crate) fn new() -> Troubles {
        Troubles {
            limit: RateLimit::new(1, SPAN),
            tallies: Vec::new(),
            counts: BTreeMap::new(),
            silent: Vec::new(),
            look_at: Instant::ZERO,
            has_work: false,
        }
    }

    /// Counts an error; `true` if it is to be logged at once.
    pub(crate) fn note(&mut self, now: Instant, fault: Fault) -> bool {
        match self.tallies.iter_mut().find(|(device, _)| *device == fault.device) {
            Some((_, tally)) => *tally = Tally { count: tally.count + 1, last: fault, at: now },
            None => self.tallies.push((fault.device, Tally { count: 1, last: fault, at: now })),
        }
        let kind = FaultKind::of(&fault);
        *self.counts.entry(kind).or_default() += 1;
        self.limit.allows(now, &kind)
    }

    /// Forgets the errors of a removed device, as another device may take its place.
    pub(crate) fn forget(&mut self, device: Device) {
        self.tallies.retain(|(known, _)| *known != device);
        self.counts.retain(|kind, _| kind.device != device);
        self.silent.retain(|(known, _)| *known != device);
    }

    /// Errors of a kind that were only counted, and are due to be logged.
    pub(crate) fn poll_held(&mut self, now: Instant) -> Option<SuppressedKind<FaultKind>> {
        self.limit.poll_held(now)
    }

    pub(crate) fn end(&mut self, now: Instant) -> impl Iterator<Item = SuppressedKind<FaultKind>> + use<> {
        self.limit.end(now)
    }

    pub(crate) fn end_of(&mut self, now: Instant, device: Device) -> Vec<SuppressedKind<FaultKind>> {
        self.limit.end_of(now, |kind| kind.device == device)
    }

    /// The errors of a device since it was put into use, or, if it is to take over, since the start of the server; `None`
    /// without any.
    pub(crate) fn tally(&self, device: Device) -> Option<Tally> {
        self.tallies.iter().find(|(known, _)| *known == device).map(|(_, tally)| *tally)
    }

    pub(crate) fn counts(&self) -> Vec<FaultCount> {
        let count = |(kind, count): (&FaultKind, &u64)| {
            let FaultKind { device, operation, cause } = *kind;
            FaultCount { device, operation, cause, count: *count }
        };
        self.counts.iter().map(count).collect()
    }

    /// Notes that a device completed an operation: the next look may find damage.
    pub(crate) fn see_work(&mut self) {
        self.has_work = true;
    }

    /// Whether the next look at the devices is due; `true` begins the next interval.
    pub(crate) fn begin_look(&mut self, now: Instant) -> bool {
        let is_due = now >= self.look_at;
        if is_due {
            self.look_at = now.plus(LOOK_EVERY);
            self.has_work = false;
        }
        is_due
    }

    /// Compares the silence of a device with the logged one.
    pub(crate) fn hear(&mut self, now: Instant, device: Device, since: Option<Instant>) -> Option<Silence> {
        let told = self.silent.iter().position(|(known, _)| *known == device);
        let silent = since.filter(|since| now.since(*since) >= SILENT_MIN);
        match (told, silent) {
            (None, Some(since)) => {
                self.silent.push((device, since));
                Some(Silence::Began(now.since(since)))
            }
            (Some(at), None) => {
                let (_, since) = self.silent.swap_remove(at);
                Some(Silence::Ended(now.since(since)))
            }
            (None, None) | (Some(_), Some(_)) => None,
        }
    }

    pub(crate) fn poll_timeout(&self, in_flight: usize) -> Option<Instant> {
        let waits = in_flight > 0 || self.has_work || !self.silent.is_empty();
        earlier(waits.then_some(self.look_at), self.limit.poll_timeout().map(|at| at.max(self.look_at)))
    }
}

pub(crate) fn show_cause(cause: Cause) -> String {
    match cause {
        Cause::Errno(errno) => format!("{} ({})", errno_text(errno), errno_name(errno)),
        Cause::Short => "the device ends before; it is shorter than it was when it was opened".into(),
    }
}

#[cfg(test)]
mod tests {
    use kickcache_engine::units::VolumeId;

    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::from_nanos(seconds * 1_000_000_000)
    }

    fn fault(operation: &'static str, offset: u64, errno: i32) -> Fault {
        Fault { device: Device::Cache, operation, offset, length: 4096, cause: Cause::Errno(errno) }
    }

    #[test]
    fn the_first_of_each_kind_is_reported_and_others_counted() {
        let mut troubles = Troubles::new();
        assert!(troubles.note(at(1), fault("read", 0, 5)));
        assert!((2..30).all(|second| !troubles.note(at(second), fault("read", second, 5))));
        let origin = Fault { device: Device::Origin(VolumeId::new(3)), ..fault("read", 0, 5) };
        let others = [fault("write", 0, 5), origin, fault("read", 0, 28)];
        assert!(others.into_iter().all(|fault| troubles.note(at(31), fault)));
        assert_eq!((troubles.poll_held(at(60)), troubles.poll_timeout(0)), (None, Some(at(61))));
        let SuppressedKind { kind, held } = troubles.poll_held(at(61)).unwrap();
        assert_eq!(
            (kind, held.to_string()),
            (FaultKind::of(&fault("read", 9, 5)), "and 28 more in 60 s".into())
        );
        let tally = troubles.tally(Device::Cache).unwrap();
        assert_eq!((tally.count, tally.last, tally.at), (31, fault("read", 0, 28), at(31)));
        assert_eq!(troubles.tally(origin.device).unwrap().count, 1);
        let counts: Vec<_> = troubles.counts().iter().map(|it| (it.device, it.operation, it.count)).collect();
        let cache = Device::Cache;
        assert_eq!(
            counts,
            [(cache, "read", 29), (cache, "read", 1), (cache, "write", 1), (origin.device, "read", 1)]
        );
    }

    #[test]
    fn a_long_silence_and_its_end_are_reported() {
        let mut troubles = Troubles::new();
        let mut hear = |now, since| troubles.hear(at(now), Device::Cache, since);
        assert_eq!(hear(12, Some(at(3))), None);
        assert_eq!(hear(13, Some(at(3))), Some(Silence::Began(Duration::from_millis(10_000))));
        assert_eq!(hear(20, Some(at(3))), None);
        assert_eq!(hear(44, None), Some(Silence::Ended(Duration::from_millis(41_000))));
        assert_eq!(hear(45, None), None);
    }

    #[test]
    fn silence_is_looked_for_only_while_something_is_in_flight() {
        let mut troubles = Troubles::new();
        assert!(troubles.begin_look(at(5)) && !troubles.begin_look(at(5)));
        assert_eq!((troubles.poll_timeout(0), troubles.poll_timeout(1)), (None, Some(at(6))));
        troubles.see_work();
        assert_eq!(troubles.poll_timeout(0), Some(at(6)));
        assert!(!troubles.begin_look(at(5)) && troubles.poll_timeout(0).is_some());
        assert!(troubles.begin_look(at(6)) && troubles.poll_timeout(0).is_none());
        troubles.note(at(0), fault("read", 0, 5));
        troubles.note(at(0), fault("read", 0, 5));
        assert!(troubles.begin_look(at(60)));
        assert_eq!(troubles.poll_timeout(0), Some(at(61)), "no earlier than the next look");
    }
}
