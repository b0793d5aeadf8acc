//! The charts of a page.

use kickcache_model::result::latencies::Latencies;
use kickcache_model::result::series::Series;
use kickcache_model::result::{DeviceResult, JobResult, RunResult};

use crate::html::{escape, fold, section};
use crate::look::{Look, looks};
use crate::measure::is_live;
use crate::plot::axis::{Axis, Scale, Span, Unit, show_size};
use crate::plot::lines::{Line, Shape, Weight};
use crate::plot::point::Point;
use crate::plot::{Plot, Width};
use crate::repeated_runs::RepeatedRuns;

/// Mean rates above 0 that differ by more than this factor are drawn on a logarithmic axis.
const LOG_FROM: f64 = 20.0;
/// For each power of ten.
const BARS_PER_DECADE: f64 = 12.0;
/// The most runs of a page whose charts are sections; with more runs, they are folded.
const OPEN_RUNS_MAX: usize = 5;
/// Shorter latencies are drawn at this one, in nanoseconds.
const SHORTEST: f64 = 100.0;
/// The most jobs that have a line each; of more jobs, three are drawn.
const JOB_LINES_MAX: usize = 6;

#[expect(clippy::cast_precision_loss, reason = "amounts of a run are far below 2^53")]
pub(crate) fn float(number: u64) -> f64 {
    number as f64
}

/// The values of a series at the middles of their intervals, in seconds.
fn over_time(series: &Series, values: &[f64]) -> Vec<Point> {
    let interval = float(series.interval().as_nanos()) / 1e9;
    let middle = |index: u32| (f64::from(index) + 0.5) * interval;
    (0..).map(middle).zip(values).map(|(x, y)| Point { x, y: *y }).collect()
}

/// The points from the end of the ramp on, with times from there on.
fn after_ramp(run: &RunResult, points: Vec<Point>) -> Vec<Point> {
    let ramp = float(run.ramp_nanos) / 1e9;
    points
        .into_iter()
        .map(|point| Point { x: point.x - ramp, ..point })
        .filter(|point| point.x >= 0.0)
        .collect()
}

/// Rates of a series; an interval in which the run ended is left out, unless it is the only one.
fn rates(series: &Series, nanos: u64) -> Vec<Point> {
    let mut points = over_time(series, &series.rates());
    let whole = nanos / series.interval().as_nanos().max(1);
    let has_rest = !nanos.is_multiple_of(series.interval().as_nanos().max(1));
    if has_rest && points.len() > 1 && points.len() as u64 > whole {
        points.pop();
    }
    points
}

fn line(name: &str, style: usize, points: Vec<Point>) -> Line {
    Line { name: name.into(), style, weight: Weight::Plain, shape: Shape::Joined, points }
}

fn of_run(run: &RunResult, look: Look, points: Vec<Point>) -> Line {
    Line { weight: look.weight, ..line(&run.name, look.style, points) }
}

fn seconds_axis(span: Span) -> Axis {
    Axis::new(Scale::Linear, Unit::Seconds, "time since the start", span)
}

fn highest(lines: &[Line]) -> f64 {
    lines.iter().flat_map(|line| &line.points).map(|point| point.y).fold(0.0, f64::max)
}

fn mean(line: &Line) -> f64 {
    let count = f64::from(u32::try_from(line.points.len().max(1)).unwrap_or(u32::MAX));
    line.points.iter().map(|point| point.y).sum::<f64>() / count
}

/// From zero, or logarithmic if the means are far from each other.
fn rate_axis(lines: &[Line]) -> Axis {
    let means: Vec<f64> = lines.iter().map(mean).filter(|mean| *mean > 0.0).collect();
    let (low, high) =
        (means.iter().copied().fold(f64::INFINITY, f64::min), means.iter().copied().fold(0.0, f64::max));
    let top = highest(lines);
    if high > low * LOG_FROM {
        let lowest =
            lines.iter().flat_map(|line| &line.points).map(|point| point.y).filter(|rate| *rate > 0.0);
        let from = lowest.fold(f64::INFINITY, f64::min).max(low / 10.0);
        return Axis::new(Scale::Log, Unit::Rate, "", Span { from, to: top });
    }
    Axis::new(Scale::Linear, Unit::Rate, "", Span::up_to(top * 1.05))
}

