//! Blocks that the cache device cannot read while the log is read back: one bad spot costs the blocks stored there, and
//! not the device.

#![expect(clippy::unwrap_used, reason = "a test may fail by a panic")]

use kickcache_engine::config::FAILED_READS_MAX;
use kickcache_engine::engine::Phase;
use kickcache_engine::error::Error;
use kickcache_engine::format::batch::BatchHeader;
use kickcache_engine::format::journal::JournalBlock;
use kickcache_engine::units::{BLOCK_SIZE, SegmentIndex};
use kickcache_faultsim::content::Block;

use crate::stage::{Stage, VOLUME, blocks, dirty_plan};

/// The block on the cache device that holds a version of a block.
fn place_of(stage: &Stage, block: u64, version: u64) -> u64 {
    let holds = |found: &Block| found.version(VOLUME, block) == Some(version);
    stage.devices.cache.blocks().iter().position(holds).unwrap() as u64
}

/// The first block of the summary of the first segment.
fn summary(stage: &Stage) -> u64 {
    let geometry = stage.geometry();
    let first = geometry.first_location(SegmentIndex::new(0));
    geometry.byte_offset(first.plus(geometry.batch_blocks())) / BLOCK_SIZE
}

fn refused(stage: &mut Stage) -> String {
    let Phase::Failed(error @ Error::Unreadable { .. }) = stage.open() else { panic!("it is refused") };
    stage.kill();
    error.to_string()
}

/// Reads return neither the older copy of the block nor the block of the origin.
#[test]
fn only_the_unreadable_dirty_block_is_an_error() {
    let mut stage = Stage::written_twice(40);
    let place = place_of(&stage, 5, 3);
    stage.devices.cache.make_unreadable(place);
    for _ in 0..3 {
        assert_eq!(stage.open(), Phase::Running);
        stage.check_lost_alone(5);
        assert_eq!((stage.read(100), stage.read(101)), (Ok(4), Ok(4)));
        stage.cut_power();
    }
    stage.devices.cache.mend();
    assert_eq!(stage.open(), Phase::Running);
    assert_eq!(stage.read_all(8), vec![3; 8]);
}

#[test]
fn an_unreadable_summary_costs_no_blocks() {
    let mut stage = Stage::dirty_segments();
    let place = summary(&stage);
    assert!(stage.places(|_, bytes| bytes.starts_with(b"KICKSUMM")).contains(&place));
    stage.devices.cache.make_unreadable(place);
    assert_eq!(stage.open(), Phase::Running);
    assert_eq!(stage.read_all(100), vec![2; 100]);
    assert_eq!(stage.dirty(), 100);
    assert!(!stage.devices.cache.is_unreadable(place), "it is written again");
}

#[test]
fn an_unreadable_header_is_refused_until_readable_or_repaired() {
    // The first segment is full, and has a summary: the headers of the second are needed.
    for number in [2, 4] {
        let mut stage = Stage::written_twice(40);
        let headers = stage.places(|_, bytes| BatchHeader::decode(bytes).is_some());
        assert_eq!(headers.len(), 5, "{headers:?}");
        stage.devices.cache.make_unreadable(headers[number]);
        let error = refused(&mut stage);
        assert!(error.contains("cannot read a block of segment "), "{error}");
        assert!(error.contains(" that may be a batch header"), "{error}");
        let unreadable = stage.devices.clone();
        stage.devices.cache.mend();
        assert_eq!(stage.open(), Phase::Running);
        assert_eq!(stage.read_all(8), vec![3; 8]);
        stage.kill();
        stage.devices = unreadable;
        stage.go_on_with_what_is_left();
    }
}

#[test]
fn a_free_segment_that_cannot_be_read_is_not_missed() {
    let mut stage = Stage::dirty_segments();
    let last = stage.geometry().segment_count - 1;
    let first = stage.geometry().first_location(SegmentIndex::new(last));
    stage.devices.cache.make_unreadable(stage.geometry().byte_offset(first) / BLOCK_SIZE);
    assert_eq!(stage.open(), Phase::Running);
    assert_eq!(stage.read_all(100), vec![2; 100]);
}

#[test]
fn unreadable_records_are_refused_where_needed() {
    let mut stage = Stage::dirty_segments();
    let geometry = stage.geometry();
    let is_journal = |_, bytes: &[u8]| JournalBlock::decode(bytes, &geometry).is_some();
    let first = geometry.journal().start / BLOCK_SIZE;
    let found = stage.places(is_journal);
    assert!(found.len() > 1 && found[0] == first, "{found:?}");
    // If the block after the newest one is unreadable, it may contain newer records.
    for place in [found[0], *found.last().unwrap(), found.last().unwrap() + 1] {
        stage.devices.cache.make_unreadable(place);
        let error = refused(&mut stage);
        assert!(error.contains(&format!("cannot read block {} of its journal", place - first)), "{error}");
        let unreadable = stage.devices.clone();
        stage.go_on_with_what_is_left();
        stage.devices = unreadable;
        stage.devices.cache.mend();
    }
    // Two blocks after the newest one, no block was ever written.
    stage.devices.cache.make_unreadable(found.last().unwrap() + 2);
    assert_eq!(stage.open(), Phase::Running);
    assert_eq!(stage.read_all(100), vec![2; 100]);
    stage.stop();
    stage.kill();
    // The last checkpoint contains the effect of all earlier records, so an unreadable one does no harm.
    stage.devices.cache.make_unreadable(first);
    assert_eq!(stage.open(), Phase::Running);
    assert_eq!(stage.read_all(100), vec![2; 100]);
}

#[test]
fn a_mostly_unreadable_device_is_refused_soon() {
    // With these sizes, the journal has 64 or 655 blocks.
    for size in [8 << 20, 256 << 20] {
        let mut plan = dirty_plan(71);
        plan.cache_size = size;
        let mut stage = Stage::with(plan, 71);
        assert_eq!(stage.open(), Phase::Running);
        stage.write(blocks(0, 16), 2).unwrap();
        stage.kill();
        (256..size / BLOCK_SIZE).for_each(|place| stage.devices.cache.make_unreadable(place));
        let Phase::Failed(error) = stage.open() else { panic!("it is refused") };
        assert!(error.to_string().contains("answered with an error to a read of its journal"), "{error}");
        let reads = stage.status().counters.reads;
        assert!(reads <= u64::from(FAILED_READS_MAX) + 32, "{reads} reads");
        stage.kill();
        stage.devices.cache.mend();
        assert_eq!(stage.open(), Phase::Running);
        assert_eq!(stage.read_all(16), vec![2; 16]);
    }
}

/// One read for the journal of 64 blocks, one for the summary of each segment in use, a second if there is none, and
/// one for the first block of each of the first 64 empty segments.
#[test]
fn a_healthy_log_is_read_back_in_few_reads() {
    let mut stage = Stage::dirty_segments();
    assert_eq!(stage.open(), Phase::Running);
    let (in_use, with_summary) = (31, 8);
    assert_eq!(stage.status().counters.reads, 1 + in_use + in_use - with_summary + 64);
}
