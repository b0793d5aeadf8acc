//! The descriptors for interrupts and errors: written when the guest or the front end must look, and only then.

use std::os::fd::{AsFd, OwnedFd};

use super::harness::{AVAIL, SIZE, event_fd};
use super::*;

/// The front end's copy of an event descriptor that it attached to a message.
fn attach(guest: &mut Guest, request: u32) -> OwnedFd {
    let fd = event_fd();
    guest.tell(packet(request, &[0], vec![fd.try_clone().unwrap()])).unwrap();
    fd
}

/// Whether the descriptor was written since the last look.
fn is_rung(fd: impl AsFd) -> bool {
    rustix::io::read(fd, &mut [0; 8]).is_ok()
}

fn read_one(guest: &mut Guest) {
    guest.request(READ, 0, &[(DATA, 512, WRITE)]);
    assert_eq!(guest.serve().len(), 1);
}

#[test]
fn each_completion_interrupts_once() {
    let mut guest = guest();
    let call = attach(&mut guest, 13);
    is_rung(&call);
    for _ in 0..3 {
        read_one(&mut guest);
        assert!(is_rung(&call));
        guest.device.signal();
        assert!(!is_rung(&call));
    }
}

#[test]
fn a_new_call_descriptor_interrupts_for_earlier_completions() {
    let mut guest = guest();
    let old = attach(&mut guest, 13);
    guest.tell(packet(13, &[0x100], Vec::new())).unwrap();
    is_rung(&old);
    read_one(&mut guest);
    assert!(!is_rung(&old), "the descriptor was taken away");
    assert!(is_rung(attach(&mut guest, 13)));
    // A descriptor that is replaced directly: the guest may not have seen the write to the old one.
    read_one(&mut guest);
    assert!(is_rung(attach(&mut guest, 13)));
}

#[test]
fn a_guest_that_suppresses_interrupts_gets_none() {
    let mut guest = guest();
    let call = attach(&mut guest, 13);
    guest.device.signal();
    is_rung(&call);
    guest.write(AVAIL, &1_u16.to_le_bytes());
    read_one(&mut guest);
    assert!(!is_rung(&call));
    guest.write(AVAIL, &0_u16.to_le_bytes());
    read_one(&mut guest);
    assert!(is_rung(&call));
}

#[test]
fn an_interrupt_comes_when_the_wanted_entry_is_used() {
    let mut guest = Guest::new(FEATURES | EVENT_IDX);
    let call = attach(&mut guest, 13);
    guest.device.signal();
    is_rung(&call);
    guest.write(AVAIL + 4 + 2 * u64::from(SIZE), &1_u16.to_le_bytes());
    read_one(&mut guest);
    assert!(!is_rung(&call), "entry 0 is not wanted");
    read_one(&mut guest);
    assert!(is_rung(&call), "entry 1 is wanted");
    read_one(&mut guest);
    assert!(!is_rung(&call), "entry 2 is behind the wanted one");
}

#[test]
fn a_started_queue_interrupts_once() {
    let mut guest = guest();
    guest.tell(packet(11, &[0], Vec::new())).unwrap();
    let call = attach(&mut guest, 13);
    is_rung(&call);
    guest.tell(packet(12, &[0], vec![event_fd()])).unwrap();
    guest.device.signal();
    assert!(is_rung(&call));
    guest.device.signal();
    assert!(!is_rung(&call));
}

#[test]
fn a_stopped_queue_keeps_no_call_descriptor() {
    let mut guest = guest();
    let call = attach(&mut guest, 13);
    is_rung(&call);
    guest.tell(packet(11, &[0], Vec::new())).unwrap();
    guest.tell(packet(12, &[0], vec![event_fd()])).unwrap();
    read_one(&mut guest);
    assert!(!is_rung(&call));
}

#[test]
fn a_broken_queue_writes_to_the_error_descriptor_once() {
    let mut guest = guest();
    let error = attach(&mut guest, 14);
    read_one(&mut guest);
    assert!(!is_rung(&error));
    guest.offer(SIZE);
    assert!(guest.serve().is_empty());
    assert!(is_rung(&error));
    assert_eq!(guest.device.take_notices().len(), 1);
    guest.offer(SIZE);
    assert!(guest.serve().is_empty());
    assert!(!is_rung(&error) && guest.device.take_notices().is_empty());
}
