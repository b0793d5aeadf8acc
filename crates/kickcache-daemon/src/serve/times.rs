//! How long requests took, for each volume.

use hdrhistogram::{Counter, Histogram};
use kickcache_engine::request::ReadFrom;
use kickcache_engine::time::{Duration, Instant};
use kickcache_engine::units::VolumeId;

use crate::latency::{Latencies, LatencyHistogram};

/// The range of times that the histograms distinguish.
const NANOS_MIN: u64 = 1_000;
const NANOS_MAX: u64 = 600_000_000_000;
/// Significant decimal digits that a histogram keeps of each time.
const DIGITS: u8 = 2;
/// The time after which an interval ends at the next request or query.
pub(crate) const SPAN: Duration = Duration::from_millis(30_000);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Class {
    /// A read that the cache served alone.
    Hit,
    /// A read that used the origin.
    Miss,
    Write,
    Flush,
}

impl Class {
    pub(crate) fn of_read(read_from: ReadFrom) -> Class {
        match read_from {
            ReadFrom::Cache => Class::Hit,
            ReadFrom::Origin => Class::Miss,
        }
    }
}

#[derive(Default)]
pub(crate) struct Times {
    volumes: Vec<Option<Box<VolumeTimes>>>,
}

impl Times {
    pub(crate) fn add(&mut self, now: Instant, volume: VolumeId) {
        let at = usize::from(volume.get());
        if self.volumes.len() <= at {
            self.volumes.resize_with(at + 1, || None);
        }
        self.volumes[at] = Some(Box::new(VolumeTimes::new(now)));
    }

    /// Ends the recent intervals of all volumes.
    pub(crate) fn end_recent(&mut self, now: Instant) {
        self.volumes.iter_mut().flatten().for_each(|times| times.end_recent(now));
    }

    pub(crate) fn of(&mut self, volume: VolumeId) -> Option<&mut VolumeTimes> {
        self.volumes.get_mut(usize::from(volume.get()))?.as_deref_mut()
    }
}

