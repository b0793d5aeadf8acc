use std::io::Cursor;

use kickcache_engine::request::Durability;
use kickcache_engine::time::Duration;
use kickcache_engine::units::ByteExtent;

use super::block::{HEAD_BYTES, MAGIC as BLOCK_MAGIC, Packer};
use super::header::{CHECKSUM_BYTES, FIXED_BYTES, MAGIC, NAME_BYTES_MAX, RecordingHeader, VERSION};
use super::reader::RecordingReader;
use super::writer::RecordingEncoder;
use crate::trace_file::error::TraceError;
use crate::trace_file::event::Event;
use crate::trace_file::record::Record;
use crate::workload::Kind;

fn header() -> RecordingHeader {
    RecordingHeader {
        volume: "vm1".into(),
        volume_bytes: 1 << 30,
        started: 1_700_000_000_000_000_000,
        part: 0,
    }
}

fn record(nanos: u64, kind: Kind, start: u64, length: u64) -> Record {
    let at = Some(Duration::from_nanos(nanos));
    Record { at, device: 0, kind, durability: Durability::Volatile, extent: ByteExtent { start, length } }
}

/// A record of each kind, with every flag of a control byte.
fn all_kinds() -> Vec<Record> {
    let durable = |record: Record| Record { durability: Durability::Durable, ..record };
    vec![
        record(1_000, Kind::Read, 0, 4_096),
        record(1_000, Kind::Read, 4_096, 4_096),
        durable(record(2_500, Kind::Write, 1 << 40, 512)),
        record(2_400, Kind::Flush, 0, 0),
        record(9_000, Kind::Discard, 8_192, 1 << 30),
        durable(record(9_001, Kind::WriteZeroes, 12_345, 1)),
        Record { at: None, device: 7, ..record(0, Kind::Read, 77, 4_096) },
    ]
}

fn blocks(records: &[Record], block_records: usize) -> Vec<Vec<u8>> {
    let mut encoder = RecordingEncoder::default();
    let mut blocks = Vec::new();
    for some in records.chunks(block_records) {
        blocks.extend(some.iter().filter_map(|record| encoder.push(record)));
        blocks.extend(encoder.finish());
    }
    blocks
}

fn file(records: &[Record], block_records: usize) -> Vec<u8> {
    [header().to_bytes(), blocks(records, block_records).concat()].concat()
}

fn read(bytes: &[u8]) -> (Vec<Record>, Vec<TraceError>, RecordingReader) {
    let mut reader = RecordingReader::new(Box::new(Cursor::new(bytes.to_vec())));
    let (mut records, mut errors) = (Vec::new(), Vec::new());
    while let Some(next) = reader.next() {
        match next {
            Ok(Event::Access { record, .. }) => records.push(record),
            Ok(Event::Header) => {}
            Err(error) => errors.push(error),
        }
        assert!(errors.len() <= bytes.len(), "reading comes to an end");
    }
    (records, errors, reader)
}

fn many(count: u64) -> Vec<Record> {
    (0..count).map(|index| record(index * 7_000, Kind::Read, index * index % 997 * 4_096, 4_096)).collect()
}

#[test]
fn records_come_back_as_they_were() {
    let (records, errors, reader) = read(&file(&all_kinds(), 3));
    assert_eq!((records, errors.len()), (all_kinds(), 0));
    assert_eq!(reader.header(), Some(&header()));
    let large = many(50_000);
    let bytes = file(&large, 50_000);
    assert_eq!(read(&bytes).0, large);
    assert!(bytes.len() < 50_000 * 8, "{} bytes for 50,000 records", bytes.len());
}

#[test]
fn a_truncated_file_is_read_up_to_the_cut() {
    let (records, blocks) = (many(12), blocks(&many(12), 4));
    let whole = file(&records, 4);
    let ends: Vec<usize> =
        (0..=3).map(|count| header().to_bytes().len() + blocks[..count].concat().len()).collect();
    for cut in 0..whole.len() {
        let (found, errors, _) = read(&whole[..cut]);
        let whole_blocks = ends.iter().filter(|end| **end <= cut).count().saturating_sub(1);
        assert_eq!(found, records[..4 * whole_blocks], "cut at {cut}");
        let is_clean = cut == 0 || ends.contains(&cut);
        assert_eq!(errors.is_empty(), is_clean, "cut at {cut}: {errors:?}");
        assert!(errors.iter().all(TraceError::is_local));
    }
}

