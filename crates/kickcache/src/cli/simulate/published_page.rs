//! The page of `kickcache simulate published`.

use kickcache_model::cache_model::dm_cache::age::Age;
use kickcache_model::published::cloud;
use kickcache_model::published::rows::Row;
use kickcache_model::published::scene::{Cache, Scene, Start};
use kickcache_model::result::RunResult;
use kickcache_report::{Collection, Group, Overview, OverviewRow};

use crate::cli::simulate::published_table::{CloudLine, Line};
use crate::cli::simulate::steady_table::{self, SteadyLine};

const INTRODUCTION: &str = "Published runs of fio on hard disks, SSDs and cloud disks, behind lvmcache and bcache; what \
models of those caches give on models of those disks; and what kickcache gives there, the engine that the daemon runs, \
from a cache full of stale data. Nothing here was measured on a real disk.";

/// A scene, and how long it is simulated.
#[derive(Clone, Copy)]
pub(crate) struct TimedScene {
    pub(crate) scene: Scene,
    /// Virtual minutes.
    pub(crate) minutes: u64,
}

/// What was simulated.
pub(crate) struct Simulated<'a> {
    pub(crate) rows: &'a [Row],
    pub(crate) lines: &'a [Line],
    pub(crate) scenes: &'a [TimedScene],
    /// As many as scenes.
    pub(crate) disk: &'a [RunResult],
    pub(crate) cloud_lines: &'a [CloudLine],
    /// By cache, then by row; empty without cloud disks.
    pub(crate) clouds: &'a [Vec<RunResult>],
    pub(crate) steady: &'a [SteadyLine],
}

/// A scene in a few words, which no other scene has.
pub(crate) fn name_of(scene: &Scene) -> String {
    let start = match scene.start {
        Start::Empty => ", empty at first",
        Start::Stale => ", full of stale data at first",
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
    format!("{cache}, {} GiB of data{start}{jobs}", scene.data_gib)
}

fn name_of_age(age: Age) -> &'static str {
    match age {
        Age::LINUX_4_11 => "of Linux 4.11",
        Age::LINUX_4_12_RC1 => "of Linux 4.12-rc1",
        Age::PART_OF_REPAIR => "half repaired",
        Age::REPAIRED => "repaired",
        _ => "of another age",
    }
}

