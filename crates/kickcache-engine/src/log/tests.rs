use super::*;
use crate::units::{BlockIndex, BlockKey, Checksum, VolumeId};

fn log() -> Log {
    let geometry = Geometry::for_device(16 << 20).unwrap();
    let mut log = Log::new([1; 16], geometry, Duration::from_millis(1));
    (2..6).for_each(|segment| log.add_ready(SegmentIndex::new(segment), Generation::new(1)));
    log
}

fn entry(block: u64, older: Option<Location>) -> Entry {
    let key = BlockKey::new(VolumeId::new(0), BlockIndex::new(block));
    let memory = Memory::Request { id: crate::request::RequestId::new(1), offset: 0 };
    Entry { key: Some(key), memory, checksum: Checksum::new(0), dirty: true, page: None, older }
}

fn append(log: &mut Log, entry: Entry) -> Appended {
    let (queue, durability) = (Queue::Main, Durability::Volatile);
    log.append(Instant::ZERO, Append { queue, entry, waiter: None, durability }).unwrap()
}

fn write(log: &mut Log, sequence: u64) -> BatchWrite {
    log.close_all();
    let queue = log.next_write(Depth::All).unwrap();
    log.take_write(queue, Sequence::new(sequence), Durable::NOTHING)
}

#[test]
fn a_waiter_for_durability_detects_a_volatile_batch() {
    let mut log = log();
    append(&mut log, entry(0, None));
    let gathering = log.heads[Queue::Main.index()].gathering.unwrap();
    assert!(log.wait_for(gathering, RequestSlot(1), Durability::Durable));
    assert_eq!(write(&mut log, 1).durability, Durability::Durable, "it was not submitted yet");
    append(&mut log, entry(1, None));
    let volatile = write(&mut log, 2);
    assert_eq!(volatile.durability, Durability::Volatile);
    assert!(log.wait_for(volatile.slot, RequestSlot(1), Durability::Volatile));
    assert!(!log.wait_for(volatile.slot, RequestSlot(1), Durability::Durable));
    assert_eq!(log.land(volatile.slot).waiters, [RequestSlot(1); 2]);
}

/// If the batch is lost, the copy that the block superseded is current again.
#[test]
fn a_replaced_block_keeps_the_copy_that_it_superseded() {
    let mut log = log();
    let older = Some(Location::new(3));
    let place = append(&mut log, entry(0, older)).location;
    let (queue, durability) = (Queue::Main, Durability::Volatile);
    let again = Append { queue, entry: entry(0, Some(place)), waiter: None, durability };
    assert!(log.absorb(place, &again).is_some());
    let slot = write(&mut log, 1).slot;
    assert_eq!(log.land(slot).entries[0].older, older);
}

#[test]
fn a_segment_with_a_failed_batch_gets_no_summary() {
    let mut log = log();
    append(&mut log, entry(0, None));
    let write = write(&mut log, 1);
    log.fail(write.slot);
    assert_eq!(log.take_finished(), Some(Err(write.segment)));
    let next = append(&mut log, entry(0, None)).opened;
    assert!(next.is_some_and(|segment| segment != write.segment), "it takes no more");
}
