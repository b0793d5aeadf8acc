//! Front ends that return to the same device or to the next one, with the memory for requests in flight.

use std::os::fd::OwnedFd;

use kickcache_engine::request::Durability;

use super::harness::{CONFIG_WCE, RAM, SIZE, USER, event_fd, pair};
use super::*;
use crate::{Answer, Outcome, RequestKind};

struct InflightMemory {
    message: Vec<u64>,
    fd: OwnedFd,
}

impl InflightMemory {
    fn new(guest: &mut Guest) -> InflightMemory {
        let kept = InflightMemory::fresh(guest);
        guest.tell(packet(11, &[0], Vec::new())).unwrap();
        kept.hand_back(guest);
        guest.start_queue().unwrap();
        for head in [0_u16, 3, 6] {
            guest.header(READ, 0);
            guest.descriptor(harness::TABLE, head, (HEADER, 16, NEXT, head + 1));
            guest.descriptor(harness::TABLE, head + 1, (DATA, 512, NEXT | WRITE, head + 2));
            guest.descriptor(harness::TABLE, head + 2, (STATUS, 1, WRITE, 0));
            guest.offer(head);
        }
        kept
    }

    fn fresh(guest: &mut Guest) -> InflightMemory {
        let wanted = pair(1 | u32::from(SIZE) << 16, 0);
        let Answer::Reply(reply) = guest.tell(packet(31, &[0, 0, wanted], Vec::new())).unwrap() else {
            panic!("no memory for requests in flight")
        };
        let message = reply.bytes[12..].chunks(8).map(word).collect();
        InflightMemory { message, fd: reply.fd.unwrap() }
    }

    /// The guest at the next daemon: only memory is left of the killed one.
    fn next_guest(&self, ram: OwnedFd) -> Guest {
        let mut second = Guest::bare();
        second.ram = ram.into();
        self.connect(&mut second, FEATURES);
        second
    }

    fn connect(&self, guest: &mut Guest, features: u64) {
        guest.share_memory();
        guest.tell(packet(2, &[features], Vec::new())).unwrap();
        self.hand_back(guest);
        guest.start_queue().unwrap();
    }

    fn reconnect(&self, guest: &mut Guest) {
        guest.device.disconnect();
        self.connect(guest, FEATURES | CONFIG_WCE);
    }

    fn hand_back(&self, guest: &mut Guest) {
        guest.tell(packet(32, &self.message, vec![self.fd.try_clone().unwrap()])).unwrap();
    }
}

#[test]
fn requests_in_flight_are_done_by_the_next_daemon() {
    let mut first = Guest::new(FEATURES);
    let kept = InflightMemory::new(&mut first);
    let ram = first.memory_fd();
    let requests: Vec<_> = std::iter::from_fn(|| first.device.next_request(0)).collect();
    first.device.complete(&requests[1], Outcome::Done);
    let mut second = kept.next_guest(ram);
    assert_eq!(second.serve().len(), 2);
    let mut heads: Vec<u8> = (0..3).map(|at| second.read::<1>(harness::USED + 4 + 8 * at)[0]).collect();
    heads.sort_unstable();
    assert_eq!((second.used(), heads), (3, vec![0, 3, 6]));
}

#[test]
fn a_request_is_in_flight_until_it_is_used() {
    let mut first = Guest::new(FEATURES);
    let kept = InflightMemory::new(&mut first);
    let ram = first.memory_fd();
    let requests: Vec<_> = std::iter::from_fn(|| first.device.next_request(0)).collect();
    // The daemon can no longer write the ring, because its memory was removed.
    first.tell(packet(38, &[0, 0, RAM, USER, 0], Vec::new())).unwrap();
    first.device.complete(&requests[1], Outcome::Done);
    let mut second = kept.next_guest(ram);
    assert_eq!((second.used(), second.serve().len(), second.used()), (0, 3, 3));
}

#[test]
fn recovered_requests_are_waiting_requests() {
    let mut first = Guest::new(FEATURES);
    let kept = InflightMemory::new(&mut first);
    let ram = first.memory_fd();
    assert_eq!(std::iter::from_fn(|| first.device.next_request(0)).count(), 3);
    let mut second = kept.next_guest(ram);
    // The guest does not kick for requests that it submitted to the killed daemon.
    for _ in 0..3 {
        assert!(second.device.has_more());
        assert!(second.device.arm(0) && second.device.is_awake());
        let request = second.device.next_request(0).unwrap();
        second.device.complete(&request, Outcome::Done);
    }
    assert!(!second.device.has_more() && !second.device.arm(0));
}

