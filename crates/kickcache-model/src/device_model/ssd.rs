//! A flash disk: a bus that carries one transfer at a time, many dies, and a log-normal latency with a tail.
//!
//! Leaves out garbage collection, wear and the difference between a fresh and a full drive.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use kickcache_engine::time::{Instant, earlier};
use kickcache_engine::units::BLOCK_SIZE;
use kickcache_random::Random;
use serde::{Deserialize, Serialize};

use crate::device_model::pauses::Pauses;
use crate::device_model::{DeviceModel, Endings, Figures, ModelOperation, ModelRequest, Range, bytes, span};

/// Bytes that a transfer moves before another one has its turn.
const TURN_BYTES: u64 = 64 << 10;
const WRITTEN: u64 = 1 << 63;
const FACTOR_STEPS: u32 = 64;

/// Times are in microseconds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SsdParameters {
    /// The controller's time for each command.
    pub command: f64,
    /// Bytes a microsecond over the bus.
    pub bandwidth: f64,
    /// As `bandwidth`, for writes; if it is missing, `bandwidth` applies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_bandwidth: Option<f64>,
    pub dies: usize,
    /// The part of a read's time in which its die cannot do anything else.
    pub die_share: f64,
    /// Median time of a read of any length, without the bus, crowding and the wait for its die.
    pub read_median: f64,
    /// Median time of a write of any length to the drive's buffer, without the bus and crowding.
    pub write_median: f64,
    /// Spread of the logarithm of the times of reads and writes.
    pub sigma: f64,
    /// The time that each read or flush in flight adds to a read; to a write it adds the part `mixing` of
    /// this.
    pub crowding: f64,
    /// The time that each write in flight adds to a write; to a read it adds the part `mixing` of this. If it
    /// is missing, `crowding` applies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_crowding: Option<f64>,
    /// The increase of each other operation's addition for each KiB of an access from the fifth to the 64th.
    #[serde(skip_serializing_if = "is_zero")]
    pub wide_crowding: f64,
    /// The factor for operations of the other kind, reads against writes: 1 as much as their own kind, 0 no
    /// effect.
    #[serde(skip_serializing_if = "is_one")]
    pub mixing: f64,
    /// Accesses of 1,000 that take longer than the log-normal distribution gives.
    pub tail_permille: u64,
    /// The additional time of a read in the tail, and of a write in the tail if `write_tail_time`
    /// is missing.
    pub tail_time: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_tail_time: Option<f64>,
    /// Mean time between two pauses of all of the disk; 0 if it makes none.
    pub pause_every: f64,
    /// The longest pause; all lengths up to it are equally likely.
    pub pause_max: f64,
    /// Time of a flush, and the additional time of a durable write.
    pub flush: f64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_zero(figure: &f64) -> bool {
    figure.total_cmp(&0.0).is_eq()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_one(figure: &f64) -> bool {
    figure.total_cmp(&1.0).is_eq()
}

impl Default for SsdParameters {
    fn default() -> SsdParameters {
        SsdParameters::articles()
    }
}

impl SsdParameters {
    pub(crate) fn figures(&self) -> Figures {
        use Range::{Count, NotNegative, Positive, UpTo};
        vec![
            ("command", self.command, NotNegative),
            ("bandwidth", self.bandwidth, Positive),
            ("write_bandwidth", self.write_bandwidth.unwrap_or(self.bandwidth), Positive),
            ("dies", bytes(self.dies as u64), Count(65_536)),
            ("die_share", self.die_share, UpTo(1.0)),
            ("read_median", self.read_median, NotNegative),
            ("write_median", self.write_median, NotNegative),
            ("sigma", self.sigma, UpTo(5.0)),
            ("crowding", self.crowding, NotNegative),
            ("write_crowding", self.write_crowding.unwrap_or(self.crowding), NotNegative),
            ("wide_crowding", self.wide_crowding, NotNegative),
            ("mixing", self.mixing, UpTo(1.0)),
            ("tail_permille", bytes(self.tail_permille), UpTo(1_000.0)),
            ("tail_time", self.tail_time, NotNegative),
            ("write_tail_time", self.write_tail_time.unwrap_or(self.tail_time), NotNegative),
            ("pause_every", self.pause_every, NotNegative),
            ("pause_max", self.pause_max, NotNegative),
            ("flush", self.flush, NotNegative),
        ]
    }

    /// The drive of the articles, fitted to their rows of the bare drive.
    pub const fn articles() -> SsdParameters {
        SsdParameters {
            command: 1.0,
            bandwidth: 600.0,
            write_bandwidth: None,
            dies: 7,
            die_share: 0.4,
            read_median: 97.0,
            write_median: 40.0,
            sigma: 0.22,
            crowding: 0.0,
            write_crowding: None,
            wide_crowding: 0.0,
            mixing: 1.0,
            tail_permille: 0,
            tail_time: 0.0,
            write_tail_time: None,
            pause_every: 0.0,
            pause_max: 0.0,
            flush: 300.0,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Rest {
    at: Instant,
    order: u64,
    token: u64,
    operation: ModelOperation,
    length: u64,
    /// The time after the transfer, in nanoseconds.
    tail: u64,
}

#[derive(Clone, Copy, Debug)]
struct Luck {
    factor: f64,
    is_in_tail: bool,
}

#[derive(Clone, Debug)]
pub struct Ssd {
    parameters: SsdParameters,
    random: Random,
    lucks: Vec<Luck>,
    bus_free: Instant,
    dies_free: Vec<Instant>,
    rests: BinaryHeap<Reverse<Rest>>,
    rest_count: u64,
    reads_in_flight: u32,
    writes_in_flight: u32,
    pauses: Pauses,
    endings: Endings,
}

fn is_written(operation: ModelOperation) -> bool {
    matches!(operation, ModelOperation::Write | ModelOperation::WriteDurable)
}

fn lucks(SsdParameters { sigma, tail_permille, .. }: &SsdParameters) -> Vec<Luck> {
    let middle = |step: u32| (f64::from(step) + 0.5) / f64::from(FACTOR_STEPS);
    let normal = |(radius, angle): (u32, u32)| {
        (-2.0 * middle(radius).ln()).sqrt() * (std::f64::consts::TAU * middle(angle)).cos()
    };
    let steps = (0..FACTOR_STEPS).flat_map(|radius| (0..FACTOR_STEPS).map(move |angle| (radius, angle)));
    let tails =
        (1..).map(|index: u64| (index * tail_permille) / 1_000 > ((index - 1) * tail_permille) / 1_000);
    steps
        .zip(tails)
        .map(|(step, is_in_tail)| Luck { factor: (sigma * normal(step)).exp(), is_in_tail })
        .collect()
}

impl Ssd {
    pub fn new(parameters: SsdParameters, seed: u64) -> Ssd {
        Ssd {
            parameters,
            random: Random::new(seed),
            lucks: lucks(&parameters),
            bus_free: Instant::ZERO,
            dies_free: vec![Instant::ZERO; parameters.dies.max(1)],
            rests: BinaryHeap::new(),
            rest_count: 0,
            reads_in_flight: 0,
            writes_in_flight: 0,
            pauses: Pauses::new(parameters.pause_every, parameters.pause_max, seed),
            endings: Endings::default(),
        }
    }

    fn luck(&mut self) -> Luck {
        let index = self.random.index(self.lucks.len());
        self.lucks[index]
    }

    fn tail_time(&self, operation: ModelOperation) -> f64 {
        let SsdParameters { tail_time, write_tail_time, .. } = self.parameters;
        if is_written(operation) { write_tail_time.unwrap_or(tail_time) } else { tail_time }
    }

    fn turn_time(&self, operation: ModelOperation, length: u64) -> f64 {
        let SsdParameters { bandwidth, write_bandwidth, .. } = self.parameters;
        let bandwidth = match operation {
            ModelOperation::Read | ModelOperation::Flush => bandwidth,
            ModelOperation::Write | ModelOperation::WriteDurable => write_bandwidth.unwrap_or(bandwidth),
        };
        bytes(length.min(TURN_BYTES)) / bandwidth
    }

    fn crowd(&self, operation: ModelOperation, length: u64) -> f64 {
        let SsdParameters { crowding, write_crowding, wide_crowding, mixing, .. } = self.parameters;
        let (reads, writes) = (f64::from(self.reads_in_flight), f64::from(self.writes_in_flight));
        let (reads, writes) =
            if is_written(operation) { (mixing * reads, writes) } else { (reads, mixing * writes) };
        let wide = bytes(length.min(TURN_BYTES).saturating_sub(BLOCK_SIZE)) / 1024.0;
        crowding * reads
            + write_crowding.unwrap_or(crowding) * writes
            + wide_crowding * wide * (reads + writes)
    }

    fn take_turn(&mut self, now: Instant, time: f64) -> Instant {
        self.bus_free = now.max(self.bus_free).plus(span(time));
        self.bus_free
    }

    fn advance(&mut self, now: Instant) {
        while let Some(Reverse(rest)) = self.rests.peek().copied().filter(|rest| rest.0.at <= now) {
            self.rests.pop();
            let passed = self.take_turn(rest.at, self.turn_time(rest.operation, rest.length));
            self.pass_on(passed, Rest { length: rest.length.saturating_sub(TURN_BYTES), ..rest });
        }
    }

    fn pass_on(&mut self, passed: Instant, rest: Rest) {
        let passed = self.pauses.delay(rest.at, passed);
        if rest.length == 0 {
            let end = passed.plus(kickcache_engine::time::Duration::from_nanos(rest.tail));
            self.endings.push(self.pauses.delay(passed, end), rest.token);
            return;
        }
        self.rest_count += 1;
        self.rests.push(Reverse(Rest { at: passed, order: self.rest_count, ..rest }));
    }

    fn die_time(&mut self, at: Instant, factor: f64) -> f64 {
        let time = self.parameters.read_median * factor;
        let die = self.random.index(self.dies_free.len());
        let wait = self.dies_free[die].since(at);
        self.dies_free[die] = at.max(self.dies_free[die]).plus(span(self.parameters.die_share * time));
        super::micros_of(wait) + time
    }
}

impl DeviceModel for Ssd {
    fn submit(&mut self, now: Instant, request: ModelRequest) {
        self.advance(now);
        self.pauses.forget(now);
        let operation = request.operation;
        let length = if operation == ModelOperation::Flush { 0 } else { request.length };
        let passed = self.take_turn(now, self.parameters.command + self.turn_time(operation, length));
        let flush = self.parameters.flush;
        let crowd = self.crowd(operation, length);
        let tail = if operation == ModelOperation::Flush {
            flush
        } else {
            let Luck { factor, is_in_tail } = self.luck();
            let more = if is_in_tail { self.tail_time(operation) } else { 0.0 };
            more + crowd * factor
                + match operation {
                    ModelOperation::Read => self.die_time(passed, factor),
                    ModelOperation::WriteDurable => self.parameters.write_median * factor + flush,
                    ModelOperation::Write | ModelOperation::Flush => self.parameters.write_median * factor,
                }
        };
        let length = length.saturating_sub(TURN_BYTES);
        let tail = span(tail).as_nanos();
        let token = if is_written(operation) {
            self.writes_in_flight += 1;
            request.token | WRITTEN
        } else {
            self.reads_in_flight += 1;
            request.token
        };
        self.pass_on(passed, Rest { at: now, order: 0, token, operation, length, tail });
    }

    fn next_event(&self) -> Option<Instant> {
        let rest = self.rests.peek().map(|rest| rest.0.at);
        earlier(self.endings.next(), rest)
    }

    fn poll(&mut self, now: Instant) -> Option<u64> {
        if !self.rests.is_empty() {
            self.advance(now);
        }
        let token = self.endings.pop(now)?;
        if token & WRITTEN == 0 {
            self.reads_in_flight -= 1;
        } else {
            self.writes_in_flight -= 1;
        }
        Some(token & !WRITTEN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device_model::load::{Load, run};

    #[test]
    fn the_drive_of_the_articles_slows_down_gently_with_depth() {
        let latency = |depth: u64| {
            let mut ssd = Ssd::new(SsdParameters::articles(), 1);
            run(&mut ssd, &Load { depth, count: 50_000, ..Load::default() }).percentile(50.0)
        };
        assert!((100.0..120.0).contains(&latency(1)), "{}", latency(1));
        assert!((115.0..150.0).contains(&latency(16)), "{}", latency(16));
    }

    #[test]
    fn a_long_write_does_not_keep_short_reads_waiting() {
        let mut ssd = Ssd::new(SsdParameters::articles(), 1);
        let request = |operation, length, token| ModelRequest { operation, offset: 0, length, token };
        ssd.submit(Instant::ZERO, request(ModelOperation::Write, 8 << 20, 1));
        ssd.submit(Instant::ZERO, request(ModelOperation::Read, 4096, 2));
        let mut ended = Vec::new();
        while let Some(now) = ssd.next_event() {
            ended.extend(std::iter::from_fn(|| ssd.poll(now)).map(|token| (token, now.as_nanos() / 1000)));
        }
        assert_eq!(ended.iter().map(|end| end.0).collect::<Vec<_>>(), [2, 1]);
        assert!(ended[0].1 < 500, "the read took {} us", ended[0].1);
        assert!((14_000..16_000).contains(&ended[1].1), "the write took {} us", ended[1].1);
    }

    #[test]
    fn each_other_operation_in_flight_adds_the_crowding() {
        let median = |depth: u64| {
            let quick =
                SsdParameters { command: 0.1, bandwidth: 1e5, dies: 4_096, ..SsdParameters::articles() };
            let mut ssd = Ssd::new(SsdParameters { crowding: 12.0, ..quick }, 1);
            run(&mut ssd, &Load { depth, count: 50_000, ..Load::default() }).percentile(50.0)
        };
        assert!((95.0..100.0).contains(&median(1)), "{}", median(1));
        assert!((176.0..186.0).contains(&median(8)), "{}", median(8));
        assert!((455.0..480.0).contains(&median(32)), "{}", median(32));
    }

    #[test]
    fn wide_accesses_are_crowded_more_and_mixing_scales_writes() {
        let quick = SsdParameters { command: 0.1, bandwidth: 1e5, dies: 4_096, ..SsdParameters::articles() };
        let crowded = SsdParameters { crowding: 12.0, wide_crowding: 1.0, ..quick };
        let time = |parameters: SsdParameters, length: u64, others: ModelOperation| {
            let mut ssd = Ssd::new(SsdParameters { sigma: 0.0, ..parameters }, 1);
            let request = |operation, length, token| ModelRequest { operation, offset: 0, length, token };
            (0..4).for_each(|token| ssd.submit(Instant::ZERO, request(others, 4096, token)));
            ssd.submit(Instant::ZERO, request(ModelOperation::Read, length, 9));
            loop {
                let now = ssd.next_event().unwrap();
                if std::iter::from_fn(|| ssd.poll(now)).any(|token| token == 9) {
                    return crate::device_model::micros_of(now.since(Instant::ZERO));
                }
            }
        };
        let alone = time(quick, 4_096, ModelOperation::Read);
        let near = |found: f64, wanted: f64| {
            assert!((found - alone - wanted).abs() < 2.0, "{found} {alone} {wanted}");
        };
        near(time(crowded, 4_096, ModelOperation::Read), 48.0);
        near(time(crowded, 16_384, ModelOperation::Read), 96.0);
        near(time(crowded, 1 << 16, ModelOperation::Read), 288.0);
        near(time(crowded, 4_096, ModelOperation::Write), 48.0);
        near(time(SsdParameters { mixing: 0.25, ..crowded }, 4_096, ModelOperation::Write), 12.0);
        near(
            time(SsdParameters { write_crowding: Some(30.0), ..crowded }, 4_096, ModelOperation::Write),
            120.0,
        );
    }

    #[test]
    fn a_pause_keeps_all_waiting_that_is_in_flight() {
        let paused = SsdParameters { pause_every: 25_000.0, pause_max: 4_000.0, ..SsdParameters::articles() };
        let rate = |parameters, depth: u64| {
            let mut ssd = Ssd::new(parameters, 1);
            run(&mut ssd, &Load { depth, count: 200_000, ..Load::default() })
        };
        let (with, without) = (rate(paused, 8), rate(SsdParameters::articles(), 8));
        // Of each 27 ms, 2 are pauses, on average.
        assert!((0.91..0.94).contains(&(with.rate / without.rate)), "{} {}", with.rate, without.rate);
        assert!(with.percentile(50.0) < without.percentile(50.0) * 1.01);
        let slow = |percent: f64| with.percentile(percent) > 500.0;
        assert!(!slow(99.4) && slow(99.7), "{} {}", with.percentile(99.4), with.percentile(99.7));
        assert!(with.percentile(99.999) < 5_000.0);
    }
}
