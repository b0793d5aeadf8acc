//! Requests in the forms that the specification allows, and their answers.

use kickcache_engine::request::Durability;
use kickcache_engine::units::ByteExtent;

use super::harness::{CONFIG_WCE, INDIRECT, TABLE};
use super::*;
use crate::{Device, Disk, Outcome, RequestKind};

fn range(sector: u64, count: u32, flags: u32) -> Vec<u8> {
    let mut bytes = sector.to_le_bytes().to_vec();
    bytes.extend_from_slice(&count.to_le_bytes());
    bytes.extend_from_slice(&flags.to_le_bytes());
    bytes
}

#[test]
fn a_read_fills_guest_memory_and_returns_its_length() {
    let mut guest = guest();
    guest.request(READ, 8, &[(DATA, 4096, WRITE)]);
    let served = guest.serve();
    assert_eq!(served[0].extent(), ByteExtent { start: 4096, length: 4096 });
    assert_eq!((guest.status(), guest.used()), (0, 1));
    assert_eq!(guest.read::<4096>(DATA), [0x5a; 4096]);
    assert_eq!(guest.read::<8>(harness::USED + 4), [0, 0, 0, 0, 1, 16, 0, 0]);
}

#[test]
fn a_write_is_copied_from_all_its_segments() {
    let mut guest = guest();
    guest.write(DATA, &[1; 512]);
    guest.write(DATA + 8192, &[2; 1024]);
    guest.request(OUT, 1, &[(DATA, 512, 0), (DATA + 8192, 1024, 0)]);
    let request = guest.device.next_request(0).unwrap();
    assert_eq!(request.kind(), RequestKind::Write { durability: Durability::Volatile });
    let mut payload = vec![0; 1536];
    request.copy_payload(&mut payload).unwrap();
    assert!(payload[..512] == [1; 512] && payload[512..] == [2; 1024]);
    guest.device.complete(&request, Outcome::Done);
    assert_eq!(guest.status(), 0);
}

#[test]
fn the_segment_list_counts_as_memory_of_a_request() {
    let mut guest = guest();
    let data: Vec<_> = std::iter::repeat_n((DATA, 64, WRITE), 8).collect();
    guest.request(READ, 0, &data);
    let request = guest.serve().remove(0);
    assert_eq!((request.payload_length(), request.memory_length()), (512, 512 + 8 * 16));
}

#[test]
fn headers_may_be_split_and_statuses_share_a_descriptor() {
    let mut guest = guest();
    guest.header(READ, 2);
    guest.chain(&[(HEADER, 3, 0), (HEADER + 3, 10, 0), (HEADER + 13, 3, 0), (DATA, 513, WRITE)]);
    let served = guest.serve();
    assert_eq!(served[0].extent(), ByteExtent { start: 1024, length: 512 });
    assert_eq!(guest.read::<1>(DATA + 512), [0]);
}

#[test]
fn payload_may_follow_the_header_in_one_descriptor() {
    let mut guest = guest();
    guest.header(OUT, 0);
    guest.write(HEADER + 16, &[7; 512]);
    guest.chain(&[(HEADER, 528, 0), (STATUS, 1, WRITE)]);
    assert_eq!(guest.serve()[0].payload_length(), 512);
}

#[test]
fn an_indirect_table_is_followed() {
    let mut guest = guest();
    guest.header(READ, 0);
    guest.descriptor(0x8000, 0, (HEADER, 16, NEXT, 1));
    guest.descriptor(0x8000, 1, (DATA, 512, NEXT | WRITE, 2));
    guest.descriptor(0x8000, 2, (STATUS, 1, WRITE, 0));
    guest.descriptor(TABLE, 5, (0x8000, 48, INDIRECT, 0));
    guest.offer(5);
    assert_eq!(guest.serve().len(), 1);
    assert_eq!((guest.status(), guest.read::<1>(harness::USED + 4)), (0, [5]));
}