/// The first run has the colour with the number `first`.
pub(crate) fn side_by_side(runs: &[RunResult], first: usize) -> String {
    let mut charts = [iops(runs), percentiles(runs), hit_ratio(runs)];
    for line in charts.iter_mut().flat_map(|plot| &mut plot.lines) {
        line.style += first;
    }
    charts.map(|plot| plot.figure()).concat()
}

fn iops(runs: &[RunResult]) -> Plot {
    let of_run = |(run, look): (&RunResult, Look)| of_run(run, look, rates(&run.ended(), run.nanos));
    let lines: Vec<Line> = runs.iter().zip(looks(runs)).map(of_run).collect();
    let y = rate_axis(&lines);
    let note = if y.scale == Scale::Log {
        "All jobs of a run together; each step of the scale is ten times the previous one."
    } else {
        "All jobs of a run together."
    };
    Plot {
        title: "Operations a second".into(),
        note: note.into(),
        width: Width::Full,
        x: seconds_axis(seconds_span(runs)),
        y,
        lines,
    }
}

fn percentiles(runs: &[RunResult]) -> Plot {
    let of_run = |(run, look): (&RunResult, Look)| percentile_line(run, look);
    let lines: Vec<Line> = runs.iter().zip(looks(runs)).map(of_run).collect();
    let all = lines.iter().flat_map(|line| &line.points).map(|point| point.y);
    // A hit in memory takes no measurable time.
    let lowest = all.fold(f64::INFINITY, f64::min).max(SHORTEST);
    let longest = lines.iter().flat_map(|line| &line.points).map(|point| point.x).fold(0.0, f64::max);
    let note = "How long that share of the operations took at most, from request to reply.";
    Plot {
        title: "Latency by percentile".into(),
        note: note.into(),
        width: Width::Full,
        x: Axis::new(Scale::Nines, Unit::Share, "share of the operations", Span::up_to(longest)),
        y: Axis::new(Scale::Log, Unit::Nanos, "", Span { from: lowest, to: highest(&lines) }),
        lines,
    }
}

/// To the percentile that ten operations exceed, at most 99.999 %; with fewer than 100 operations, to the
/// 90th percentile.
fn percentile_line(run: &RunResult, look: Look) -> Line {
    let latencies = run.latencies();
    let count = latencies.count();
    let last = if count < 100 { 0.9 } else { (1.0 - 10.0 / float(count)).min(0.999_99) };
    let nines = -(1.0_f64 - last).log10();
    let points = (0..=120).filter(|_| count > 0).map(|step| {
        let share = 1.0 - 10_f64.powf(-nines * f64::from(step) / 120.0);
        Point { x: share, y: float(latencies.quantile(share)) }
    });
    Line { shape: Shape::Exact, ..of_run(run, look, points.collect()) }
}

fn hit_ratio(runs: &[RunResult]) -> Plot {
    let end = seconds_span(runs).to;
    let with_points = |(run, look): (&RunResult, Look)| {
        let mut points = after_ramp(run, ratio_points(&run.hit_blocks, &run.miss_blocks));
        points.retain(|point| point.x <= end);
        // A live volume has one hit ratio.
        (!points.is_empty() && !is_live(run)).then(|| of_run(run, look, points))
    };
    let lines: Vec<Line> = runs.iter().zip(looks(runs)).filter_map(with_points).collect();
    Plot {
        title: "Hit ratio".into(),
        note: String::new(),
        width: Width::Full,
        x: seconds_axis(seconds_span(runs)),
        y: Axis::new(Scale::Linear, Unit::Share, "", Span::up_to(1.0)),
        lines,
    }
}

