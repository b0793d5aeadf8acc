//! The choice between two devices.

use alloc::collections::BTreeSet;

use super::*;
use crate::policy::load::work_of;
use crate::time::Duration;

const DEPTH: usize = 64;
const SECOND: u64 = 1_000_000_000;

#[derive(Clone, Copy)]
enum Device {
    /// One request at a time, of this many microseconds.
    Cap(u64),
    /// Each request takes this many microseconds, and all run at once.
    Parallel(u64),
}

/// The result of ten seconds of reads.
#[derive(Debug)]
struct Outcome {
    cache: u64,
    origin: u64,
    /// Reads before which a miss would have been turned away.
    turned_away: u64,
    offload: Offload,
}

struct Scene {
    cache: Device,
    origin: Device,
    /// Requests that were served before.
    before: u64,
    /// Milliseconds that the daemon waits for a processor after it was idle.
    late: u64,
}

impl Scene {
    fn new(cache: Device, origin: Device) -> Scene {
        Scene { cache, origin, before: 500_000, late: 0 }
    }

    fn run(&self) -> Outcome {
        let offload = Offload::new(OriginOffload::Proven);
        let mut outcome = Outcome { cache: 0, origin: 0, turned_away: 0, offload };
        let mut in_flight: BTreeSet<(u64, u64, ServedBy, Instant)> = BTreeSet::new();
        let mut free = [0, 0];
        let (mut now, mut device) = (0, 0);
        for number in 0.. {
            if in_flight.len() == DEPTH {
                let (at, started, source, begun) = in_flight.pop_first().unwrap();
                if at > now {
                    device += at - now;
                    now = at + self.late * 1_000_000;
                }
                let clock = Clock { now: Instant::from_nanos(now), device: Instant::from_nanos(device) };
                outcome.end(clock, source, (started, begun), self.before);
            }
            if now >= 10 * SECOND {
                return outcome;
            }
            let clock = Clock { now: Instant::from_nanos(now), device: Instant::from_nanos(device) };
            let source = outcome.offload.choose(clock.now, Kind::Read, 4096);
            outcome.turned_away += u64::from(outcome.offload.is_cache_behind(clock.now, 4096));
            let extent = extent(number);
            let (model, index) = match source {
                ServedBy::Cache => (self.cache, 0),
                ServedBy::Origin => (self.origin, 1),
            };
            match source {
                ServedBy::Cache => outcome.offload.begin(clock, 4096),
                ServedBy::Origin => outcome.offload.begin_origin_read(clock.now, extent),
            }
            let end = match model {
                Device::Cap(micros) => {
                    free[index] = free[index].max(now) + micros * 1_000;
                    free[index]
                }
                Device::Parallel(micros) => now + micros * 1_000,
            };
            in_flight.insert((end, number, source, clock.device));
        }
        unreachable!("time goes on")
    }
}

fn extent(number: u64) -> ByteExtent {
    ByteExtent { start: number.wrapping_mul(0x9E37_79B9_7F4A_7C15) % (1 << 40), length: 4096 }
}

impl Outcome {
    fn end(&mut self, clock: Clock, source: ServedBy, (number, begun): (u64, Instant), before: u64) {
        match source {
            ServedBy::Origin => {
                self.origin += 1;
                self.offload.origin.end_read(clock.now, extent(number));
            }
            ServedBy::Cache => {
                self.cache += 1;
                if self.offload.end(clock, Began { kind: Kind::Read, at: begun }, 4096) {
                    let requests = self.cache + self.origin + DEPTH as u64 + before;
                    let work = work_of(requests, requests * 4096);
                    self.offload.look(clock.now, ServedLoad { requests, work, by_cache: 0 });
                }
            }
        }
    }
}

#[test]
fn two_capped_devices_serve_the_sum_of_both() {
    let outcome = Scene::new(Device::Cap(357), Device::Cap(410)).run();
    assert!(outcome.cache > 27_500 && outcome.origin > 21_000, "{outcome:?}");
}

#[test]
fn a_fast_cache_device_is_left_alone() {
    let outcome = Scene::new(Device::Cap(10), Device::Cap(8_000)).run();
    assert!(outcome.cache > 990_000 && outcome.origin == 0, "{outcome:?}");
}

