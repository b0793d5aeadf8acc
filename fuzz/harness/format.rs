//! Shared by the fuzz targets of the on-disk format and the replay of their corpora.
//!
//! No random input has a right checksum: it is set first, so that the bytes behind it are decoded.

use std::collections::BTreeMap;

use kickcache_engine::config::{EngineSettings, VolumeSettings};
use kickcache_engine::device::{Completion, Data, DeviceOperation};
use kickcache_engine::engine::{Engine, Phase};
use kickcache_engine::format::batch::{BATCH_MAGIC, BatchHeader};
use kickcache_engine::format::bytes::crc32c;
use kickcache_engine::format::geometry::Geometry;
use kickcache_engine::format::journal::{JOURNAL_MAGIC, JournalBlock};
use kickcache_engine::format::mark::{MARK_BYTES, MARK_MAGIC, ServiceMark};
use kickcache_engine::format::summary::{SUMMARY_MAGIC, Summary};
use kickcache_engine::format::superblock::{SUPERBLOCK_MAGIC, SUPERBLOCK_SIZE, Superblock};
use kickcache_engine::format::version::FORMAT_VERSION;
use kickcache_engine::time::Instant;

const DEVICE_SIZE: u64 = 8 << 20;
const BLOCK: usize = 4096;
const UUID: [u8; 16] = [7; 16];

fn geometry() -> Geometry {
    Geometry::for_device(DEVICE_SIZE).unwrap()
}

/// A structure of this many bytes with a valid start; the input follows from byte 12 on.
fn structure(magic: [u8; 8], length: usize, input: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; length];
    bytes[..8].copy_from_slice(&magic);
    let body = input.len().min(length - 12);
    bytes[12..12 + body].copy_from_slice(&input[..body]);
    let sum = crc32c(&bytes).get();
    bytes[8..12].copy_from_slice(&sum.to_le_bytes());
    bytes
}

pub(super) fn superblock(input: &[u8]) {
    let bytes = structure(SUPERBLOCK_MAGIC, SUPERBLOCK_SIZE, input);
    let zeroes = vec![0; SUPERBLOCK_SIZE];
    let both = Superblock::decode([&bytes, &zeroes], DEVICE_SIZE);
    assert_eq!(both, Superblock::decode([&zeroes, &bytes], DEVICE_SIZE), "the copies are equal");
    match both {
        Ok(found) => {
            let (again, today) = (found.encode(), Superblock { version: FORMAT_VERSION, ..found });
            assert_eq!(Superblock::decode([&again, &again], DEVICE_SIZE), Ok(today));
        }
        Err(error) => assert!(!error.to_string().contains('\n'), "an error is one sentence"),
    }
    let _ = Superblock::decode([input, &bytes], DEVICE_SIZE);
    let _ = Superblock::decode([&bytes, input], DEVICE_SIZE);
    service_mark(input);
}

/// The device is in service only with two whole marks of its own.
fn service_mark(input: &[u8]) {
    let mark = structure(MARK_MAGIC, MARK_BYTES, input);
    let found = ServiceMark::decode([&mark, &mark], UUID);
    assert!(found != ServiceMark::InService || mark[12..28] == UUID, "another device's mark");
    assert_ne!(ServiceMark::decode([&mark, input], UUID), ServiceMark::InService);
}

pub(super) fn batch_header(input: &[u8]) {
    let _ = BatchHeader::decode(input);
    if let Some(found) = BatchHeader::decode(&structure(BATCH_MAGIC, BLOCK, input)) {
        assert_eq!(BatchHeader::decode(&found.encode()).as_ref(), Some(&found));
    }
}

pub(super) fn summary(input: &[u8]) {
    let geometry = geometry();
    let _ = Summary::decode(input, &geometry);
    let length = BLOCK * usize::try_from(geometry.summary_blocks()).unwrap();
    // A decoded record may not be encodable: distances of sequence numbers are bounded by the log, not by the format.
    let _ = Summary::decode(&structure(SUMMARY_MAGIC, length, input), &geometry);
}

