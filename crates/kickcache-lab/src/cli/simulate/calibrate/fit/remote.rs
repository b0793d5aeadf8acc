//! A disk behind a network.

use kickcache_model::device_model::device_file::DeviceKind;
use kickcache_model::device_model::remote::RemoteParameters;

use crate::cli::simulate::calibrate::digits::three_digits;
use crate::cli::simulate::calibrate::fit::distance::model_distance;
use crate::cli::simulate::calibrate::probe::{ProbeResult, READS, Runs, WRITE_COUNT, WRITES};
use crate::cli::simulate::calibrate::search::least;
use crate::cli::simulate::calibrate::simulated::Bench;

/// If a device with 32 in flight does less than this share of 32 times its rate with one, it has a width.
const LIMITED: f64 = 0.85;
/// A rate above all measured ones, in operations a second.
const NO_LIMIT: f64 = 1e6;

pub(super) fn describe(measured: &Runs, bench: &Bench) -> DeviceKind {
    let start = guess(measured);
    let model = |figures: &[f64; 4]| {
        let [read_median, sigma, stream_bandwidth, bandwidth] = *figures;
        RemoteParameters { read_median, sigma: sigma.min(2.0), stream_bandwidth, bandwidth, ..start }
    };
    let begin = [start.read_median, start.sigma, start.stream_bandwidth, start.bandwidth];
    let figures = least(begin, |figures| {
        let kind = DeviceKind::Remote(model(figures));
        model_distance(bench, &kind, READS.into_iter().zip(&measured.reads))
    });
    let remote = model(&figures);
    let remote = measured.writes.map_or(remote, |writes| with_writes(remote, &writes, bench));
    DeviceKind::Remote(rounded(remote))
}

fn guess(measured: &Runs) -> RemoteParameters {
    let [single, .., deep] = measured.random();
    let deepest = f64::from(READS[3].depth);
    let parallel = deep.iops / single.iops;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "1 to 32")]
    let width = if parallel < LIMITED * deepest { parallel.round().max(1.0) as u32 } else { 0 };
    let [one, four] = [measured.reads[4], measured.reads[5]];
    let transfer = (one.p50 - single.p50).max(1.0);
    // Accesses that are late with one in flight.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 1000")]
    let tail_permille = (single.late * 1_000.0).round() as u64;
    let tail_factor = if tail_permille > 0 { three_digits(single.late_mean / single.p50) } else { 1.0 };
    RemoteParameters {
        read_median: single.p50.max(1.0),
        write_median: single.p50.max(1.0),
        flush: 0.0,
        sigma: ((single.p90 / single.p50).ln() / 1.28).clamp(0.01, 1.0),
        tail_permille,
        tail_factor,
        stream_bandwidth: (1_048_576.0 / transfer).max(0.1),
        bandwidth: (2.0 * four.bytes_per_second / 1e6).max(0.1),
        iops: NO_LIMIT,
        width,
    }
}

/// Adds the median of writes, and the additional time of a flush after its write.
fn with_writes(
    remote: RemoteParameters,
    writes: &[ProbeResult; WRITE_COUNT],
    bench: &Bench,
) -> RemoteParameters {
    let [median] = least([writes[0].p50.max(0.5)], |[write_median]| {
        let kind = DeviceKind::Remote(RemoteParameters { write_median: *write_median, ..remote });
        model_distance(bench, &kind, WRITES.into_iter().zip(writes).take(2))
    });
    let flush = (1e6 / writes[2].iops - 1e6 / writes[0].iops).max(0.0);
    RemoteParameters { write_median: median, flush, ..remote }
}

fn rounded(remote: RemoteParameters) -> RemoteParameters {
    RemoteParameters {
        read_median: three_digits(remote.read_median),
        write_median: three_digits(remote.write_median),
        flush: three_digits(remote.flush),
        sigma: three_digits(remote.sigma),
        stream_bandwidth: three_digits(remote.stream_bandwidth),
        bandwidth: three_digits(remote.bandwidth),
        ..remote
    }
}
