use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use super::*;
use crate::request::Durability;

const MIB: u64 = 1 << 20;

fn id(number: u64) -> SubmissionId {
    SubmissionId::from_u64(7 << 32 | number)
}

fn write(number: u64, offset: u64) -> Submission {
    write_of(number, offset, 4096)
}

fn write_of(number: u64, offset: u64, length: usize) -> Submission {
    let bytes: Box<[u8]> = vec![0; length].into();
    let operation = DeviceOperation::WriteMetadata {
        device: Device::Cache,
        offset,
        bytes,
        pieces: Vec::new(),
        durability: Durability::Volatile,
    };
    Submission { id: id(number), operation }
}

fn flush(number: u64) -> Submission {
    Submission { id: id(number), operation: DeviceOperation::Flush { device: Device::Cache } }
}

fn sides(mirror: &mut Mirror) -> Vec<Side> {
    core::iter::from_fn(|| mirror.poll_submission()).map(|routed| routed.side).collect()
}

fn mirror() -> Mirror {
    Mirror::new(ByteExtent { start: MIB, length: 3 * MIB + 4096 }, [])
}

fn end(mirror: &mut Mirror, number: u64, side: Side) -> Ending {
    end_with(mirror, number, side, Ok(()))
}

fn end_with(mirror: &mut Mirror, number: u64, side: Side, result: Result<(), DeviceError>) -> Ending {
    let id = id(number).as_u64() | if side == Side::New { TWIN } else { 0 };
    mirror.handle_end(SubmissionId::from_u64(id), result)
}

fn copy_all(mirror: &mut Mirror) {
    while let Some(_part) = mirror.poll_copy() {
        assert!(mirror.poll_copy().is_none(), "one part at a time");
        mirror.handle_copied();
    }
    assert!(mirror.is_copied());
}

#[test]
fn copied_parts_are_written_to_both_devices() {
    let mut mirror = mirror();
    assert_eq!(mirror.poll_copy(), Some(ByteExtent { start: MIB, length: MIB }));
    mirror.handle_copied();
    mirror.handle_submission(write(1, MIB));
    mirror.handle_submission(write(2, 3 * MIB));
    // The third write is a service mark.
    mirror.handle_submission(write(3, 16_384));
    assert_eq!(sides(&mut mirror), [Side::Old, Side::New, Side::Old, Side::Old, Side::New]);
    assert_eq!(end(&mut mirror, 1, Side::New), Ending::Awaited);
    assert_eq!(end(&mut mirror, 1, Side::Old), Ending::Ended(id(1), Ok(())));
    assert_eq!(end(&mut mirror, 2, Side::Old), Ending::Ended(id(2), Ok(())));
    assert_eq!(end(&mut mirror, 3, Side::Old), Ending::Awaited);
    assert_eq!(end(&mut mirror, 3, Side::New), Ending::Ended(id(3), Ok(())));
    copy_all(&mut mirror);
    assert_eq!((mirror.copied_bytes(), mirror.bytes()), (3 * MIB + 4096, 3 * MIB + 4096));
}

#[test]
fn a_part_is_copied_while_it_has_no_writes() {
    let mut mirror = mirror();
    mirror.handle_submission(write(1, 2 * MIB - 4096));
    assert_eq!(sides(&mut mirror), [Side::Old]);
    assert_eq!(mirror.poll_copy(), None, "M-2");
    // The part is to be copied next: later writes wait, so that the copy can begin.
    mirror.handle_submission(write(2, MIB));
    mirror.handle_submission(write(3, 2 * MIB));
    assert_eq!(sides(&mut mirror), [Side::Old]);
    assert_eq!(end(&mut mirror, 1, Side::Old), Ending::Ended(id(1), Ok(())));
    assert!(mirror.poll_copy().is_some());
    assert_eq!(sides(&mut mirror), []);
    mirror.handle_copied();
    assert_eq!(sides(&mut mirror), [Side::Old, Side::New], "what waited goes to both");
    assert_eq!(mirror.poll_copy(), None, "the write of the next part is in flight");
}

#[test]
fn a_postponed_part_is_requested_again() {
    let mut mirror = mirror();
    let part = mirror.poll_copy();
    assert_eq!(mirror.poll_copy(), None);
    mirror.postpone_copy();
    assert_eq!(mirror.poll_copy(), part);
    mirror.handle_copied();
    assert_eq!(mirror.poll_copy(), Some(ByteExtent { start: 2 * MIB, length: MIB }));
}

#[test]
fn a_write_across_the_copied_boundary_goes_to_both_devices() {
    let mut mirror = mirror();
    assert!(mirror.poll_copy().is_some());
    mirror.handle_copied();
    mirror.handle_submission(write_of(1, 2 * MIB - 4096, 8192));
    assert_eq!(sides(&mut mirror), [Side::Old, Side::New]);
    assert_eq!(mirror.poll_copy(), None, "M-2");
}

#[test]
fn writes_from_before_it_began_are_waited_for() {
    let mut mirror = Mirror::new(ByteExtent { start: MIB, length: MIB }, [id(9)]);
    assert_eq!(mirror.poll_copy(), None);
    assert_eq!(end(&mut mirror, 9, Side::Old), Ending::Passed);
    assert!(mirror.poll_copy().is_some());
}