impl Simulated<'_> {
    /// The page.
    pub(crate) fn page(&self) -> String {
        let (mut groups, mut overviews) = (Vec::new(), Vec::new());
        if !self.rows.is_empty() {
            overviews.push(self.disk_overview(&mut groups));
        }
        if !self.cloud_lines.is_empty() {
            overviews.push(self.cloud_overview(&mut groups));
        }
        if !self.steady.is_empty() {
            overviews.push(steady_overview(self.steady));
        }
        let mut runs = self.disk.to_vec();
        runs.extend(self.clouds.iter().flatten().cloned());
        let (title, introduction) = ("The published results, simulated", INTRODUCTION);
        Collection { title, introduction, overviews: &overviews, groups: &groups, runs: &runs }.html()
    }

    fn index_of(&self, scene: Scene) -> Option<usize> {
        self.scenes.iter().position(|known| known.scene == scene)
    }

    /// The rows of hard disks; those that are simulated alike share a group.
    fn disk_overview(&self, groups: &mut Vec<Group>) -> Overview {
        let mut rows = Vec::new();
        for (row, line) in self.rows.iter().zip(self.lines) {
            let runs: Vec<usize> = [Some(row.scene()), row.our_scene()]
                .into_iter()
                .flatten()
                .filter_map(|scene| self.index_of(scene))
                .collect();
            let group = groups.iter().position(|known| known.runs == runs).unwrap_or_else(|| {
                groups.push(Group { title: name_of(&row.scene()), note: String::new(), runs, first: 1 });
                groups.len() - 1
            });
            let known = &mut groups[group].note;
            *known = if known.is_empty() {
                format!("Rows: {}", row.name)
            } else {
                format!("{known}, {}", row.name)
            };
            let iops = |figures: &Option<kickcache_model::published::figures::Figures>| {
                figures.as_ref().map(|known| known.iops())
            };
            let fitted = line.fitted.map_or_else(String::new, |what| format!(", {what} fitted"));
            rows.push(OverviewRow {
                name: line.name.into(),
                note: format!("{} min{fitted}", line.minutes),
                figures: vec![Some(line.published.iops()), iops(&line.model), iops(&line.kickcache)],
                group: Some(group),
            });
        }
        Overview {
            heading: "Hard disks behind a cache of 4 GiB".into(),
            note: "Random reads of 4 KiB a second, and how often that is of what was published; marks stand on a \
                   logarithmic scale. A row's name leads to its charts."
                .into(),
            series: ["published", "model", "kickcache"].map(String::from).to_vec(),
            measure: 0,
            rows,
        }
    }

    fn cloud_overview(&self, groups: &mut Vec<Group>) -> Overview {
        let mut rows = Vec::new();
        for (index, line) in self.cloud_lines.iter().enumerate() {
            // As the columns: bcache, kickcache, the slow disk, the fast one.
            let runs = [2, 3, 0, 1].map(|cache| self.disk.len() + cache * cloud::ROWS.len() + index);
            let title = format!("Cloud disks: {}", line.name);
            groups.push(Group { title, note: String::new(), runs: runs.to_vec(), first: 1 });
            let asked =
                line.asked.map_or_else(String::new, |asked| format!("asked of kickcache: {asked:.0}"));
            let [_, _, published] = line.published;
            let [slow, fast, model] = line.models;
            rows.push(OverviewRow {
                name: line.name.into(),
                note: asked,
                figures: [published, model, line.kickcache, slow, fast].map(Some).to_vec(),
                group: Some(groups.len() - 1),
            });
        }
        Overview {
            heading: "Cloud disks".into(),
            note: "Operations a second, of long accesses MiB a second: bcache as published, its model, kickcache, and the \
                   models of the disks alone; ratios are to what was published of bcache."
                .into(),
            series: ["bcache, published", "bcache, model", "kickcache", "slow disk", "fast disk, 80 GiB"]
                .map(String::from)
                .to_vec(),
            measure: 0,
            rows,
        }
    }
}

/// Counted, not timed: there is nothing to chart.
fn steady_overview(lines: &[SteadyLine]) -> Overview {
    let misses = |hits: f64| Some((1.0 - hits) * 1_000_000.0);
    let row = |SteadyLine { row, found }: &SteadyLine| OverviewRow {
        name: steady_table::name_of(row),
        note: format!("asked of kickcache: {:.0}", (1.0 - row.asked_hits) * 1_000_000.0),
        figures: [found.lru, found.s3_fifo, found.hits, found.ideal].map(misses).to_vec(),
        group: None,
    };
    Overview {
        heading: "Skewed reads in steady state".into(),
        note: "Misses among a million reads of zipf 1.2, with room for a part of the data, and how often that is of what \
               LRU misses; the best choice knows which blocks are popular."
            .into(),
        series: ["LRU", "S3-FIFO", "kickcache", "best choice"].map(String::from).to_vec(),
        measure: 0,
        rows: lines.iter().map(row).collect(),
    }
}

/// What a run of the cloud's table is called.
pub(crate) fn name_of_cloud(cache: cloud::CloudCache, row: &cloud::CloudRow) -> String {
    let cache = match cache {
        cloud::CloudCache::Slow => "slow disk",
        cloud::CloudCache::Fast => "fast disk of 80 GiB",
        cloud::CloudCache::Bcache => "bcache",
        cloud::CloudCache::Kickcache => "kickcache",
    };
    format!("{cache}, {}", row.name)
}
