//! Runs with the same name and different seeds.

use kickcache_model::result::{RunResult, Validity};
use kickcache_model::statistics::median;

#[derive(Clone, PartialEq, Debug)]
pub(crate) struct RepeatedRuns<'a> {
    /// The run with the median rate; of an even number, the faster of the two in the middle.
    pub(crate) run: &'a RunResult,
    /// Operations a second.
    pub(crate) least: f64,
    /// Operations a second.
    pub(crate) most: f64,
    /// Ordered by their rates.
    pub(crate) all: Vec<&'a RunResult>,
}

impl RepeatedRuns<'_> {
    pub(crate) fn counts(&self) -> bool {
        self.all.iter().all(|run| run.standing == Validity::Counts)
    }

    /// Over the runs that have the figure.
    pub(crate) fn median(&self, figure: impl Fn(&RunResult) -> Option<f64>) -> Option<f64> {
        median(&self.all.iter().filter_map(|run| figure(run)).collect::<Vec<_>>())
    }
}

/// Groups runs with the same name and different seeds, in the order of the first run of each group.
pub(crate) fn fold(runs: &[RunResult]) -> Vec<RepeatedRuns<'_>> {
    let mut kinds: Vec<Vec<&RunResult>> = Vec::new();
    for run in runs {
        let is_alike = |known: &RunResult| known.name == run.name && known.seed != run.seed;
        match kinds.iter_mut().find(|kind| kind.iter().all(|known| is_alike(known))) {
            Some(kind) => kind.push(run),
            None => kinds.push(vec![run]),
        }
    }
    kinds.into_iter().map(of_kind).collect()
}

fn of_kind(mut runs: Vec<&RunResult>) -> RepeatedRuns<'_> {
    runs.sort_by(|one, other| one.iops().total_cmp(&other.iops()));
    RepeatedRuns {
        run: runs[runs.len() / 2],
        least: runs[0].iops(),
        most: runs[runs.len() - 1].iops(),
        all: runs,
    }
}