pub(crate) struct VolumeTimes {
    classes: [ClassHistory; 4],
    began: Instant,
    /// The start of the interval before the present one.
    recent_since: Instant,
    span_since: Instant,
    turn_at: Instant,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Activity {
    /// The length of the period, from its start to the query.
    pub span: Duration,
    pub hits: LatencySum,
    pub misses: LatencySum,
    pub writes: LatencySum,
    pub flushes: LatencySum,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LatencySum {
    /// The number of requests that succeeded.
    pub count: u64,
    pub bytes: u64,
    /// The average time of the requests; 0 without requests.
    pub mean: Duration,
    /// The time within which 99 of 100 requests ended, to two digits; 0 without requests.
    pub p99: Duration,
}

impl VolumeTimes {
    fn new(now: Instant) -> VolumeTimes {
        VolumeTimes {
            classes: [(); 4].map(|()| ClassHistory::new()),
            began: now,
            recent_since: now,
            span_since: now,
            turn_at: now.plus(SPAN),
        }
    }

    /// Counts a request that ended without an error.
    pub(crate) fn note(&mut self, now: Instant, class: Class, bytes: u64, took: Duration) {
        if now >= self.turn_at {
            self.turn(now);
        }
        let kept = &mut self.classes[class as usize];
        kept.span.note(bytes, took.as_nanos());
        kept.latency.add(took.as_nanos());
    }

    /// The activity since the volume was added, at the earliest since the start.
    pub(crate) fn since_start(&self, now: Instant) -> Activity {
        self.activity(now.since(self.began), |kept| {
            let mut all = kept.all.clone();
            all.add(&kept.span);
            all.took()
        })
    }

    pub(crate) fn recent(&mut self, now: Instant) -> Activity {
        if now >= self.turn_at {
            self.turn(now);
        }
        self.activity(now.since(self.recent_since), |kept| {
            let mut both = kept.before.clone();
            both.add(&kept.span);
            both.took()
        })
    }

    /// Ends the present interval and the one before.
    pub(crate) fn end_recent(&mut self, now: Instant) {
        self.turn(now);
        self.turn(now);
    }

    pub(crate) fn latencies(&self) -> Latencies {
        let [hits, misses, writes, flushes] = self.classes.each_ref().map(|kept| kept.latency);
        Latencies { hits, misses, writes, flushes }
    }

    fn activity(&self, span: Duration, took: impl Fn(&ClassHistory) -> LatencySum) -> Activity {
        let [hits, misses, writes, flushes] = self.classes.each_ref().map(took);
        Activity { span, hits, misses, writes, flushes }
    }

    fn turn(&mut self, now: Instant) {
        self.recent_since = self.span_since;
        self.span_since = now;
        self.turn_at = now.plus(SPAN);
        self.classes.iter_mut().for_each(ClassHistory::turn);
    }
}

/// The data of a class: the sum of all completed intervals, the previous interval, and the present one.
struct ClassHistory {
    all: Sum<u64>,
    before: Sum<u32>,
    span: Sum<u32>,
    /// All times in a few buckets, for a scrape of metrics.
    latency: LatencyHistogram,
}

impl ClassHistory {
    fn new() -> ClassHistory {
        let latency = LatencyHistogram::default();
        ClassHistory { all: Sum::new(), before: Sum::new(), span: Sum::new(), latency }
    }

    fn turn(&mut self) {
        self.all.add(&self.span);
        std::mem::swap(&mut self.before, &mut self.span);
        self.span.clear();
    }
}

#[derive(Clone)]
struct Sum<C: Counter> {
    histogram: Histogram<C>,
    bytes: u64,
    nanos: u64,
}

impl<C: Counter + From<u32>> Sum<C> {
    fn new() -> Sum<C> {
        let histogram = Histogram::new_with_bounds(NANOS_MIN, NANOS_MAX, DIGITS);
        Sum { histogram: histogram.expect("the bounds are sound"), bytes: 0, nanos: 0 }
    }

    fn note(&mut self, bytes: u64, nanos: u64) {
        self.histogram.saturating_record(nanos);
        self.bytes += bytes;
        self.nanos = self.nanos.saturating_add(nanos);
    }

    fn add(&mut self, other: &Sum<u32>) {
        for bar in other.histogram.iter_recorded() {
            self.histogram.saturating_record_n(bar.value_iterated_to(), bar.count_at_value().into());
        }
        self.bytes += other.bytes;
        self.nanos = self.nanos.saturating_add(other.nanos);
    }

    fn clear(&mut self) {
        self.histogram.clear();
        (self.bytes, self.nanos) = (0, 0);
    }

    fn took(&self) -> LatencySum {
        let count = self.histogram.len();
        LatencySum {
            count,
            bytes: self.bytes,
            mean: Duration::from_nanos(self.nanos / count.max(1)),
            p99: Duration::from_nanos(if count == 0 { 0 } else { self.histogram.value_at_quantile(0.99) }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    fn times() -> VolumeTimes {
        VolumeTimes::new(at(1_000))
    }

    fn close(one: Duration, other: Duration) -> bool {
        one.as_nanos().abs_diff(other.as_nanos()) <= other.as_nanos() / 64 + 1_000
    }

    #[test]
    fn classes_are_kept_apart_with_their_mean_and_p99() {
        let mut times = times();
        for _ in 0..98 {
            times.note(at(2_000), Class::Hit, 4096, Duration::from_micros(50));
        }
        times.note(at(2_000), Class::Hit, 4096, Duration::from_micros(9_000));
        times.note(at(2_000), Class::Hit, 4096, Duration::from_micros(10_000));
        times.note(at(3_000), Class::Miss, 8192, Duration::from_micros(7_000));
        let all = times.since_start(at(5_000));
        assert_eq!((all.span, all.hits.count, all.hits.bytes), (Duration::from_millis(4_000), 100, 409_600));
        assert_eq!(all.hits.mean, Duration::from_micros(239));
        assert!(close(all.hits.p99, Duration::from_micros(9_000)), "{:?}", all.hits.p99);
        assert_eq!((all.misses.count, all.misses.bytes, all.writes), (1, 8192, LatencySum::default()));
        assert_eq!(times.recent(at(5_000)), all);
    }

    #[test]
    fn recent_times_expire_and_total_times_do_not() {
        let mut times = times();
        let write = |times: &mut VolumeTimes, now, took| {
            times.note(now, Class::Write, 4096, Duration::from_micros(took));
        };
        write(&mut times, at(2_000), 900);
        write(&mut times, at(40_000), 100);
        assert_eq!(times.recent(at(50_000)).writes.count, 2);
        write(&mut times, at(75_000), 200);
        let recent = times.recent(at(80_000));
        assert_eq!((recent.writes.count, recent.span), (2, Duration::from_millis(40_000)));
        assert!(close(recent.writes.p99, Duration::from_micros(200)));
        let all = times.since_start(at(80_000)).writes;
        assert_eq!((all.count, all.mean), (3, Duration::from_micros(400)));
        assert!(close(all.p99, Duration::from_micros(900)));
        let idle = times.recent(at(3_600_000)).writes.count + times.recent(at(3_700_000)).writes.count;
        assert_eq!((idle, times.recent(at(3_700_000)).writes.count), (1, 0));
    }

    #[test]
    fn times_of_an_earlier_device_are_not_recent() {
        let mut times = times();
        times.note(at(2_000), Class::Hit, 4096, Duration::from_micros(900));
        times.end_recent(at(3_000));
        times.note(at(4_000), Class::Hit, 4096, Duration::from_micros(100));
        let recent = times.recent(at(5_000));
        assert_eq!((recent.hits.count, recent.span), (1, Duration::from_millis(2_000)));
        assert_eq!(times.since_start(at(5_000)).hits.count, 2);
    }

    #[test]
    fn buckets_contain_the_times_of_all_intervals() {
        let mut times = times();
        for (seconds, micros) in [(2, 45), (40, 60), (41, 700), (200, 60)] {
            times.note(at(seconds * 1_000), Class::Flush, 0, Duration::from_micros(micros));
            times.note(at(seconds * 1_000), Class::Hit, 0, Duration::from_micros(20_000_000));
        }
        let Latencies { hits, misses, writes, flushes } = times.latencies();
        assert_eq!(flushes.counts[2..7], [1, 2, 0, 0, 1], "45 us; 60 us twice; 700 us");
        assert_eq!((flushes.total_nanos, flushes.count()), (865_000, 4));
        assert_eq!((hits.counts[19], hits.count(), misses.count(), writes.count()), (4, 4, 0, 0));
    }

    #[test]
    fn any_time_can_be_noted() {
        let mut times = times();
        times.note(at(2_000), Class::Miss, 1, Duration::from_nanos(0));
        times.note(at(2_000), Class::Miss, 1, Duration::from_nanos(u64::MAX));
        assert_eq!(times.since_start(at(3_000)).misses.count, 2);
    }
}
