//! The experiments with the rows of `rows.csv`.

use crate::published::experiment::{Charts, ChartsNote, Column, Experiment, Figure, Series, Table};
use crate::published::figures::{Figures, iops_at_end};
use crate::published::rows::{Row, rows};
use crate::published::scene::Scene;
use crate::published::simulation::{Outcomes, RunOf, Simulation, describe};

const LAST_MINUTES: u64 = 5;
/// The most virtual minutes of a run.
const MINUTES_MAX: u64 = 30;

pub fn table() -> Table {
    Table {
        key: "rows",
        caption: None,
        names: "row",
        heading: "Hard disks behind a cache of 4 GiB",
        note: "Random reads of 4 KiB a second, and their ratio to the published figure; marks are on a \
               logarithmic scale. A row's name links to its charts.",
        series: &[
            Series { name: "published", key: "published.iops" },
            Series { name: "model", key: "model.iops" },
            Series { name: "kickcache", key: "kickcache.iops" },
        ],
        experiments: rows().into_iter().map(experiment).collect(),
    }
}

fn experiment(row: Row) -> Experiment {
    let minutes = row.minutes.min(MINUTES_MAX);
    let scenes = || [Some(row.scene), row.our_scene()].into_iter().flatten();
    let fitted = |before: &str, after: &str| {
        row.fitted.map_or_else(String::new, |what| format!("{before}{what} fitted{after}"))
    };
    Experiment {
        name: row.name.into(),
        mark: fitted(" (", ")"),
        note: format!("{} min{}", row.minutes, fitted(", ", "")),
        run: scenes().map(|scene| Simulation::Disks { scene, minutes }).collect(),
        charts: Some(Charts {
            title: describe(&row.scene),
            runs: scenes().map(RunOf::Scene).collect(),
            note: ChartsNote::Names,
        }),
        columns: Box::new(move |outcomes| columns(&row, minutes, outcomes)),
    }
}

fn columns(row: &Row, minutes: u64, outcomes: &Outcomes) -> Vec<Column> {
    let run = |scene: Scene| outcomes.run(RunOf::Scene(scene));
    let ours = row.our_scene().and_then(run);
    let model = run(row.scene).map(|run| Figures::new(run, minutes));
    let kickcache = ours.map(|run| Figures::new(run, minutes));
    let at_end = ours.map(|run| iops_at_end(run, minutes, LAST_MINUTES.min(minutes)));
    let ratio = |figures: &Option<Figures>| {
        Figure::of(figures.as_ref(), |known| Figure::Ratio(known.iops() / row.published.iops()))
    };
    let fitted = Column::untold("fitted", Figure::of(row.fitted, Figure::Words));
    let mut columns = vec![fitted, Column::new("min", "minutes", Figure::Count(row.minutes))];
    columns.extend(measured("published", "published", Some(&row.published)));
    columns.push(share("published", Some(&row.published)));
    columns.extend(measured("model", "model", model.as_ref()));
    columns.push(share("model", model.as_ref()));
    columns.push(Column::derived("model/pub.", ratio(&model)));
    columns.extend(measured("kickcache", "kickcache", kickcache.as_ref()));
    let untold = share("kickcache", kickcache.as_ref());
    columns.push(Column { heading: None, ..untold });
    columns.push(Column::derived("kick./pub.", ratio(&kickcache)));
    columns.push(Column::untold("kickcache_last_5_minutes_iops", Figure::of(at_end, Figure::Rate)));
    columns
}

fn measured(heading: &'static str, key: &str, figures: Option<&Figures>) -> Vec<Column> {
    let by_job =
        |of: fn(&Figures) -> &Vec<f64>| Figure::of(figures, |known| Figure::ByJob(of(known).clone()));
    let written = figures.and_then(|known| known.written_per_byte);
    vec![
        Column::new(heading, format!("{key}.iops"), Figure::of(figures, |known| Figure::Rate(known.iops()))),
        Column::new("jobs", format!("{key}.jobs"), by_job(|known| &known.jobs)),
        Column::untold(format!("{key}.p50_micros"), by_job(|known| &known.p50)),
        Column::untold(format!("{key}.p99_micros"), by_job(|known| &known.p99)),
        Column::untold(format!("{key}.written_per_byte"), Figure::of(written, Figure::Ratio)),
    ]
}

fn share(key: &str, figures: Option<&Figures>) -> Column {
    let percent = figures.and_then(|known| known.share);
    Column::new("share", format!("{key}.share_percent"), Figure::of(percent, Figure::Percent))
}
