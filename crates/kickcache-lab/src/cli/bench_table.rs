//! The table of `kickcache bench`.

use std::io;

use kickcache_command::table::{Align, Cell, Colour, KEEP, Table, Tone};
use kickcache_command::user_text::Printer;
use kickcache_command::width::terminal_width;
use kickcache_model::statistics::comparison::{Comparison, Verdict};
use kickcache_units::{counted, show_whole};

use crate::bench::{BenchResult, Noise, Phase, PredictedFigures, Row, Summary};

const NONE_COUNTS: &str =
    "No round counts: the figures come only from discarded rounds, and are no evidence.";
/// The interval of a comparison without enough data is not shown if its end is more than this many times its
/// beginning.
const WIDE: f64 = 100.0;
/// A share of the processors above this one is mentioned, even if the limit permits it.
const BUSY: f64 = 0.02;
/// The most verdicts above a table.
const SENTENCES_MAX: usize = 6;
/// The cell of a missing figure.
const NOTHING: &str = "-";

pub(crate) fn print(result: &BenchResult, summary: &Summary, out: &mut dyn Printer) -> io::Result<()> {
    let mut answer = answer(&summary.rows);
    answer.extend(same_disk(summary, result));
    answer.iter().try_for_each(|sentence| writeln!(out, "{sentence}"))?;
    if !answer.is_empty() {
        writeln!(out)?;
    }
    writeln!(out, "{}\n", result.job)?;
    if summary.rows.is_empty() {
        return writeln!(out, "No target was measured.");
    }
    if summary.rounds == 0 {
        writeln!(out, "{NONE_COUNTS}\n")?;
    }
    let columns = [
        ("TARGET", Align::Left, KEEP),
        ("CACHE", Align::Left, KEEP),
        ("IOPS", Align::Right, KEEP),
        ("MIN-MAX", Align::Right, 2),
        ("RATIO", Align::Right, KEEP),
        ("P50", Align::Right, 3),
        ("P99", Align::Right, 1),
        ("HITS", Align::Right, 4),
        ("VERDICT", Align::Left, KEEP),
    ];
    let mut table = Table::ranked(&columns);
    for row in &summary.rows {
        table.row(if summary.rounds == 0 { dim(cells(row)) } else { cells(row) });
        if let Some(foretold) = row.foretold.as_ref().filter(|_| summary.rounds > 0) {
            table.row(cells_of_prediction(row, foretold));
        }
    }
    table.print_within(out, Colour::for_stdout(), terminal_width())?;
    writeln!(out)?;
    let is_new = |line: &&String| *line != NONE_COUNTS;
    footnotes(summary, result).iter().filter(is_new).try_for_each(|line| writeln!(out, "{line}"))
}

/// The verdicts on the first [`SENTENCES_MAX`] rows with a comparison.
fn answer(rows: &[Row]) -> Vec<String> {
    let Some(base) = rows.first().map(|row| row.target.as_str()) else { return Vec::new() };
    let known = rows.iter().filter_map(|row| Some((row, row.iops_against_base.as_ref()?)));
    known.take(SENTENCES_MAX).map(|(row, known)| sentence(row, known, base)).collect()
}

/// A sentence for each target with its cache device and its origin on one disk, unless a row of it was faster
/// than its base.
pub(crate) fn same_disk(summary: &Summary, result: &BenchResult) -> Vec<String> {
    let is_faster = |name: &str| {
        let own = summary.rows.iter().filter(|row| row.target == name);
        own.filter_map(|row| row.iops_against_base.as_ref()).any(|known| known.verdict == Verdict::Faster)
    };
    let names = result.targets.iter().filter(|target| target.shares_disk && !is_faster(&target.name));
    names
        .map(|target| {
            let name = &target.name;
            format!(
                "Cache device and origin of {name} are on the same disk, so the cache has nothing to gain."
            )
        })
        .collect()
}