fn ratio_points(hits: &Series, misses: &Series) -> Vec<Point> {
    if hits.interval() != misses.interval() && !hits.values().is_empty() && !misses.values().is_empty() {
        return Vec::new();
    }
    let series = if hits.values().len() >= misses.values().len() { hits } else { misses };
    let at = |series: &Series, index: usize| series.values().get(index).copied().unwrap_or(0);
    let ratio = |index| {
        let (hit, miss) = (at(hits, index), at(misses, index));
        (hit + miss > 0).then(|| float(hit) / float(hit + miss))
    };
    let values: Vec<f64> = (0..series.values().len()).filter_map(ratio).collect();
    if values.len() == series.values().len() { over_time(series, &values) } else { sparse(series, ratio) }
}

/// Without the intervals that have no requests.
fn sparse(series: &Series, value: impl Fn(usize) -> Option<f64>) -> Vec<Point> {
    let zeroes = vec![0.0; series.values().len()];
    let places = over_time(series, &zeroes);
    places
        .iter()
        .enumerate()
        .filter_map(|(index, point)| Some(Point { y: value(index)?, ..*point }))
        .collect()
}

pub(crate) fn by_run(runs: &[RunResult]) -> String {
    let scales = Scales { latencies: latency_span(runs), seconds: seconds_span(runs) };
    let is_open = runs.len() <= OPEN_RUNS_MAX;
    let frame = if is_open { section } else { fold };
    let part = |(run, look): (&RunResult, Look)| {
        let body = one_run(run, if is_open { look.style } else { 0 }, scales);
        // A live volume has no data for these charts.
        (!body.is_empty()).then(|| frame(&run.name, &body))
    };
    let parts: String = runs.iter().zip(looks(runs)).filter_map(part).collect();
    if is_open || parts.is_empty() { parts } else { section("Each run", &parts) }
}

/// For all histograms.
fn latency_span(runs: &[RunResult]) -> Span {
    let all: Vec<_> =
        runs.iter().map(RunResult::latencies).filter(|latencies| latencies.count() > 0).collect();
    let low = all.iter().map(|latencies| float(latencies.quantile(0.001))).fold(f64::INFINITY, f64::min);
    let high = all.iter().map(|latencies| float(latencies.p99_9())).fold(1.0, f64::max);
    Span { from: low.min(high).max(SHORTEST), to: high.max(SHORTEST) }
}

/// The axes that the charts of all runs share.
#[derive(Clone, Copy)]
struct Scales {
    latencies: Span,
    seconds: Span,
}

/// From 0 to the seconds of the longest run, less 1 % and rounded up, at least 1.
fn seconds_span(runs: &[RunResult]) -> Span {
    let longest = runs.iter().map(|run| float(run.nanos)).fold(0.0, f64::max) / 1e9;
    // fio runs a few milliseconds longer than its runtime.
    Span::up_to((longest * 0.99).ceil().max(1.0))
}

fn one_run(run: &RunResult, style: usize, scales: Scales) -> String {
    let jobs = jobs(run, scales.seconds).figure();
    let pair = [histogram(run, style, scales.latencies), utilisation(run, scales.seconds)]
        .map(|plot| plot.figure())
        .concat();
    if pair.is_empty() { jobs } else { format!("{jobs}<div class=\"pair\">\n{pair}</div>\n") }
}

