//! The table of the volumes.

use kickcache_command::table::{Align, Cell, KEEP, Table, Tone};
use kickcache_daemon::control::report::{CacheReport, Report, VolumeReport};
use kickcache_units::{show_bytes, show_rate, show_ratio};

use super::rates::Rates;
use super::tones;

/// The ranks decide which columns are dropped first.
const COLUMNS: [(&str, Align, u8); 13] = [
    ("VOLUME", Align::Left, KEEP),
    ("MODE", Align::Left, 3),
    ("SIZE", Align::Right, 8),
    ("CACHED", Align::Right, 4),
    ("DIRTY", Align::Right, 2),
    ("HITS", Align::Right, 1),
    ("READS/S", Align::Right, 5),
    ("WRITES/S", Align::Right, 6),
    ("READ MiB/S", Align::Right, 7),
    ("WRITE MiB/S", Align::Right, 7),
    ("FILL WINDOW", Align::Right, 9),
    ("AHEAD HIT", Align::Right, 10),
    ("HEALTH", Align::Left, KEEP),
];

const MIB: f64 = 1_048_576.0;

pub(super) fn volume_table(report: &Report, rates: Option<&Rates<'_>>) -> Table {
    let mut table = Table::ranked(&COLUMNS);
    for cache in &report.caches {
        cache.volumes.iter().for_each(|volume| table.row(volume_row(report, cache, volume, rates)));
    }
    table
}

fn volume_row(
    report: &Report,
    cache: &CacheReport,
    volume: &VolumeReport,
    rates: Option<&Rates<'_>>,
) -> Vec<Cell> {
    let before = rates.and_then(|rates| rates.volume(&volume.name));
    let before = before.map(|volume| volume.counters).unwrap_or_default();
    let now = &volume.counters;
    let hits = now.hit_blocks.saturating_sub(before.hit_blocks);
    let misses = now.miss_blocks.saturating_sub(before.miss_blocks);
    let recent = &volume.recent;
    let rate = |now, before, recent| rates.map_or(recent, |rates| rates.per_second(now, before));
    let mebibytes = |per_second: f64| Cell::new(format!("{:.1}", per_second / MIB));
    vec![
        Cell::new(&volume.name),
        Cell::new(volume.mode.as_str()),
        Cell::new(show_bytes(volume.size_bytes)),
        Cell::new(show_bytes(volume.cached_bytes)),
        Cell::new(show_bytes(volume.dirty_bytes)),
        Cell::new(show_ratio(hits, hits + misses)),
        Cell::new(show_rate(rate(now.reads, before.reads, recent.reads_per_second))),
        Cell::new(show_rate(rate(now.writes, before.writes, recent.writes_per_second))),
        mebibytes(rate(now.read_bytes, before.read_bytes, recent.read_bytes_per_second)),
        mebibytes(rate(now.write_bytes, before.write_bytes, recent.write_bytes_per_second)),
        Cell::new(show_bytes(volume.fill_window_bytes)),
        Cell::new(show_read_ahead(volume)),
        volume_health(report, cache, volume),
    ]
}

/// The share of read-ahead blocks that were hit, since the volume was added: a sample is too short.
fn show_read_ahead(volume: &VolumeReport) -> String {
    let counters = &volume.counters;
    show_ratio(counters.read_ahead_hit_blocks, counters.read_ahead_blocks)
}

/// The word of the most urgent condition, or `good` without one.
fn volume_health(report: &Report, cache: &CacheReport, volume: &VolumeReport) -> Cell {
    match report.condition_of(&volume.name, &cache.device) {
        Some(condition) => Cell::toned(condition.kind.entry().word, tones::of_severity(condition.severity)),
        None => Cell::toned("good", Tone::Good),
    }
}
