//! The answer in words, at the head of a page: each run compared with its counterpart, or with the first run.

use kickcache_model::result::RunResult;
use kickcache_model::statistics::comparison::{Comparison, Verdict};
use kickcache_units::{are, counted};

use crate::measure::Measure;
use crate::plot::axis::show_nanos;
use crate::repeated_runs::RepeatedRuns;

/// The most sentences at the head of a page; its table has the rest.
const SENTENCES_MAX: usize = 8;

/// The first sentences, and the number of omitted ones.
pub(crate) fn shortened(runs: &[RepeatedRuns<'_>]) -> Vec<String> {
    let mut sentences = sentences(runs);
    let more = sentences.len().saturating_sub(SENTENCES_MAX) as u64;
    if more > 0 {
        sentences.truncate(SENTENCES_MAX);
        sentences.push(format!("{} {} in the table below.", counted(more, "more run"), are(more)));
    }
    sentences
}

/// A sentence for each run behind the first; a single run gets a sentence on its own results.
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

/// A run by its name, if it is there.
fn find<'a>(runs: &'a [RepeatedRuns<'a>], name: Option<&String>) -> Option<&'a RepeatedRuns<'a>> {
    runs.iter().find(|known| name == Some(&known.run.name))
}

/// The prediction compared with the measurement.
fn foretold(of: &RepeatedRuns<'_>, prediction: &RepeatedRuns<'_>, measure: Measure) -> String {
    let times = measure.ratio(of, prediction).map_or_else(String::new, |ratio| format!(", {}", times(ratio)));
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
    let ratio = measure.ratio(base, other);
    let times = match (ratio, measure.compare(base, other)) {
        (None, _) if !(base.counts() && other.counts()) => ", which proves nothing".into(),
        (None, _) => String::new(),
        (Some(_), Some(known)) => with_verdict(&known),
        (Some(ratio), None) => format!(", {}", times(ratio)),
    };
    let latency = match (show_p99(base), show_p99(other)) {
        (Some(before), Some(now)) if before == now => format!("; p99 {before} in both"),
        (Some(before), Some(now)) => format!("; p99 {before}, now {now}"),
        _ => String::new(),
    };
    // A ratio is meaningful only for two runs of one load.
    let is_one_load = ratio.is_none() || base.run.workload == other.run.workload;
    let loads = if is_one_load { "" } else { "; the loads differ" };
    format!("{}: {one}, {}: {two}{times}{latency}{loads}.", name(base.run), name(other.run))
}

/// A run's name, without a comma that would part the sentence.
fn name(run: &RunResult) -> String {
    match run.name.split_once(", ") {
        Some((what, rest)) => format!("{what} ({rest})"),
        None => run.name.clone(),
    }
}

fn with_verdict(known: &Comparison) -> String {
    let (Some(low), Some(high)) = (known.low, known.high) else { return format!(", {}", times(known.ratio)) };
    let rounds = known.rounds;
    match known.verdict {
        Verdict::Equal => format!(", {} ({rounds} rounds)", known.words()),
        Verdict::Faster | Verdict::Slower | Verdict::NotEnoughData => {
            format!(
                ", {}: {} ({} to {}, {rounds} rounds)",
                times(known.ratio),
                known.words(),
                times(low),
                times(high)
            )
        }
    }
}

/// `62x`, `1.4x`, `0.52x`.
fn times(ratio: f64) -> String {
    let digits = if ratio < 9.95 { 2 } else { usize::from(ratio < 19.95) };
    let text = format!("{ratio:.digits$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text}x")
}

#[expect(clippy::cast_precision_loss, reason = "latencies are far below 2^53 ns")]
fn show_p99(known: &RepeatedRuns<'_>) -> Option<String> {
    let p99 = |run: &RunResult| {
        let latencies = run.latencies();
        (latencies.count() >= 100).then(|| latencies.p99() as f64)
    };
    known.median(p99).map(show_nanos)
}
