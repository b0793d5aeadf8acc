//! The results of a grid as text: the cases that miss a bound, a heat map, and a summary.

use std::io;

use kickcache_command::table::{Align, Cell, Colour, Table, Tone};
use kickcache_command::user_text::Printer;
use kickcache_model::grid::verdict::{Comparison, MEASURES, Measure, Side, Statistic};

use crate::cli::simulate::case_result::CaseResult;

/// Marks of the heat map, each with the greatest excess that it stands for.
const MARKS: [(f64, &str); 4] = [(1.25, "░"), (2.0, "▒"), (4.0, "▓"), (f64::INFINITY, "█")];
const WITHIN: &str = "·";

pub(crate) fn print(results: &[CaseResult], out: &mut dyn Printer) -> io::Result<()> {
    for result in results.iter().filter(|result| !result.misses.is_empty()) {
        print_case(result, out)?;
    }
    print_heat_map(results, out)?;
    print_summary(results, out)
}

fn print_case(result: &CaseResult, out: &mut dyn Printer) -> io::Result<()> {
    writeln!(out, "{}", result.case)?;
    let caches = result.got.keys().map(|name| (name.to_uppercase(), Align::Right));
    let columns: Vec<(String, Align)> =
        [("  MISSED".to_owned(), Align::Left), ("BOUND".to_owned(), Align::Right)]
            .into_iter()
            .chain(caches)
            .collect();
    let columns: Vec<(&str, Align)> = columns.iter().map(|(name, align)| (name.as_str(), *align)).collect();
    let mut table = Table::new(&columns);
    for missed in result.comparisons.iter().filter(|comparison| !comparison.is_within()) {
        let figure = |found: Option<f64>| {
            Cell::new(found.map_or_else(|| "-".into(), |found| show(missed.measure, found)))
        };
        let figures = result.got.values().map(|figures| figure(missed.measure.of(figures)));
        let name = Cell::new(format!("  {}", missed.measure));
        table.row([name, figure(Some(missed.limit))].into_iter().chain(figures).collect());
    }
    table.print(out, Colour::for_stdout())?;
    writeln!(out)
}

fn print_heat_map(results: &[CaseResult], out: &mut dyn Printer) -> io::Result<()> {
    let columns = MEASURES.iter().map(|measure| (short_name(*measure), Align::Right));
    let columns: Vec<(&str, Align)> = std::iter::once(("CASE", Align::Left)).chain(columns).collect();
    let mut table = Table::new(&columns);
    for result in results {
        let cell = |measure: &Measure| {
            let found = result.comparisons.iter().find(|comparison| comparison.measure == *measure);
            found.map_or_else(|| Cell::new(""), heat)
        };
        let name = Cell::new(result.case.to_string());
        table.row(std::iter::once(name).chain(MEASURES.iter().map(cell)).collect());
    }
    table.print(out, Colour::for_stdout())?;
    writeln!(
        out,
        "\n{WITHIN} is within the bound; ░ misses it by up to a quarter, ▒ by up to 2 times, ▓ by up to 4 times, █ by more. \
         Figures are\nfactors of the best of the other caches; of HITS, percentage points; of WRITTEN, bytes for each byte \
         that entered the cache."
    )
}

fn heat(comparison: &Comparison) -> Cell {
    if comparison.is_within() {
        return Cell::new(WITHIN);
    }
    let excess = comparison.excess();
    let mark = MARKS.iter().find(|(most, _)| excess <= *most).map_or("", |(_, mark)| *mark);
    let tone = if excess <= 2.0 { Tone::Warning } else { Tone::Bad };
    let Comparison { found, best, .. } = comparison;
    let figure = match comparison.measure {
        Measure::Hits => format!("{:.1}", found - best),
        Measure::Written => format!("{found:.2}"),
        Measure::Iops => format!("{:.2}x", found / best),
        Measure::Latency(..) => format!("{:.1}x", found / best),
    };
    Cell::toned(format!("{mark}{figure}"), tone)
}

fn print_summary(results: &[CaseResult], out: &mut dyn Printer) -> io::Result<()> {
    let within = results.iter().filter(|result| result.misses.is_empty()).count();
    writeln!(out, "\n{within} of {} cases are within all bounds.", results.len())?;
    for measure in MEASURES {
        let found = results.iter().flat_map(|result| {
            let comparisons = result.comparisons.iter().filter(|comparison| comparison.measure == measure);
            comparisons.map(move |comparison| (result, comparison))
        });
        let worst = found.max_by(|one, two| one.1.excess().total_cmp(&two.1.excess()));
        if let Some((result, comparison)) = worst.filter(|(_, comparison)| !comparison.is_within()) {
            writeln!(out, "worst: {comparison}: {}", result.case)?;
        }
    }
    Ok(())
}

fn show(measure: Measure, figure: f64) -> String {
    match measure {
        Measure::Iops => format!("{figure:.0}"),
        Measure::Hits => format!("{figure:.1} %"),
        Measure::Written => format!("{figure:.2}"),
        Measure::Latency(..) if figure < 10_000.0 => format!("{figure:.0} µs"),
        Measure::Latency(..) => format!("{:.1} ms", figure / 1e3),
    }
}

fn short_name(measure: Measure) -> &'static str {
    match measure {
        Measure::Iops => "IOPS",
        Measure::Hits => "HITS",
        Measure::Written => "WRITTEN",
        Measure::Latency(Side::FirstReads, _) => "R FIRST",
        Measure::Latency(Side::FirstWrites, _) => "W FIRST",
        Measure::Latency(Side::Reads, Statistic::Mean) => "R MEAN",
        Measure::Latency(Side::Reads, Statistic::P99) => "R P99",
        Measure::Latency(Side::Reads, Statistic::P99Point9) => "R P99.9",
        Measure::Latency(Side::Writes, Statistic::Mean) => "W MEAN",
        Measure::Latency(Side::Writes, Statistic::P99) => "W P99",
        Measure::Latency(Side::Writes, Statistic::P99Point9) => "W P99.9",
    }
}
