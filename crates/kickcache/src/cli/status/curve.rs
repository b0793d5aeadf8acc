//! `kickcache status --curve`: the hit ratios of LRU caches of other sizes.

use std::io;

use kickcache_command::table::{Align, Cell, Colour, Table};
use kickcache_command::user_text::Printer;
use kickcache_daemon::control::lru_curve::LruCurve;
use kickcache_daemon::control::report::{Report, VolumeReport};
use kickcache_units::show_bytes;

/// Prints a sentence for a volume without reads.
pub(super) fn print(report: &Report, out: &mut dyn Printer, colour: Colour) -> io::Result<()> {
    let volumes = report.caches.iter().flat_map(|cache| &cache.volumes);
    for (index, volume) in volumes.enumerate() {
        if index > 0 {
            writeln!(out)?;
        }
        match &volume.lru_curve {
            Some(curve) => one(volume, curve, out, colour)?,
            None => writeln!(out, "{}: no reads since the start", volume.name)?,
        }
    }
    Ok(())
}

fn one(volume: &VolumeReport, curve: &LruCurve, out: &mut dyn Printer, colour: Colour) -> io::Result<()> {
    let hits =
        volume.hit_ratio.map_or_else(String::new, |ratio| format!("; this cache hit {:.1} %", ratio * 100.0));
    writeln!(
        out,
        "{}: {} were read, {} of different blocks read or written{hits}",
        volume.name,
        show_bytes(curve.read_blocks.saturating_mul(4096)),
        show_bytes(curve.footprint_bytes)
    )?;
    let mut table = Table::new(&[("CACHE", Align::Right), ("LRU HITS", Align::Right)]);
    for point in &curve.points {
        let hits = format!("{:.1} ± {:.1} %", point.hit_ratio * 100.0, point.error * 100.0);
        table.row(vec![Cell::new(show_bytes(point.cache_bytes)), Cell::new(hits)]);
    }
    table.print(out, colour)
}
