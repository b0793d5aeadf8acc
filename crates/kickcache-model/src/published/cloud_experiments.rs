//! The experiments with cloud disks: a workload on the slow disk, on the fast one, with bcache and with kickcache.

use crate::published::cloud::{CloudCache, CloudRow, ROWS};
use crate::published::experiment::{Charts, ChartsNote, Column, Experiment, Figure, Series, Table};
use crate::published::simulation::{Outcomes, RunOf, Simulation};

/// What a word must be part of for the table to be meant: its rows are run together or not at all.
pub const NAME: &str = "cloud";

/// All of them.
pub fn table() -> Table {
    Table {
        key: "cloud",
        caption: Some("Cloud disks, operations a second or MiB a second:"),
        names: "workload",
        heading: "Cloud disks",
        note: "Operations a second, of long accesses MiB a second: bcache as published, its model, kickcache, and the \
               models of the disks alone; ratios are to what was published of bcache.",
        series: &[
            Series { name: "bcache, published", key: "published.bcache" },
            Series { name: "bcache, model", key: "models.bcache" },
            Series { name: "kickcache", key: "kickcache" },
            Series { name: "slow disk", key: "models.slow" },
            Series { name: "fast disk, 80 GiB", key: "models.fast" },
        ],
        experiments: ROWS.iter().map(experiment).collect(),
    }
}

fn experiment(row: &'static CloudRow) -> Experiment {
    let all = [CloudCache::Slow, CloudCache::Fast, CloudCache::Bcache, CloudCache::Kickcache];
    let charted = [CloudCache::Bcache, CloudCache::Kickcache, CloudCache::Slow, CloudCache::Fast];
    Experiment {
        name: row.name.into(),
        mark: String::new(),
        note: row.asked.map_or_else(String::new, |asked| format!("asked of kickcache: {asked:.0}")),
        run: all.map(Simulation::Cloud).to_vec(),
        charts: Some(Charts {
            title: format!("Cloud disks: {}", row.name),
            runs: charted.map(|cache| RunOf::Cloud { cache, row: row.name }).to_vec(),
            note: ChartsNote::Nothing,
        }),
        columns: Box::new(move |outcomes| columns(row, outcomes)),
    }
}

fn columns(row: &'static CloudRow, outcomes: &Outcomes) -> Vec<Column> {
    let found = |cache| outcomes.run(RunOf::Cloud { cache, row: row.name }).map(|run| row.figure(run));
    let model = |cache| Figure::of(found(cache), Figure::Rate);
    let kickcache = Figure::of(found(CloudCache::Kickcache), |rate| match row.asked {
        Some(asked) => Figure::RateAsked { rate, asked },
        None => Figure::Rate(rate),
    });
    let published = row.published;
    vec![
        Column::new("slow disk", "published.slow", Figure::Rate(published.slow)),
        Column::new("model", "models.slow", model(CloudCache::Slow)),
        Column::new("fast disk", "published.fast", Figure::Rate(published.fast)),
        Column::new("model", "models.fast", model(CloudCache::Fast)),
        Column::new("bcache", "published.bcache", Figure::Rate(published.bcache)),
        Column::new("model", "models.bcache", model(CloudCache::Bcache)),
        Column::new("kickcache", "kickcache", kickcache),
        Column::untold("asked", Figure::of(row.asked, Figure::Asked)),
    ]
}
