//! The runs of fio that describe a device, and their results.

use kickcache_model::result::JobResult;

/// An access is late if it takes more than this many times as long as the median.
pub(super) const LATE: f64 = 5.0;

/// The parameters of one run of fio.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Probe {
    pub(super) name: &'static str,
    /// fio's name of the pattern.
    pub(super) pattern: &'static str,
    /// Bytes of an access, as fio writes them.
    pub(super) block: &'static str,
    pub(super) depth: u32,
    /// A flush behind each write.
    pub(super) flushes: bool,
}

const fn read(name: &'static str, pattern: &'static str, block: &'static str, depth: u32) -> Probe {
    Probe { name, pattern, block, depth, flushes: false }
}

/// Reads at random and in order.
pub(super) const READS: [Probe; READ_COUNT] = [
    read("4 KiB at random, one in flight", "randread", "4k", 1),
    read("4 KiB at random, 4 in flight", "randread", "4k", 4),
    read("4 KiB at random, 8 in flight", "randread", "4k", 8),
    read("4 KiB at random, 32 in flight", "randread", "4k", 32),
    read("1 MiB in order, one in flight", "read", "1m", 1),
    read("1 MiB in order, 4 in flight", "read", "1m", 4),
    read("16 KiB at random, 4 in flight", "randread", "16k", 4),
];

pub(super) const READ_COUNT: usize = 7;

/// Writes, then reads and writes together.
pub(super) const WRITES: [Probe; WRITE_COUNT] = [
    read("4 KiB written at random, one in flight", "randwrite", "4k", 1),
    read("4 KiB written at random, 8 in flight", "randwrite", "4k", 8),
    Probe {
        flushes: true,
        ..read("4 KiB written at random and flushed, one in flight", "randwrite", "4k", 1)
    },
    read("1 MiB written in order, 4 in flight", "write", "1m", 4),
    read("4 KiB, half writes, at random, 16 in flight", "randrw", "4k", 16),
];

pub(super) const WRITE_COUNT: usize = 5;

/// The results of one run. Times are in microseconds, from submission to completion.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct ProbeResult {
    pub(super) iops: f64,
    pub(super) bytes_per_second: f64,
    pub(super) p10: f64,
    pub(super) p50: f64,
    pub(super) p90: f64,
    pub(super) p99: f64,
    /// The part of the accesses that were late, and the mean time of the late accesses.
    pub(super) late: f64,
    pub(super) late_mean: f64,
}

impl ProbeResult {
    /// The figures of a run's accesses; `None` without accesses or time.
    #[expect(clippy::cast_precision_loss, reason = "latencies and counts are far below 2^53")]
    pub(super) fn of(job: &JobResult, seconds: f64) -> Option<ProbeResult> {
        let count = job.count() as f64;
        if count <= 0.0 || seconds <= 0.0 {
            return None;
        }
        let micros = |nanos: u64| nanos as f64 / 1_000.0;
        let latencies = job.latencies();
        let p50 = micros(latencies.p50());
        let late = latencies.counts().map(|(nanos, count)| (micros(nanos), count as f64));
        let late = late.filter(|late| late.0 > p50 * LATE);
        let (sum, late) = late.fold((0.0, 0.0), |sum, late| (sum.0 + late.0 * late.1, sum.1 + late.1));
        Some(ProbeResult {
            iops: count / seconds,
            bytes_per_second: job.bytes() as f64 / seconds,
            p10: micros(latencies.quantile(0.1)),
            p50,
            p90: micros(latencies.p90()),
            p99: micros(latencies.p99()),
            late: late / count,
            late_mean: if late > 0.0 { sum / late } else { 0.0 },
        })
    }

    /// # Panics
    /// If there is no run.
    pub(super) fn median(runs: &[ProbeResult]) -> ProbeResult {
        let of = |figure: fn(&ProbeResult) -> f64| {
            let mut figures: Vec<f64> = runs.iter().map(figure).collect();
            figures.sort_by(f64::total_cmp);
            figures[figures.len() / 2]
        };
        ProbeResult {
            iops: of(|run| run.iops),
            bytes_per_second: of(|run| run.bytes_per_second),
            p10: of(|run| run.p10),
            p50: of(|run| run.p50),
            p90: of(|run| run.p90),
            p99: of(|run| run.p99),
            late: of(|run| run.late),
            late_mean: of(|run| run.late_mean),
        }
    }
}

/// The same run of a device and of a model.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct RunPair {
    pub(super) probe: Probe,
    pub(super) measured: ProbeResult,
    pub(super) given: ProbeResult,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Runs {
    /// The results of [`READS`], in their order.
    pub(super) reads: [ProbeResult; READ_COUNT],
    /// The results of [`WRITES`], if there are any.
    pub(super) writes: Option<[ProbeResult; WRITE_COUNT]>,
}

impl Runs {
    /// Random reads: with one in flight, 4, 8 and 32.
    pub(super) fn random(&self) -> [ProbeResult; 4] {
        [self.reads[0], self.reads[1], self.reads[2], self.reads[3]]
    }

    pub(super) fn iops_max(&self) -> f64 {
        let writes = self.writes.iter().flatten();
        self.reads.iter().chain(writes).map(|run| run.iops).fold(0.0, f64::max)
    }

    /// The runs with their probes and the runs of a model.
    pub(super) fn beside(&self, other: &Runs) -> Vec<RunPair> {
        let beside = |probes: &[Probe], measured: &[ProbeResult], given: &[ProbeResult]| {
            let runs = measured.iter().zip(given).zip(probes);
            let beside = |((measured, given), probe): ((&ProbeResult, &ProbeResult), &Probe)| RunPair {
                probe: *probe,
                measured: *measured,
                given: *given,
            };
            runs.map(beside).collect::<Vec<_>>()
        };
        let mut pairs = beside(&READS, &self.reads, &other.reads);
        if let (Some(own), Some(other)) = (&self.writes, &other.writes) {
            pairs.extend(beside(&WRITES, own, other));
        }
        pairs
    }
}
