//! The simulations of experiments, and their results.

use kickcache_engine::error::Error;

use crate::cache_model::dm_cache::age::Age;
use crate::published::cloud::{self, CloudCache};
use crate::published::scene::{Cache, Disks, Scene, Start};
use crate::published::steady::{self, Steady, SteadyRow};
use crate::replay::bench::Progress;
use crate::result::RunResult;

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Simulation {
    Disks {
        scene: Scene,
        minutes: u64,
    },
    /// All rows of the cloud's table, one after the other on the same devices.
    Cloud(CloudCache),
    /// Skewed reads on devices that take no time.
    Steady(SteadyRow),
}

pub enum Outcome {
    Runs(Vec<RunResult>),
    Counted(Steady),
}

pub struct Simulated {
    pub simulation: Simulation,
    pub outcome: Outcome,
}

pub struct Outcomes(Vec<Simulated>);

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum RunOf {
    Scene(Scene),
    Cloud {
        cache: CloudCache,
        /// The row's name.
        row: &'static str,
    },
}

impl Simulation {
    /// Extends the simulation so that it serves another one too, if both need the same run; returns whether
    /// it does.
    #[must_use]
    pub fn absorbs(&mut self, other: &Simulation) -> bool {
        if let (Simulation::Disks { scene, minutes }, Simulation::Disks { scene: same, minutes: length }) =
            (&mut *self, other)
            && scene == same
        {
            *minutes = (*minutes).max(*length);
            return true;
        }
        self == other
    }

    /// Runs it, and names its runs.
    ///
    /// # Errors
    /// If the engine refuses the sizes of a row in steady state.
    pub fn run(&self, seed: u64, progress: Progress<'_>) -> Result<Outcome, Error> {
        match *self {
            Simulation::Disks { scene, minutes } => {
                Ok(Outcome::Runs(vec![named(scene, scene.run(minutes, seed, progress))]))
            }
            Simulation::Cloud(cache) => Ok(Outcome::Runs(cloud_runs(cache, seed))),
            Simulation::Steady(row) => row.run(seed, steady::READS).map(Outcome::Counted),
        }
    }
}

impl Outcomes {
    pub fn new(simulated: Vec<Simulated>) -> Outcomes {
        Outcomes(simulated)
    }

    pub fn runs(&self) -> impl Iterator<Item = &RunResult> {
        self.places().map(|(_, run)| run)
    }

    pub fn run(&self, of: RunOf) -> Option<&RunResult> {
        self.places().find(|(place, _)| *place == of).map(|(_, run)| run)
    }

    /// The index of a run in [`Outcomes::runs`].
    pub fn place(&self, of: RunOf) -> Option<usize> {
        self.places().position(|(place, _)| place == of)
    }

    pub fn counted(&self, row: SteadyRow) -> Option<Steady> {
        self.0.iter().find_map(|done| match (&done.simulation, &done.outcome) {
            (Simulation::Steady(own), Outcome::Counted(found)) if *own == row => Some(*found),
            _ => None,
        })
    }

    fn places(&self) -> impl Iterator<Item = (RunOf, &RunResult)> {
        self.0.iter().flat_map(|Simulated { simulation, outcome }| {
            let runs = match outcome {
                Outcome::Runs(runs) => runs.as_slice(),
                Outcome::Counted(_) => &[],
            };
            runs.iter().enumerate().filter_map(|(index, run)| Some((simulation.run_of(index)?, run)))
        })
    }
}

impl Simulation {
    fn run_of(&self, index: usize) -> Option<RunOf> {
        match *self {
            Simulation::Disks { scene, .. } => Some(RunOf::Scene(scene)),
            Simulation::Cloud(cache) => {
                cloud::ROWS.get(index).map(|row| RunOf::Cloud { cache, row: row.name })
            }
            Simulation::Steady(_) => None,
        }
    }
}

fn named(scene: Scene, mut run: RunResult) -> RunResult {
    run.name = describe(&scene);
    let is_bare = matches!(scene.cache, Cache::BareSsd | Cache::BareDisk);
    run.cache = (!is_bare).then(|| "the articles' SSD".into());
    if scene.cache == Cache::BareSsd {
        run.origin = "the articles' SSD".into();
    }
    run
}

/// A scene in a few words.
pub fn describe(scene: &Scene) -> String {
    let start = match scene.start {
        Start::Empty => ", empty at first",
        Start::NewFileSystem => ", with a new file system at first",
        Start::Stale => ", full of stale data at first",
        Start::StaleDirty => ", full of dirty stale data at first",
        Start::FirstFile => ", with the first file",
    };
    let (cache, start) = match scene.cache {
        Cache::BareSsd => ("the SSD alone".to_owned(), ""),
        Cache::BareDisk => ("the disks alone".to_owned(), ""),
        Cache::DmCache(age) => (format!("dm-cache {}", name_of_age(age)), start),
        Cache::Bcache { cutoff: 0 } => ("bcache, no cut-off".to_owned(), start),
        Cache::Bcache { cutoff } => (format!("bcache, cut-off of {} MiB", cutoff >> 20), start),
        Cache::Kickcache => ("kickcache".to_owned(), start),
    };
    let jobs = if scene.jobs == 1 { ", one job" } else { "" };
    let disks = match scene.disks {
        Disks::Pair => "",
        Disks::One => ", one disk",
    };
    format!("{cache}, {} GiB of data{start}{jobs}{disks}", scene.data_gib)
}

fn name_of_age(age: Age) -> &'static str {
    match age {
        Age::LINUX_4_11 => "of Linux 4.11",
        Age::LINUX_4_12_RC1 => "of Linux 4.12-rc1",
        Age::PART_OF_REPAIR => "half repaired",
        Age::MOST_OF_REPAIR => "nearly repaired",
        Age::REPAIRED => "repaired",
        _ => "of another age",
    }
}

fn cloud_runs(cache: CloudCache, seed: u64) -> Vec<RunResult> {
    let mut runs = cache.run(seed);
    let name = match cache {
        CloudCache::Slow => "slow disk",
        CloudCache::Fast => "fast disk of 80 GiB",
        CloudCache::Bcache => "bcache",
        CloudCache::Kickcache => "kickcache",
    };
    for (row, run) in cloud::ROWS.iter().zip(&mut runs) {
        run.name = format!("{name}, {}", row.name);
        run.workload = row.name.into();
        let is_cached = matches!(cache, CloudCache::Bcache | CloudCache::Kickcache);
        run.cache = is_cached.then(|| "cloud SSD of 20 GiB".into());
        run.origin = if cache == CloudCache::Fast { "cloud SSD of 80 GiB" } else { "cloud disk" }.into();
        run.seed = seed;
    }
    runs
}
