//! The rows of the published table, as they were measured.

use crate::cache_model::dm_cache::age::Age;
use crate::published::scene::{Cache, Disks, Scene, Start};

/// The table: one line a row.
const ROWS: &str = include_str!("rows.csv");

/// One published run of fio.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    /// Its name.
    pub name: &'static str,
    /// Reads a second of each job; one sum where nothing else is known.
    pub jobs: Vec<f64>,
    /// How long it ran.
    pub minutes: u64,
    /// Reads of the cache device for each read of a client, in percent.
    pub share: Option<f64>,
    /// Microseconds that half of the reads took at most, by job.
    pub p50: Vec<f64>,
    /// Microseconds that 99 % of the reads took at most, by job.
    pub p99: Vec<f64>,
}

fn numbers(fields: &[&str]) -> Vec<f64> {
    fields.iter().filter_map(|field| field.parse().ok()).collect()
}

fn parse(line: &'static str) -> Row {
    let fields: Vec<&str> = line.split(',').collect();
    Row {
        name: fields[0],
        jobs: numbers(&fields[1..3]),
        minutes: fields[3].parse().expect("a test reads every row"),
        share: fields[4].parse().ok(),
        p50: numbers(&fields[5..7]),
        p99: numbers(&fields[7..9]),
    }
}

/// Rows that are there twice, the second time with one disk of the pair, which explains them better.
const AGAIN: [(&str, &str); 4] = [
    ("hdd-1g", "hdd-1g-one-disk"),
    ("hdd-4.11.6-1", "hdd-4.11.6-1-one-disk"),
    ("cachesize-32g-full", "cachesize-32g-full-one-disk"),
    ("cachesize-48g-full", "cachesize-48g-full-one-disk"),
];

/// All rows, in the order of their publication; behind them those that are there twice.
pub fn rows() -> Vec<Row> {
    let mut rows: Vec<Row> = ROWS.lines().skip(1).map(parse).collect();
    for (of, name) in AGAIN {
        let row = rows.iter().find(|row| row.name == of).expect("a test looks for it").clone();
        rows.push(Row { name, ..row });
    }
    rows
}

/// The rows that a model's parameters were fitted to. All others are predictions.
const FITTED: [&str; 2] = ["ssd", "hdd"];
/// The row whose start was inferred from its own result: which file was cached at the beginning.
const START_INFERRED: [&str; 1] = ["bcache-sc0"];

impl Row {
    /// Reads a second of all jobs.
    pub fn iops(&self) -> f64 {
        self.jobs.iter().sum()
    }

    /// What the model took from the row itself.
    pub fn fitted(&self) -> Option<&'static str> {
        if FITTED.contains(&self.name) {
            return Some("device");
        }
        if self.has_one_disk() {
            return Some("disks");
        }
        START_INFERRED.contains(&self.name).then_some("start")
    }

    fn has_one_disk(&self) -> bool {
        AGAIN.iter().any(|(_, name)| *name == self.name)
    }

    /// Bytes of all files together, in GiB.
    fn data_gib(&self) -> u64 {
        let size = self.name.split('-').find_map(|word| word.strip_suffix('g')?.parse().ok());
        size.unwrap_or(4)
    }

    /// How the row is simulated.
    pub fn scene(&self) -> Scene {
        let name = self.name;
        let start = if name.contains("empty") { Start::Empty } else { Start::Stale };
        let (cache, start) = match name {
            _ if name.starts_with("ssd") => (Cache::BareSsd, Start::Empty),
            _ if name.starts_with("hdd") => (Cache::BareDisk, Start::Empty),
            "bcache-sc4m" => (Cache::Bcache { cutoff: 4 << 20 }, Start::Empty),
            "bcache-sc0" => (Cache::Bcache { cutoff: 0 }, Start::FirstFile),
            _ => (Cache::DmCache(age(name)), start),
        };
        let jobs = if name == "hdd-4.11.6-1" { 1 } else { 2 };
        let disks = if self.has_one_disk() { Disks::One } else { Disks::Pair };
        Scene { cache, data_gib: self.data_gib(), start, jobs, disks }
    }

    /// The same with kickcache in place of what was measured; nothing for a bare device.
    pub fn our_scene(&self) -> Option<Scene> {
        let scene = self.scene();
        let is_bare = matches!(scene.cache, Cache::BareSsd | Cache::BareDisk);
        (!is_bare).then_some(Scene { cache: Cache::Kickcache, start: Start::Stale, ..scene })
    }
}

/// Which age of the policy a row had.
fn age(name: &str) -> Age {
    let kernel = name.trim_start_matches("lvmcache-").trim_start_matches("full").trim_start_matches("empty");
    match kernel.trim_start_matches('-') {
        "" | "12h" | "4.9.30-2" | "4.11.6-1" => Age::LINUX_4_11,
        "4.12.0-rc1+" | "4.12.0-rc1+2ea659a9ef48" | "4.12.0-rc1+243bfd2c052d" => Age::LINUX_4_12_RC1,
        "4.12.0-rc1+78c45607b909" => Age::PART_OF_REPAIR,
        _ => Age::REPAIRED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_can_be_read_and_has_a_scene() {
        let rows = rows();
        assert_eq!(rows.len(), 54 + AGAIN.len());
        let find = |name: &str| rows.iter().find(|row| row.name == name).unwrap();
        assert_eq!(find("cachesize-8g-full").scene().data_gib, 8);
        assert_eq!(find("lvmcache-full").scene().cache, Cache::DmCache(Age::LINUX_4_11));
        assert_eq!(find("lvmcache-full-4.12.3").scene().cache, Cache::DmCache(Age::REPAIRED));
        assert_eq!(find("cachesize-4g-full").scene().cache, Cache::DmCache(Age::REPAIRED));
        assert_eq!(find("hdd-4.11.6-1").scene().jobs, 1);
        assert!(find("ssd").our_scene().is_none());
        let again = find("cachesize-48g-full-one-disk");
        assert_eq!((again.iops(), again.scene().data_gib), (894.0, 48));
        assert_eq!(again.our_scene().unwrap().disks, Disks::One);
    }
}
