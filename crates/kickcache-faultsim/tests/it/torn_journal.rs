//! A journal block that a power cut has torn, and the block that overwrites it in the next life.

#![expect(clippy::unwrap_used, reason = "a test may fail by a panic")]

use kickcache_engine::engine::Phase;
use kickcache_engine::format::journal::{Fact, JournalBlock, JournalBody, Record};
use kickcache_engine::stats::CacheHealth;
use kickcache_engine::units::{BlockIndex, BlockKey, Sequence};
use kickcache_faultsim::content::Block;
use kickcache_faultsim::plan::faults::{Faults, Rates};

use crate::stage::{Stage, VOLUME, blocks, dirty_plan};

/// The block of the torn *gone* record.
const DISCARDED: u64 = 5;
/// Where the last sector of a block begins.
const LAST_SECTOR: usize = 3584;

/// The newest block of the journal, and its place on the cache device.
fn newest_journal_block(stage: &Stage) -> (JournalBlock, u64) {
    let geometry = stage.geometry();
    let decode = |place: u64| {
        let bytes = stage.devices.cache.bytes(blocks(place, 1));
        (JournalBlock::decode(&bytes, &geometry).unwrap(), place)
    };
    let places = stage.places(|_, bytes| JournalBlock::decode(bytes, &geometry).is_some());
    places.into_iter().map(decode).max_by_key(|(block, _)| block.ring).unwrap()
}

fn store(stage: &mut Stage, place: u64, bytes: &[u8]) {
    stage.devices.cache.prepare(place, &Block::from_bytes(bytes.try_into().unwrap()));
}

/// Flushed blocks, and after the newest journal block a further block with a *gone* record and other bytes in
/// its last sector.
fn with_torn_record() -> (Stage, u64) {
    let mut stage = Stage::with(dirty_plan(41), 41);
    assert_eq!(stage.open(), Phase::Running);
    stage.write(blocks(0, 8), 2).unwrap();
    stage.flush().unwrap();
    stage.kill();
    let (newest, place) = newest_journal_block(&stage);
    let fact = Fact::Gone(BlockKey::new(VOLUME, BlockIndex::new(DISCARDED)));
    let record = Record { sequence: Sequence::new(1_000), fact };
    let torn = JournalBlock { ring: newest.ring + 1, body: JournalBody::Records(vec![record]), ..newest };
    let mut bytes = torn.encode();
    bytes[LAST_SECTOR..].fill(0xff);
    store(&mut stage, place + 1, &bytes);
    (stage, place + 1)
}

#[test]
fn a_torn_record_has_no_effect_after_another_torn_write() {
    let (mut stage, place) = with_torn_record();
    assert_eq!(stage.open(), Phase::Running);
    let mut medium = stage.devices.cache.bytes(blocks(place, 1));
    assert_eq!(stage.read(DISCARDED), Ok(2));
    stage.flush().unwrap();
    stage.kill();
    // The next journal block has zeroes in its last sector, and only this sector reached the medium.
    medium[LAST_SECTOR..].fill(0);
    store(&mut stage, place, &medium);
    assert_eq!(stage.open(), Phase::Running);
    assert_eq!(stage.read(DISCARDED), Ok(2), "it was read and flushed");
}

#[test]
fn an_unerasable_torn_record_takes_the_device_out_of_service() {
    let (mut stage, _) = with_torn_record();
    stage.begin_open();
    let cache = Rates { write: 10_000, ..Rates::default() };
    stage.set_faults(Faults { cache, ..Faults::default() }, Vec::new());
    assert_eq!(stage.end_open(), Phase::Running);
    assert_eq!(stage.engine().health(), CacheHealth::OutOfService);
    assert_eq!(stage.read(DISCARDED), Ok(2));
}

#[test]
fn a_block_of_another_cache_is_not_erased() {
    let (mut stage, place) = with_torn_record();
    let mut bytes = stage.devices.cache.bytes(blocks(place, 1));
    bytes[16] ^= 1;
    store(&mut stage, place, &bytes);
    assert_eq!(stage.open(), Phase::Running);
    stage.kill();
    assert_eq!(stage.devices.cache.bytes(blocks(place, 1)), bytes);
}
