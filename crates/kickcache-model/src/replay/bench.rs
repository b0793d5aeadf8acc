//! The bench: passes the accesses of a workload's jobs and the completions of devices to a cache model, and moves the
//! clock.

use kickcache_engine::time::{Duration, Instant, earlier};
use kickcache_random::Random;

use crate::device_model::micros_of;
use crate::device_model::pauses::Pauses;
use crate::replay::cache_model::{CacheModel, Tally};
use crate::replay::devices::Devices;
use crate::replay::jobs::Jobs;
use crate::result::RunResult;
use crate::result::series::Series;
use crate::workload::Workload;

/// Nanoseconds between two samples of the cache model's counters.
const SAMPLE: u64 = 1_000_000_000;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Course {
    pub start: Instant,
    pub length: Duration,
    pub cost: Duration,
    /// If set, the run ends early once the hits of this many seconds are about those of the seconds before.
    pub steady: Option<usize>,
    /// The longest delay of an event for clients and cache model, for lack of a processor; the delays are
    /// drawn at random.
    pub wakes_late: Duration,
    pub stalls: Stalls,
}

/// Clients and cache model are stopped from time to time; devices continue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stalls {
    /// Mean time between two stalls; zero if there are none.
    pub every: Duration,
    pub longest: Duration,
}

impl Stalls {
    fn start(self) -> Pauses {
        Pauses::new(micros_of(self.every), micros_of(self.longest), LATE_SEED)
    }
}

/// Called for each second of the run, with the elapsed part in nanoseconds.
pub type Progress<'a> = &'a mut dyn FnMut(u64);

struct Samples {
    next: Instant,
    last: Tally,
    first: Tally,
    hits: Series,
    misses: Series,
}

impl Samples {
    fn new(first: Tally) -> Samples {
        let (hits, misses) = (Series::default(), Series::default());
        let next = Instant::from_nanos(SAMPLE);
        Samples { next, last: first, first, hits, misses }
    }

    fn are_steady(&self, seconds: usize) -> bool {
        let hits = self.hits.values();
        let Some(from) = hits.len().checked_sub(2 * seconds) else { return false };
        let before: u64 = hits[from..from + seconds].iter().sum();
        let last: u64 = hits[from + seconds..].iter().sum();
        let missed: u64 = self.misses.values().iter().skip(from + seconds).sum();
        last.abs_diff(before) * STEADY_CHANGE < before && missed * STEADY_HITS < last
    }

    fn take(&mut self, tally: Tally, at: Instant) {
        let at = Instant::from_nanos(at.as_nanos().saturating_sub(1));
        self.hits.add(at, tally.hit_blocks - self.last.hit_blocks);
        self.misses.add(at, tally.miss_blocks - self.last.miss_blocks);
        self.last = tally;
        self.next = self.next.plus(Duration::from_nanos(SAMPLE));
    }
}

/// Changes of less than one part in this many count as none.
const STEADY_CHANGE: u64 = 300;
/// A run that misses one block for this many hits, or more often, is not steady.
const STEADY_HITS: u64 = 400;

const LATE_SEED: u64 = 20;

pub fn run(
    course: Course,
    workload: &mut dyn Workload,
    model: &mut dyn CacheModel,
    devices: &mut Devices,
    progress: Progress<'_>,
) -> RunResult {
    devices.start_at(course.start);
    let from = workload.measured_from();
    let mut samples = Samples::new(model.tally());
    let mut jobs = Jobs::new(workload, course.cost);
    let end = Instant::ZERO.plus(course.length);
    let mut now = Instant::ZERO;
    let mut late = Random::new(LATE_SEED);
    let mut stalls = course.stalls.start();
    while !jobs.have_ended() {
        let absolute = |at: Instant| course.start.plus(at.since(Instant::ZERO));
        let relative = |at: Instant| Instant::ZERO.plus(at.since(course.start));
        let timeout = model.poll_timeout();
        let below = earlier(devices.next_event(), timeout).map(relative);
        let Some(next) = earlier(below, jobs.next_event()) else { break };
        let wakes = next.plus(Duration::from_nanos(late.within(0, course.wakes_late.as_nanos())));
        let wakes = stalls.delay(wakes, wakes);
        stalls.forget(wakes);
        if wakes >= end {
            now = end;
            break;
        }
        model.handle_sleep(next.since(now));
        now = now.max(wakes);
        let mut looked = false;
        while now >= samples.next {
            looked = true;
            samples.take(model.tally(), samples.next);
            progress(now.as_nanos());
        }
        if looked && course.steady.is_some_and(|seconds| samples.are_steady(seconds)) {
            break;
        }
        let due = Due { at: absolute(now), now, timeout };
        step(due, &mut jobs, model, devices);
    }
    samples.take(model.tally(), now);
    let mut result = RunResult::new("", "", 0);
    result.nanos = now.since(from).as_nanos();
    result.ramp_nanos = now.min(from).since(Instant::ZERO).as_nanos();
    result.jobs = jobs.into_results();
    finish(result, samples, devices, course.start.plus(now.since(Instant::ZERO)))
}

/// Lets a cache model do its background work for a given time; returns the time of its end.
pub fn run_idle(
    model: &mut dyn CacheModel,
    devices: &mut Devices,
    from: Instant,
    length: Duration,
) -> Instant {
    let end = from.plus(length);
    let mut now = from;
    while let Some(at) = earlier(devices.next_event(), model.poll_timeout()) {
        let at = at.max(from);
        if at > end {
            break;
        }
        model.handle_sleep(at.since(now));
        now = now.max(at);
        while let Some((place, token)) = devices.poll(at) {
            model.handle_completion(at, place, token, devices);
        }
        if model.poll_timeout().is_some_and(|due| due <= at) {
            model.handle_timeout(at, devices);
        }
        while model.poll_reply().is_some() {}
    }
    end
}

#[derive(Clone, Copy, Debug)]
struct Due {
    at: Instant,
    now: Instant,
    timeout: Option<Instant>,
}

fn step(due: Due, jobs: &mut Jobs<'_>, model: &mut dyn CacheModel, devices: &mut Devices) {
    let Due { at, now, mut timeout } = due;
    while let Some((place, token)) = devices.poll(at) {
        model.handle_completion(at, place, token, devices);
        timeout = model.poll_timeout();
    }
    if timeout.is_some_and(|due| due <= at) {
        model.handle_timeout(at, devices);
    }
    while let Some(id) = model.poll_reply() {
        jobs.end(now, id);
    }
    while let Some(demand) = jobs.begin(now) {
        model.handle_demand(at, demand, devices);
    }
    while let Some(id) = model.poll_reply() {
        jobs.end(now, id);
    }
}

fn finish(mut result: RunResult, samples: Samples, devices: &mut Devices, at: Instant) -> RunResult {
    let (first, last) = (samples.first, samples.last);
    result.hit_blocks = samples.hits;
    result.miss_blocks = samples.misses;
    result.promoted_bytes = last.promoted_bytes - first.promoted_bytes;
    result.logged_bytes = last.logged_bytes - first.logged_bytes;
    result.dirty_bytes = last.dirty_bytes;
    let (cache, origin) = devices.take_results(at);
    result.cache_device = cache;
    result.origin_device = Some(origin);
    result
}
