#![expect(clippy::indexing_slicing, reason = "a test may fail by a panic")]

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::ops::{Range, RangeInclusive};

use expect_test::expect;

use crate::error::Error;
use crate::format::batch::{BatchEntry, BatchHeader};
use crate::format::bytes::crc32c;
use crate::format::durable::Durable;
use crate::format::durable_blocks::DurableBlocks;
use crate::format::durable_range::DurableRange;
use crate::format::geometry::Geometry;
use crate::format::journal::{
    Chunk, Fact, JournalBlock, JournalBody, Record, SegmentImage, SegmentKind, chunk_count,
    segments_per_chunk,
};
use crate::format::mark::ServiceMark;
use crate::format::succession::{Succession, succession};
use crate::format::summary::{Summary, SummaryEntry};
use crate::format::superblock::Superblock;
use crate::format::takeover::{OtherDevice, Takeover};
use crate::format::version::{FORMAT_VERSION_GROWN, FORMAT_VERSION_REPLACED};
use crate::queue::Queue;
use crate::units::{BlockIndex, BlockKey, Checksum, Generation, SegmentIndex, Sequence, VolumeId, VolumeSet};

const UUID: [u8; 16] = [7; 16];

fn geometry() -> Geometry {
    Geometry::for_device(8 << 20).unwrap()
}

fn key(block: u64) -> BlockKey {
    BlockKey::new(VolumeId::new(2), BlockIndex::new(block))
}

fn superblock() -> Superblock {
    let mut superblock = Superblock::new(UUID, 8 << 20).unwrap();
    superblock.add_volume("vm1", 1 << 30, "file:/srv/vm1.img").unwrap();
    superblock.add_volume("vm2", 4096, "block:/dev/sdb").unwrap();
    superblock.journal = DurableBlocks { first: 5, end: 11 };
    superblock
}

fn mark() -> ServiceMark {
    ServiceMark::OutOfService { incomplete: VolumeSet::from_bits(0b10_0000_0001) }
}

fn durable(batches: RangeInclusive<u64>, journal: Range<u64>) -> Durable {
    let [first, last] = [batches.start(), batches.end()].map(|number| Sequence::new(*number));
    let journal = DurableBlocks { first: journal.start, end: journal.end };
    Durable { batches: DurableRange { first, last }, journal }
}

fn header() -> BatchHeader {
    let entry = |key, dirty| BatchEntry { key, dirty, checksum: Checksum::new(0x1234_5678) };
    BatchHeader {
        uuid: UUID,
        segment: SegmentIndex::new(3),
        generation: Generation::new(9),
        sequence: Sequence::new(1 << 40),
        start: 5,
        queue: Queue::Main,
        durable: durable(1 << 39..=(1 << 40) - 2, (1 << 33) - 3..1 << 33),
        entries: vec![entry(Some(key(77)), true), entry(None, false), entry(Some(key(78)), false)],
    }
}

fn summary() -> Summary {
    let entry = |block, sequence| SummaryEntry {
        key: key(block),
        dirty: block == 1,
        checksum: Checksum::new(5),
        sequence: Sequence::new(sequence),
    };
    Summary {
        uuid: UUID,
        segment: SegmentIndex::new(3),
        generation: Generation::new(9),
        queue: Queue::Probation,
        durable: durable(1 << 39..=(1 << 40) + 3, 6..12),
        entries: vec![None, Some(entry(1, 1 << 40)), Some(entry(2, (1 << 40) + 9))],
    }
}

fn records() -> JournalBlock {
    let facts = [
        Fact::Gone(key(1)),
        Fact::Clean(key(2)),
        Fact::Opened(SegmentIndex::new(4), Generation::new(u32::MAX)),
        Fact::Dropped(VolumeId::new(15)),
    ];
    let record = |(number, fact)| Record { sequence: Sequence::new(number), fact };
    let body = JournalBody::Records((40..).zip(facts).map(record).collect());
    JournalBlock { uuid: UUID, ring: 12, durable: durable(30..=38, 5..10), body }
}