#[test]
fn the_serial_number_is_written() {
    let mut guest = guest();
    guest.request(GET_ID, 0, &[(DATA, 20, WRITE)]);
    assert!(guest.serve().is_empty());
    assert_eq!((guest.status(), guest.read::<5>(DATA)), (0, *b"fuzz-"));
}

#[test]
fn a_discard_may_have_several_ranges() {
    let mut guest = guest();
    guest.write(DATA, &[range(8, 8, 0), range(64, 16, 0)].concat());
    guest.request(DISCARD, 0, &[(DATA, 32, 0)]);
    let mut request = guest.device.next_request(0).unwrap();
    assert_eq!(request.extent(), ByteExtent { start: 4096, length: 4096 });
    assert!(request.advance());
    assert_eq!(request.extent(), ByteExtent { start: 32768, length: 8192 });
    assert!(!request.advance());
    guest.device.complete(&request, Outcome::Done);
    assert_eq!(guest.status(), 0);
}

#[test]
fn zeroes_may_unmap_if_the_guest_permits() {
    for (flags, unmap) in [(0, false), (1, true)] {
        let mut guest = guest();
        guest.write(DATA, &range(0, 8, flags));
        guest.request(ZEROES, 0, &[(DATA, 16, 0)]);
        assert_eq!(
            guest.serve()[0].kind(),
            RequestKind::WriteZeroes { unmap, durability: Durability::Volatile }
        );
    }
}

#[test]
fn a_flush_and_an_unknown_request_get_their_answers() {
    let mut guest = guest();
    guest.request(FLUSH, 0, &[]);
    assert_eq!(guest.serve()[0].kind(), RequestKind::Flush);
    assert_eq!(guest.status(), 0);
    guest.request(99, 0, &[]);
    assert!(guest.serve().is_empty());
    assert_eq!(guest.status(), 2);
}

#[test]
fn without_a_write_cache_writes_are_durable_at_once() {
    let durable = |guest: &mut Guest| {
        guest.request(OUT, 0, &[(DATA, 512, 0)]);
        guest.serve()[0].kind() == RequestKind::Write { durability: Durability::Durable }
    };
    let mut switched = Guest::new(FEATURES | CONFIG_WCE);
    assert!(!durable(&mut switched));
    switch_write_cache(&mut switched, 0);
    assert!(durable(&mut switched));
    // A guest that chose neither flush nor the switch.
    assert!(durable(&mut Guest::new(FEATURES & !(1 << 9))));
    assert!(!durable(&mut Guest::new(FEATURES)));
}

#[test]
fn completions_are_put_on_the_ring_as_they_arrive() {
    let mut guest = guest();
    guest.header(READ, 0);
    for head in 0..4_u16 {
        let first = head * 3;
        guest.descriptor(TABLE, first, (HEADER, 16, NEXT, first + 1));
        guest.descriptor(TABLE, first + 1, (DATA, 512, NEXT | WRITE, first + 2));
        guest.descriptor(TABLE, first + 2, (STATUS, 1, WRITE, 0));
        guest.offer(first);
    }
    assert_eq!(guest.serve().len(), 4);
    let heads: Vec<u8> = (0..4).map(|at| guest.read::<1>(harness::USED + 4 + 8 * at)[0]).collect();
    assert_eq!(heads, [9, 6, 3, 0]);
}

#[test]
fn kicks_are_wanted_only_after_the_ring_was_found_empty() {
    let mut guest = Guest::new(FEATURES | EVENT_IDX);
    assert!(guest.device.is_awake());
    assert!(!guest.device.has_more());
    guest.request(READ, 0, &[(DATA, 512, WRITE)]);
    assert!(guest.device.has_more());
    guest.serve();
    assert!(!guest.device.has_more());
    assert!(!guest.device.arm(0) && !guest.device.is_awake());
    assert_eq!(guest.read::<2>(harness::USED + 4 + 8 * 16), [1, 0]);
    guest.request(READ, 0, &[(DATA, 512, WRITE)]);
    assert!(guest.device.is_awake());
}

