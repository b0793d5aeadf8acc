//! For how long block devices were at work, as the kernel counts it.

use std::collections::BTreeMap;
use std::fs;
use std::os::linux::fs::MetadataExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use crate::driver::device::sysfs;
use crate::driver::rights::access;
use crate::plan::origin_source::OriginSource;

/// The index of a device's busy time in milliseconds among the fields of its file `stat`.
const BUSY_FIELD: usize = 9;

/// The files with the busy times of devices, by path or identity; each is looked up once.
#[derive(Default)]
pub(super) struct BusyClock {
    stats: BTreeMap<PathBuf, Option<PathBuf>>,
}

impl BusyClock {
    /// Milliseconds for which a device, or the device below a file, was busy; `None` without an absolute path
    /// or a block device.
    pub(super) fn millis(&mut self, path: &Path) -> Option<u64> {
        self.read(path, stat_of)
    }

    /// As [`BusyClock::millis`], for the origin with this identity.
    pub(super) fn origin_millis(&mut self, identity: &str) -> Option<u64> {
        self.read(Path::new(identity), |_| match OriginSource::of_identity(identity) {
            OriginSource::Path(path) => stat_of(&path),
            OriginSource::Nbd(_) | OriginSource::Outside(_) => None,
        })
    }

    fn read(&mut self, key: &Path, find: impl FnOnce(&Path) -> Option<PathBuf>) -> Option<u64> {
        if !self.stats.contains_key(key) {
            self.stats.insert(key.into(), find(key));
        }
        let stat = self.stats.get(key)?.as_ref()?;
        busy_millis(&fs::read_to_string(stat).ok()?)
    }
}

fn stat_of(path: &Path) -> Option<PathBuf> {
    let path = path.is_absolute().then_some(path)?;
    let meta = access::metadata(path).ok()?;
    let device = if meta.file_type().is_block_device() { meta.st_rdev() } else { meta.st_dev() };
    let stat = sysfs::folder(device).join("stat");
    stat.exists().then_some(stat)
}

fn busy_millis(stat: &str) -> Option<u64> {
    stat.split_whitespace().nth(BUSY_FIELD)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_at_work_is_the_tenth_number() {
        let stat = "  118  0  5  77  4  0  32  12  0  1064  89  0 0 0 0 0 0\n";
        assert_eq!(busy_millis(stat), Some(1064));
        assert_eq!(busy_millis(""), None);
    }

    #[test]
    fn the_device_below_an_origin_is_found_by_its_identity() {
        let folder = std::env::temp_dir();
        let mut clock = BusyClock::default();
        let below = clock.millis(&folder).is_some();
        assert_eq!(clock.origin_millis(&format!("file:{}", folder.display())).is_some(), below);
        assert_eq!(clock.origin_millis("nbd://localhost/a"), None);
    }

    #[test]
    fn a_path_that_is_no_device_has_no_clock() {
        let mut clock = BusyClock::default();
        let paths = ["nbd://localhost/a", "/nowhere/at/all", "/proc/self/stat", "relative"];
        assert_eq!(paths.map(|path| clock.millis(Path::new(path))), [None; 4]);
    }
}
