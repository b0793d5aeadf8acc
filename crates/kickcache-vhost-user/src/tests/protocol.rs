//! Messages of front ends, valid and invalid.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use super::harness::{CONFIG_WCE, RAM, SIZE, USER, event_fd, pair};
use super::*;
use crate::{Answer, KickChange, Notice, Outcome, Received, Socket};

#[test]
fn the_offer_matches_the_specification_of_this_device() {
    let mut guest = Guest::bare();
    assert_eq!(word(&replied(&mut guest, packet(1, &[], Vec::new()))), 0x1_7000_7e46);
    assert_eq!(word(&replied(&mut guest, packet(15, &[], Vec::new()))), 0xb229);
    assert_eq!(word(&replied(&mut guest, packet(17, &[], Vec::new()))), 16);
}

#[test]
fn a_feature_that_was_not_offered_cannot_be_chosen() {
    assert!(Guest::bare().tell(packet(2, &[1 << 34], Vec::new())).is_err());
}

#[test]
fn an_acknowledgement_reports_success_and_failure() {
    let mut guest = guest();
    guest.tell(packet(16, &[1 << 3], Vec::new())).unwrap();
    let ask = |size: u32| {
        let message = packet(8, &[pair(1, size)], Vec::new());
        vhost_user::Packet { need_reply: true, ..message }
    };
    assert_eq!(word(&replied(&mut guest, ask(64))), 0);
    assert_eq!(word(&replied(&mut guest, ask(65))), 1);
    assert_eq!(word(&replied(&mut guest, ask(2048))), 1);
}

#[test]
fn sizes_and_numbers_of_queues_that_cannot_be_are_refused() {
    for (request, words) in
        [(8, [pair(0, 0)]), (8, [pair(0, 3)]), (8, [pair(16, 16)]), (10, [pair(0, 65536)])]
    {
        assert!(Guest::bare().tell(packet(request, &words, Vec::new())).is_err());
    }
    assert!(guest().tell(packet(8, &[pair(0, 32)], Vec::new())).is_err(), "a size of a started queue");
}

#[test]
fn rings_outside_of_memory_are_refused() {
    for (table, used, avail) in [(RAM, 0x3000, 0x2000), (0x1000, RAM - 8, 0x2000), (0x1008, 0x3000, 0x2000)] {
        let mut guest = Guest::bare();
        guest.share_memory();
        guest.tell(packet(8, &[pair(0, SIZE.into())], Vec::new())).unwrap();
        guest.tell(packet(12, &[0], vec![event_fd()])).unwrap();
        let addresses = [pair(0, 0), USER + table, USER + used, USER + avail, 0];
        assert!(guest.tell(packet(9, &addresses, Vec::new())).is_err());
        assert!(guest.device.next_request(0).is_none());
    }
}

#[test]
fn overlapping_or_oversized_regions_are_refused() {
    let mut guest = guest();
    for [start, size, user, offset] in [
        [RAM - 4096, 8192, USER + RAM, 0],
        [0, 4096, USER, 0],
        [RAM, RAM, USER + RAM, 4096],
        [u64::MAX - 4095, 4096, USER + RAM, 0],
        [RAM, 0, USER + RAM, 0],
    ] {
        let fd = guest.memory_fd();
        assert!(guest.tell(packet(37, &[0, start, size, user, offset], vec![fd])).is_err());
    }
    assert!(guest.goes_on());
}

#[test]
fn kick_and_call_descriptors_must_be_eventfds() {
    for request in 12..=14 {
        let (socket, _other) = UnixStream::pair().unwrap();
        for other in [Guest::bare().memory_fd(), socket.into(), std::io::pipe().unwrap().1.into()] {
            assert!(Guest::bare().tell(packet(request, &[0], vec![other])).is_err(), "{request}");
        }
        Guest::bare().tell(packet(request, &[0], vec![event_fd()])).unwrap();
    }
}

