//! A flash disk.

use std::array::from_fn;

use kickcache_model::device_model::device_file::DeviceKind;
use kickcache_model::device_model::ssd::SsdParameters;

use crate::cli::simulate::calibrate::digits::three_digits;
use crate::cli::simulate::calibrate::fit::distance::model_distance;
use crate::cli::simulate::calibrate::probe::{LATE, Probe, ProbeResult, READS, Runs, WRITE_COUNT, WRITES};
use crate::cli::simulate::calibrate::search::least;
use crate::cli::simulate::calibrate::simulated::Bench;

/// The least length of the longest pause, in medians of a read.
const PAUSE_LEAST: f64 = 1.5 * LATE;
/// The start of the search for the crowding of a KiB, in microseconds.
const WIDE_CROWDING: f64 = 0.1;
/// Fewer late accesses than this part of all are no pauses.
const LATE_LEAST: f64 = 1e-4;
/// If pauses make more than this part of the accesses late, the 99th percentile includes pauses.
const LATE_IN_P99: f64 = 0.005;
/// Accesses of 1,000 that are in the tail.
const TAIL_PERMILLE: u64 = 25;
/// A tail of less than this part of the median read time is ignored.
const TAIL_LEAST: f64 = 0.05;

pub(super) fn describe(measured: &Runs, bench: &Bench) -> DeviceKind {
    let guessed = guess(measured);
    let unpaused = without_pauses(measured, &guessed);
    let start = SsdParameters { pause_every: 0.0, ..guessed };
    let model = |figures: &[f64; 7]| {
        let [read_median, sigma, command, crowding, bandwidth, wide_crowding, tail_time] = *figures;
        SsdParameters {
            read_median,
            sigma: sigma.min(2.0),
            command,
            crowding,
            bandwidth,
            wide_crowding,
            tail_permille: TAIL_PERMILLE,
            tail_time,
            ..start
        }
    };
    let SsdParameters { read_median, sigma, command, crowding, bandwidth, tail_time, .. } = start;
    let begin = [read_median, sigma, command, crowding, bandwidth, WIDE_CROWDING, tail_time];
    let figures = least(begin, |figures| {
        let kind = DeviceKind::Ssd(model(figures));
        model_distance(bench, &kind, READS.into_iter().zip(&unpaused.reads))
    });
    let ssd = without_short_tail(model(&figures));
    let ssd = unpaused.writes.map_or(ssd, |writes| with_writes(ssd, &writes, bench));
    DeviceKind::Ssd(rounded(SsdParameters { pause_every: guessed.pause_every, ..ssd }))
}

fn guess(measured: &Runs) -> SsdParameters {
    let textbook = SsdParameters::articles();
    let [single, few, _, deep] = measured.random();
    let read_median = (single.p50 * 0.9).max(0.5);
    // Enough dies for twice the observed rate, so that the dies do not limit it.
    let dies = (2.0 * deep.iops * textbook.die_share * read_median / 1e6).ceil().clamp(7.0, 1_024.0);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "7 to 1024")]
    let dies = dies as usize;
    let Pauses { every: pause_every, longest: pause_max } = pauses(&measured.random());
    let bytes_per_second = measured.reads.iter().map(|run| run.bytes_per_second).fold(0.0, f64::max);
    SsdParameters {
        dies,
        read_median,
        bandwidth: (bytes_per_second / 1e6).max(1.0),
        command: (0.5e6 / deep.iops).max(0.05),
        crowding: ((few.p50 - single.p50) / 3.0).max(0.05),
        sigma: ((single.p90 / single.p50).ln() / 1.28).clamp(0.02, 1.0),
        tail_time: (single.p99 - single.p90).max(1.0),
        pause_every,
        pause_max,
        ..textbook
    }
}

/// The mean time between two pauses, and the longest, in microseconds; both are 0 without pauses.
#[derive(Clone, Copy, Debug)]
struct Pauses {
    every: f64,
    longest: f64,
}

/// The pauses that one run shows.
#[derive(Clone, Copy, Debug)]
struct PauseSample {
    a_second: f64,
    longest: f64,
}

/// The pauses of the whole disk. Every access in flight waits for a pause, so the late accesses are divided by the
/// number in flight. Lengths are assumed to be spread evenly from 0 on.
fn pauses(random: &[ProbeResult; 4]) -> Pauses {
    let seen = |(run, probe): (&ProbeResult, Probe)| {
        let bound = (LATE - 1.0) * run.p50;
        let longest = 2.0 * (run.late_mean - run.p50) - bound;
        let can_tell = run.late >= LATE_LEAST && longest >= PAUSE_LEAST * run.p50;
        let a_second = run.late * run.iops / f64::from(probe.depth) / (1.0 - bound / longest);
        can_tell.then_some(PauseSample { a_second, longest })
    };
    let mut seen: Vec<PauseSample> = random.iter().zip(READS).filter_map(seen).collect();
    seen.sort_by(|one, other| one.a_second.total_cmp(&other.a_second));
    // A single run may have met another effect than the disk's.
    if seen.len() < 2 {
        return Pauses { every: 0.0, longest: 0.0 };
    }
    let a_second = seen[(seen.len() - 1) / 2].a_second;
    let lengths: f64 = seen.iter().map(|run| run.a_second * run.longest).sum();
    let longest = lengths / seen.iter().map(|run| run.a_second).sum::<f64>();
    Pauses { every: (1e6 / a_second - longest / 2.0).max(longest / 2.0), longest }
}

