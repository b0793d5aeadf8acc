//! The cookie that identifies the owner of a device to any process: 64 bits that the kernel stores for a
//! device's server.
//!
//! `K` in the highest byte, then 28 bits for the volume's name on its cache device, and 28 bits for its name in front of its
//! origin. Either half is enough: the cache device may be left out or replaced, and the origin may move, while the device is
//! mounted. Earlier versions wrote `kick` and 32 bits for name and origin together.

use super::abi::DeviceInfo;
use crate::devices::volume_identity::VolumeIdentity;
use crate::driver::checksum::checksum;

const OURS: u64 = b'K' as u64;
const OURS_SHIFT: u32 = 56;
const EARLIER: u64 = 0x6b69_636b;
const EARLIER_SHIFT: u32 = 32;
const HALF_BITS: u32 = 28;
const HALF: u64 = (1 << HALF_BITS) - 1;

pub(super) fn cookie(volume: &VolumeIdentity) -> u64 {
    let cache = volume.cache.as_ref().map_or(0, |uuid| half(&volume.name, uuid));
    let origin = volume.origins.first().map_or(0, |origin| half(&volume.name, origin));
    OURS << OURS_SHIFT | cache << HALF_BITS | origin
}

/// Whether a device was created for this volume.
pub(crate) fn is_of(info: &DeviceInfo, volume: &VolumeIdentity) -> bool {
    let found = info.server_flags;
    let mut origins = volume.origins.iter();
    if found >> EARLIER_SHIFT == EARLIER {
        return origins.any(|origin| earlier_cookie(&volume.name, origin) == found);
    }
    let (cache, origin) = (found >> HALF_BITS & HALF, found & HALF);
    found >> OURS_SHIFT == OURS
        && (volume.cache.as_ref().is_some_and(|uuid| half(&volume.name, uuid) == cache)
            || origins.any(|known| half(&volume.name, known) == origin))
}

pub(crate) fn is_ours(info: &DeviceInfo) -> bool {
    let found = info.server_flags;
    found >> OURS_SHIFT == OURS || found >> EARLIER_SHIFT == EARLIER
}

/// Half of a cookie; never 0, which means unknown.
fn half(volume: &str, place: &str) -> u64 {
    (sum(volume, place) & HALF).max(1)
}

pub(super) fn earlier_cookie(volume: &str, origin: &str) -> u64 {
    EARLIER << EARLIER_SHIFT | sum(volume, origin)
}

fn sum(volume: &str, place: &str) -> u64 {
    u64::from(checksum(format!("{volume}\0{place}").as_bytes()).get())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(server_flags: u64) -> DeviceInfo {
        DeviceInfo { server_flags, ..DeviceInfo::default() }
    }

    fn volume(name: &str, cache: Option<&str>, origins: &[&str]) -> VolumeIdentity {
        let origins = origins.iter().map(|origin| (*origin).to_owned()).collect();
        VolumeIdentity { name: name.into(), cache: cache.map(str::to_owned), origins }
    }

    #[test]
    fn a_device_belongs_to_the_volume_it_was_created_for() {
        let made = volume("v", Some("1"), &["file:/o"]);
        let device = info(cookie(&made));
        assert!(is_ours(&device) && is_of(&device, &made));
        assert!(!is_of(&device, &volume("w", Some("1"), &["file:/o"])), "another name");
        assert!(!is_ours(&info(0)) && !is_of(&info(0), &made));
    }

    #[test]
    fn the_cookie_survives_a_moved_origin_or_another_cache() {
        let device = info(cookie(&volume("v", Some("1"), &["file:/o"])));
        assert!(is_of(&device, &volume("v", Some("1"), &["file:/p"])), "moved");
        assert!(is_of(&device, &volume("v", Some("2"), &["file:/o"])), "with another cache device");
        assert!(is_of(&device, &volume("v", None, &["file:/o"])), "without one");
        assert!(is_of(&device, &volume("v", Some("2"), &["file:/p", "file:/o"])), "as it was known before");
    }

    #[test]
    fn volumes_with_the_same_name_have_different_cookies() {
        let device = info(cookie(&volume("v", Some("1"), &["file:/o"])));
        assert!(!is_of(&device, &volume("v", Some("2"), &["file:/p"])), "on two cache devices");
        let device = info(cookie(&volume("v", None, &["file:/o"])));
        assert!(!is_of(&device, &volume("v", None, &["file:/p"])), "without cache devices");
        assert!(!is_of(&device, &volume("v", Some("1"), &["file:/p"])), "with one and without");
    }

    #[test]
    fn a_device_of_an_earlier_version_is_recognised() {
        let device = info(earlier_cookie("v", "file:/o"));
        assert_eq!(device.server_flags, 0x6b69_636b_0000_0000 | sum("v", "file:/o"));
        assert!(is_ours(&device));
        assert!(is_of(&device, &volume("v", Some("1"), &["file:/o"])));
        assert!(is_of(&device, &volume("v", Some("1"), &["file:/p", "file:/o"])), "the origin moves now");
        assert!(!is_of(&device, &volume("v", Some("1"), &["file:/p"])));
        assert!(!is_of(&device, &volume("w", Some("1"), &["file:/o"])));
    }
}
