//! The verdict of `kickcache simulate run` and `compare`: the fastest cache of each size.

use kickcache_model::cache_model::cache_kind::CacheKind;
use kickcache_model::result::{Pacing, RunResult};
use kickcache_model::statistics::comparison::show_factor;
use kickcache_units::{Size, show_bytes, show_whole};

use crate::cli::simulate::compared_runs::ComparedRuns;

/// A cache that is faster by less than this factor counts as equally fast.
const CLEAR: f64 = 1.05;

pub(crate) fn sentences(kinds: &[ComparedRuns<'_>]) -> Vec<String> {
    let mut sizes: Vec<Size> = kinds.iter().filter_map(|kind| kind.size).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let is_open = kinds.iter().flat_map(|kind| kind.runs).all(|run| run.pacing == Pacing::Open);
    let measure = if is_open { Measure::MeanLatency } else { Measure::Rate };
    let of_size = |size: Size| {
        let own = kinds.iter().filter(|kind| kind.size.is_none_or(|own| own == size)).collect();
        sentence(own, measure, (sizes.len() > 1).then_some(size))
    };
    if sizes.is_empty() {
        return sentence(kinds.iter().collect(), measure, None).into_iter().collect();
    }
    sizes.iter().filter_map(|size| of_size(*size)).collect()
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Measure {
    /// Operations a second.
    Rate,
    /// The mean latency of a load at fixed times.
    MeanLatency,
}

impl Measure {
    /// How fast a cache is: more is better.
    fn speed(self, kind: &ComparedRuns<'_>) -> f64 {
        match self {
            Measure::Rate => kind.median(RunResult::iops),
            Measure::MeanLatency => 1e9 / kind.median(|run| run.latencies().mean()).max(f64::MIN_POSITIVE),
        }
    }

    fn show(self, kind: &ComparedRuns<'_>) -> String {
        match self {
            Measure::Rate => format!("{} IOPS", show_whole(self.speed(kind))),
            Measure::MeanLatency => format!("a mean latency of {:.2} ms", 1e3 / self.speed(kind)),
        }
    }
}

/// `None` without a measured run.
fn sentence(mut kinds: Vec<&ComparedRuns<'_>>, measure: Measure, size: Option<Size>) -> Option<String> {
    kinds.retain(|kind| kind.runs.iter().any(|run| run.count() > 0));
    kinds.sort_by(|one, other| measure.speed(other).total_cmp(&measure.speed(one)));
    let best = *kinds.first()?;
    let figure = measure.show(best);
    let size = size.map_or_else(String::new, |size| format!("{}: ", show_bytes(size.bytes())));
    let times = |other: &ComparedRuns<'_>| {
        let factor = show_factor(measure.speed(best) / measure.speed(other).max(f64::MIN_POSITIVE));
        format!("{factor} times as fast as {}", name(other))
    };
    let close: Vec<&str> = kinds[1..]
        .iter()
        .take_while(|kind| measure.speed(best) < CLEAR * measure.speed(kind))
        .map(|kind| name(kind))
        .collect();
    let bare = kinds[1..].iter().find(|kind| kind.cache == CacheKind::None);
    let verdict = match (kinds.get(1 + close.len()), close.is_empty()) {
        (None, true) => format!("{}: {figure}", name(best)),
        (None, false) => {
            format!("{} and {} are equally fast within 5 %: {figure}", name(best), close.join(", "))
        }
        (Some(next), true) => format!("{} is the fastest: {figure}, {}", name(best), times(next)),
        (Some(next), false) => {
            let equals = close.join(", ");
            format!("{} is the fastest, with {equals} within 5 %: {figure}, {}", name(best), times(next))
        }
    };
    let is_named = kinds.get(1 + close.len()).is_none_or(|next| next.cache == CacheKind::None);
    let bare = bare.filter(|_| !is_named).map_or_else(String::new, |bare| format!(", {}", times(bare)));
    Some(format!("{size}{verdict}{bare}."))
}

fn name(kind: &ComparedRuns<'_>) -> &'static str {
    if kind.cache == CacheKind::None { "no cache" } else { kind.cache.name() }
}

#[cfg(test)]
mod tests {
    use kickcache_engine::time::Duration;
    use kickcache_model::result::JobResult;

    use super::*;

    fn run(count: u64) -> RunResult {
        let mut run = RunResult::new("run", "reads", 1);
        run.nanos = 1_000_000_000;
        let mut job = JobResult::new("job", 1);
        job.reads.count = count;
        job.reads.latencies.record_many(Duration::from_micros(1_000_000 / count), count);
        run.jobs.push(job);
        run
    }

    fn verdicts(kinds: &[(CacheKind, Option<u64>, u64)], pacing: Pacing) -> Vec<String> {
        let runs: Vec<[RunResult; 1]> =
            kinds.iter().map(|(.., count)| [RunResult { pacing, ..run(*count) }]).collect();
        let kinds: Vec<ComparedRuns<'_>> = kinds
            .iter()
            .zip(&runs)
            .map(|((cache, gib, _), runs)| {
                let size = gib.map(|gib| Size::from_bytes(gib << 30));
                ComparedRuns { cache: *cache, size, runs }
            })
            .collect();
        sentences(&kinds)
    }

    #[test]
    fn the_winner_of_each_size_is_named() {
        let kinds = [
            (CacheKind::None, None, 1_000),
            (CacheKind::Lru, Some(1), 3_000),
            (CacheKind::Bcache { cutoff: 0 }, Some(1), 2_000),
            (CacheKind::Lru, Some(2), 5_000),
            (CacheKind::Bcache { cutoff: 0 }, Some(2), 4_900),
        ];
        let expected = [
            "1 GiB: lru is the fastest: 3,000 IOPS, 1.50 times as fast as bcache-no-cutoff, 3.00 times as fast as no cache.",
            "2 GiB: lru is the fastest, with bcache-no-cutoff within 5 %: 5,000 IOPS, 5.00 times as fast as no cache.",
        ];
        assert_eq!(verdicts(&kinds, Pacing::Closed), expected);
    }

    #[test]
    fn a_load_at_fixed_times_is_judged_by_mean_latency() {
        let kinds = [(CacheKind::None, None, 1_000), (CacheKind::Lru, Some(1), 2_000)];
        let expected = "lru is the fastest: a mean latency of 0.50 ms, 2.00 times as fast as no cache.";
        assert_eq!(verdicts(&kinds, Pacing::Open), [expected]);
    }

    #[test]
    fn a_cache_without_another_has_only_its_speed() {
        assert_eq!(verdicts(&[(CacheKind::Lru, Some(1), 2_000)], Pacing::Closed), ["lru: 2,000 IOPS."]);
        let equal = [(CacheKind::None, None, 1_000), (CacheKind::Lru, Some(1), 990)];
        assert_eq!(
            verdicts(&equal, Pacing::Closed),
            ["no cache and lru are equally fast within 5 %: 1,000 IOPS."]
        );
        assert_eq!(verdicts(&[], Pacing::Closed), Vec::<String>::new());
    }
}