fn without_pauses(measured: &Runs, ssd: &SsdParameters) -> Runs {
    let mean = ssd.pause_max / 2.0;
    let working = if ssd.pause_every > 0.0 { ssd.pause_every / (ssd.pause_every + mean) } else { 1.0 };
    let unpaused = |run: &ProbeResult, probe: &Probe| ProbeResult {
        iops: run.iops / working,
        bytes_per_second: run.bytes_per_second / working,
        // The p99 of a log-normal distribution with this p50 and p90.
        p99: if late_by_pauses(run, probe.depth, ssd) > LATE_IN_P99 {
            run.p99.min(run.p50 * (run.p90 / run.p50).powf(1.815))
        } else {
            run.p99
        },
        ..*run
    };
    let writes =
        |runs: &[ProbeResult; WRITE_COUNT]| from_fn(|number| unpaused(&runs[number], &WRITES[number]));
    Runs {
        reads: from_fn(|number| unpaused(&measured.reads[number], &READS[number])),
        writes: measured.writes.as_ref().map(writes),
    }
}

/// The part of the accesses of a run that are late because the whole disk pauses.
fn late_by_pauses(run: &ProbeResult, depth: u32, ssd: &SsdParameters) -> f64 {
    let bound = (LATE - 1.0) * run.p50;
    if ssd.pause_every <= 0.0 || ssd.pause_max <= bound {
        return 0.0;
    }
    let long_a_second = 1e6 / (ssd.pause_every + ssd.pause_max / 2.0) * (1.0 - bound / ssd.pause_max);
    long_a_second * f64::from(depth) / run.iops
}

fn without_short_tail(ssd: SsdParameters) -> SsdParameters {
    if ssd.tail_time >= TAIL_LEAST * ssd.read_median {
        return ssd;
    }
    SsdParameters { tail_permille: 0, tail_time: 0.0, ..ssd }
}

/// Adds the figures of writes, of mixed reads and writes, and of flushes.
fn with_writes(ssd: SsdParameters, writes: &[ProbeResult; WRITE_COUNT], bench: &Bench) -> SsdParameters {
    let [single, several, flushed, long, mixed] = writes;
    let model = |[write_median, crowding, bandwidth, tail_time]: &[f64; 4]| SsdParameters {
        write_median: *write_median,
        write_crowding: Some(*crowding),
        write_bandwidth: Some(*bandwidth),
        write_tail_time: (ssd.tail_permille > 0).then_some(*tail_time),
        ..ssd
    };
    let begin = [
        single.p50.max(0.5),
        ((several.p50 - single.p50) / f64::from(WRITES[1].depth - 1)).max(0.05),
        (long.bytes_per_second / 1e6).max(1.0),
        (single.p99 - single.p90).max(1.0),
    ];
    let figures = least(begin, |figures| {
        let kind = DeviceKind::Ssd(model(figures));
        let unmixed = WRITES.into_iter().zip(writes).take(WRITE_COUNT - 1);
        model_distance(bench, &kind, unmixed.filter(|(probe, _)| !probe.flushes))
    });
    let written = model(&figures);
    let with_mixing = |mixing: f64| SsdParameters { mixing: mixing.min(1.0), ..written };
    let [mixing] = least([0.5], |[mixing]| {
        let kind = DeviceKind::Ssd(with_mixing(*mixing));
        model_distance(bench, &kind, std::iter::once((WRITES[WRITE_COUNT - 1], mixed)))
    });
    let flush = (1e6 / flushed.iops - 1e6 / single.iops).max(0.0);
    SsdParameters { flush, ..with_mixing(mixing) }
}

fn rounded(ssd: SsdParameters) -> SsdParameters {
    SsdParameters {
        command: three_digits(ssd.command),
        bandwidth: three_digits(ssd.bandwidth),
        read_median: three_digits(ssd.read_median),
        write_median: three_digits(ssd.write_median),
        sigma: three_digits(ssd.sigma),
        crowding: three_digits(ssd.crowding),
        write_bandwidth: ssd.write_bandwidth.map(three_digits),
        write_crowding: ssd.write_crowding.map(three_digits),
        wide_crowding: three_digits(ssd.wide_crowding),
        mixing: three_digits(ssd.mixing),
        tail_time: three_digits(ssd.tail_time),
        write_tail_time: ssd.write_tail_time.map(three_digits),
        pause_every: three_digits(ssd.pause_every),
        pause_max: three_digits(ssd.pause_max),
        flush: three_digits(ssd.flush),
        ..ssd
    }
}
