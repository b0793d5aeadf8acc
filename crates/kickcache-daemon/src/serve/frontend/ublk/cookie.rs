//! How a device says whose it is, also to a process that did not make it.

use super::abi::DeviceInfo;
use crate::driver::checksum::checksum;

/// In the upper half of what the kernel keeps for a server: `kick`.
const OURS: u64 = 0x6b69_636b << 32;

/// That of a volume in front of an origin.
pub(super) fn cookie(volume: &str, origin: &str) -> u64 {
    let sum = checksum(format!("{volume}\0{origin}").as_bytes());
    OURS | u64::from(sum.get())
}

/// Whether a kickcache made a device.
pub(crate) fn is_ours(info: &DeviceInfo) -> bool {
    info.server_flags >> 32 == OURS >> 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_volume_has_its_own() {
        let info = |server_flags| DeviceInfo { server_flags, ..DeviceInfo::default() };
        assert!(is_ours(&info(cookie("a", "file:/b"))));
        assert!(!is_ours(&info(0)));
        assert_ne!(cookie("a", "b"), cookie("ab", ""));
    }
}
