//! The metadata of a cache device as a JSON document, written while the device is read.
//!
//! The dump has the structures as they are on the device, without recovery.

use std::io::{self, Write};
use std::path::Path;

use kickcache_engine::format::batch::{BatchEntry, BatchHeader, find_batches};
use kickcache_engine::format::journal::{Fact, JournalBlock, JournalBody, SegmentImage, SegmentKind};
use kickcache_engine::format::summary::{Summary, SummaryEntry};
use kickcache_engine::format::superblock::{SUPERBLOCK_OFFSETS, Superblock};
use kickcache_engine::queue::Queue;
use kickcache_engine::units::{BLOCK_BYTES, BLOCK_SIZE, BlockKey, ByteExtent, SegmentIndex};
use serde_json::{Value, json};

use crate::devices::offline::error::OfflineError;
use crate::devices::offline::offline_device::{OfflineDevice, ReadBlocks};

const JOURNAL_READ_BYTES: u64 = 1 << 20;

/// Why a dump ended early.
#[derive(Debug, thiserror::Error)]
pub enum DumpError {
    #[error(transparent)]
    Device(#[from] OfflineError),
    #[error("cannot write the dump")]
    Write(#[from] io::Error),
}

/// Writes the dump of a cache device.
///
/// # Errors
/// If the device has no valid superblock, is in use or cannot be read, or the dump cannot be written.
pub fn dump(path: &Path, out: &mut dyn Write) -> Result<(), DumpError> {
    let source = OfflineDevice::open(path)?;
    let copies = source.superblock_copies()?;
    let superblock = Superblock::decode([&copies[0], &copies[1]], source.size())
        .map_err(|error| OfflineError::Content { path: path.into(), source: error })?;
    writeln!(out, "{{\"device\": {}, \"device_bytes\": {},", json!(path), source.size())?;
    writeln!(out, "\"superblocks\": [")?;
    for (index, (offset, copy)) in SUPERBLOCK_OFFSETS.iter().zip(&copies).enumerate() {
        let decoded = Superblock::decode([copy, copy], source.size());
        line(out, index, &superblock_value(*offset, decoded))?;
    }
    writeln!(out, "\n],\n\"journal\": [")?;
    journal(&source, &superblock, out)?;
    writeln!(out, "\n],\n\"segments\": [")?;
    segments(&source, &superblock, out)?;
    writeln!(out, "\n]}}")?;
    Ok(())
}

fn line(out: &mut dyn Write, index: usize, value: &Value) -> io::Result<()> {
    if index > 0 {
        writeln!(out, ",")?;
    }
    write!(out, "{value}")
}

fn superblock_value(offset: u64, decoded: Result<Superblock, kickcache_engine::error::Error>) -> Value {
    let superblock = match decoded {
        Ok(superblock) => superblock,
        Err(error) => return json!({ "offset": offset, "error": error.to_string() }),
    };
    let geometry = superblock.geometry;
    let volumes: Vec<_> = superblock
        .volumes
        .iter()
        .map(|volume| {
            let (name, origin) = (&volume.name, &volume.origin_identity);
            json!({ "id": volume.id.get(), "name": name, "origin": origin, "origin_bytes": volume.origin_size })
        })
        .collect();
    json!({
        "offset": offset,
        "uuid": hexadecimal(&superblock.uuid),
        "epoch": superblock.epoch,
        "starts": superblock.starts,
        "journal_durable": [superblock.journal.first, superblock.journal.end],
        "device_bytes": geometry.device_size,
        "journal_bytes": geometry.journal_size,
        "segment_bytes": geometry.segment_size,
        "segment_count": geometry.segment_count,
        "volumes": volumes,
    })
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn journal(source: &OfflineDevice, superblock: &Superblock, out: &mut dyn Write) -> Result<(), DumpError> {
    let journal = superblock.geometry.journal();
    let (mut at, mut index) = (0, 0);
    while at < journal.length {
        let length = JOURNAL_READ_BYTES.min(journal.length - at);
        let blocks = source.read_blocks(ByteExtent { start: journal.start + at, length })?;
        for (place, bytes) in (at / BLOCK_SIZE..).zip(blocks.bytes().chunks_exact(BLOCK_BYTES)) {
            let found = JournalBlock::decode(bytes, &superblock.geometry);
            if let Some(block) = found.filter(|block| block.uuid == superblock.uuid) {
                line(out, index, &journal_value(place, &block))?;
                index += 1;
            }
        }
        at += length;
    }
    Ok(())
}

fn journal_value(place: u64, block: &JournalBlock) -> Value {
    match &block.body {
        JournalBody::Records(records) => {
            let records: Vec<_> = records
                .iter()
                .map(|record| with_sequence(record.sequence.get(), fact_value(record.fact)))
                .collect();
            json!({ "place": place, "number": block.ring, "records": records })
        }
        JournalBody::Chunk(chunk) => json!({
            "place": place,
            "number": block.ring,
            "checkpoint": {
                "start": chunk.start.get(),
                "part": chunk.number,
                "parts": chunk.count,
                "segments": chunk.segments.iter().map(image_value).collect::<Vec<_>>(),
            },
        }),
    }
}

fn with_sequence(sequence: u64, mut value: Value) -> Value {
    value["sequence"] = sequence.into();
    value
}

fn fact_value(fact: Fact) -> Value {
    match fact {
        Fact::Gone(key) => with_key("gone", key),
        Fact::Clean(key) => with_key("clean", key),
        Fact::Opened(segment, generation) => {
            json!({ "fact": "opened", "segment": segment.get(), "generation": generation.get() })
        }
        Fact::Dropped(volume) => json!({ "fact": "dropped", "volume": volume.get() }),
    }
}

fn with_key(fact: &str, key: BlockKey) -> Value {
    json!({ "fact": fact, "volume": key.volume().get(), "block": key.block().get() })
}

fn image_value(image: &SegmentImage) -> Value {
    let kind = match image.kind {
        SegmentKind::Free => "free",
        SegmentKind::InUse => "in use",
        SegmentKind::Retired => "retired",
    };
    json!({
        "kind": kind,
        "generation": image.generation.get(),
        "queue": queue_word(image.queue),
        "written": image.written,
        "live": hexadecimal(&image.live),
        "kept": hexadecimal(&image.kept),
    })
}

fn queue_word(queue: Queue) -> &'static str {
    match queue {
        Queue::Probation => "probation",
        Queue::Main => "main",
    }
}

fn segments(source: &OfflineDevice, superblock: &Superblock, out: &mut dyn Write) -> Result<(), DumpError> {
    let geometry = superblock.geometry;
    let mut index = 0;
    for segment in (0..geometry.segment_count).map(SegmentIndex::new) {
        let start = geometry.byte_offset(geometry.first_location(segment));
        let blocks = source.read_blocks(ByteExtent { start, length: geometry.segment_size })?;
        let value = segment_value(superblock, segment, &blocks);
        if let Some(value) = value {
            line(out, index, &value)?;
            index += 1;
        }
    }
    Ok(())
}

/// A segment with all of this cache's structures in it, of any generation.
fn segment_value(superblock: &Superblock, segment: SegmentIndex, blocks: &ReadBlocks) -> Option<Value> {
    let geometry = superblock.geometry;
    let (data, summary) = blocks.bytes().split_at(BLOCK_BYTES * geometry.batch_blocks() as usize);
    let batches = find_batches(data, |header| header.uuid == superblock.uuid && header.segment == segment);
    let summary = Summary::decode(summary, &geometry)
        .filter(|summary| summary.uuid == superblock.uuid && summary.segment == segment);
    if batches.is_empty() && summary.is_none() {
        return None;
    }
    Some(json!({
        "segment": segment.get(),
        "summary": summary.as_ref().map(summary_value),
        "batches": batches.iter().map(batch_value).collect::<Vec<_>>(),
    }))
}

fn summary_value(summary: &Summary) -> Value {
    let entries = (0..).zip(&summary.entries);
    let entries = entries.filter_map(|(place, entry)| Some(entry_value(place, entry.as_ref()?)));
    json!({
        "generation": summary.generation.get(),
        "queue": queue_word(summary.queue),
        "entries": entries.collect::<Vec<_>>(),
    })
}

fn entry_value(place: u32, entry: &SummaryEntry) -> Value {
    json!({
        "place": place,
        "volume": entry.key.volume().get(),
        "block": entry.key.block().get(),
        "dirty": entry.dirty,
        "crc": format!("{:08x}", entry.checksum.get()),
        "sequence": entry.sequence.get(),
    })
}

fn batch_value(header: &BatchHeader) -> Value {
    json!({
        "place": header.start,
        "generation": header.generation.get(),
        "sequence": header.sequence.get(),
        "queue": queue_word(header.queue),
        "entries": header.entries.iter().map(batch_entry_value).collect::<Vec<_>>(),
    })
}

fn batch_entry_value(entry: &BatchEntry) -> Value {
    match entry.key {
        None => json!({ "void": true }),
        Some(key) => json!({
            "volume": key.volume().get(),
            "block": key.block().get(),
            "dirty": entry.dirty,
            "crc": format!("{:08x}", entry.checksum.get()),
        }),
    }
}
