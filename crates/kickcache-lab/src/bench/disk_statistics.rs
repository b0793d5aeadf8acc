//! The counters of a block device during a run, from the kernel.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use kickcache_daemon::driver::device::sysfs::number;
use kickcache_engine::time;
use kickcache_model::result::DeviceResult;
use kickcache_model::result::series::Series;

use crate::bench::place::Place;

/// The least time between two readings of the counters during a run, except the last one, and the interval of
/// the series.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Bytes of a sector in the kernel's counters, independent of the device's sector size.
const SECTOR: u64 = 512;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Counters {
    reads: u64,
    read_sectors: u64,
    writes: u64,
    write_sectors: u64,
    busy_millis: u64,
    flushes: u64,
}

pub(super) struct DiskWatch {
    file: PathBuf,
    first: Counters,
    last: Counters,
    last_at: Duration,
    busy: Series,
    written: Series,
}

impl DiskWatch {
    /// Begins to watch the disk of a place; `None` if the kernel has no counters for it.
    pub(super) fn begin(place: &Place) -> Option<DiskWatch> {
        let file = statistics_file(place)?;
        let first = Counters::read(&file)?;
        let series =
            Series::new(time::Duration::from_millis(LOOK_EVERY.as_millis().try_into().unwrap_or(500)));
        let (busy, written) = (series.clone(), series);
        Some(DiskWatch { file, first, last: first, last_at: Duration::ZERO, busy, written })
    }

    pub(super) fn go_on(&mut self, elapsed: Duration) {
        if elapsed >= self.last_at + LOOK_EVERY {
            self.note(elapsed);
        }
    }

    fn note(&mut self, elapsed: Duration) {
        let Some(now) = Counters::read(&self.file) else { return };
        let middle = u64::try_from((self.last_at + elapsed).as_nanos() / 2).unwrap_or(u64::MAX);
        let at = time::Instant::from_nanos(middle);
        self.busy.add(at, now.busy_millis.saturating_sub(self.last.busy_millis) * 1_000_000);
        self.written.add(at, now.write_sectors.saturating_sub(self.last.write_sectors) * SECTOR);
        (self.last, self.last_at) = (now, elapsed);
    }

    pub(super) fn finish(mut self, took: Duration) -> DeviceResult {
        self.note(took.max(self.last_at));
        let (old, new) = (&self.first, &self.last);
        DeviceResult {
            reads: new.reads.saturating_sub(old.reads),
            writes: new.writes.saturating_sub(old.writes),
            flushes: new.flushes.saturating_sub(old.flushes),
            read_bytes: new.read_sectors.saturating_sub(old.read_sectors) * SECTOR,
            write_bytes: new.write_sectors.saturating_sub(old.write_sectors) * SECTOR,
            busy: self.busy,
            written: self.written,
        }
    }
}

impl Counters {
    fn read(path: &Path) -> Option<Counters> {
        Counters::parse(&fs::read_to_string(path).ok()?)
    }

    /// Parses the text of /sys/dev/block/MAJOR:MINOR/stat.
    fn parse(text: &str) -> Option<Counters> {
        let fields: Vec<u64> = text.split_whitespace().map_while(|field| field.parse().ok()).collect();
        let at = |index: usize| fields.get(index).copied();
        Some(Counters {
            reads: at(0)?,
            read_sectors: at(2)?,
            writes: at(4)?,
            write_sectors: at(6)?,
            busy_millis: at(9)?,
            flushes: at(15).unwrap_or(0),
        })
    }
}

fn statistics_file(place: &Place) -> Option<PathBuf> {
    let (Place::Disk(path) | Place::Directory(path)) = place else { return None };
    let known = path.metadata().ok()?;
    let device = if known.file_type().is_block_device() { known.rdev() } else { known.dev() };
    Some(PathBuf::from(format!("/sys/dev/block/{}/stat", number(device)))).filter(|file| file.exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_line_is_read() {
        let text = "  100 1 2000 30 50 2 600 40 0 70 71 0 0 0 0 9 5\n";
        let expected = Counters {
            reads: 100,
            read_sectors: 2_000,
            writes: 50,
            write_sectors: 600,
            busy_millis: 70,
            flushes: 9,
        };
        assert_eq!(Counters::parse(text), Some(expected));
        assert_eq!(Counters::parse("1 2"), None);
    }
}