fn chunk() -> JournalBlock {
    let image = SegmentImage {
        generation: Generation::new(1),
        kind: SegmentKind::InUse,
        queue: Queue::Main,
        written: 9,
        live: vec![0xff, 1],
        kept: vec![0x10, 0],
    };
    let count = chunk_count(&geometry());
    let body =
        Chunk { start: Sequence::new(99), number: 0, count, begun: Some(12), segments: vec![image; 3] };
    JournalBlock { uuid: UUID, ring: 13, durable: durable(30..=41, 5..11), body: JournalBody::Chunk(body) }
}

#[test]
fn an_image_has_its_required_parts() {
    let JournalBody::Chunk(Chunk { segments, .. }) = chunk().body else { panic!("a chunk") };
    let image = &segments[0];
    assert_eq!(image.find_lost(|_| true), None);
    assert_eq!(image.find_lost(|place| place != 8), Some(8));
    let untold = SegmentImage { written: 8, ..image.clone() };
    assert_eq!(untold.find_lost(|place| place != 8), None, "the last one may not have been written");
    assert!(!image.has_batches(), "what was not taken lives from the first block on");
    let taken = SegmentImage { live: vec![0xfe, 1], ..image.clone() };
    assert!(taken.has_batches());
    assert!(!SegmentImage { live: vec![0, 0], ..taken.clone() }.has_batches(), "nothing lives");
    assert!(!SegmentImage { kind: SegmentKind::Free, ..taken }.has_batches());
}

/// A truncated structure, or one with a flipped bit, must not decode.
fn check_decoder<T: PartialEq + core::fmt::Debug>(
    bytes: &[u8],
    value: &T,
    decode: impl Fn(&[u8]) -> Option<T>,
) {
    assert_eq!(decode(bytes).as_ref(), Some(value));
    for length in 0..bytes.len() {
        assert_eq!(decode(&bytes[..length]), None, "cut at {length}");
    }
    let mut flipped = bytes.to_vec();
    for at in 0..bytes.len() {
        flipped[at] ^= 1 << (at % 8);
        assert_eq!(decode(&flipped), None, "bit flipped in byte {at}");
        flipped[at] = bytes[at];
    }
}

#[test]
fn a_batch_header_is_decoded_unchanged_or_refused() {
    check_decoder(&header().encode(), &header(), BatchHeader::decode);
}

#[test]
fn a_summary_is_decoded_unchanged_or_refused() {
    check_decoder(&summary().encode(&geometry()), &summary(), |bytes| Summary::decode(bytes, &geometry()));
}

#[test]
fn journal_blocks_are_decoded_unchanged_or_refused() {
    check_decoder(&records().encode(), &records(), |bytes| JournalBlock::decode(bytes, &geometry()));
    check_decoder(&chunk().encode(), &chunk(), |bytes| JournalBlock::decode(bytes, &geometry()));
}

#[test]
fn superblock_survives_the_trip_and_either_copy_will_do() {
    let (bytes, zeroes) = (superblock().encode(), vec![0; 16_384]);
    assert_eq!(Superblock::decode([&bytes, &zeroes], 8 << 20), Ok(superblock()));
    assert_eq!(Superblock::decode([&zeroes, &bytes], 9 << 20), Ok(superblock()));
    let mut newer = superblock();
    newer.epoch += 1;
    newer.volumes.pop();
    assert_eq!(Superblock::decode([&bytes, &newer.encode()], 8 << 20), Ok(newer));
    check_decoder(&bytes, &superblock(), |bytes| Superblock::decode([bytes, &zeroes], 8 << 20).ok());
}