#[test]
fn zeroes_unmap_only_if_all_ranges_permit() {
    for (flags, unmap) in [([1, 1], true), ([1, 0], false), ([0, 1], false)] {
        let mut guest = guest();
        guest.write(DATA, &[range(0, 8, flags[0]), range(8, 8, flags[1])].concat());
        guest.request(ZEROES, 0, &[(DATA, 32, 0)]);
        let kind = RequestKind::WriteZeroes { unmap, durability: Durability::Volatile };
        assert_eq!(guest.serve()[0].kind(), kind, "{flags:?}");
    }
}

#[test]
fn one_invalid_range_refuses_all() {
    let end = harness::DISK / 512;
    for invalid in [range(end, 8, 0), range(end - 7, 8, 0), range(u64::MAX, 8, 0), range(0, 0, 0)] {
        for ranges in [[invalid.clone(), range(0, 8, 0)], [range(0, 8, 0), invalid]] {
            let mut guest = guest();
            guest.write(DATA, &ranges.concat());
            guest.request(DISCARD, 0, &[(DATA, 32, 0)]);
            assert!(guest.serve().is_empty());
            assert_eq!(guest.status(), 1, "{ranges:?}");
        }
    }
}

#[test]
fn failures_reach_the_guest_with_their_status() {
    for (outcome, status) in [(Outcome::Done, 0), (Outcome::Failed, 1), (Outcome::Unsupported, 2)] {
        let mut guest = guest();
        guest.request(READ, 0, &[(DATA, 512, WRITE)]);
        let request = guest.device.next_request(0).unwrap();
        guest.device.complete(&request, outcome);
        let written = if outcome == Outcome::Done { [1, 2] } else { [1, 0] };
        assert_eq!((guest.status(), guest.read::<2>(harness::USED + 8)), (status, written));
    }
}

#[test]
fn a_read_only_disk_refuses_all_changes() {
    let read_only = || {
        let mut guest = Guest::bare();
        guest.device = Device::new(Disk { read_only: true, ..harness::disk() });
        guest.share_memory();
        guest.tell(packet(2, &[FEATURES & !(1 << 13 | 1 << 14)], Vec::new())).unwrap();
        guest.start_queue().unwrap();
        guest
    };
    assert_eq!(
        word(&replied(&mut read_only(), packet(1, &[], Vec::new()))) & (1 << 13 | 1 << 14 | 1 << 5),
        1 << 5
    );
    let mut guest = read_only();
    guest.request(OUT, 0, &[(DATA, 512, 0)]);
    assert!(guest.serve().is_empty() && guest.status() == 1);
    assert!(guest.goes_on(), "it can be read");
    assert!(read_only().tell(packet(2, &[FEATURES], Vec::new())).is_err());
    for kind in [DISCARD, ZEROES] {
        let mut guest = read_only();
        // A guest that chose the features in spite of all.
        guest.device.features = FEATURES;
        guest.write(DATA, &range(0, 8, 0));
        guest.request(kind, 0, &[(DATA, 16, 0)]);
        assert!(guest.serve().is_empty() && guest.status() == 1);
    }
}

#[test]
fn zeroes_and_discards_need_their_feature() {
    for (kind, bit) in [(DISCARD, 13), (ZEROES, 14)] {
        let mut guest = Guest::new(FEATURES & !(1 << bit));
        guest.write(DATA, &range(0, 8, 0));
        guest.request(kind, 0, &[(DATA, 16, 0)]);
        assert!(guest.serve().is_empty());
        assert_eq!(guest.status(), 2);
    }
}

#[test]
fn zeroes_are_durable_without_a_write_cache() {
    let mut guest = Guest::new(FEATURES | CONFIG_WCE);
    switch_write_cache(&mut guest, 0);
    guest.write(DATA, &range(0, 8, 1));
    guest.request(ZEROES, 0, &[(DATA, 16, 0)]);
    let kind = RequestKind::WriteZeroes { unmap: true, durability: Durability::Durable };
    assert_eq!(guest.serve()[0].kind(), kind);
}
