//! Hostile guests and front ends.

use super::harness::{INDIRECT, RAM, SIZE, TABLE, USED, USER, event_fd, pair};
use super::*;

/// Submits a request that must be refused with an I/O error, while the queue continues.
#[track_caller]
fn refused(kind: u32, sector: u64, data: &[(u64, u32, u16)]) {
    let mut guest = guest();
    guest.request(kind, sector, data);
    guest.serve();
    assert_eq!((guest.status(), guest.used()), (1, 1));
    assert!(guest.goes_on());
}

/// Offers a chain that must stop the queue.
#[track_caller]
fn stopped(parts: &[(u64, u32, u16)]) {
    let mut guest = guest();
    guest.header(READ, 0);
    guest.chain(parts);
    stops(&mut guest);
}

#[track_caller]
fn stops(guest: &mut Guest) {
    assert!(guest.serve().is_empty());
    assert_eq!(guest.used(), 0);
    assert!(!guest.goes_on());
    guest.tell(packet(11, &[0], Vec::new())).unwrap();
    assert_eq!(guest.device.outstanding(), 0);
}

#[test]
fn data_outside_of_memory_is_refused() {
    refused(READ, 0, &[(RAM, 512, WRITE)]);
    refused(READ, 0, &[(RAM - 256, 512, WRITE)]);
    refused(OUT, 0, &[(RAM, 512, 0)]);
    refused(OUT, 0, &[(u64::MAX - 100, 512, 0)]);
}

#[test]
fn reading_into_a_read_only_segment_is_refused() {
    refused(READ, 0, &[(DATA, 512, 0)]);
    refused(OUT, 0, &[(DATA, 512, WRITE)]);
}

#[test]
fn places_behind_the_end_of_the_disk_are_refused() {
    refused(READ, harness::DISK / 512, &[(DATA, 512, WRITE)]);
    refused(READ, harness::DISK / 512 - 1, &[(DATA, 1024, WRITE)]);
    refused(OUT, u64::MAX, &[(DATA, 512, 0)]);
    refused(READ, u64::MAX / 512, &[(DATA, 512, WRITE)]);
}

#[test]
fn odd_and_empty_lengths_are_refused() {
    refused(READ, 0, &[]);
    refused(READ, 0, &[(DATA, 0, WRITE)]);
    refused(OUT, 0, &[(DATA, 100, 0)]);
    refused(READ, 0, &[(DATA, 33 << 20, WRITE)]);
    refused(DISCARD, 0, &[(DATA, 15, 0)]);
    refused(DISCARD, 0, &[]);
    refused(ZEROES, 0, &[(DATA, 16 * 17, 0)]);
}

#[test]
fn an_empty_or_oversized_range_is_refused() {
    for count in [0_u32, (1 << 21) + 1, u32::MAX] {
        let mut guest = guest();
        guest.write(DATA, &[[0; 8].as_slice(), &count.to_le_bytes(), &[0; 4]].concat());
        guest.request(DISCARD, 0, &[(DATA, 16, 0)]);
        guest.serve();
        assert_eq!(guest.status(), 1, "{count}");
    }
    let mut guest = guest();
    guest.write(DATA, &[[0; 8], [8, 0, 0, 0, 2, 0, 0, 0]].concat());
    guest.request(ZEROES, 0, &[(DATA, 16, 0)]);
    guest.serve();
    assert_eq!(guest.status(), 2);
}

#[test]
fn a_short_header_is_refused() {
    let mut guest = guest();
    guest.header(READ, 0);
    guest.chain(&[(HEADER, 15, 0), (DATA, 512, WRITE), (STATUS, 1, WRITE)]);
    guest.serve();
    assert_eq!(guest.status(), 1);
    assert!(guest.goes_on());
}

#[test]
fn a_chain_without_a_status_stops_the_queue() {
    stopped(&[(HEADER, 16, 0), (DATA, 512, 0)]);
    stopped(&[(HEADER, 16, 0), (DATA, 0, WRITE)]);
    stopped(&[(HEADER, 16, 0), (DATA, 512, WRITE), (RAM, 1, WRITE)]);
    stopped(&[(HEADER, 16, 0), (u64::MAX, 2, WRITE)]);
}

#[test]
fn reading_behind_writing_stops_the_queue() {
    stopped(&[(DATA, 512, WRITE), (HEADER, 16, 0), (STATUS, 1, WRITE)]);
}

