//! A guest that offers reads of 4 KiB, or one request.

use kickcache_vhost_user as vhost_user;
use kickcache_vhost_user::Device;

use self::harness::{FEATURES, Guest, NEXT, TABLE, WRITE};

#[path = "../../../../../../fuzz/harness/vhost_user.rs"]
#[expect(dead_code, reason = "the fuzz targets use the rest")]
mod harness;

const HEADER: u64 = 0x1_0000;
const DATA: u64 = 0x2_0000;
const STATUS: u64 = 0x1_1000;

pub(super) struct Reader(Guest);

impl Reader {
    /// This many reads, and the device that takes them.
    pub(super) fn new(reads: u16) -> (Reader, Device) {
        let mut guest = Guest::new(FEATURES);
        guest.write(HEADER, &[0; 16]);
        for first in (0..reads).map(|read| read * 3) {
            guest.descriptor(TABLE, first, (HEADER, 16, NEXT, first + 1));
            guest.descriptor(TABLE, first + 1, (DATA, 4096, NEXT | WRITE, first + 2));
            guest.descriptor(TABLE, first + 2, (STATUS, 1, WRITE, 0));
            guest.offer(first);
        }
        Reader::apart(guest)
    }

    /// One request of this type, with these bytes for the device, and the device that takes it.
    pub(super) fn with_request(kind: u32, bytes: &[u8]) -> (Reader, Device) {
        let mut guest = Guest::new(FEATURES);
        let header = [kind.to_le_bytes().as_slice(), &[0; 12]].concat();
        guest.write(HEADER, &header);
        guest.write(DATA, bytes);
        guest.write(STATUS, &[u8::MAX]);
        guest.descriptor(TABLE, 0, (HEADER, 16, NEXT, 1));
        guest.descriptor(TABLE, 1, (DATA, u32::try_from(bytes.len()).unwrap(), NEXT, 2));
        guest.descriptor(TABLE, 2, (STATUS, 1, WRITE, 0));
        guest.offer(0);
        Reader::apart(guest)
    }

    fn apart(mut guest: Guest) -> (Reader, Device) {
        let device = std::mem::replace(&mut guest.device, Device::new(harness::disk()));
        (Reader(guest), device)
    }

    pub(super) fn status(&self) -> u8 {
        self.0.read::<1>(STATUS)[0]
    }

    /// Cuts the memory of the guest off in front of the payload.
    pub(super) fn cut_payload(&self) {
        self.0.ram.set_len(DATA).unwrap();
    }

    pub(super) fn answered(&self) -> u16 {
        self.0.used()
    }
}