#[test]
fn a_kick_before_its_descriptor_was_replaced_is_kept() {
    let mut guest = guest();
    assert!(!guest.device.arm(0) && !guest.device.is_awake());
    guest.tell(packet(12, &[0], vec![event_fd()])).unwrap();
    assert!(guest.device.is_awake());
}

#[test]
fn a_memory_table_replaces_the_previous_one() {
    let mut guest = guest();
    let fds: Vec<OwnedFd> = (0..2).map(|_| guest.memory_fd()).collect();
    let half = RAM / 2;
    let words = [pair(2, 0), 0, half, USER, 0, half, half, USER + half, half];
    guest.tell(packet(5, &words, fds)).unwrap();
    assert!(guest.goes_on());
    assert!(guest.tell(packet(5, &words, Vec::new())).is_err(), "regions without descriptors");
}

#[test]
fn stopping_a_queue_waits_for_requests_in_flight() {
    let mut guest = guest();
    guest.request(READ, 0, &[(DATA, 512, WRITE)]);
    let request = guest.device.next_request(0).unwrap();
    let Answer::Wait(stop) = guest.tell(packet(11, &[0], Vec::new())).unwrap() else {
        panic!("did not wait")
    };
    guest.offer(3);
    assert!(guest.device.next_request(0).is_none(), "a queue that stops takes nothing");
    guest.device.complete(&request, Outcome::Done);
    assert_eq!(replied(&mut guest, stop), pair(0, 1).to_le_bytes());
    let unwatched = guest.device.kick_changes();
    assert!(matches!(unwatched.last(), Some(KickChange::Unwatch(0, _))));
}

#[test]
fn an_answer_to_a_disconnected_front_end_is_dropped() {
    let mut guest = guest();
    guest.request(READ, 0, &[(DATA, 512, WRITE)]);
    let request = guest.device.next_request(0).unwrap();
    guest.device.disconnect();
    guest.share_memory();
    guest.tell(packet(2, &[FEATURES], Vec::new())).unwrap();
    guest.start_queue().unwrap();
    guest.device.complete(&request, Outcome::Done);
    assert_eq!((guest.used(), guest.device.outstanding()), (0, 0));
}

#[test]
fn a_reset_gives_the_beginning_back() {
    let mut guest = guest();
    guest.tell(packet(34, &[], Vec::new())).unwrap();
    assert!(!guest.device.is_awake());
    assert!(guest.device.kick(0).is_none());
}

#[test]
fn messages_come_whole_however_they_are_sent() {
    let (mut theirs, ours) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    let mut socket = Socket::new(ours.into());
    let message = [1, 0, 0, 0, 9, 0, 0, 0, 4, 0, 0, 0, 7, 8, 9, 10];
    for byte in message {
        assert!(matches!(socket.receive().unwrap(), Received::Nothing));
        theirs.write_all(&[byte]).unwrap();
    }
    let Received::Packet(found) = socket.receive().unwrap() else { panic!("no message") };
    assert_eq!((found.request, found.need_reply, found.payload), (1, true, vec![7, 8, 9, 10]));
    theirs.write_all(&[1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]).unwrap();
    assert!(socket.receive().is_err(), "version 2");
    drop(theirs);
}

#[test]
fn a_disabled_queue_takes_no_request() {
    let mut guest = guest();
    guest.tell(packet(18, &[pair(0, 0)], Vec::new())).unwrap();
    guest.request(READ, 0, &[(DATA, 512, WRITE)]);
    assert!(guest.device.next_request(0).is_none() && !guest.device.has_more());
    guest.tell(packet(18, &[pair(0, 1)], Vec::new())).unwrap();
    assert!(guest.device.has_more());
    assert_eq!((guest.serve().len(), guest.status()), (1, 0));
}

#[test]
fn a_queue_without_a_kick_descriptor_is_refused() {
    assert!(Guest::bare().tell(packet(12, &[0x100], Vec::new())).is_err());
}