fn sentence(row: &Row, known: &Comparison, base: &str) -> String {
    let what = match row.phase {
        Phase::Found => row.target.clone(),
        phase @ (Phase::Empty | Phase::Stale | Phase::Restart | Phase::Repeated) => {
            format!("{} ({})", row.target, phase.name())
        }
    };
    format!("{}.", known.clause(&what, base, "IOPS"))
}

fn cells(row: &Row) -> Vec<Cell> {
    let comparison = row.iops_against_base.as_ref();
    let text = |shown: Option<String>| Cell::new(shown.unwrap_or_else(|| NOTHING.into()));
    vec![
        Cell::new(&row.target),
        Cell::new(row.phase.name()),
        Cell::new(rate(row.iops)),
        Cell::new(format!("{}-{}", rate(row.iops_min), rate(row.iops_max))),
        text(comparison.map(|known| ratio(known.ratio))),
        Cell::new(latency(row.p50)),
        Cell::new(latency(row.p99)),
        text(row.hit_ratio.map(percent)),
        comparison
            .map_or_else(|| Cell::new(NOTHING), |known| Cell::toned(verdict(known), tone(known.verdict))),
    ]
}

/// Marks figures that are no evidence.
fn dim(cells: Vec<Cell>) -> Vec<Cell> {
    cells.into_iter().map(|cell| cell.with_tone(Tone::Warning)).collect()
}

fn cells_of_prediction(row: &Row, foretold: &PredictedFigures) -> Vec<Cell> {
    vec![
        Cell::new("  predicted"),
        Cell::new(row.phase.name()),
        Cell::new(rate(foretold.iops)),
        Cell::new(NOTHING),
        Cell::new(NOTHING),
        Cell::new(latency(foretold.p50)),
        Cell::new(latency(foretold.p99)),
        Cell::new(foretold.hit_ratio.map_or_else(|| NOTHING.into(), percent)),
        Cell::new(format!(
            "{} of measured, p99 {}",
            ratio(foretold.iops / row.iops),
            ratio(foretold.p99 / row.p99)
        )),
    ]
}

pub(crate) fn footnotes(summary: &Summary, result: &BenchResult) -> Vec<String> {
    let Summary { rounds, discarded, others_most, .. } = summary;
    let mut lines = match rounds {
        0 => vec![NONE_COUNTS.to_owned()],
        _ => vec![format!(
            "{} count{}; figures are medians, ratios are to the first target (of the same phase, if it has that), round by round.",
            counted(*rounds as u64, "round"),
            if *rounds == 1 { "s" } else { "" }
        )],
    };
    if *discarded > 0 {
        lines.push(format!(
            "{discarded} more were discarded: other programs took up to {:.1} % of the processors, {:.1} % are allowed.",
            others_most * 100.0,
            result.busy_limit * 100.0
        ));
    }
    if summary.others_counted > BUSY {
        lines.push(format!(
            "Other programs took up to {:.1} % of the processors in rounds that count; {:.1} % were allowed (--busy-limit): the figures may be theirs as well.",
            summary.others_counted * 100.0,
            result.busy_limit * 100.0
        ));
    }
    if let (Some(noise), Some(first)) = (&summary.noise, summary.rows.first()) {
        lines.push(of_noise(noise, &first.target));
    }
    for target in result.targets.iter().filter(|target| target.has_holes) {
        let name = &target.name;
        lines.push(format!("{name} has holes, which are read faster and written more slowly than data: its figures differ from those of a full file."));
    }
    if summary.rows.iter().any(|row| row.foretold.is_some()) {
        lines.push("Predicted: the same job, simulated on models of the devices.".into());
    }
    lines
}

