//! The device against a guest whose memory the tests write byte by byte.

mod corpus;
mod hostile;
mod interrupts;
mod protocol;
mod reconnection;
mod requests;

#[path = "../../../../fuzz/harness/vhost_user.rs"]
mod harness;

use self::harness::{EVENT_IDX, FEATURES, Guest, NEXT, WRITE, packet, pair};
use crate as vhost_user;
use crate::Answer;

const HEADER: u64 = 0x1_0000;
const DATA: u64 = 0x2_0000;
const STATUS: u64 = 0x1_1000;
const UNTOUCHED: u8 = 0xee;

const READ: u32 = 0;
const OUT: u32 = 1;
const FLUSH: u32 = 4;
const GET_ID: u32 = 8;
const DISCARD: u32 = 11;
const ZEROES: u32 = 13;

impl Guest {
    fn header(&self, kind: u32, sector: u64) {
        let mut bytes = kind.to_le_bytes().to_vec();
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&sector.to_le_bytes());
        self.write(HEADER, &bytes);
        self.write(STATUS, &[UNTOUCHED]);
    }

    /// Offers header, data and status as a chain of descriptors from 0 on.
    fn request(&mut self, kind: u32, sector: u64, data: &[(u64, u32, u16)]) {
        self.header(kind, sector);
        let mut parts = vec![(HEADER, 16, 0)];
        parts.extend_from_slice(data);
        parts.push((STATUS, 1, WRITE));
        self.chain(&parts);
    }

    /// Offers a chain of descriptors from 0 on.
    fn chain(&mut self, parts: &[(u64, u32, u16)]) {
        for (index, (address, length, flags)) in (0..).zip(parts) {
            let last = usize::from(index) + 1 == parts.len();
            let flags = if last { *flags } else { flags | NEXT };
            self.descriptor(harness::TABLE, index, (*address, *length, flags, index + 1));
        }
        self.offer(0);
    }

    fn status(&self) -> u8 {
        self.read::<1>(STATUS)[0]
    }

    /// Whether the queue still answers: a read that is in order ends well.
    fn goes_on(&mut self) -> bool {
        let before = self.used();
        self.request(READ, 0, &[(DATA, 512, WRITE)]);
        self.serve();
        self.status() == 0 && self.used() == before.wrapping_add(1)
    }
}

fn guest() -> Guest {
    Guest::new(FEATURES)
}

fn replied(guest: &mut Guest, message: vhost_user::Packet) -> Vec<u8> {
    match guest.tell(message).unwrap() {
        Answer::Reply(reply) => reply.bytes[12..].to_vec(),
        other => panic!("{other:?}"),
    }
}

fn word(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes[..8].try_into().unwrap())
}

fn config(guest: &mut Guest) -> Vec<u8> {
    let mut query = packet(24, &[pair(0, 60)], Vec::new());
    query.payload.extend_from_slice(&[0; 64]);
    replied(guest, query).split_off(12)
}

fn set_config(offset: u32, bytes: &[u8]) -> vhost_user::Packet {
    let size = u32::try_from(bytes.len()).unwrap();
    let mut change = packet(25, &[pair(offset, size)], Vec::new());
    change.payload.extend_from_slice(&[0; 4]);
    change.payload.extend_from_slice(bytes);
    change
}

fn switch_write_cache(guest: &mut Guest, byte: u8) {
    guest.tell(set_config(32, &[byte])).unwrap();
}