#[test]
fn a_stopped_queue_returns_the_recovered_requests_not_taken() {
    let mut first = Guest::new(FEATURES);
    let kept = InflightMemory::new(&mut first);
    let ram = first.memory_fd();
    assert_eq!(std::iter::from_fn(|| first.device.next_request(0)).count(), 3);
    let mut second = kept.next_guest(ram);
    let request = second.device.next_request(0).unwrap();
    second.device.complete(&request, Outcome::Done);
    assert_eq!(replied(&mut second, packet(11, &[0], Vec::new())), pair(0, 1).to_le_bytes());
    second.tell(packet(12, &[0], vec![event_fd()])).unwrap();
    assert_eq!((second.serve().len(), second.used()), (2, 3));
}

#[test]
fn recovered_requests_keep_their_order_with_each_daemon() {
    let mut guest = Guest::new(FEATURES);
    let kept = InflightMemory::new(&mut guest);
    for _ in 0..3 {
        let ram = guest.memory_fd();
        let taken: Vec<_> = std::iter::from_fn(|| guest.device.next_request(0)).collect();
        assert_eq!(taken.iter().map(|request| request.tag.head).collect::<Vec<_>>(), [0, 3, 6]);
        guest = kept.next_guest(ram);
    }
}

#[test]
fn a_disconnect_leaves_the_requests_in_flight_marked() {
    let mut guest = Guest::new(FEATURES | CONFIG_WCE);
    let kept = InflightMemory::new(&mut guest);
    let taken: Vec<_> = std::iter::from_fn(|| guest.device.next_request(0)).collect();
    kept.reconnect(&mut guest);
    // The results of the earlier connection are dropped; the requests are done again.
    for request in &taken {
        guest.device.complete(request, Outcome::Done);
    }
    assert_eq!((guest.used(), guest.serve().len(), guest.used()), (0, 3, 3));
    assert_eq!(guest.device.outstanding(), 0);
}

fn write_of(guest: &mut Guest) -> RequestKind {
    guest.request(OUT, 0, &[(DATA, 512, 0)]);
    guest.serve().pop().unwrap().kind()
}

const VOLATILE: RequestKind = RequestKind::Write { durability: Durability::Volatile };
const DURABLE: RequestKind = RequestKind::Write { durability: Durability::Durable };

#[test]
fn a_write_cache_that_is_off_stays_off_after_disconnects() {
    let mut guest = Guest::new(FEATURES | CONFIG_WCE);
    let kept = InflightMemory::new(&mut guest);
    guest.serve();
    switch_write_cache(&mut guest, 0);
    for _ in 0..2 {
        kept.reconnect(&mut guest);
        assert_eq!(config(&mut guest)[32], 0);
    }
    let ram = guest.memory_fd();
    let mut next = Guest::bare();
    next.ram = ram.into();
    kept.connect(&mut next, FEATURES | CONFIG_WCE);
    assert_eq!(config(&mut next)[32], 0);
    assert!(next.device.rules().durability == Durability::Durable);
}

#[test]
fn a_write_cache_switched_on_again_stays_on() {
    let mut guest = Guest::new(FEATURES | CONFIG_WCE);
    let kept = InflightMemory::new(&mut guest);
    guest.serve();
    switch_write_cache(&mut guest, 0);
    switch_write_cache(&mut guest, 1);
    kept.reconnect(&mut guest);
    assert_eq!(config(&mut guest)[32], 1);
}

#[test]
fn fresh_memory_has_a_write_cache_switched_off_before() {
    let mut guest = Guest::new(FEATURES | CONFIG_WCE);
    switch_write_cache(&mut guest, 0);
    assert_eq!(write_of(&mut guest), DURABLE);
    let kept = InflightMemory::fresh(&mut guest);
    kept.hand_back(&mut guest);
    assert_eq!(config(&mut guest)[32], 0);
    kept.reconnect(&mut guest);
    assert_eq!(config(&mut guest)[32], 0);
}

#[test]
fn a_device_reset_switches_the_write_cache_on_for_good() {
    let mut guest = Guest::new(FEATURES | CONFIG_WCE);
    let kept = InflightMemory::fresh(&mut guest);
    kept.hand_back(&mut guest);
    switch_write_cache(&mut guest, 0);
    guest.tell(packet(34, &[], Vec::new())).unwrap();
    assert_eq!(config(&mut guest)[32], 1);
    kept.reconnect(&mut guest);
    assert_eq!(config(&mut guest)[32], 1);
    assert_eq!(write_of(&mut guest), VOLATILE);
}