/// A sentence on the noise of the first target.
fn of_noise(noise: &Noise, target: &str) -> String {
    let floor = noise.floor * 100.0;
    match &noise.against_itself {
        None => format!(
            "{target} against itself: this number of rounds cannot show a difference below {floor:.1} %."
        ),
        Some(known) if matches!(known.verdict, Verdict::Faster | Verdict::Slower) => format!(
            "{target} against itself, run again in each round: {}, {}. The cause is not a target: do not \
             trust a difference of this size.",
            ratio(known.ratio),
            verdict(known)
        ),
        Some(known) => format!(
            "{target} against itself, run again in each round: {}, {}; differences below {floor:.1} % are noise.",
            ratio(known.ratio),
            verdict(known)
        ),
    }
}

fn verdict(comparison: &Comparison) -> String {
    match (comparison.verdict, comparison.low, comparison.high) {
        (Verdict::Equal, ..) | (_, None, _) | (_, _, None) => comparison.words(),
        (Verdict::NotEnoughData, Some(low), Some(high)) if high > low * WIDE => comparison.words(),
        (_, Some(low), Some(high)) => format!("{} ({} to {})", comparison.words(), ratio(low), ratio(high)),
    }
}

fn tone(verdict: Verdict) -> Tone {
    match verdict {
        Verdict::Faster => Tone::Good,
        Verdict::Slower => Tone::Bad,
        Verdict::Equal => Tone::Plain,
        Verdict::NotEnoughData => Tone::Warning,
    }
}

fn percent(part: f64) -> String {
    format!("{:.1} %", part * 100.0)
}

fn rate(iops: f64) -> String {
    if iops > 0.0 && iops < 9.95 { format!("{iops:.1}") } else { show_whole(iops) }
}

fn ratio(ratio: f64) -> String {
    let digits = if ratio < 9.995 { 2 } else { usize::from(ratio < 99.95) };
    format!("{ratio:.digits$}x")
}

fn latency(nanos: f64) -> String {
    match nanos {
        none if none <= 0.0 => NOTHING.into(),
        few if few < 999_500.0 => format!("{:.0} µs", few / 1e3),
        millis if millis < 9_995_000.0 => format!("{:.2} ms", millis / 1e6),
        millis if millis < 999_500_000.0 => format!("{:.0} ms", millis / 1e6),
        long => format!("{:.1} s", long / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_operations_are_not_none() {
        assert_eq!([0.0, 0.33, 9.9, 10.2, 1234.6].map(rate), ["0", "0.3", "9.9", "10", "1,235"]);
    }

    #[test]
    fn the_answer_is_a_sentence_for_each_target() {
        let known = Comparison {
            ratio: 0.59,
            low: Some(0.53),
            high: Some(0.65),
            rounds: 4,
            margin: 0.05,
            verdict: Verdict::Slower,
        };
        let row = |target: &str, phase, iops_against_base| Row {
            target: target.into(),
            phase,
            iops: 1.0,
            iops_min: 1.0,
            iops_max: 1.0,
            p50: 1.0,
            p99: 1.0,
            hit_ratio: None,
            iops_against_base,
            p99_against_base: None,
            foretold: None,
        };
        let rows = [
            row("raw", Phase::Found, None),
            row("cached", Phase::Found, Some(known)),
            row("cached", Phase::Empty, Some(known)),
        ];
        let expected = [
            "cached is slower than raw: 0.59 times its IOPS (0.53 to 0.65, 4 rounds).",
            "cached (empty cache) is slower than raw: 0.59 times its IOPS (0.53 to 0.65, 4 rounds).",
        ];
        assert_eq!(answer(&rows), expected);
        assert_eq!(answer(&[]), Vec::<String>::new());
    }

    #[test]
    fn a_meaningless_interval_is_not_shown() {
        let known = |high| Comparison {
            ratio: 1.0,
            low: Some(0.5),
            high: Some(high),
            rounds: 2,
            margin: 0.05,
            verdict: Verdict::NotEnoughData,
        };
        assert_eq!(verdict(&known(414_388.0)), "not enough data");
        assert_eq!(verdict(&known(2.0)), "not enough data (0.50x to 2.00x)");
    }
}