#[test]
fn a_late_processor_makes_no_device_slow() {
    let late = Scene { late: 10, ..Scene::new(Device::Cap(100), Device::Parallel(500)) };
    let outcome = late.run();
    assert_eq!((outcome.origin, outcome.turned_away), (0, 0), "{outcome:?}");
}

#[test]
fn an_unsaturated_cache_device_is_left_alone() {
    let outcome = Scene::new(Device::Parallel(3_000), Device::Parallel(2_000)).run();
    assert!(outcome.origin * 50 < outcome.cache, "{outcome:?}");
    assert!(!outcome.offload.trials.is_proven());
}

#[test]
fn an_origin_slower_than_the_slowest_hits_is_not_used() {
    let mut scene = Scene::new(Device::Cap(100), Device::Parallel(20_000));
    scene.before = u64::from(u32::MAX);
    let outcome = scene.run();
    assert!(outcome.origin <= 4_096 && !outcome.offload.trials.is_proven(), "{outcome:?}");
    let mut offload = outcome.offload;
    (0..100).for_each(|number| {
        offload.begin_origin_read(Instant::from_nanos(10 * SECOND), extent(number));
        offload.origin.end_read(Instant::from_nanos(10 * SECOND + 20_000_000), extent(number));
    });
    offload
        .look(Instant::from_nanos(20 * SECOND), ServedLoad { requests: 1 << 40, work: 1 << 60, by_cache: 0 });
    assert!(!offload.suits_reads);
}

#[test]
fn an_origin_with_few_iops_serves_only_misses() {
    let outcome = Scene::new(Device::Cap(1_100), Device::Cap(3_300)).run();
    assert!(outcome.origin < 200, "{outcome:?}");
    assert_eq!(outcome.turned_away, 0);
    assert!(Scene::new(Device::Cap(1_250), Device::Cap(3_333)).run().origin < 200);
}

#[test]
fn an_origin_with_few_iops_helps_a_slow_cache_device() {
    let outcome = Scene::new(Device::Cap(1_430), Device::Cap(1_640)).run();
    assert!(outcome.cache > 6_500 && outcome.origin > 4_500, "{outcome:?}");
}

#[test]
fn a_trial_takes_at_most_one_request_in_fifty() {
    let outcome = Scene { before: 0, ..Scene::new(Device::Cap(357), Device::Cap(410)) }.run();
    assert!(outcome.origin * 50 <= outcome.cache, "{outcome:?}");
}

#[test]
fn misses_are_turned_away_only_where_the_origin_was_proven() {
    let outcome = Scene { before: 0, ..Scene::new(Device::Cap(357), Device::Cap(410)) }.run();
    assert_eq!(outcome.turned_away, 0, "{outcome:?}");
    let outcome = Scene::new(Device::Cap(357), Device::Cap(410)).run();
    assert!(outcome.turned_away > 10_000, "{outcome:?}");
}

#[test]
fn an_origin_that_failed_is_left_alone() {
    let mut offload = Scene::new(Device::Cap(357), Device::Cap(410)).run().offload;
    let now = Instant::from_nanos(10 * SECOND);
    let asks = |offload: &Offload, now| {
        let origin = offload.choose(now, Kind::Read, 4096) == ServedBy::Origin;
        origin || offload.is_cache_behind(now, 4096)
    };
    assert!(asks(&offload, now), "both have enough to do");
    offload.origin.on_error(now);
    assert!(!asks(&offload, now));
    assert!(asks(&offload, now.plus(Duration::from_nanos(10 * SECOND))));
}

#[test]
fn settings_select_never_or_every_other_time() {
    let clock = Clock::default();
    let choices = |setting| {
        let mut offload = Offload::new(setting);
        core::array::from_fn(|_| {
            let source = offload.choose(clock.now, Kind::Read, 4096);
            offload.begin(clock, 4096);
            source
        })
    };
    assert_eq!(choices(OriginOffload::Never), [ServedBy::Cache; 4]);
    let (cache, origin) = (ServedBy::Cache, ServedBy::Origin);
    assert_eq!(choices(OriginOffload::Forced), [origin, cache, origin, cache]);
}
