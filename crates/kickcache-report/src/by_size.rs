//! The results of caches by their size, as charts.

use kickcache_model::result::{Pacing, RunResult};
use kickcache_units::show_bytes;

use crate::charts::float;
use crate::html;
use crate::plot::axis::{Axis, Scale, Span, Unit};
use crate::plot::lines::{Line, Shape, Weight};
use crate::plot::point::Point;
use crate::plot::{Plot, Width};
use crate::repeated_runs::RepeatedRuns;

/// For repeated runs, the chart shows the median.
type Figure = fn(&RunResult) -> Option<f64>;

/// Empty unless a cache was run in several sizes.
pub(crate) fn section(runs: &[RepeatedRuns<'_>]) -> String {
    if !lines(runs, |run| Some(run.iops())).iter().any(|line| line.points.len() > 1) {
        return String::new();
    }
    let mut sizes: Vec<u64> = runs.iter().filter_map(|known| known.run.cache_bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let is_open = runs.iter().all(|known| known.run.pacing == Pacing::Open);
    let speed = if is_open { mean_latency(runs, &sizes) } else { rate(runs, &sizes) };
    let p99 = lines(runs, |run| Some(float(run.latencies().p99())).filter(|nanos| *nanos > 0.0));
    let span = Span { from: lowest(&p99).max(100.0), to: highest(&p99) };
    let p99 = plot(
        "99 % of the operations took at most",
        &sizes,
        p99,
        Axis::new(Scale::Log, Unit::Nanos, "", span),
    );
    let hits = lines(runs, RunResult::hit_ratio);
    let hits = plot("Hit ratio", &sizes, hits, Axis::new(Scale::Linear, Unit::Share, "", Span::up_to(1.0)));
    let charts = [speed, p99, hits].map(|plot| plot.figure()).concat();
    html::section("By size of the cache", &format!("<div class=\"pair\">\n{charts}</div>\n"))
}

fn rate(runs: &[RepeatedRuns<'_>], sizes: &[u64]) -> Plot {
    let iops = lines(runs, |run| Some(run.iops()));
    let top = highest(&iops) * 1.05;
    plot("Operations a second", sizes, iops, Axis::new(Scale::Linear, Unit::Rate, "", Span::up_to(top)))
}

/// The rate of a load at fixed times does not depend on the cache.
fn mean_latency(runs: &[RepeatedRuns<'_>], sizes: &[u64]) -> Plot {
    let mean = lines(runs, |run| Some(run.latencies().mean()).filter(|nanos| *nanos > 0.0));
    let span = Span { from: lowest(&mean).max(100.0), to: highest(&mean) };
    plot("Mean latency", sizes, mean, Axis::new(Scale::Log, Unit::Nanos, "", span))
}

fn plot(title: &str, sizes: &[u64], lines: Vec<Line>, y: Axis) -> Plot {
    let sizes: Vec<f64> = sizes.iter().map(|size| float(*size)).collect();
    let x = Axis::at_points(Unit::Bytes, "size of the cache", &sizes);
    Plot { title: title.into(), note: String::new(), width: Width::Half, x, y, lines }
}

/// The names of measured runs, without sizes, in the order of their colours.
fn styles<'a>(runs: &[RepeatedRuns<'a>]) -> Vec<&'a str> {
    let mut known = Vec::new();
    for run in runs.iter().map(|known| known.run).filter(|run| run.predicts.is_none()) {
        let name = family(run, run.cache_bytes.unwrap_or(0));
        if !known.contains(&name) {
            known.push(name);
        }
    }
    known
}

/// The name that runs of all sizes share.
fn family(run: &RunResult, size: u64) -> &str {
    let end = format!(", {}", show_bytes(size));
    run.family.as_deref().unwrap_or_else(|| run.name.strip_suffix(&end).unwrap_or(&run.name))
}

fn lines(runs: &[RepeatedRuns<'_>], figure: Figure) -> Vec<Line> {
    let styles = styles(runs);
    let mut lines: Vec<Line> = Vec::new();
    for known in runs {
        let run = known.run;
        let (Some(size), Some(y)) = (run.cache_bytes, known.median(figure)) else { continue };
        let point = Point { x: float(size), y };
        let name = family(run, size);
        let has_room = |line: &Line| line.points.iter().all(|known| known.x != point.x);
        match lines.iter_mut().find(|line| line.name == name && has_room(line)) {
            Some(line) => line.points.push(point),
            None => {
                let measured = name.strip_suffix(", predicted").filter(|_| run.predicts.is_some());
                let measured = lines.iter().find(|line| Some(line.name.as_str()) == measured);
                let own = styles.iter().position(|known| *known == name).unwrap_or(lines.len());
                let style = measured.map_or(own, |line| line.style);
                let weight = if run.predicts.is_some() { Weight::Predicted } else { Weight::Plain };
                let (name, shape) = (name.to_owned(), Shape::Exact);
                lines.push(Line { name, style, weight, shape, points: vec![point] });
            }
        }
    }
    lines.iter_mut().for_each(|line| line.points.sort_by(|one, other| one.x.total_cmp(&other.x)));
    lines
}

fn values(lines: &[Line]) -> impl Iterator<Item = f64> {
    lines.iter().flat_map(|line| &line.points).map(|point| point.y)
}

fn highest(lines: &[Line]) -> f64 {
    values(lines).fold(1.0, f64::max)
}

fn lowest(lines: &[Line]) -> f64 {
    values(lines).fold(highest(lines), f64::min)
}