fn jobs(run: &RunResult, seconds: Span) -> Plot {
    let mut lines = job_lines(run);
    name_alike(&mut lines);
    let count = run.jobs.len();
    let note = if count > JOB_LINES_MAX {
        three_of(run, &mut lines);
        format!("Of {count} jobs the slowest, the middle one and the fastest.")
    } else {
        String::new()
    };
    if count > 1 {
        let sum = line("all jobs", 0, rates(&run.ended(), run.nanos));
        lines.insert(0, Line { weight: Weight::Main, ..sum });
    }
    Plot {
        title: "Operations a second, by job".into(),
        note,
        width: Width::Full,
        x: seconds_axis(seconds),
        y: Axis::new(Scale::Linear, Unit::Rate, "", Span::up_to(highest(&lines) * 1.05)),
        lines,
    }
}

fn job_lines(run: &RunResult) -> Vec<Line> {
    let of_job =
        |(style, job): (usize, &JobResult)| line(&job.name, style + 1, rates(&job.ended(), run.nanos));
    run.jobs.iter().enumerate().map(of_job).collect()
}

/// Keeps the lines of the jobs with the fewest, the middle number and the most of operations.
fn three_of(run: &RunResult, lines: &mut Vec<Line>) {
    let mut order: Vec<usize> = (0..lines.len()).collect();
    order.sort_by_key(|index| run.jobs[*index].count());
    let chosen = [order[0], order[order.len() / 2], order[order.len() - 1]];
    let style = |(style, index): (usize, usize)| Line { style: style + 1, ..lines[index].clone() };
    *lines = chosen.into_iter().enumerate().map(style).collect();
}

/// Numbers the jobs that share a name.
fn name_alike(lines: &mut [Line]) {
    let names: Vec<String> = lines.iter().map(|line| line.name.clone()).collect();
    for (index, line) in lines.iter_mut().enumerate() {
        if names.iter().filter(|name| **name == line.name).count() > 1 {
            let before = names[..index].iter().filter(|name| **name == names[index]).count();
            line.name = format!("{} {}", line.name, before + 1);
        }
    }
}

fn histogram(run: &RunResult, style: usize, span: Span) -> Plot {
    let x = Axis::new(Scale::Log, Unit::Nanos, "time from request to reply", span);
    let points = bars(&run.latencies(), span);
    let line = Line { shape: Shape::Steps, ..line("operations", style, points) };
    let top = highest(std::slice::from_ref(&line)) * 1.1;
    Plot {
        title: "Latencies".into(),
        note: String::new(),
        width: Width::Half,
        x,
        y: Axis::new(Scale::Linear, Unit::Share, "", Span::up_to(top)),
        lines: vec![line],
    }
}

/// The share of the latencies in each bar, at the bar's least latency in nanoseconds.
fn bars(latencies: &Latencies, span: Span) -> Vec<Point> {
    if latencies.count() == 0 {
        return Vec::new();
    }
    let bar = |nanos: f64| (nanos.log10() * BARS_PER_DECADE).floor();
    let (first, last) = (bar(span.from) - 1.0, bar(span.to) + 1.0);
    let mut shares: Vec<Point> = Vec::new();
    let mut at = first;
    while at <= last + 1.0 {
        shares.push(Point { x: 10_f64.powf(at / BARS_PER_DECADE), y: 0.0 });
        at += 1.0;
    }
    for (nanos, count) in latencies.counts() {
        let index = (bar(float(nanos.max(1))).clamp(first, last) - first).round();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between 0 and a few hundred"
        )]
        let index = index as usize;
        shares[index].y += float(count) / float(latencies.count());
    }
    shares
}

fn utilisation(run: &RunResult, seconds: Span) -> Plot {
    let of_device = |name: &str, style: usize, device: &Option<DeviceResult>| {
        let busy = &device.as_ref()?.busy;
        let shares: Vec<f64> = busy.rates().iter().map(|rate| (rate / 1e9).min(1.0)).collect();
        let mut points = over_time(busy, &shares);
        if points.len() > 1 && !whole(run).is_multiple_of(busy.interval().as_nanos().max(1)) {
            points.pop();
        }
        let points = after_ramp(run, points);
        (!points.is_empty()).then(|| line(name, style, points))
    };
    let devices =
        [of_device("cache device", 0, &run.cache_device), of_device("origin", 1, &run.origin_device)];
    let lines: Vec<Line> = devices.into_iter().flatten().collect();
    Plot {
        title: "Utilisation".into(),
        note: String::new(),
        width: Width::Half,
        x: seconds_axis(seconds),
        y: Axis::new(Scale::Linear, Unit::Share, "", Span::up_to(1.0)),
        lines,
    }
}

