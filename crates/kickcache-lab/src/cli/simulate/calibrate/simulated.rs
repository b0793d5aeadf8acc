//! The probes on a model of a device.

use std::time::Duration as Span;

use kickcache_engine::time::{Duration, Instant};
use kickcache_model::cache_model::bare::Bare;
use kickcache_model::device_model::device_file::{DeviceFile, DeviceKind};
use kickcache_model::replay::bench::{Course, run};
use kickcache_model::replay::devices::Devices;
use kickcache_model::result::JobResult;
use kickcache_model::workload::fio::FioWorkload;

use crate::cli::simulate::calibrate::probe::{Probe, ProbeResult, READS, Runs, WRITE_COUNT, WRITES};

/// Intended accesses of a run of 4 KiB each.
const ACCESSES: f64 = 5_000.0;
/// Intended accesses of a run of longer accesses.
const LONG_ACCESSES: f64 = 300.0;
/// The longest virtual time of a run.
const LONGEST: Span = Span::from_secs(60);

#[derive(Clone, Copy, Debug)]
pub(super) struct Bench {
    pub(super) bytes: u64,
    /// Processor time of an access, in microseconds.
    pub(super) access_cost: f64,
    /// The shortest virtual time of a run.
    pub(super) shortest: Span,
}

impl Bench {
    /// The results of a model for the probes of `expected`, which are approximate results.
    pub(super) fn runs(&self, kind: &DeviceKind, expected: &Runs) -> Runs {
        let reads = std::array::from_fn(|index| self.probe(kind, READS[index], expected.reads[index].iops));
        let writes = |expected: [ProbeResult; WRITE_COUNT]| {
            std::array::from_fn(|index| self.probe(kind, WRITES[index], expected[index].iops))
        };
        Runs { reads, writes: expected.writes.map(writes) }
    }

    /// # Panics
    /// Never: the job files are right.
    pub(super) fn probe(&self, kind: &DeviceKind, probe: Probe, iops: f64) -> ProbeResult {
        let accesses = if probe.block == "4k" { ACCESSES } else { LONG_ACCESSES };
        let span = Span::try_from_secs_f64(accesses / iops.max(1e-3)).unwrap_or(LONGEST);
        let span = span.clamp(self.shortest, LONGEST);
        let Probe { pattern, block, depth, flushes, .. } = probe;
        let flushes = if flushes { "fsync=1\n" } else { "" };
        let job = format!(
            "[calibrate]\nioengine=libaio\nrw={pattern}\nbs={block}\niodepth={depth}\nsize={}\nnorandommap\n\
             time_based\nruntime=3600\n{flushes}",
            self.bytes >> 20 << 20
        );
        let mut load = FioWorkload::parse(&job, 1).expect("the job is right");
        let device = DeviceFile { name: String::new(), access_cost: None, kind: *kind }.start(1);
        let length = Duration::from_nanos(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX));
        let cost = cost(self.access_cost);
        let course = Course { start: Instant::ZERO, length, cost, ..Course::default() };
        let result = run(course, &mut load, &mut Bare::default(), &mut Devices::bare(device), &mut |_| ());
        ProbeResult::of(&result.jobs[0], span.as_secs_f64()).unwrap_or_else(|| nothing(span))
    }
}

/// The result if no access ended.
fn nothing(span: Span) -> ProbeResult {
    let mut one = JobResult::new("", 1);
    (one.reads.count, one.reads.bytes) = (1, 1);
    let mut least = ProbeResult::of(&one, span.as_secs_f64()).expect("there is one");
    (least.p10, least.p50, least.p90, least.p99) = (1e9, 1e9, 1e9, 1e9);
    least
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates, and costs are short")]
pub(crate) fn cost(micros: f64) -> Duration {
    Duration::from_nanos((micros * 1_000.0) as u64)
}
