//! The rows of the published table, as they were measured, and how each is simulated.
//!
//! A row's name only identifies it: its parameters are in the other columns of `rows.csv`.

use crate::cache_model::dm_cache::age::Age;
use crate::published::figures::Figures;
use crate::published::scene::{Cache, Disks, Scene, Start};

const ROWS: &str = include_str!("rows.csv");
/// Sequential cut-off that bcache has unless it is switched off, in bytes.
const BCACHE_CUTOFF: u64 = 4 << 20;

#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    pub name: &'static str,
    pub scene: Scene,
    /// The parameter that the model took from the row itself.
    pub fitted: Option<&'static str>,
    pub minutes: u64,
    pub published: Figures,
}

/// All rows. Second versions of some rows assume a cause that was not published: one disk of the pair, or a
/// cache that was dirty.
pub fn rows() -> Vec<Row> {
    let mut lines = ROWS.lines();
    let columns: Vec<&'static str> = lines.next().unwrap_or_default().split(',').collect();
    let row = |line: &'static str| Line { columns: &columns, cells: line.split(',').collect() }.row();
    lines.map(row).collect()
}

struct Line<'a> {
    columns: &'a [&'static str],
    cells: Vec<&'static str>,
}

impl Line<'_> {
    fn row(&self) -> Row {
        let cache = self.cache();
        Row {
            name: self.cell("name"),
            scene: Scene {
                cache,
                data_gib: self.number("size_gib"),
                start: self.start(),
                jobs: self.number("jobs"),
                disks: self.disks(),
            },
            fitted: Some(self.cell("fitted")).filter(|what| !what.is_empty()),
            minutes: self.number("minutes"),
            published: Figures {
                jobs: self.known(["iops_1", "iops_2"]),
                share: self.cell("share").parse().ok(),
                p50: self.known(["p50_1", "p50_2"]),
                p99: self.known(["p99_1", "p99_2"]),
                written_per_byte: None,
            },
        }
    }

    fn cell(&self, column: &str) -> &'static str {
        let index = self.columns.iter().position(|name| *name == column);
        index.and_then(|index| self.cells.get(index)).unwrap_or_else(|| panic!("no column {column}"))
    }

    fn number(&self, column: &str) -> u64 {
        self.cell(column).parse().unwrap_or_else(|_| self.refuse(column))
    }

    fn known(&self, columns: [&str; 2]) -> Vec<f64> {
        columns.iter().filter_map(|column| self.cell(column).parse().ok()).collect()
    }

    fn cache(&self) -> Cache {
        match self.cell("cache") {
            "ssd" => Cache::BareSsd,
            "disk" => Cache::BareDisk,
            "bcache" => Cache::Bcache { cutoff: BCACHE_CUTOFF },
            "bcache-no-cutoff" => Cache::Bcache { cutoff: 0 },
            "dm-cache" => Cache::DmCache(self.age()),
            _ => self.refuse("cache"),
        }
    }

    fn age(&self) -> Age {
        match self.cell("age") {
            "4.11" => Age::LINUX_4_11,
            "4.12-rc1" => Age::LINUX_4_12_RC1,
            "half-repaired" => Age::PART_OF_REPAIR,
            "nearly-repaired" => Age::MOST_OF_REPAIR,
            "repaired" => Age::REPAIRED,
            _ => self.refuse("age"),
        }
    }

    fn start(&self) -> Start {
        match self.cell("start") {
            "empty" => Start::Empty,
            "new-file-system" => Start::NewFileSystem,
            "stale" => Start::Stale,
            "stale-dirty" => Start::StaleDirty,
            "first-file" => Start::FirstFile,
            _ => self.refuse("start"),
        }
    }

    fn disks(&self) -> Disks {
        match self.cell("disks") {
            "pair" => Disks::Pair,
            "one" => Disks::One,
            _ => self.refuse("disks"),
        }
    }

    fn refuse(&self, column: &str) -> ! {
        panic!("rows.csv: {}: `{}` is no {column}", self.cell("name"), self.cell(column))
    }
}

impl Row {
    /// The scene with kickcache in place of the measured cache, and with blocks of deleted files in it at the
    /// start; `None` for a bare device.
    pub fn our_scene(&self) -> Option<Scene> {
        let is_bare = matches!(self.scene.cache, Cache::BareSsd | Cache::BareDisk);
        (!is_bare).then_some(Scene { cache: Cache::Kickcache, start: Start::Stale, ..self.scene })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_can_be_read_and_has_a_scene() {
        let rows = rows();
        assert_eq!(rows.len(), 62);
        let find = |name: &str| rows.iter().find(|row| row.name == name).unwrap();
        assert_eq!(find("cachesize-8g-full").scene.data_gib, 8);
        assert_eq!(find("cachesize-16g-full").published.share, Some(83.66));
        assert_eq!(
            find("lvmcache-full-4.12.0-rc1+6cf4cc8f8b3b").scene.cache,
            Cache::DmCache(Age::MOST_OF_REPAIR)
        );
        assert_eq!(find("lvmcache-full").scene.cache, Cache::DmCache(Age::LINUX_4_11));
        assert_eq!(find("lvmcache-full-4.12.3").scene.cache, Cache::DmCache(Age::REPAIRED));
        assert_eq!(find("cachesize-4g-full").scene.cache, Cache::DmCache(Age::REPAIRED));
        assert_eq!(find("hdd-4.11.6-1").scene.jobs, 1);
        assert_eq!(find("bcache-sc0").scene.start, Start::FirstFile);
        assert!(find("ssd").our_scene().is_none());
    }

    #[test]
    fn second_versions_of_rows_differ_in_one_cause_only() {
        let rows = rows();
        let find = |name: &str| rows.iter().find(|row| row.name == name);
        for (suffix, fitted, count) in [("-one-disk", "disks", 4), ("-dirty", "start", 3)] {
            let again: Vec<&Row> = rows.iter().filter(|row| row.name.ends_with(suffix)).collect();
            assert_eq!(again.len(), count, "{suffix}");
            for row in again {
                let first = row.name.strip_suffix(suffix).and_then(find).unwrap();
                assert_eq!((row.fitted, &first.published), (Some(fitted), &row.published), "{}", row.name);
                let causes = |row: &Row| (row.scene.disks, row.scene.start);
                let start = first.scene.start;
                let other = match suffix {
                    "-dirty" => (Disks::Pair, Start::StaleDirty),
                    _ => (Disks::One, start),
                };
                assert_eq!((causes(first), causes(row)), ((Disks::Pair, start), other), "{}", row.name);
            }
        }
        assert_eq!(rows.iter().filter(|row| row.fitted.is_some()).count(), 11);
    }

    #[test]
    fn the_meaning_of_a_row_is_independent_of_its_name() {
        let columns: Vec<&'static str> = ROWS.lines().next().unwrap().split(',').collect();
        let cells = "ssd-empty-8g-4.12.0-rc1+,dm-cache,4.11,stale,1,4,one,,20,7,,,,,,".split(',').collect();
        let row = Line { columns: &columns, cells }.row();
        let cache = Cache::DmCache(Age::LINUX_4_11);
        let scene = Scene { cache, data_gib: 4, start: Start::Stale, jobs: 1, disks: Disks::One };
        assert_eq!((row.scene, row.fitted), (scene, None));
        assert_eq!((row.published.jobs, row.published.share), (vec![7.0], None));
    }
}