pub(super) fn journal_block(input: &[u8]) {
    let geometry = geometry();
    let _ = JournalBlock::decode(input, &geometry);
    if let Some(found) = JournalBlock::decode(&structure(JOURNAL_MAGIC, BLOCK, input), &geometry) {
        assert_eq!(JournalBlock::decode(&found.encode(), &geometry).as_ref(), Some(&found));
    }
}

/// Puts structures anywhere on a cache device and lets an engine recover it, work, stop, and recover again. The input
/// is a list: kind (1 byte), place (2), length of the body (2), the body from byte 12 of the structure on; its bytes 4
/// to 20 are replaced by the uuid of the cache.
pub(super) fn recovery(input: &[u8]) {
    let mut device = Device::default();
    let mut rest = input;
    while let [kind, a, b, c, d, tail @ ..] = rest {
        let place = u16::from_le_bytes([*a, *b]);
        let length = usize::from(u16::from_le_bytes([*c, *d])).min(tail.len());
        let (body, tail) = tail.split_at(length);
        device.put(*kind, u64::from(place), body);
        rest = tail;
    }
    for _ in 0..2 {
        device.recover();
    }
}

/// A cache device with zeroes for the most part.
#[derive(Default)]
struct Device(BTreeMap<u64, Vec<u8>>);

impl Device {
    fn put(&mut self, kind: u8, place: u64, body: &[u8]) {
        let geometry = geometry();
        let segment = u64::from(geometry.blocks_per_segment());
        let first = geometry.byte_offset(kickcache_engine::units::Location::new(0)) / 4096;
        let (magic, block) = match kind % 3 {
            0 => (JOURNAL_MAGIC, geometry.journal().start / 4096 + place % geometry.journal_blocks()),
            1 => {
                let last = place % u64::from(geometry.segment_count) * segment + segment - 1;
                (SUMMARY_MAGIC, first + last)
            }
            _ => (BATCH_MAGIC, first + place % u64::from(geometry.location_count())),
        };
        let mut body = body.to_vec();
        body.resize(body.len().max(20), 0);
        body[4..20].copy_from_slice(&UUID);
        self.0.insert(block, structure(magic, BLOCK, &body));
    }

    fn read(&self, start: u64, length: u64) -> Vec<u8> {
        let zeroes = vec![0; BLOCK];
        let blocks = start / 4096..(start + length) / 4096;
        blocks.flat_map(|block| self.0.get(&block).unwrap_or(&zeroes).clone()).collect()
    }

    fn recover(&mut self) {
        let mut superblock = Superblock::new(UUID, DEVICE_SIZE).unwrap();
        let volume = superblock.add_volume("v", 64 << 20, "").unwrap();
        let settings = [VolumeSettings::new(volume)];
        let mut engine =
            Engine::open(Instant::ZERO, &superblock, EngineSettings::default(), &settings).unwrap();
        self.drive(&mut engine);
        if engine.phase() != Phase::Running {
            return;
        }
        engine.check();
        engine.stop(Instant::ZERO);
        self.drive(&mut engine);
        assert_eq!(engine.phase(), Phase::Stopped);
        engine.check();
    }

    /// Every operation succeeds; all data has the checksum zero.
    fn drive(&mut self, engine: &mut Engine) {
        let sums = vec![kickcache_engine::units::Checksum::new(0); 1024];
        while let Some(submission) = engine.poll_submission() {
            let mut read = Vec::new();
            match &submission.operation {
                DeviceOperation::ReadMetadata { extent } => read = self.read(extent.start, extent.length),
                DeviceOperation::WriteMetadata { offset, bytes, .. } => {
                    for (block, bytes) in (offset / 4096..).zip(bytes.chunks(BLOCK)) {
                        self.0.insert(block, bytes.to_vec());
                    }
                }
                DeviceOperation::Copy { .. } | DeviceOperation::Zero { .. } => continue,
                _ => {}
            }
            let data = Data { checksums: &sums, bytes: &read };
            engine.handle_completion(Instant::ZERO, Completion { id: submission.id, result: Ok(data) });
        }
    }
}