#[test]
fn a_failed_new_device_is_harmless_until_sealed() {
    let mut mirror = mirror();
    copy_all(&mut mirror);
    mirror.handle_submission(flush(1));
    assert_eq!(sides(&mut mirror), [Side::Old, Side::New]);
    assert_eq!(end_with(&mut mirror, 1, Side::New, Err(DeviceError::Io)), Ending::Awaited);
    assert_eq!(end(&mut mirror, 1, Side::Old), Ending::Ended(id(1), Ok(())));
    assert_eq!(mirror.failure(), Some(DeviceError::Io));
    mirror.handle_submission(write(2, MIB));
    sides(&mut mirror);
    mirror.give_up();
    mirror.handle_submission(write(3, MIB));
    mirror.handle_submission(flush(4));
    assert_eq!(sides(&mut mirror), [Side::Old, Side::Old]);
    assert!(!mirror.is_quiet(), "a write is on its way to the new device");
    assert_eq!(end(&mut mirror, 2, Side::Old), Ending::Awaited);
    assert_eq!(end_with(&mut mirror, 2, Side::New, Err(DeviceError::Gone)), Ending::Ended(id(2), Ok(())));
    assert!(mirror.is_quiet());
}

#[test]
fn once_sealed_either_device_may_fail_a_write() {
    let mut mirror = mirror();
    copy_all(&mut mirror);
    mirror.seal();
    for (number, side, other) in [(1, Side::New, Side::Old), (2, Side::Old, Side::New)] {
        mirror.handle_submission(write(number, MIB));
        sides(&mut mirror);
        assert_eq!(end_with(&mut mirror, number, side, Err(DeviceError::Io)), Ending::Awaited);
        let ended = end(&mut mirror, number, other);
        assert_eq!(ended, Ending::Ended(id(number), Err(DeviceError::Io)), "M-3");
        assert_eq!(mirror.take_failure(), Some(DeviceError::Io), "superblocks are written again");
        assert_eq!(mirror.take_failure(), None);
    }
    mirror.part();
    mirror.handle_submission(write(3, MIB));
    mirror.handle_submission(flush(4));
    assert_eq!(sides(&mut mirror), []);
    let held: Vec<_> = mirror.into_held().map(|submission| submission.id).collect();
    assert_eq!(held, [id(3), id(4)]);
}

#[test]
#[should_panic(expected = "M-3")]
fn a_device_that_failed_is_not_sealed() {
    let mut mirror = mirror();
    copy_all(&mut mirror);
    mirror.handle_submission(flush(1));
    end_with(&mut mirror, 1, Side::New, Err(DeviceError::Io));
    mirror.seal();
}

#[test]
fn a_silent_new_device_is_dropped_with_its_late_completions() {
    let mut mirror = mirror();
    assert!(mirror.poll_copy().is_some());
    mirror.handle_copied();
    assert_eq!(mirror.waits_for_new(), None);
    for submission in [write(1, MIB), write(2, MIB + 4096), flush(3)] {
        mirror.handle_submission(submission);
    }
    assert_eq!(sides(&mut mirror).len(), 6);
    assert_eq!(end(&mut mirror, 1, Side::Old), Ending::Awaited);
    assert_eq!(mirror.waits_for_new(), Some(0));
    assert_eq!(mirror.desert(), [Ending::Ended(id(1), Ok(()))]);
    assert!(!mirror.is_quiet() && mirror.waits_for_new().is_none());
    assert_eq!(
        end_with(&mut mirror, 2, Side::Old, Err(DeviceError::Io)),
        Ending::Ended(id(2), Err(DeviceError::Io))
    );
    assert_eq!(end(&mut mirror, 3, Side::Old), Ending::Ended(id(3), Ok(())));
    // The engine reuses the id, and the late end does not belong to the new submission.
    mirror.handle_submission(write(1, MIB));
    assert_eq!(sides(&mut mirror), [Side::Old]);
    for number in [1, 2, 3] {
        assert!(!mirror.is_quiet());
        assert_eq!(end_with(&mut mirror, number, Side::New, Err(DeviceError::Io)), Ending::Awaited);
    }
    assert!(mirror.is_quiet());
    assert_eq!(end(&mut mirror, 1, Side::Old), Ending::Ended(id(1), Ok(())));
}

#[test]
fn desertion_passes_on_the_error_of_the_old_device() {
    let mut mirror = mirror();
    assert!(mirror.poll_copy().is_some());
    mirror.handle_copied();
    mirror.handle_submission(write(1, MIB));
    assert_eq!(sides(&mut mirror), [Side::Old, Side::New]);
    assert_eq!(end_with(&mut mirror, 1, Side::Old, Err(DeviceError::Io)), Ending::Awaited);
    assert_eq!(mirror.desert(), [Ending::Ended(id(1), Err(DeviceError::Io))], "the write is lost");
}

#[test]
fn requests_waiting_for_a_silent_device_continue() {
    let mut mirror = mirror();
    assert!(mirror.poll_copy().is_some());
    mirror.handle_submission(write(1, MIB));
    assert!(mirror.waits_for_part() && sides(&mut mirror).is_empty());
    assert_eq!(mirror.desert(), []);
    assert!(!mirror.waits_for_part());
    assert_eq!(sides(&mut mirror), [Side::Old]);
    assert!(mirror.is_quiet());
}

#[test]
fn unsent_writes_to_a_silent_device_are_dropped() {
    let mut mirror = mirror();
    assert!(mirror.poll_copy().is_some());
    mirror.handle_submission(write(1, MIB));
    mirror.handle_copied();
    assert_eq!(mirror.desert(), []);
    assert_eq!(sides(&mut mirror), [Side::Old]);
    assert!(mirror.is_quiet());
    assert_eq!(end(&mut mirror, 1, Side::Old), Ending::Ended(id(1), Ok(())));
}