/// Programs from before 2026-11-24 left zeroes in the place of the range of durable journal blocks.
#[test]
fn structures_without_a_journal_position_are_read() {
    let with_zeroes = |mut bytes: Vec<u8>, places: Range<usize>| {
        bytes[places].fill(0);
        bytes[8..12].fill(0);
        let sum = crc32c(&bytes).get();
        bytes[8..12].copy_from_slice(&sum.to_le_bytes());
        bytes
    };
    let bytes = with_zeroes(superblock().encode(), 80..96);
    let superblock = Superblock::decode([&bytes, &bytes], 8 << 20).unwrap();
    assert!(superblock.journal.is_empty());
    let header = BatchHeader::decode(&with_zeroes(header().encode(), 53..64)).unwrap();
    assert!(header.durable.journal.is_empty());
    let old = with_zeroes(with_zeroes(summary().encode(&geometry()), 53..64), 4080..4096);
    assert_eq!(Summary::decode(&old, &geometry()).unwrap().durable, Durable::NOTHING);
    let records = JournalBlock::decode(&with_zeroes(records().encode(), 41..48), &geometry()).unwrap();
    assert!(records.durable.journal.is_empty());
    let chunk = JournalBlock::decode(&with_zeroes(chunk().encode(), 84..88), &geometry()).unwrap();
    assert!(matches!(chunk.body, JournalBody::Chunk(Chunk { begun: None, .. })));
}

#[test]
fn a_superblock_without_a_start_number_is_read() {
    let uncounted = Superblock { starts: 0, journal: DurableBlocks::default(), ..superblock() };
    let bytes = uncounted.encode();
    assert_eq!((bytes[8..12].to_vec(), bytes[72..80].to_vec()), (vec![0xb9, 0xee, 0xe1, 0x58], vec![0; 8]));
    assert_eq!(Superblock::decode([&bytes, &bytes], 8 << 20), Ok(uncounted));
}

#[test]
fn superblock_errors_are_sentences() {
    let bytes = superblock().encode();
    let zeroes = vec![0; 16_384];
    let sentence = |copies: [&[u8]; 2], size| Superblock::decode(copies, size).unwrap_err().to_string();
    expect!["this is not a kickcache cache device: no valid superblock at offset 0 or 512 KiB (zeroes)"]
        .assert_eq(&sentence([&zeroes, &zeroes], 8 << 20));
    expect!["the superblock cannot be used: it was made for a device of 8388608 bytes and this one has 8388607; restore the device's size"]
        .assert_eq(&sentence([&bytes, &bytes], (8 << 20) - 1));
    let mut other = superblock();
    other.volumes.pop();
    expect!["the superblock cannot be used: its two copies contradict each other; was the device copied onto itself?"]
        .assert_eq(&sentence([&bytes, &other.encode()], 8 << 20));
}

#[test]
fn version_1_superblocks_are_read_and_later_ones_refused() {
    let of_version = |version: u8| {
        let mut bytes = superblock().encode();
        bytes[12] = version;
        bytes[8..12].fill(0);
        let sum = crc32c(&bytes).get();
        bytes[8..12].copy_from_slice(&sum.to_le_bytes());
        Superblock::decode([&bytes, &bytes], 8 << 20)
    };
    assert_eq!(of_version(1), Ok(Superblock { version: 1, ..superblock() }));
    assert_eq!(of_version(2), Ok(superblock()));
    expect!["the cache device has format version 5, this kickcache reads versions 1 to 4; use the newer kickcache that it was served with"]
        .assert_eq(&of_version(5).unwrap_err().to_string());
    assert!(of_version(3).is_err(), "it has not grown");
    assert!(of_version(4).is_err(), "it was not replaced");
    assert!(of_version(0).is_err());
}

#[test]
fn volumes_are_checked_when_added() {
    let mut superblock = superblock();
    for (name, size) in [("", 4096), ("vm1", 4096), ("x", 0), ("x", 512), ("x", u64::MAX / 4096 * 4096)] {
        assert!(matches!(superblock.add_volume(name, size, ""), Err(Error::Volume { .. })), "{name} {size}");
    }
    for number in 2..16 {
        superblock.add_volume(&number.to_string(), 4096, "").unwrap();
    }
    assert!(matches!(superblock.add_volume("one too many", 4096, ""), Err(Error::Volume { .. })));
}

