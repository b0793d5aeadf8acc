//! The summary of the rounds: a row for each target and phase.

use kickcache_model::result::RunResult;
use kickcache_model::statistics::comparison::{Better, Comparison, Pair, ROUNDS_MIN, compare, noise_floor};
use kickcache_model::statistics::median;
use serde::Serialize;

use crate::bench::phase::Phase;
use crate::bench::result::{BenchResult, BenchRun, Prediction, Round, RoundValidity, Turn};

#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct Summary {
    pub(crate) rows: Vec<Row>,
    pub(crate) rounds: usize,
    /// Rounds that other programs voided.
    pub(crate) discarded: usize,
    /// The largest share of the processors that other programs used in a run of a discarded round.
    pub(crate) others_most: f64,
    /// As `others_most`, for the rounds that count.
    pub(crate) others_counted: f64,
    /// How much the first row differs from itself; `None` if too few rounds count.
    pub(crate) noise: Option<Noise>,
}

#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub(crate) struct Noise {
    /// Differences below this part are noise.
    pub(crate) floor: f64,
    /// The target against itself, run twice in each round.
    pub(crate) against_itself: Option<Comparison>,
}

/// The rate, the latencies and the hit ratio are medians over the rounds.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) target: String,
    pub(crate) phase: Phase,
    /// Operations a second.
    pub(crate) iops: f64,
    pub(crate) iops_min: f64,
    pub(crate) iops_max: f64,
    /// Median latency in nanoseconds.
    pub(crate) p50: f64,
    /// 99th percentile of the latency, in nanoseconds.
    pub(crate) p99: f64,
    /// The part of the blocks that was found in the cache, where that is known.
    pub(crate) hit_ratio: Option<f64>,
    /// The ratio of operations a second to the base, round by round.
    pub(crate) iops_against_base: Option<Comparison>,
    /// As `iops_against_base`, for the 99th percentile.
    pub(crate) p99_against_base: Option<Comparison>,
    pub(crate) foretold: Option<PredictedFigures>,
}

#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub(crate) struct PredictedFigures {
    pub(crate) iops: f64,
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) hit_ratio: Option<f64>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Place<'a> {
    target: &'a str,
    phase: Phase,
}

#[expect(clippy::cast_precision_loss, reason = "latencies are far below 2^53 ns")]
fn p99(run: &RunResult) -> f64 {
    run.latencies().p99() as f64
}

#[expect(clippy::cast_precision_loss, reason = "latencies are far below 2^53 ns")]
fn p50(run: &RunResult) -> f64 {
    run.latencies().p50() as f64
}

fn find<'a>(round: &'a Round, place: Place<'_>) -> Option<&'a RunResult> {
    round.runs.iter().find(|run| run.is_of(place.target, place.phase)).map(|run| &run.result)
}

fn find_prediction<'a>(result: &'a BenchResult, place: Place<'_>) -> Option<&'a RunResult> {
    let is_meant = |one: &&Prediction| one.target == place.target && one.phase == place.phase;
    result.predictions.iter().find(is_meant).map(|one| &one.result)
}

/// From the second turn of the first place if it suffices, or else from the scatter of its own turn.
fn noise(result: &BenchResult, rounds: &[&Round], first: Place<'_>) -> Option<Noise> {
    let again =
        |round: &Round| round.runs.iter().find(|run| run.turn == Turn::Again).map(|run| run.result.iops());
    let own = |round: &Round| find(round, first).map(RunResult::iops);
    let pair = |round: &&Round| Some(Pair { base: own(round)?, other: again(round)? });
    let pairs: Vec<Pair> = rounds.iter().filter_map(pair).collect();
    let known = compare(&pairs, result.margin, Better::Higher).filter(|known| known.rounds >= ROUNDS_MIN);
    if let Some((known, low, high)) = known.and_then(|known| Some((known, known.low?, known.high?))) {
        let floor = low.recip().max(high) - 1.0;
        return Some(Noise { floor, against_itself: Some(known) });
    }
    let figures: Vec<f64> = rounds.iter().filter_map(|round| own(round)).collect();
    Some(Noise { floor: noise_floor(&figures)?, against_itself: None })
}

