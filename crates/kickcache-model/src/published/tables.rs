//! All published tables, or their rows that match a word.

use crate::published::experiment::{Experiment, Table};
use crate::published::simulation::Simulation;
use crate::published::{cloud_experiments, disk_experiments, steady_experiments};

/// The tables with the experiments that have a word in their name, of the cloud table all or none; without a word, all
/// experiments.
pub fn tables(word: Option<&str>) -> Vec<Table> {
    let is_meant = |name: &str| word.is_none_or(|word| name.contains(word));
    let named = |mut table: Table| {
        table.experiments.retain(|experiment| is_meant(&experiment.name));
        table
    };
    let mut cloud = cloud_experiments::table();
    if !is_meant(cloud_experiments::NAME) {
        cloud.experiments.clear();
    }
    vec![named(disk_experiments::table()), cloud, named(steady_experiments::table())]
}

/// The simulations that some tables need, each once, as long as the longest experiment needs it.
pub fn simulations(tables: &[Table]) -> Vec<Simulation> {
    let mut needed: Vec<Simulation> = Vec::new();
    let experiments = tables.iter().flat_map(|table| &table.experiments);
    for simulation in experiments.flat_map(|Experiment { run, .. }| run) {
        if !needed.iter_mut().any(|known| known.absorbs(simulation)) {
            needed.push(*simulation);
        }
    }
    needed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::published::cloud::CloudCache;
    use crate::published::experiment::Column;
    use crate::published::simulation::{Outcomes, describe};

    fn names(word: &str) -> Vec<String> {
        tables(Some(word)).into_iter().flat_map(|table| table.experiments).map(|row| row.name).collect()
    }

    #[test]
    fn a_word_selects_rows_or_the_whole_cloud_table() {
        assert_eq!(names("bcache-sc"), ["bcache-sc4m", "bcache-sc0"]);
        assert_eq!(names("1/12"), ["zipf-1.2-cache-1/12"]);
        assert_eq!(names("cloud").len(), 6);
        assert!(names("4 KiB random").is_empty() && names("floppy").is_empty());
        assert_eq!(tables(None).iter().map(|table| table.experiments.len()).collect::<Vec<_>>(), [62, 6, 3]);
    }

    #[test]
    fn a_shared_simulation_runs_once_with_the_longest_span() {
        let minutes = |simulation: &Simulation| match simulation {
            Simulation::Disks { minutes, .. } => Some(*minutes),
            Simulation::Cloud(_) | Simulation::Steady(_) => None,
        };
        let ssd = simulations(&tables(Some("ssd-4")));
        assert_eq!(ssd.iter().map(minutes).collect::<Vec<_>>(), [Some(20)]);
        let repaired = simulations(&tables(Some("lvmcache-full-4.12.")));
        assert!(repaired.iter().any(|simulation| minutes(simulation) == Some(20)), "{repaired:?}");
        let cloud = simulations(&tables(Some("cloud")));
        let caches = [CloudCache::Slow, CloudCache::Fast, CloudCache::Bcache, CloudCache::Kickcache];
        assert_eq!(cloud, caches.map(Simulation::Cloud));
    }

    #[test]
    fn no_two_scenes_are_described_alike() {
        let describe = |simulation: Simulation| match simulation {
            Simulation::Disks { scene, .. } => Some(describe(&scene)),
            Simulation::Cloud(_) | Simulation::Steady(_) => None,
        };
        let mut names: Vec<String> = simulations(&tables(None)).into_iter().filter_map(describe).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count, "{names:?}");
    }

    /// Renderers read the headings of a table from its first row, and find the columns of a page by their
    /// keys.
    #[test]
    fn all_rows_of_a_table_share_their_columns() {
        let nothing = Outcomes::new(Vec::new());
        for table in tables(None) {
            let shape = |columns: Vec<Column>| -> Vec<_> {
                columns.into_iter().map(|column| (column.key, column.heading)).collect()
            };
            let shapes: Vec<_> = table.experiments.iter().map(|row| shape((row.columns)(&nothing))).collect();
            assert!(shapes.iter().all(|own| *own == shapes[0]), "{}", table.key);
            for series in table.series {
                let found = shapes[0].iter().filter(|(key, _)| key.as_deref() == Some(series.key)).count();
                assert_eq!(found, 1, "{}: {}", table.key, series.key);
            }
        }
    }
}
