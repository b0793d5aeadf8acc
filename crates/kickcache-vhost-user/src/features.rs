//! The features that the device offers, and their limits.

use vhost::vhost_user::{VhostUserProtocolFeatures, VhostUserVirtioFeatures};
use virtio_bindings::bindings::virtio_blk::{
    VIRTIO_BLK_F_BLK_SIZE, VIRTIO_BLK_F_CONFIG_WCE, VIRTIO_BLK_F_FLUSH, VIRTIO_BLK_F_MQ,
    VIRTIO_BLK_F_SEG_MAX, VIRTIO_BLK_F_SIZE_MAX, VIRTIO_BLK_F_TOPOLOGY,
};
use virtio_bindings::bindings::virtio_config::VIRTIO_F_VERSION_1;
use virtio_bindings::bindings::virtio_ring::{VIRTIO_RING_F_EVENT_IDX, VIRTIO_RING_F_INDIRECT_DESC};

pub const QUEUE_COUNT_MAX: u16 = 16;
pub(super) const QUEUE_SIZE_MAX: u16 = 1024;
/// Segments of a request, as reported to the guest: with header and status, they fit QEMU's default queue of 128.
pub(super) const SEGMENTS_MAX: u32 = 126;
/// Bytes of a segment, as reported to the guest.
pub(super) const SEGMENT_BYTES_MAX: u32 = 256 << 10;
/// Bytes of a request's payload, at most; a request with more fails.
pub(super) const REQUEST_BYTES_MAX: u64 = 32 << 20;
pub(super) const DESCRIPTORS_MAX: usize = 1024 + 2;
/// Sectors that one range of a discard or write-zeroes may have: 1 GiB.
pub(super) const RANGE_SECTORS_MAX: u32 = 1 << 21;
pub(super) const RANGES_MAX: u32 = 16;
/// Regions of guest memory, at most: as many as QEMU's libvhost-user supports.
pub(super) const MEMORY_SLOTS_MAX: usize = 509;

const _: () = assert!(SEGMENTS_MAX as u64 * SEGMENT_BYTES_MAX as u64 <= REQUEST_BYTES_MAX);

pub(super) const fn has(features: u64, bit: u32) -> bool {
    features & (1 << bit) != 0
}

/// The virtio features that are offered, whether a disk may be written or not.
pub(super) fn offered() -> u64 {
    let mut features = VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits();
    for bit in [
        VIRTIO_F_VERSION_1,
        VIRTIO_RING_F_EVENT_IDX,
        VIRTIO_RING_F_INDIRECT_DESC,
        VIRTIO_BLK_F_SIZE_MAX,
        VIRTIO_BLK_F_SEG_MAX,
        VIRTIO_BLK_F_BLK_SIZE,
        VIRTIO_BLK_F_TOPOLOGY,
        VIRTIO_BLK_F_FLUSH,
        VIRTIO_BLK_F_CONFIG_WCE,
        VIRTIO_BLK_F_MQ,
    ] {
        features |= 1 << bit;
    }
    features
}

pub(super) fn protocol_offered() -> VhostUserProtocolFeatures {
    VhostUserProtocolFeatures::MQ
        | VhostUserProtocolFeatures::REPLY_ACK
        | VhostUserProtocolFeatures::CONFIG
        | VhostUserProtocolFeatures::INFLIGHT_SHMFD
        | VhostUserProtocolFeatures::RESET_DEVICE
        | VhostUserProtocolFeatures::CONFIGURE_MEM_SLOTS
        | VhostUserProtocolFeatures::BACKEND_REQ
}