impl PredictedFigures {
    fn of(run: &RunResult) -> PredictedFigures {
        PredictedFigures { iops: run.iops(), p50: p50(run), p99: p99(run), hit_ratio: run.hit_ratio() }
    }
}

impl Summary {
    /// The summary of the valid rounds; if there are none, that of all rounds, without verdicts.
    pub(crate) fn of(result: &BenchResult) -> Summary {
        let counted: Vec<&Round> = result.counted().collect();
        let shown: Vec<&Round> =
            if counted.is_empty() { result.rounds.iter().collect() } else { counted.clone() };
        let places = places(result, &shown);
        let rows =
            places.iter().filter_map(|place| row(result, &shown, *place, base(&places, *place))).collect();
        let rows: Vec<Row> = if counted.is_empty() { without_verdicts(rows) } else { rows };
        let discarded: Vec<&Round> =
            result.rounds.iter().filter(|round| round.standing == RoundValidity::Discarded).collect();
        let others = |rounds: &[&Round]| {
            let runs = rounds.iter().flat_map(|round| &round.runs);
            runs.map(|run| run.others).fold(0.0, f64::max)
        };
        Summary {
            rows,
            rounds: counted.len(),
            discarded: discarded.len(),
            others_most: others(&discarded),
            others_counted: others(&counted),
            noise: places.first().and_then(|first| noise(result, &counted, *first)),
        }
    }
}

fn without_verdicts(rows: Vec<Row>) -> Vec<Row> {
    let plain = |row: Row| Row { iops_against_base: None, p99_against_base: None, ..row };
    rows.into_iter().map(plain).collect()
}

/// The targets in the phases of their runs, in the order of the targets.
fn places<'a>(result: &'a BenchResult, rounds: &[&'a Round]) -> Vec<Place<'a>> {
    let mut places: Vec<Place<'a>> = Vec::new();
    for target in &result.targets {
        let is_own = |run: &&BenchRun| run.turn == Turn::Own && run.target == target.name;
        for run in rounds.iter().flat_map(|round| &round.runs).filter(is_own) {
            let place = Place { target: &target.name, phase: run.phase };
            if !places.contains(&place) {
                places.push(place);
            }
        }
    }
    places
}

/// The base of a place: the first target in the same phase if that is another place, otherwise the first of
/// all; `None` for the first of all.
fn base<'a>(places: &[Place<'a>], place: Place<'_>) -> Option<Place<'a>> {
    let first = *places.first()?;
    let same = Place { target: first.target, phase: place.phase };
    let base = if places.contains(&same) && same != place { same } else { first };
    (base != place).then_some(base)
}

fn row(result: &BenchResult, rounds: &[&Round], place: Place<'_>, base: Option<Place<'_>>) -> Option<Row> {
    let runs: Vec<&RunResult> = rounds.iter().filter_map(|round| find(round, place)).collect();
    let figures = |figure: fn(&RunResult) -> f64| runs.iter().map(|run| figure(run)).collect::<Vec<f64>>();
    let iops = figures(RunResult::iops);
    let against = |figure: fn(&RunResult) -> f64, better: Better| {
        let pair = |round: &&Round| {
            Some(Pair { base: figure(find(round, base?)?), other: figure(find(round, place)?) })
        };
        compare(&rounds.iter().filter_map(pair).collect::<Vec<Pair>>(), result.margin, better)
    };
    let hits: Vec<f64> = runs.iter().filter_map(|run| run.hit_ratio()).collect();
    Some(Row {
        target: place.target.into(),
        phase: place.phase,
        iops: median(&iops)?,
        iops_min: iops.iter().copied().fold(f64::INFINITY, f64::min),
        iops_max: iops.iter().copied().fold(0.0, f64::max),
        p50: median(&figures(p50))?,
        p99: median(&figures(p99))?,
        hit_ratio: median(&hits),
        iops_against_base: against(RunResult::iops, Better::Higher),
        p99_against_base: against(p99, Better::Lower),
        foretold: find_prediction(result, place).map(PredictedFigures::of),
    })
}