#[test]
fn more_bytes_than_can_be_counted_stop_the_queue() {
    stopped(&[(HEADER, 16, 0), (DATA, u32::MAX, WRITE), (STATUS, 1, WRITE)]);
}

#[test]
fn a_loop_stops_the_queue() {
    let mut guest = guest();
    guest.header(READ, 0);
    guest.descriptor(TABLE, 0, (HEADER, 16, NEXT, 1));
    guest.descriptor(TABLE, 1, (DATA, 16, NEXT, 0));
    guest.offer(0);
    stops(&mut guest);
}

#[test]
fn a_descriptor_outside_of_its_table_stops_the_queue() {
    let mut guest = guest();
    guest.descriptor(TABLE, 0, (HEADER, 16, NEXT, SIZE));
    guest.offer(0);
    stops(&mut guest);
}

#[test]
fn an_invalid_or_duplicate_head_stops_the_queue() {
    let mut guest = guest();
    guest.offer(SIZE);
    stops(&mut guest);
    let mut guest = super::guest();
    guest.request(READ, 0, &[(DATA, 512, WRITE)]);
    let first = guest.device.next_request(0).unwrap();
    guest.offer(0);
    assert!(guest.device.next_request(0).is_none());
    guest.device.complete(&first, vhost_user::Outcome::Done);
    assert_eq!((guest.status(), guest.used()), (0, 1));
    assert!(!guest.goes_on());
}

#[test]
fn nested_or_odd_indirect_tables_stop_the_queue() {
    for (address, length, inner) in [(0x8000, 32, INDIRECT), (0x8000, 20, 0), (0x8000, 0, 0), (RAM, 32, 0)] {
        let mut guest = guest();
        guest.write(0x8000, &[0; 32]);
        guest.descriptor(0x8000, 0, (0x8000, 16, inner, 0));
        guest.descriptor(TABLE, 0, (address, length, INDIRECT, 0));
        guest.offer(0);
        stops(&mut guest);
    }
    let mut guest = guest();
    guest.descriptor(TABLE, 0, (0x8000, 32, INDIRECT | NEXT, 1));
    guest.offer(0);
    stops(&mut guest);
}

#[test]
fn a_ring_ahead_of_itself_stops_the_queue() {
    let mut guest = guest();
    guest.write(harness::AVAIL + 2, &(SIZE + 1).to_le_bytes());
    stops(&mut guest);
}

#[test]
fn a_ring_with_entries_outside_of_memory_stops_the_queue() {
    let mut guest = guest();
    guest.tell(packet(9, &[0, USER + TABLE, USER + USED, USER + RAM - 4, 0], Vec::new())).unwrap();
    guest.write(RAM - 2, &1_u16.to_le_bytes());
    assert!(guest.serve().is_empty());
    assert!(!guest.device.arm(0) && !guest.device.is_awake());
}

#[test]
fn a_flood_of_immediate_answers_leaves_others_their_turn() {
    let mut guest = guest();
    guest.tell(packet(11, &[0], Vec::new())).unwrap();
    guest.tell(packet(8, &[pair(0, 64)], Vec::new())).unwrap();
    guest.tell(packet(12, &[0], vec![event_fd()])).unwrap();
    guest.request(GET_ID, 0, &[(DATA, 20, WRITE)]);
    // All entries of the ring name head 0.
    guest.write(harness::AVAIL + 2, &64_u16.to_le_bytes());
    assert!(guest.device.next_request(0).is_none());
    assert!((1..64).contains(&guest.used()) && guest.device.has_more());
    while guest.device.has_more() {
        assert!(guest.device.next_request(0).is_none());
    }
    assert_eq!(guest.used(), 64);
}

#[test]
fn a_flood_of_kicks_has_no_cost() {
    let mut guest = guest();
    for _ in 0..10_000 {
        guest.device.kicked(0);
        assert!(guest.device.next_request(0).is_none());
    }
    assert!(guest.goes_on());
}

#[test]
fn memory_that_vanishes_under_a_request_does_no_harm() {
    let mut guest = guest();
    guest.request(READ, 0, &[(DATA, 512, WRITE)]);
    let request = guest.device.next_request(0).unwrap();
    let removed = packet(38, &[0, 0, RAM, USER, 0], Vec::new());
    guest.tell(removed).unwrap();
    request.deliver(&[1; 512]).unwrap();
    guest.device.complete(&request, vhost_user::Outcome::Done);
    assert_eq!(guest.read::<1>(DATA), [1]);
    assert!(!guest.goes_on());
    assert_eq!(guest.device.outstanding(), 0);
}
