//! Checks that the origin and the serial number of a new volume are free in this daemon.

use std::path::Path;

use crate::driver::device::check_distinct;
use crate::plan::ServePlan;
use crate::plan::frontends::serial_number::SerialNumber;
use crate::plan::volume_spec::VolumeSpec;

/// An origin or a serial number that is already in use.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Conflict {
    #[error(
        "volume {volume}: its origin {origin} is that of volume {by}, which is served here; remove that one first \
         (`kickcache remove {by}`)"
    )]
    Origin { volume: String, origin: String, by: String },
    #[error(
        "volume {volume}: its origin {origin} is the cache device {device} of this daemon; name another one"
    )]
    CacheDevice {
        volume: String,
        origin: String,
        /// The path that the plan has for the cache device.
        device: String,
    },
    #[error("volume {volume}: its serial number {serial} is that of volume {by}; set another one (serial)")]
    Serial { volume: String, serial: SerialNumber, by: String },
}

/// Refuses an origin that is a served origin or a cache device of this daemon, and a serial number of another volume.
/// Files and devices are compared through links and loop devices, exports by their URI.
///
/// # Errors
/// [`Conflict`] with the present use of the origin or the serial number.
pub fn check_free(served: &ServePlan, wanted: &VolumeSpec) -> Result<(), Conflict> {
    let (volume, origin) = (wanted.name.clone(), wanted.origin.to_string());
    let is_path = |path: &Path| wanted.origin.path().is_some_and(|own| check_distinct([path, own]).is_err());
    for cache in &served.caches {
        if is_path(&cache.device) {
            let device = cache.device.display().to_string();
            return Err(Conflict::CacheDevice { volume, origin, device });
        }
        let is_same =
            |other: &&VolumeSpec| other.origin == wanted.origin || other.origin.path().is_some_and(is_path);
        if let Some(other) = cache.volumes.iter().find(is_same) {
            return Err(Conflict::Origin { volume, origin, by: other.name.clone() });
        }
        let serial = wanted.serial();
        // Another check refuses a second volume of the same name.
        let has_serial = |other: &&VolumeSpec| other.name != wanted.name && other.serial() == serial;
        if let Some(other) = cache.volumes.iter().find(has_serial) {
            return Err(Conflict::Serial { volume, serial, by: other.name.clone() });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_serial_number_that_is_served_is_refused() {
        let plan = |name: &str, origin: &str, serial: &str| {
            let volume = format!("[[cache.volume]]\nname = \"{name}\"\norigin = \"{origin}\"\n{serial}");
            let file = format!("[[cache]]\ndevice = \"/cache\"\n{volume}");
            crate::config::parse(Path::new("t.toml"), &file).unwrap()
        };
        let served = plan("vm1", "/a", "");
        let added = |serial: &str| plan("vm2", "/b", serial).caches.remove(0).volumes.remove(0);
        let taken = check_free(&served, &added("serial = \"vm1\"")).unwrap_err().to_string();
        assert!(taken.contains("its serial number vm1 is that of volume vm1"), "{taken}");
        assert_eq!(check_free(&served, &added("")), Ok(()));
    }

    #[test]
    fn an_origin_is_known_by_each_of_its_names() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        for name in ["cache", "a", "free"] {
            std::fs::write(at(name), name).unwrap();
        }
        std::os::unix::fs::symlink(at("a"), at("symbolic")).unwrap();
        std::fs::hard_link(at("a"), at("hard")).unwrap();
        let origins = |cache: &str, origin: &str| {
            let volume = format!("[[cache.volume]]\nname = \"v\"\norigin = \"{origin}\"\n");
            let file = format!("[[cache]]\ndevice = \"{}\"\n{volume}", at(cache));
            crate::config::parse(Path::new("t.toml"), &file).unwrap()
        };
        let refused = |served: &str, wanted: &str| {
            let mut volume = origins("other", wanted).caches.remove(0).volumes.remove(0);
            volume.name = "w".into();
            check_free(&origins("cache", served), &volume).map_err(|taken| taken.to_string())
        };
        for name in ["a", "symbolic", "hard"] {
            let taken = refused(&at("a"), &at(name)).unwrap_err();
            assert!(taken.contains("is that of volume v, which is served here; remove that one"), "{taken}");
        }
        let cache = refused(&at("a"), &at("cache")).unwrap_err();
        assert!(cache.contains("is the cache device "), "{cache}");
        assert!(refused("nbd://a/x", "nbd://a/x").is_err());
        for free in [at("free"), at("missing"), "nbd://a/y".into()] {
            assert_eq!(refused(&at("a"), &free), Ok(()));
        }
    }
}