#[cfg(test)]
mod tests {
    use kickcache_engine::time::Duration;
    use kickcache_model::result::JobResult;
    use kickcache_model::statistics::comparison::Verdict;

    use super::*;
    use crate::bench::machine::Machine;
    use crate::bench::result::{End, TargetFacts};

    fn run(target: &str, phase: Phase, count: u64) -> BenchRun {
        let mut result = RunResult::new(target, "reads", count);
        result.nanos = 1_000_000_000;
        let mut job = JobResult::new("job", 1);
        job.reads.count = count;
        job.reads.latencies.record_many(Duration::from_micros(1_000_000 / count), count);
        result.jobs.push(job);
        BenchRun { target: target.into(), phase, turn: Turn::Own, others: 0.0, result }
    }

    fn round(hdd: u64, cache: u64, standing: RoundValidity) -> Round {
        let runs = vec![
            run("cache", Phase::Empty, cache),
            run("cache", Phase::Stale, cache / 2),
            run("hdd", Phase::Found, hdd),
        ];
        Round { runs, standing }
    }

    fn result(rounds: Vec<Round>) -> BenchResult {
        let fact = |name: &str| TargetFacts {
            name: name.into(),
            target: "/x".into(),
            has_holes: false,
            shares_disk: false,
        };
        BenchResult {
            kind: "kickcache-bench".into(),
            version: 1,
            machine: Machine::look("fio-3".into(), None),
            job: "reads".into(),
            margin: 0.05,
            busy_limit: 0.02,
            targets: vec![fact("hdd"), fact("cache")],
            rounds,
            predictions: Vec::new(),
            end: End::Complete,
        }
    }

    #[test]
    fn rounds_voided_by_other_programs_do_not_count() {
        let counts = RoundValidity::Counts;
        let mut voided = round(1, 1_000_000, RoundValidity::Discarded);
        voided.runs[0].others = 0.4;
        let rounds =
            vec![round(100, 5_000, counts), voided, round(110, 5_300, counts), round(95, 4_900, counts)];
        let summary = Summary::of(&result(rounds));
        assert_eq!((summary.rounds, summary.discarded), (3, 1));
        assert!((summary.others_most - 0.4).abs() < 1e-9 && summary.others_counted < 1e-9);
        let names: Vec<(&str, Phase)> =
            summary.rows.iter().map(|row| (row.target.as_str(), row.phase)).collect();
        assert_eq!(names, [("hdd", Phase::Found), ("cache", Phase::Empty), ("cache", Phase::Stale)]);
        let [hdd, empty, stale] = &summary.rows[..] else { panic!() };
        assert!(hdd.iops_against_base.is_none() && (hdd.iops - 100.0).abs() < 1e-9);
        assert!((hdd.iops_min - 95.0).abs() < 1e-9 && (hdd.iops_max - 110.0).abs() < 1e-9);
        let faster = empty.iops_against_base.unwrap();
        assert!(faster.verdict == Verdict::Faster && (45.0..55.0).contains(&faster.ratio), "{faster:?}");
        assert_eq!(stale.p99_against_base.unwrap().verdict, Verdict::Faster);
        assert!(summary.noise.unwrap().floor > 0.05);
    }

    #[test]
    fn without_a_round_that_counts_there_is_no_verdict() {
        let rounds =
            vec![round(100, 5_000, RoundValidity::Discarded), round(100, 5_000, RoundValidity::Incomplete)];
        let summary = Summary::of(&result(rounds));
        assert_eq!((summary.rounds, summary.rows.len()), (0, 3));
        assert!(summary.rows.iter().all(|row| row.iops_against_base.is_none()));
        assert_eq!(summary.noise, None);
    }

    #[test]
    fn a_result_is_read_back_as_it_was() {
        let result = result(vec![round(100, 5_000, RoundValidity::Counts)]);
        let text = serde_json::to_string(&result).unwrap();
        assert_eq!(serde_json::from_str::<BenchResult>(&text).unwrap(), result);
        let names: Vec<String> = result.runs().into_iter().map(|run| run.name).collect();
        assert_eq!(names, ["hdd", "cache", "cache"]);
    }
}
