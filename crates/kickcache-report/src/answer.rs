//! The answer in words, at the head of a page.

use kickcache_model::result::RunResult;
use kickcache_model::statistics::comparison::show_factor;
use kickcache_units::{are, counted};

use crate::measure::Measure;
use crate::plot::axis::show_nanos;
use crate::repeated_runs::RepeatedRuns;

/// The most sentences on runs in a shortened answer.
const SENTENCES_MAX: usize = 8;

/// The first sentences, and the number of omitted runs if there are any.
pub(crate) fn shortened(runs: &[RepeatedRuns<'_>]) -> Vec<String> {
    let mut sentences = sentences(runs);
    let more = sentences.len().saturating_sub(SENTENCES_MAX) as u64;
    if more > 0 {
        sentences.truncate(SENTENCES_MAX);
        sentences.push(format!("{} {} in the table below.", counted(more, "more run"), are(more)));
    }
    sentences
}

/// A sentence for each run after the first one; a single run gets a sentence on its own results.
pub(crate) fn sentences(runs: &[RepeatedRuns<'_>]) -> Vec<String> {
    let measure = Measure::of(runs);
    let Some((base, others)) = runs.split_first() else { return Vec::new() };
    if others.is_empty() {
        return vec![alone(base, measure)];
    }
    let sentence = |other: &RepeatedRuns<'_>| match find(runs, other.run.predicts.as_ref()) {
        Some(of) => foretold(of, other, measure),
        None => against(find(runs, other.run.twin.as_ref()).unwrap_or(base), other, measure),
    };
    others.iter().map(sentence).collect()
}

/// The first run with a name.
fn find<'a>(runs: &'a [RepeatedRuns<'a>], name: Option<&String>) -> Option<&'a RepeatedRuns<'a>> {
    runs.iter().find(|known| name == Some(&known.run.name))
}

fn foretold(of: &RepeatedRuns<'_>, prediction: &RepeatedRuns<'_>, measure: Measure) -> String {
    let times = |ratio: f64| format!(", {} times as much", show_factor(ratio));
    let times = measure.ratio(of, prediction).map_or_else(String::new, times);
    let latency = match (show_p99(of), show_p99(prediction)) {
        (Some(found), Some(foretold)) => format!("; p99 {found}, predicted {foretold}"),
        _ => String::new(),
    };
    let (found, foretold) = (measure.show_with_unit(of), measure.show(prediction));
    format!("{}: {found}, predicted {foretold}{times}{latency}.", name(of.run))
}

fn alone(base: &RepeatedRuns<'_>, measure: Measure) -> String {
    let p99 = show_p99(base).map_or_else(String::new, |p99| format!(", p99 {p99}"));
    format!("{}: {}{p99}.", name(base.run), measure.show_with_unit(base))
}

fn against(base: &RepeatedRuns<'_>, other: &RepeatedRuns<'_>, measure: Measure) -> String {
    let (one, two) = (measure.show_with_unit(base), measure.show(other));
    let (first, second, plain) = (name(base.run), name(other.run), measure.show(base));
    let ratio = measure.ratio(base, other);
    let verdict = match (ratio, measure.compare(base, other)) {
        (None, _) if !(base.counts() && other.counts()) => {
            format!("{first}: {one}, {second}: {two}, which proves nothing")
        }
        (None, _) => format!("{first}: {one}, {second}: {two}"),
        (Some(_), Some(known)) => {
            format!("{}; {two} against {plain}", known.clause(&second, &first, measure.name()))
        }
        (Some(ratio), None) => {
            let (times, figure, counts) = (show_factor(ratio), measure.name(), run_counts(base, other));
            format!("{second} has {times} times the {figure} of {first}: {two} against {plain}, {counts}")
        }
    };
    let latency = match (show_p99(base), show_p99(other)) {
        (Some(before), Some(now)) if before == now => format!("; p99 {before} in both"),
        (Some(before), Some(now)) => format!("; p99 {now} against {before}"),
        _ => String::new(),
    };
    let is_one_load = ratio.is_none() || base.run.workload == other.run.workload;
    let loads = if is_one_load { "" } else { "; the loads differ" };
    format!("{verdict}{latency}{loads}.")
}

/// The numbers of runs behind two figures, that of the other runs first.
fn run_counts(base: &RepeatedRuns<'_>, other: &RepeatedRuns<'_>) -> String {
    let of = |known: &RepeatedRuns<'_>| match known.all.len() {
        1 => "one run".into(),
        count => format!("the median of {count} runs"),
    };
    match base.all.len().max(other.all.len()) {
        1 => "in one run each".into(),
        _ => format!("{} against {}", of(other), of(base)),
    }
}

/// A run's name, with its part after the first comma and space in parentheses, as a comma would part the
/// sentence.
fn name(run: &RunResult) -> String {
    match run.name.split_once(", ") {
        Some((what, rest)) => format!("{what} ({rest})"),
        None => run.name.clone(),
    }
}

#[expect(clippy::cast_precision_loss, reason = "latencies are far below 2^53 ns")]
fn show_p99(known: &RepeatedRuns<'_>) -> Option<String> {
    let p99 = |run: &RunResult| {
        let latencies = run.latencies();
        (latencies.count() >= 100).then(|| latencies.p99() as f64)
    };
    known.median(p99).map(show_nanos)
}
