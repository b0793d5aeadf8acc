//! Whether a volume would depend on its own block device.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::control_device::ControlDevice;
use super::cookie::is_of;
use super::removal::number_in;
use crate::devices::volume_identity::VolumeIdentity;
use crate::driver::device::device_stack::DeviceStack;
use crate::plan::cache_spec::CacheSpec;
use crate::serve::error::ServeError;

/// Refuses a cache device or origin on the block device of one of these volumes.
///
/// # Errors
/// [`ServeError::Volume`], with the name of the first volume that is to be a block device.
pub(crate) fn check(cache: &CacheSpec) -> Result<(), ServeError> {
    check_devices(cache).map_err(|what| {
        let with_ublk = cache.volumes.iter().find(|volume| volume.frontends.ublk.id.is_some());
        ServeError::Volume { name: with_ublk.map(|volume| volume.name.clone()).unwrap_or_default(), what }
    })
}

fn check_devices(cache: &CacheSpec) -> Result<(), String> {
    let own = cache.volumes.iter().filter_map(|volume| {
        let origin = volume.origin.identity().ok()?;
        Some(VolumeIdentity::of_origin(&volume.name, &origin))
    });
    let own: Vec<VolumeIdentity> = own.collect();
    let origins = cache.volumes.iter().filter_map(|volume| volume.origin.path());
    origins.chain([cache.device.as_path()]).try_for_each(|path| check_path(path, &own))
}

/// # Errors
/// A sentence.
pub(crate) fn check_path(path: &Path, own: &[VolumeIdentity]) -> Result<(), String> {
    for id in ublk_among(&DeviceStack::of_host().devices_of(path)) {
        let info = ControlDevice::open().ok().and_then(|mut control| control.info(id).ok().flatten());
        if info.is_some_and(|info| own.iter().any(|volume| is_of(&info, volume))) {
            return Err(refusal(path, id));
        }
    }
    Ok(())
}

fn refusal(path: &Path, id: u32) -> String {
    format!(
        "{} is on /dev/ublkb{id}, which is a volume of this daemon: it would wait for itself; give another device",
        path.display()
    )
}

fn ublk_among(devices: &BTreeSet<PathBuf>) -> Vec<u32> {
    devices.iter().filter_map(|device| number_in(device.file_name()?.to_str()?)).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, symlink};

    use super::*;
    use crate::driver::device::sysfs::number;

    const NONE: [u32; 0] = [];

    struct Fake {
        folder: tempfile::TempDir,
    }

    impl Fake {
        fn new() -> Fake {
            let fake = Fake { folder: tempfile::tempdir_in("/var/tmp").unwrap() };
            fs::create_dir_all(fake.path("sys/dev/block")).unwrap();
            fs::write(fake.path("file"), "").unwrap();
            fake
        }

        fn path(&self, path: &str) -> PathBuf {
            self.folder.path().join(path)
        }

        fn add(&self, place: &str, number: &str) -> PathBuf {
            let folder = self.path("sys").join(place);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("dev"), format!("{number}\n")).unwrap();
            symlink(&folder, self.path("sys/dev/block").join(number)).unwrap();
            folder
        }

        fn under(&self, number: &str) -> Vec<u32> {
            ublk_among(&self.host().devices_under(number.into()))
        }

        fn host(&self) -> DeviceStack {
            DeviceStack { sys: self.path("sys"), mounts: self.path("mountinfo") }
        }
    }

    fn stack(upper: &Path, lower: &Path) {
        fs::create_dir_all(upper.join("slaves")).unwrap();
        symlink(lower, upper.join("slaves").join(lower.file_name().unwrap())).unwrap();
    }

    #[test]
    fn a_disk_has_no_device_below() {
        let fake = Fake::new();
        fake.add("devices/sda", "8:0");
        fake.add("devices/ublkb7", "259:7");
        assert_eq!((fake.under("8:0"), fake.under("259:7")), (vec![], vec![7]));
        assert_eq!(fake.under("8:1"), NONE, "a device that is not there");
    }

    #[test]
    fn a_partition_is_on_its_device() {
        let fake = Fake::new();
        fake.add("devices/ublkb7", "259:7");
        let part = fake.add("devices/ublkb7/ublkb7p1", "259:8");
        assert_eq!(fake.under("259:8"), NONE);
        fs::write(part.join("partition"), "1").unwrap();
        assert_eq!(fake.under("259:8"), [7]);
    }

    #[test]
    fn mapped_devices_are_on_all_their_parts() {
        let fake = Fake::new();
        let (upper, lower) = (fake.add("devices/dm-1", "254:1"), fake.add("devices/dm-0", "254:0"));
        let (first, _second) = (fake.add("devices/ublkb3", "259:3"), fake.add("devices/ublkb4", "259:4"));
        let part = fake.add("devices/ublkb4/ublkb4p2", "259:5");
        fs::write(part.join("partition"), "2").unwrap();
        stack(&upper, &lower);
        stack(&lower, &first);
        stack(&lower, &part);
        assert_eq!(fake.under("254:1"), [3, 4]);
    }

    #[test]
    fn a_cycle_of_devices_ends() {
        let fake = Fake::new();
        let (one, other) = (fake.add("devices/dm-0", "254:0"), fake.add("devices/dm-1", "254:1"));
        stack(&one, &other);
        stack(&other, &one);
        assert_eq!(fake.under("254:0"), NONE);
    }

    #[test]
    fn a_loop_device_is_on_the_device_of_its_file() {
        let fake = Fake::new();
        let file = fake.path("file");
        let own = fs::metadata(&file).unwrap().dev();
        if libc::major(own) == 0 {
            eprintln!("skipped: {} is on no block device", file.display());
            return;
        }
        fake.add("devices/ublkb9", &number(own));
        let device = fake.add("devices/loop0", "7:0");
        assert_eq!(fake.under("7:0"), NONE, "no device is below");
        fs::create_dir_all(device.join("loop")).unwrap();
        fs::write(device.join("loop/backing_file"), format!("{}\n", file.display())).unwrap();
        assert_eq!(fake.under("7:0"), [9]);
        assert_eq!(ublk_among(&fake.host().devices_of(&file)), [9]);
    }
}