/// Nanoseconds of a run with its ramp time.
fn whole(run: &RunResult) -> u64 {
    run.nanos.saturating_add(run.ramp_nanos)
}

/// The bytes written to the cache devices, as bars; empty if no bytes were written.
pub(crate) fn endurance(runs: &[RepeatedRuns<'_>]) -> String {
    let most = runs.iter().map(written).fold(0.0, f64::max);
    if most <= 0.0 {
        return String::new();
    }
    let has_cache = |known: &&RepeatedRuns<'_>| known.run.cache_device.is_some();
    let rows: String = runs.iter().filter(has_cache).map(|known| bar(known, most)).collect();
    let note = "<p class=\"note\">Fills and client writes must be written once; headers, journal and \
                copies are overhead. The sum determines the wear of a flash device.</p>";
    let legend = "<ul class=\"legend\"><li><i class=\"b0\"></i>brought in by reads</li>\
                  <li><i class=\"b1\"></i>written by clients</li><li><i class=\"b2\"></i>on top</li></ul>";
    section(
        "Bytes written to the cache device",
        &format!("{note}{legend}<div class=\"bars\">\n{rows}</div>\n"),
    )
}

/// 0 without a cache device.
fn written(known: &RepeatedRuns<'_>) -> f64 {
    let of = |run: &RunResult| run.cache_device.as_ref().map(|device| float(device.write_bytes));
    known.median(of).unwrap_or(0.0)
}

fn bar(known: &RepeatedRuns<'_>, most: f64) -> String {
    let median = |figure: fn(&RunResult) -> f64| known.median(|run| Some(figure(run))).unwrap_or(0.0);
    let written = written(known);
    let promoted = median(|run| float(run.promoted_bytes)).min(written);
    let logged = median(|run| float(run.logged_bytes)).min(written - promoted);
    let part = |class: &str, bytes: f64| {
        let percent = bytes * 100.0 / most;
        format!("<i class=\"{class}\" style=\"width:{percent:.2}%\" title=\"{}\"></i>", show_size(bytes))
    };
    let per_hour = show_size(written * 3_600e9 / median(|run| float(whole(run).max(1))));
    let ratio = known.median(RunResult::written_per_byte);
    let ratio = ratio.map_or_else(String::new, |ratio| format!(", {ratio:.2} a byte kept"));
    format!(
        "<p class=\"name\">{}</p><p class=\"bar\">{}{}{}</p><p class=\"figure\">{} ({per_hour} an hour{ratio})</p>\n",
        escape(&known.run.name),
        part("b0", promoted),
        part("b1", logged),
        part("b2", written - promoted - logged),
        show_size(written)
    )
}

#[cfg(test)]
mod tests {
    use kickcache_engine::time::Duration;

    use super::*;

    #[test]
    fn a_latency_is_within_its_bar() {
        let mut latencies = Latencies::default();
        for nanos in [100_000, 1_500_000] {
            latencies.record(Duration::from_nanos(nanos));
        }
        let bars = bars(&latencies, Span { from: 100_000.0, to: 1_500_000.0 });
        for nanos in [100_000.0, 1_500_000.0] {
            let within = bars.windows(2).find(|pair| pair[0].x <= nanos && nanos < pair[1].x);
            assert_eq!(within.map(|pair| pair[0].y), Some(0.5), "{nanos}");
        }
        assert_eq!(bars.last().map(|bar| bar.y), Some(0.0));
    }
}
