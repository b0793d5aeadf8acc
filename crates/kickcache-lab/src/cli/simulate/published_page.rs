//! The published tables as a page with charts.

use kickcache_model::published::experiment::{Charts, ChartsNote, Experiment, Figure, Table};
use kickcache_model::published::simulation::{Outcomes, RunOf};
use kickcache_model::result::RunResult;
use kickcache_model::statistics::median;
use kickcache_report::{Collection, Group, Overview, OverviewRow};

const INTRODUCTION: &str = "Published runs of fio on hard disks, SSDs and cloud disks, behind lvmcache and bcache; the results of \
models of those caches on models of those disks; and the results of kickcache there: the engine of the \
daemon, starting with a cache full of stale data. No figure here was measured on a real disk.";

pub(crate) fn page(tables: &[Table], outcomes: &Outcomes) -> String {
    let mut groups = Vec::new();
    let tables = tables.iter().filter(|table| !table.experiments.is_empty());
    let overviews: Vec<Overview> = tables.map(|table| overview(table, outcomes, &mut groups)).collect();
    let runs: Vec<RunResult> = outcomes.runs().cloned().collect();
    let (title, introduction) = ("The published results, simulated", INTRODUCTION);
    let answer: Vec<String> = overviews.iter().filter_map(answer).collect();
    Collection { title, introduction, answer: &answer, overviews: &overviews, groups: &groups, runs: &runs }
        .html()
}

fn answer(overview: &Overview) -> Option<String> {
    let column =
        |name: &str| overview.series.iter().position(|series| series == name || series.ends_with(name));
    let (published, model, kickcache) = (column("published")?, column("model")?, column("kickcache")?);
    let models = factors(&overview.rows, published, model);
    let kickcache = factors(&overview.rows, published, kickcache);
    let far: Vec<f64> = models.iter().map(|factor| (factor - 1.0).abs()).collect();
    let off = median(&far)? * 100.0;
    let how_far = match models.len() {
        1 => format!("1 row, {off:.0} % off"),
        count => format!("{count} rows, half of which are within {off:.0} %"),
    };
    let half = match kickcache.len() {
        1 => String::new(),
        _ => format!(", half of its rows {:.2}x or more", median(&kickcache)?),
    };
    Some(format!(
        "{}: the models give {} of the published figures ({how_far}); kickcache gives {}{half}.",
        overview.heading,
        show_span(&models)?,
        show_span(&kickcache)?
    ))
}

/// The ratios of one figure to another, in the rows that have both.
fn factors(rows: &[OverviewRow], base: usize, other: usize) -> Vec<f64> {
    let factor =
        |row: &OverviewRow| Some(row.figures[other]? / row.figures[base].filter(|base| *base > 0.0)?);
    rows.iter().filter_map(factor).collect()
}

fn show_span(factors: &[f64]) -> Option<String> {
    let least = factors.iter().copied().reduce(f64::min)?;
    let most = factors.iter().copied().reduce(f64::max)?;
    Some(if factors.len() == 1 { format!("{least:.2}x") } else { format!("{least:.2}x to {most:.2}x") })
}

fn overview(table: &Table, outcomes: &Outcomes, groups: &mut Vec<Group>) -> Overview {
    let mut row = |experiment: &Experiment| OverviewRow {
        name: experiment.name.clone(),
        note: experiment.note.clone(),
        figures: figures(table, experiment, outcomes),
        group: experiment.charts.as_ref().map(|charts| group(charts, &experiment.name, outcomes, groups)),
    };
    Overview {
        heading: table.heading.into(),
        note: table.note.into(),
        series: table.series.iter().map(|series| series.name.into()).collect(),
        measure: 0,
        rows: table.experiments.iter().map(&mut row).collect(),
    }
}

fn figures(table: &Table, experiment: &Experiment, outcomes: &Outcomes) -> Vec<Option<f64>> {
    let columns = (experiment.columns)(outcomes);
    let find = |key: &str| columns.iter().find(|column| column.key.as_deref() == Some(key));
    let figure = |key: &str| find(key).map_or(&Figure::Missing, |column| &column.figure).charted();
    table.series.iter().map(|series| figure(series.key)).collect()
}

/// The index of the group that has the charts of an experiment.
fn group(charts: &Charts, name: &str, outcomes: &Outcomes, groups: &mut Vec<Group>) -> usize {
    let runs: Vec<usize> = charts.runs.iter().filter_map(|run: &RunOf| outcomes.place(*run)).collect();
    let index = groups.iter().position(|known| known.runs == runs).unwrap_or_else(|| {
        groups.push(Group { title: charts.title.clone(), note: String::new(), runs, first: 1 });
        groups.len() - 1
    });
    if charts.note == ChartsNote::Names {
        let note = &mut groups[index].note;
        *note = if note.is_empty() { format!("Rows: {name}") } else { format!("{note}, {name}") };
    }
    index
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overview(series: [&str; 3], figures: &[[Option<f64>; 3]]) -> Overview {
        let row = |figures: &[Option<f64>; 3]| OverviewRow {
            name: String::new(),
            note: String::new(),
            figures: figures.to_vec(),
            group: None,
        };
        Overview {
            heading: "Disks".into(),
            note: String::new(),
            series: series.map(str::to_owned).to_vec(),
            measure: 0,
            rows: figures.iter().map(row).collect(),
        }
    }

    #[test]
    fn a_table_of_published_figures_has_an_answer_in_words() {
        let series = ["bcache, published", "bcache, model", "kickcache"];
        let rows = [
            [Some(100.0), Some(90.0), Some(300.0)],
            [Some(100.0), Some(104.0), Some(200.0)],
            [Some(100.0), Some(101.0), None],
            [None, Some(1.0), Some(1.0)],
        ];
        assert_eq!(
            answer(&overview(series, &rows)).unwrap(),
            "Disks: the models give 0.90x to 1.04x of the published figures (3 rows, half of which are \
             within 4 %); kickcache gives 2.00x to 3.00x, half of its rows 2.50x or more."
        );
        assert_eq!(
            answer(&overview(series, &rows[..1])).unwrap(),
            "Disks: the models give 0.90x of the published figures (1 row, 10 % off); kickcache gives 3.00x."
        );
        assert!(answer(&overview(["LRU", "S3-FIFO", "kickcache"], &rows)).is_none());
    }
}
