//! Durable segments are lost: they contain zeroes, summary included.

#![expect(clippy::unwrap_used, reason = "a test may fail by a panic")]

use std::ops::Range;

use kickcache_engine::engine::Phase;
use kickcache_engine::error::Error;
use kickcache_engine::format::journal::{JournalBlock, JournalBody, SegmentKind};
use kickcache_engine::units::{BLOCK_SIZE, SegmentIndex};
use kickcache_faultsim::content::Block;

use crate::stage::{Stage, blocks, dirty_plan};

/// Many segments full of dirty blocks, and a stop.
fn stopped() -> Stage {
    let mut stage = Stage::with(dirty_plan(74), 74);
    assert_eq!(stage.open(), Phase::Running);
    for first in (0..240).step_by(8) {
        stage.write(blocks(first, 8), 2).unwrap();
    }
    stage.flush().unwrap();
    stage.stop();
    stage.kill();
    stage
}

/// The newest checkpoint chunk, with its place: it describes all segments.
fn chunk(stage: &Stage) -> (JournalBlock, u64) {
    let geometry = stage.geometry();
    let decode = |place: u64| match &stage.devices.cache.blocks()[usize::try_from(place).unwrap()] {
        Block::Bytes(bytes) => JournalBlock::decode(&bytes[..], &geometry),
        Block::Zeroes | Block::Noise(_) | Block::Stamp(_) => None,
    };
    let places = stage.places(|place, _| decode(place).is_some_and(|block| is_chunk(&block)));
    let found = places.into_iter().map(|place| (decode(place).unwrap(), place));
    found.max_by_key(|(block, _)| block.ring).unwrap()
}

fn is_chunk(block: &JournalBlock) -> bool {
    matches!(&block.body, JournalBody::Chunk(chunk) if chunk.count == 1)
}

/// The segments in use, each with its blocks on the device.
fn in_use(stage: &Stage) -> Vec<(u32, Range<u64>)> {
    let geometry = stage.geometry();
    let JournalBody::Chunk(chunk) = chunk(stage).0.body else { panic!("a chunk") };
    let segments = (0..).zip(chunk.segments).filter(|(_, image)| image.kind == SegmentKind::InUse);
    let places = |segment: u32| {
        let start = geometry.byte_offset(geometry.first_location(SegmentIndex::new(segment))) / BLOCK_SIZE;
        (segment, start..start + geometry.segment_size / BLOCK_SIZE)
    };
    segments.map(|(segment, _)| places(segment)).collect()
}

fn wipe(stage: &mut Stage, places: Range<u64>) {
    places.for_each(|place| stage.devices.cache.prepare(place, &Block::Zeroes));
}

fn check_refused(stage: &mut Stage, segment: u32) {
    let phase = stage.open();
    let Phase::Failed(error @ Error::Rotted { .. }) = phase else { panic!("segment {segment}: {phase:?}") };
    stage.kill();
    let expected = format!("a part of segment {segment} was whole once");
    assert!(error.to_string().contains(&expected), "{error}");
}

#[test]
fn a_lost_segment_is_refused_after_a_stop() {
    let segments = in_use(&stopped());
    assert!(segments.len() > 10, "{segments:?}");
    for (segment, places) in segments {
        let mut stage = stopped();
        wipe(&mut stage, places);
        check_refused(&mut stage, segment);
        stage.go_on_with_what_is_left();
        assert_eq!(stage.open(), Phase::Running, "what is left is on record");
        let found = (0..240).map(|block| stage.read(block).unwrap()).collect::<Vec<_>>();
        let lost = found.iter().filter(|version| **version != 2).count();
        assert!((1..16).contains(&lost), "{lost} are as the origin has them");
        stage.kill();
    }
}

/// The end of a segment, its summary and the batches before it: no later header shows that they are missing.
#[test]
fn the_end_of_a_segment_is_missed() {
    let (segment, places) = in_use(&stopped()).swap_remove(1);
    let mut stage = stopped();
    wipe(&mut stage, places.start + 9..places.end);
    check_refused(&mut stage, segment);
}

#[test]
fn a_checkpoint_reveals_a_lost_segment_after_a_kill() {
    let (segment, places) = in_use(&stopped()).swap_remove(1);
    let mut stage = stopped();
    assert_eq!(stage.open(), Phase::Running);
    stage.write(blocks(300, 4), 3).unwrap();
    stage.kill();
    wipe(&mut stage, places);
    check_refused(&mut stage, segment);
}

/// A checkpoint of an older program does not record the number of written blocks; it shows that the first block was a
/// header.
#[test]
fn a_lost_segment_is_detected_in_an_old_checkpoint() {
    let older = || {
        let mut stage = stopped();
        let (mut block, place) = chunk(&stage);
        if let JournalBody::Chunk(chunk) = &mut block.body {
            chunk.segments.iter_mut().for_each(|image| image.written = 0);
        }
        stage.devices.cache.prepare(place, &Block::from_bytes(&block.encode().try_into().unwrap()));
        stage
    };
    let mut stage = older();
    let segments = in_use(&stage);
    assert_eq!(stage.open(), Phase::Running);
    assert_eq!(stage.read_all(240), vec![2; 240]);
    for (segment, places) in segments.into_iter().take(3) {
        let mut stage = older();
        wipe(&mut stage, places);
        check_refused(&mut stage, segment);
    }
}

#[test]
fn undurable_segments_are_not_missed() {
    for seed in 0..20 {
        let mut stage = Stage::with(dirty_plan(seed), seed);
        assert_eq!(stage.open(), Phase::Running);
        stage.write(blocks(0, 8), 2).unwrap();
        stage.stop();
        stage.kill();
        assert_eq!(stage.open(), Phase::Running);
        for first in (8..240).step_by(8) {
            stage.write(blocks(first, 8), 2).unwrap();
        }
        stage.cut_and_open();
        stage.kill();
    }
}

/// Wipes the journal, the segments and the rest of the device; superblocks and service marks stay.
fn wipe_all(stage: &mut Stage) {
    let geometry = stage.geometry();
    let end = stage.devices.cache.size() / BLOCK_SIZE;
    wipe(stage, geometry.journal().start / BLOCK_SIZE..end);
}

#[test]
fn a_device_with_only_its_superblocks_is_refused() {
    let mut killed = stopped();
    assert_eq!(killed.open(), Phase::Running);
    killed.write(blocks(300, 4), 3).unwrap();
    killed.kill();
    for mut stage in [stopped(), killed] {
        wipe_all(&mut stage);
        let phase = stage.open();
        let Phase::Failed(error @ Error::Rotted { .. }) = phase else { panic!("{phase:?}") };
        stage.kill();
        let expected = "its journal, of which nothing is left, was whole once";
        assert!(error.to_string().contains(expected), "{error}");
        stage.go_on_with_what_is_left();
        assert_eq!(stage.open(), Phase::Running, "that nothing is left is on record");
        assert_eq!(stage.read_all(4), [0; 4], "as the origin has them");
        stage.kill();
    }
}

/// The checkpoint before the last one has the same content: if the last one is lost, the loss is not detected.
#[test]
fn the_last_checkpoint_of_a_stop_is_not_missed_alone() {
    let mut stage = stopped();
    let (_, place) = chunk(&stage);
    wipe(&mut stage, place..place + 1);
    assert_eq!(stage.open(), Phase::Running);
    assert_eq!(stage.read_all(240), vec![2; 240]);
}