#[test]
fn a_flipped_bit_costs_its_block_and_is_reported() {
    let records = many(12);
    let whole = file(&records, 4);
    let begin = header().to_bytes().len();
    for bit in 0..whole.len() * 8 {
        let mut bytes = whole.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let (found, errors, _) = read(&bytes);
        assert!(!errors.is_empty(), "bit {bit} is not noticed");
        let least = if bit / 8 < begin { 12 } else { 8 };
        assert_eq!(found.len(), least, "bit {bit}: {errors:?}");
        assert!(found.iter().all(|record| records.contains(record)), "bit {bit} gives a wrong record");
    }
}

#[test]
fn lost_records_are_counted() {
    let mut encoder = RecordingEncoder::default();
    let mut bytes = header().to_bytes();
    assert_eq!(encoder.push(&all_kinds()[0]), None);
    bytes.extend(encoder.lose(5).unwrap());
    encoder.push(&all_kinds()[1]);
    bytes.extend(encoder.finish().unwrap());
    assert_eq!(encoder.lose(2), None);
    bytes.extend(encoder.finish().unwrap());
    assert_eq!(encoder.finish(), None);
    let (records, errors, reader) = read(&bytes);
    assert_eq!((records.len(), errors.len(), reader.lost()), (2, 0, 7));
}

#[test]
fn files_that_were_put_together_are_one_trace() {
    let later = RecordingHeader { started: header().started + 500, part: 1, ..header() };
    let second = blocks(&[record(100, Kind::Write, 0, 512)], 1).concat();
    let (records, errors, reader) = read(&[file(&many(3), 3), later.to_bytes(), second].concat());
    assert_eq!((records.len(), errors.len()), (4, 0));
    assert_eq!(records[3].at, Some(Duration::from_nanos(600)));
    assert_eq!(reader.header().unwrap().part, 0);
}

#[test]
fn an_unknown_version_is_reported() {
    let mut bytes = file(&many(3), 3);
    bytes[8] = 9;
    let (_, errors, _) = read(&bytes);
    let expected =
        "at byte 0: version 9 of the format was found, but this kickcache reads 1; use a newer one";
    assert_eq!(errors[0].to_string(), expected);
}

#[test]
fn long_names_are_cut_between_characters() {
    let long = RecordingHeader { volume: "ü".repeat(200), ..header() };
    let found = RecordingHeader::of(&long.to_bytes()).unwrap();
    assert_eq!(found.volume, "ü".repeat(NAME_BYTES_MAX / 2));
}

#[test]
fn incompressible_blocks_are_rarely_tried_again() {
    let sequential: Vec<Record> =
        (0..50_000).map(|index| record(index * 1_000, Kind::Write, index * 65_536, 65_536)).collect();
    let bytes = file(&sequential, 50_000);
    assert!(bytes.len() < 50_000 / 8, "{} bytes", bytes.len());
    let mut random = kickcache_random::Random::new(1);
    let noise: Vec<u8> = (0..4_096).map(|_| u8::try_from(random.index(256)).unwrap()).collect();
    let mut packer = Packer::default();
    assert_eq!(packer.pack(&noise).bytes, noise);
    let passed = (0..40).take_while(|_| packer.pack(&[0; 4_096]).bytes.len() == 4_096).count();
    assert_eq!(passed, 31);
}

/// The bytes that docs/reference/trace-format.md shows.
#[test]
fn golden_bytes() {
    let bytes = file(&all_kinds()[..3], 3);
    let hex: Vec<String> =
        bytes.chunks(16).map(|line| line.iter().map(|byte| format!("{byte:02x} ")).collect()).collect();
    let hex: String = hex.iter().map(|line| format!("{}\n", line.trim_end())).collect();
    let page = include_str!("../../../../../../docs/reference/trace-format.md");
    assert!(page.contains(&hex), "docs/reference/trace-format.md shows other bytes than these:\n{hex}");
}

#[test]
fn the_documentation_matches_the_constants() {
    let page = include_str!("../../../../../../docs/reference/trace-format.md");
    let rows = [
        format!("| 0 | 8 | mark `{}\\n` |", String::from_utf8_lossy(&MAGIC).trim_end()),
        format!("| 8 | 2 | version, {VERSION} |"),
        format!("| {FIXED_BYTES} | n | name"),
        format!("| {FIXED_BYTES} + n | {CHECKSUM_BYTES} | checksum"),
        format!("| 0 | 4 | mark `{}` |", String::from_utf8_lossy(&BLOCK_MAGIC)),
        format!("| {HEAD_BYTES} | p | records"),
    ];
    for row in rows {
        assert!(page.contains(&row), "docs/reference/trace-format.md lacks {row:?}");
    }
}
