//! The published tables as a page with charts.

use kickcache_model::published::experiment::{Charts, ChartsNote, Experiment, Figure, Table};
use kickcache_model::published::simulation::{Outcomes, RunOf};
use kickcache_model::result::RunResult;
use kickcache_report::{Collection, Group, Overview, OverviewRow};

const INTRODUCTION: &str = "Published runs of fio on hard disks, SSDs and cloud disks, behind lvmcache and bcache; what \
models of those caches give on models of those disks; and what kickcache gives there, the engine that the daemon runs, \
from a cache full of stale data. Nothing here was measured on a real disk.";

/// The page of all tables that have rows.
pub(crate) fn page(tables: &[Table], outcomes: &Outcomes) -> String {
    let mut groups = Vec::new();
    let tables = tables.iter().filter(|table| !table.experiments.is_empty());
    let overviews: Vec<Overview> = tables.map(|table| overview(table, outcomes, &mut groups)).collect();
    let runs: Vec<RunResult> = outcomes.runs().cloned().collect();
    let (title, introduction) = ("The published results, simulated", INTRODUCTION);
    Collection { title, introduction, answer: &[], overviews: &overviews, groups: &groups, runs: &runs }
        .html()
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

/// What the page shows of an experiment, by series.
fn figures(table: &Table, experiment: &Experiment, outcomes: &Outcomes) -> Vec<Option<f64>> {
    let columns = (experiment.columns)(outcomes);
    let find = |key: &str| columns.iter().find(|column| column.key.as_deref() == Some(key));
    let figure = |key: &str| find(key).map_or(&Figure::Missing, |column| &column.figure).charted();
    table.series.iter().map(|series| figure(series.key)).collect()
}

/// The index of the group that has the charts of an experiment; experiments of the same runs share one.
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