#[test]
fn volumes_grow_and_never_shrink() {
    let mut superblock = superblock();
    for (name, size) in [("vm1", (1 << 30) - 4096), ("vm1", (1 << 30) + 512), ("vm1", 1 << 60), ("vm3", 4096)]
    {
        let refused = superblock.grow_volume(name, size);
        assert!(matches!(refused, Err(Error::Volume { .. })), "{name} {size}");
    }
    assert_eq!(superblock.volume("vm1").unwrap().origin_size, 1 << 30);
    superblock.grow_volume("vm1", 1 << 31).unwrap();
    superblock.grow_volume("vm2", 4096).unwrap();
    assert_eq!(superblock.volume("vm1").unwrap().origin_size, 1 << 31);
}

fn grown_superblock() -> Superblock {
    let mut grown = superblock();
    grown.grow(16 << 20, Some(Generation::new(9))).unwrap();
    grown
}

#[test]
fn a_superblock_of_a_grown_device_has_its_own_version() {
    let grown = grown_superblock();
    let bytes = grown.encode();
    assert_eq!((grown.version, bytes[12]), (FORMAT_VERSION_GROWN, 3), "older programs refuse it");
    assert_eq!(Superblock::decode([&bytes, &bytes], 16 << 20), Ok(grown.clone()));
    assert_eq!(grown.geometry.segment_count, 236);
    assert!(Superblock::decode([&bytes, &bytes], 8 << 20).is_err(), "it has shrunk since");
    let old = Superblock { epoch: 0, ..superblock() }.encode();
    assert_eq!(Superblock::decode([&bytes, &old], 16 << 20), Ok(grown.clone()));
    assert_eq!(Superblock::decode([&[0; 16_384], &old], 16 << 20).unwrap().geometry, geometry());
    let mut further = grown;
    let errors = [(16 << 20) - 1, 16 << 20, 200 << 20].map(|size| further.grow(size, None));
    let sentences: Vec<String> = errors.iter().map(|error| error.clone().unwrap_err().to_string()).collect();
    expect![[r#"
        the cache device cannot grow: it uses 16777216 bytes, and 16777215 are less: a cache device cannot shrink
        the cache device cannot grow: it uses 16777216 bytes, and 16777216 have no room for another segment of 65536 bytes
        the cache device cannot grow: its journal, made when it was formatted with 8388608 bytes, lets it grow to 88866816 bytes, and 209715200 are more; grow it to at most 88866816, or drain it and format it"#]].assert_eq(&sentences.join("\n"));
    further.grow(17 << 20, Some(Generation::new(2))).unwrap();
    assert_eq!(further.unopened, Generation::new(65_545), "what was told before still holds");
    let senseless = further.grow(18 << 20, Some(Generation::new(u32::MAX)));
    assert!(matches!(senseless, Err(Error::Growth { .. })));
}

fn other(path: &str) -> OtherDevice {
    OtherDevice { uuid: [9; 16], path: path.to_string() }
}

fn replaced_superblock() -> Superblock {
    superblock().with_takeover(Takeover::Replaced(other("/dev/new")))
}

#[test]
fn older_programs_refuse_a_device_that_must_not_serve() {
    let incomplete = grown_superblock().with_takeover(Takeover::Incomplete(other("/dev/old")));
    for (barred, size) in [(replaced_superblock(), 8 << 20), (incomplete, 16 << 20)] {
        let bytes = barred.encode();
        assert_eq!((barred.version, bytes[12]), (FORMAT_VERSION_REPLACED, 4), "older programs refuse it");
        assert_eq!(Superblock::decode_any([&bytes, &bytes], size), Ok(barred.clone()));
        let refused = Superblock::decode([&bytes, &bytes], size).unwrap_err();
        assert!(matches!(refused, Error::Replaced { .. } | Error::Incomplete { .. }), "{refused}");
    }
    let (new, old) = (Superblock { epoch: 2, ..replaced_superblock() }.encode(), superblock().encode());
    assert!(matches!(Superblock::decode([&old, &new], 8 << 20), Err(Error::Replaced { .. })));
    // Until the successor is complete, the old device is served.
    let begun = superblock().with_takeover(Takeover::Begun(other("/dev/new")));
    let bytes = begun.encode();
    assert_eq!(bytes[12], 2);
    assert_eq!(Superblock::decode([&bytes, &bytes], 8 << 20), Ok(begun));
}

#[test]
fn one_of_two_devices_is_the_cache_after_one_replacement() {
    let old = superblock().with_takeover(Takeover::Begun(other("/dev/new")));
    let incomplete = superblock().with_takeover(Takeover::Incomplete(other("/dev/old")));
    let replaced = replaced_superblock();
    let new = replaced.succeeded();
    assert_eq!((new.version, new.starts), (2, 2));
    assert_eq!(succession(&old, &incomplete), Succession::Old);
    assert_eq!(succession(&superblock(), &incomplete), Succession::Old, "an older program served it since");
    assert_eq!(succession(&replaced, &incomplete), Succession::NewToComplete);
    assert_eq!(succession(&replaced, &new), Succession::New);
    assert_eq!(succession(&replaced, &superblock()), Succession::Unrelated, "a copy of the old one");
    let another = OtherDevice { uuid: [8; 16], ..other("/dev/old") };
    let another = superblock().with_takeover(Takeover::Incomplete(another));
    assert_eq!(succession(&replaced, &another), Succession::Unrelated);
    assert_eq!(succession(&replaced, &Superblock { uuid: [1; 16], ..new }), Succession::Unrelated);
}

#[test]
fn chunks_cover_all_segments_of_every_geometry() {
    for size in [8 << 20, 100_000_000, 4 << 30, 15 << 40] {
        let geometry = Geometry::for_device(size).unwrap();
        assert!(segments_per_chunk(&geometry) >= 15);
        assert!(u64::from(chunk_count(&geometry)) * 3 < geometry.journal_blocks(), "{geometry:?}");
    }
}

/// The structures that `docs/reference/format.md` shows byte for byte: a change here is a change of the format.
fn golden() -> [(&'static str, Vec<u8>); 8] {
    [
        ("superblock", superblock().encode()),
        ("superblock after growing to 16 MiB", grown_superblock().encode()),
        ("superblock of a device that was replaced", replaced_superblock().encode()),
        ("service mark", mark().encode(UUID)),
        ("batch header", header().encode()),
        ("summary", summary().encode(&geometry())),
        ("records", records().encode()),
        ("chunk", chunk().encode()),
    ]
}

#[test]
fn golden_bytes_stay_as_they_are() {
    let lines: Vec<_> = golden().iter().map(|(name, bytes)| title(name, bytes)).collect();
    expect![[r#"
        superblock: 16384 bytes, crc d5ba2eaa
        superblock after growing to 16 MiB: 16384 bytes, crc 0b3c6cf1
        superblock of a device that was replaced: 16384 bytes, crc 5273e2be
        service mark: 4096 bytes, crc d32224f7
        batch header: 4096 bytes, crc 02e71c93
        summary: 4096 bytes, crc ce21ba2d
        records: 4096 bytes, crc c5b81ce9
        chunk: 4096 bytes, crc 86f7efba"#]]
    .assert_eq(&lines.join("\n"));
}

#[test]
fn the_document_shows_the_golden_bytes() {
    let document = include_str!("../../../../docs/reference/format.md");
    let shown = golden().map(|(name, bytes)| format!("{}\n{}\n", title(name, &bytes), dump(&bytes)));
    let missing: Vec<_> = shown.iter().filter(|shown| !document.contains(shown.as_str())).cloned().collect();
    assert!(missing.is_empty(), "docs/reference/format.md must show these lines:\n{}", missing.concat());
}

fn title(name: &str, bytes: &[u8]) -> String {
    format!("{name}: {} bytes, crc {:08x}", bytes.len(), crc32c(bytes).get())
}

fn dump(bytes: &[u8]) -> String {
    let rows = (0usize..).step_by(16).zip(bytes.chunks(16));
    let lines: Vec<_> = rows
        .filter(|(_, row)| row.iter().any(|byte| *byte != 0))
        .map(|(at, row)| {
            let row: Vec<_> = row.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("{at:04x}  {}", row.join(" "))
        })
        .collect();
    lines.join("\n")
}