#[test]
fn a_queue_starts_at_the_index_that_was_set() {
    let mut guest = guest();
    guest.request(READ, 0, &[(DATA, 512, WRITE)]);
    guest.serve();
    assert_eq!(replied(&mut guest, packet(11, &[0], Vec::new())), pair(0, 1).to_le_bytes());
    let mut restart_at = |base| {
        guest.tell(packet(11, &[0], Vec::new())).unwrap();
        guest.tell(packet(10, &[pair(0, base)], Vec::new())).unwrap();
        guest.tell(packet(12, &[0], vec![event_fd()])).unwrap();
        guest.device.has_more()
    };
    assert_eq!([restart_at(1), restart_at(0), restart_at(1)], [false, true, false]);
    assert!(guest.goes_on());
}

#[test]
fn a_device_reset_waits_for_requests_in_flight() {
    let mut guest = guest();
    guest.request(READ, 0, &[(DATA, 512, WRITE)]);
    let request = guest.device.next_request(0).unwrap();
    let Answer::Wait(reset) = guest.tell(packet(34, &[], Vec::new())).unwrap() else {
        panic!("did not wait")
    };
    guest.offer(3);
    assert!(guest.device.next_request(0).is_none(), "a device that resets takes nothing");
    guest.device.complete(&request, Outcome::Done);
    assert_eq!((guest.status(), guest.used()), (0, 1));
    assert!(matches!(guest.tell(reset).unwrap(), Answer::Nothing));
}

#[test]
fn a_disconnect_drops_kicks_memory_and_features() {
    let mut guest = Guest::new(FEATURES | CONFIG_WCE);
    switch_write_cache(&mut guest, 0);
    drop(guest.device.kick_changes());
    guest.request(READ, 0, &[(DATA, 512, WRITE)]);
    guest.device.disconnect();
    assert!(matches!(guest.device.kick_changes()[..], [KickChange::Unwatch(0, _)]));
    assert!(guest.device.kick(0).is_none() && guest.device.next_request(0).is_none());
    assert!(guest.start_queue().is_err(), "no memory is left");
    guest.share_memory();
    guest.tell(packet(2, &[FEATURES | CONFIG_WCE], Vec::new())).unwrap();
    assert_eq!(config(&mut guest)[32], 1, "the next guest begins with its write cache on");
}

#[test]
fn only_the_write_cache_can_be_changed() {
    let mut guest = Guest::new(FEATURES | CONFIG_WCE);
    for offset in [0, 31, 33] {
        assert!(guest.tell(set_config(offset, &[0])).is_err(), "{offset}");
    }
    assert_eq!(config(&mut guest)[32], 1);
    guest.tell(set_config(30, &[9, 9, 0, 9])).unwrap();
    assert_eq!((config(&mut guest)[30], config(&mut guest)[32]), (0, 0));
}

#[test]
fn a_new_size_counts_at_once_and_is_reported() {
    let (theirs, ours) = UnixStream::pair().unwrap();
    let mut guest = guest();
    guest.device.resize(harness::DISK - 512);
    guest.tell(packet(21, &[], vec![ours.into()])).unwrap();
    let places = harness::DISK / 512 - 1;
    guest.request(READ, places, &[(DATA, 512, WRITE)]);
    assert!(guest.serve().is_empty() && guest.status() == 1);
    guest.device.resize(harness::DISK);
    assert_eq!(word(&config(&mut guest)), places + 1);
    guest.request(READ, places, &[(DATA, 512, WRITE)]);
    assert!(guest.serve().len() == 1 && guest.status() == 0);
    let mut message = [0; 12];
    (&theirs).read_exact(&mut message).unwrap();
    assert_eq!(message[..4], 2_u32.to_le_bytes());
    assert!(guest.device.take_notices().is_empty());
    drop(theirs);
    guest.device.resize(harness::DISK);
    assert!(matches!(guest.device.take_notices()[..], [Notice::SizeNotTold(_)]));
}
