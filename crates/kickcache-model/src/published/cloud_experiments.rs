//! The experiments with cloud disks: a workload on the slow disk, on the fast one, with bcache and with kickcache.

use crate::published::cloud::{CloudCache, CloudRow, ROWS};
use crate::published::experiment::{Charts, ChartsNote, Column, Experiment, Figure, Series, Table};
use crate::published::simulation::{Outcomes, RunOf, Simulation};

/// The rows of this table are run together or not at all: a word selects the table if it is a part of this
/// name.
pub const NAME: &str = "cloud";

pub fn table() -> Table {
    Table {
        key: "cloud",
        caption: Some("Cloud disks, operations a second or MiB a second:"),
        names: "workload",
        heading: "Cloud disks",
        note: "Operations a second, or MiB a second of long accesses: bcache as published, its model, \
               kickcache, and the models of the disks alone; ratios are to the published figure of \
               bcache.",
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
        note: row.asked.map_or_else(String::new, |asked| format!("required of kickcache: {asked:.0}")),
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
