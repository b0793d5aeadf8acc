//! Verifies a whole cache device. The metadata are as the engine recovers them; the device is unchanged.

use std::collections::BTreeMap;
use std::mem;
use std::path::Path;

use kickcache_engine::config::RottedLog;
use kickcache_engine::error::Error;
use kickcache_engine::format::batch::{BatchHeader, find_batches};
use kickcache_engine::format::bytes::Reader;
use kickcache_engine::format::geometry::Geometry;
use kickcache_engine::format::journal::{JOURNAL_MAGIC, JournalBlock, JournalBody};
use kickcache_engine::format::summary::{SUMMARY_MAGIC, Summary};
use kickcache_engine::format::superblock::Superblock;
use kickcache_engine::tools::{SegmentStatus, SegmentUsage};
use kickcache_engine::units::{
    BLOCK_BYTES, BLOCK_SIZE, BlockIndex, BlockKey, ByteExtent, SegmentIndex, VolumeId,
};
use serde::Serialize;

use crate::devices::offline::error::OfflineError;
use crate::devices::offline::metadata::Metadata;
use crate::devices::offline::offline_device::{OfflineDevice, ReadBlocks};
use crate::devices::offline::out_of_service::OutOfServiceDevice;
use crate::driver::checksum::checksum;
use crate::extents::{Extent, extents};

const JOURNAL_READ_BYTES: u64 = 1 << 20;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// All data is intact.
    Good,
    /// Clean blocks are damaged, or a copy of the superblock is damaged or older.
    Repairable,
    /// Dirty blocks are damaged: their data is lost.
    Lost,
    /// A part of the log that recovery needs is damaged or unreadable, so that blocks may be older than the
    /// last writes.
    Suspect,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Findings {
    pub verdict: Verdict,
    pub device_bytes: u64,
    /// The two copies of the superblock: `good`, or the defect.
    pub superblocks: [String; 2],
    /// The part of the log that has rotted or cannot be read.
    pub rotted: Option<String>,
    pub journal: JournalFindings,
    pub segments: SegmentFindings,
    pub volumes: Vec<VolumeFindings>,
    /// The clean blocks that a repair drops.
    #[serde(skip)]
    pub damaged_clean: Vec<BlockKey>,
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct JournalFindings {
    pub blocks: u64,
    /// Whole blocks of records of this cache.
    pub records_blocks: u64,
    /// Whole blocks of checkpoints of this cache.
    pub checkpoint_blocks: u64,
    /// Unreadable blocks, and blocks of this cache that are not whole, if recovery does not need them.
    pub damaged_unneeded: u64,
    /// Numbers of the blocks that are unreadable or not whole, and that recovery would need.
    pub damaged_needed: Vec<u64>,
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct SegmentFindings {
    pub count: u64,
    /// Segments that are neither free nor retired.
    pub in_use: u64,
    pub retired: u64,
    /// Segments with a whole summary of their present generation.
    pub with_summary: u64,
    pub damaged_summaries: u64,
    /// Whole batch headers of the present generations of the segments.
    pub headers: u64,
    /// Blocks in a summary and in no whole header.
    pub without_header: u64,
    /// Blocks that are neither whole nor live, in segments without a present summary.
    pub unfinished: u64,
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct VolumeFindings {
    /// The volume's name; empty for blocks of a volume that is not in the superblock.
    pub name: String,
    pub clean_blocks: u64,
    pub dirty_blocks: u64,
    /// Blocks that were dirty and that the volume no longer needs.
    pub needless_blocks: u64,
    /// Extents of clean blocks that are damaged or cannot be read.
    pub damaged: Vec<Extent>,
    /// Extents of dirty blocks that are damaged or unreadable.
    pub lost: Vec<Extent>,
}

impl Findings {
    /// Counts the dirty blocks of volumes that do not need them as needless: the log of a device out of
    /// service still records them as dirty.
    pub fn drop_needless(&mut self, standing: &OutOfServiceDevice) {
        for volume in self.volumes.iter_mut().filter(|volume| !standing.is_needed_by(&volume.name)) {
            volume.needless_blocks = mem::take(&mut volume.dirty_blocks) + blocks_in(&volume.lost);
            volume.lost.clear();
        }
        self.judge();
    }

    fn judge(&mut self) {
        let is_lost = self.volumes.iter().any(|volume| !volume.lost.is_empty());
        let is_suspect = self.rotted.is_some() || !self.journal.damaged_needed.is_empty();
        let is_mendable =
            !self.damaged_clean.is_empty() || self.superblocks.iter().any(|copy| copy != "good");
        // A damaged log may have lost more blocks than those that are listed.
        self.verdict = match (is_lost, is_suspect, is_mendable) {
            (_, true, _) => Verdict::Suspect,
            (true, false, _) => Verdict::Lost,
            (false, false, true) => Verdict::Repairable,
            (false, false, false) => Verdict::Good,
        };
    }
}

#[must_use]
pub fn blocks_in(extents: &[Extent]) -> u64 {
    extents.iter().map(|extent| extent.length / BLOCK_SIZE).sum()
}

/// Verifies a cache device; `progress` gets the bytes done and the total.
///
/// # Errors
/// If it cannot be read, is in use, or is no cache device.
pub fn check(path: &Path, progress: &mut dyn FnMut(u64, u64)) -> Result<Findings, OfflineError> {
    let source = OfflineDevice::open(path)?;
    let superblocks = check_superblocks(&source)?;
    let Readable { metadata, rotted } = read_metadata(source, path)?;
    let mut check = Check::new(&metadata, rotted);
    check.journal()?;
    let geometry = metadata.superblock().geometry;
    let used: Vec<_> = (0..geometry.segment_count)
        .map(SegmentIndex::new)
        .map(|segment| (segment, metadata.engine().segment_status(segment)))
        .filter(|(_, status)| status.usage != SegmentUsage::Free)
        .collect();
    let whole = u64::try_from(used.len()).unwrap_or(u64::MAX).saturating_mul(geometry.segment_size);
    for (done, (segment, status)) in (0..).step_by(segment_step(&geometry)).zip(&used) {
        progress(done, whole);
        check.segment(*segment, status)?;
    }
    progress(whole, whole);
    Ok(check.finish(superblocks))
}

struct Readable {
    metadata: Metadata,
    rotted: Option<String>,
}

fn read_metadata(source: OfflineDevice, path: &Path) -> Result<Readable, OfflineError> {
    match Metadata::read(source) {
        Err(OfflineError::Content {
            source: Error::Rotted { what } | Error::Unreadable { what }, ..
        }) => {
            let metadata = Metadata::read_rotted(OfflineDevice::open(path)?, RottedLog::Accepted)?;
            Ok(Readable { metadata, rotted: Some(what) })
        }
        metadata => Ok(Readable { metadata: metadata?, rotted: None }),
    }
}

fn segment_step(geometry: &Geometry) -> usize {
    usize::try_from(geometry.segment_size).expect("a segment has at most 4 MiB")
}

/// The state of each copy, compared with the newest valid one.
fn check_superblocks(source: &OfflineDevice) -> Result<[String; 2], OfflineError> {
    let copies = source.superblock_copies()?;
    let decode = |copy: &Vec<u8>| Superblock::decode([copy, copy], source.size());
    let decoded = [decode(&copies[0]), decode(&copies[1])];
    let newest = decoded.iter().flatten().map(|superblock| superblock.epoch).max();
    Ok(decoded.map(|copy| match copy {
        Ok(superblock) if Some(superblock.epoch) == newest => "good".into(),
        Ok(superblock) => format!("older: epoch {}", superblock.epoch),
        Err(Error::Superblock { .. } | Error::NoSuperblock { .. }) => "damaged".into(),
        Err(error) => error.to_string(),
    }))
}

struct Check<'a> {
    metadata: &'a Metadata,
    rotted: Option<String>,
    journal: JournalFindings,
    segments: SegmentFindings,
    volumes: BTreeMap<VolumeId, VolumeBlocks>,
}

#[derive(Default)]
struct VolumeBlocks {
    clean: u64,
    dirty: u64,
    damaged: Vec<BlockIndex>,
    lost: Vec<BlockIndex>,
}

impl Check<'_> {
    fn new(metadata: &Metadata, rotted: Option<String>) -> Check<'_> {
        let known = metadata.superblock().volumes.iter();
        Check {
            metadata,
            rotted,
            journal: JournalFindings::default(),
            segments: SegmentFindings {
                count: u64::from(metadata.superblock().geometry.segment_count),
                ..SegmentFindings::default()
            },
            volumes: known.map(|record| (record.id, VolumeBlocks::default())).collect(),
        }
    }

    fn journal(&mut self) -> Result<(), OfflineError> {
        let journal = self.metadata.superblock().geometry.journal();
        self.journal.blocks = journal.length / BLOCK_SIZE;
        let mut at = 0;
        while at < journal.length {
            let length = JOURNAL_READ_BYTES.min(journal.length - at);
            let extent = ByteExtent { start: journal.start + at, length };
            let blocks = self.metadata.source().read_blocks(extent)?;
            let count = usize::try_from(length / BLOCK_SIZE).expect("1 MiB");
            for (place, index) in (at / BLOCK_SIZE..).zip(0..count) {
                self.journal_block(place, blocks.get(index));
            }
            at += length;
        }
        Ok(())
    }

    fn journal_block(&mut self, place: u64, block: Option<&[u8]>) {
        let superblock = self.metadata.superblock();
        let found = block.and_then(|block| JournalBlock::decode(block, &superblock.geometry));
        match found {
            Some(JournalBlock { uuid, .. }) if uuid != superblock.uuid => {}
            Some(JournalBlock { body: JournalBody::Records(_), .. }) => self.journal.records_blocks += 1,
            Some(JournalBlock { body: JournalBody::Chunk(_), .. }) => self.journal.checkpoint_blocks += 1,
            None if block.is_some_and(|block| !is_ours(block, JOURNAL_MAGIC, superblock)) => {}
            None => match self.needed_number(place) {
                Some(number) => self.journal.damaged_needed.push(number),
                None => self.journal.damaged_unneeded += 1,
            },
        }
    }

    /// The expected number of the journal block at a place of the ring, if recovery needs it.
    fn needed_number(&self, place: u64) -> Option<u64> {
        let span = self.metadata.engine().journal_span();
        let first = span.start.checked_next_multiple_of(self.journal.blocks)?;
        let lap = first + place;
        let before = lap.checked_sub(self.journal.blocks);
        before.into_iter().chain([lap]).find(|number| span.contains(number))
    }

    fn segment(&mut self, segment: SegmentIndex, status: &SegmentStatus) -> Result<(), OfflineError> {
        let superblock = self.metadata.superblock();
        let geometry = superblock.geometry;
        self.segments.retired += u64::from(status.usage == SegmentUsage::Retired);
        let start = geometry.byte_offset(geometry.first_location(segment));
        let blocks =
            self.metadata.source().read_blocks(ByteExtent { start, length: geometry.segment_size })?;
        let bytes = blocks.bytes();
        let (data, summary) = bytes.split_at(BLOCK_BYTES * geometry.batch_blocks() as usize);
        let batches = find_batches(data, |header| {
            header.uuid == superblock.uuid
                && header.segment == segment
                && header.generation == status.generation
        });
        self.segments.headers += u64::try_from(batches.len()).unwrap_or(u64::MAX);
        let found = Summary::decode(summary, &geometry).filter(|found| found.uuid == superblock.uuid);
        match found {
            Some(found) if found.segment == segment && found.generation == status.generation => {
                self.segments.with_summary += 1;
                self.compare(&found, &batches);
            }
            Some(_) => self.unfinished(segment, &batches, &blocks),
            None => {
                self.segments.damaged_summaries += u64::from(is_ours(summary, SUMMARY_MAGIC, superblock));
                self.unfinished(segment, &batches, &blocks);
            }
        }
        self.live_blocks(segment, &blocks);
        Ok(())
    }

    fn compare(&mut self, summary: &Summary, batches: &[BatchHeader]) {
        let described: u64 = batches
            .iter()
            .flat_map(|header| &header.entries)
            .map(|entry| u64::from(entry.key.is_some()))
            .sum();
        let known = summary.entries.iter().flatten().count();
        self.segments.without_header += u64::try_from(known).unwrap_or(u64::MAX).saturating_sub(described);
    }

    fn unfinished(&mut self, segment: SegmentIndex, batches: &[BatchHeader], blocks: &ReadBlocks) {
        let first = self.metadata.superblock().geometry.first_location(segment);
        let live: Vec<_> = self.metadata.engine().blocks_in(segment).map(|block| block.location).collect();
        for header in batches {
            for (place, entry) in (header.start + 1..).zip(&header.entries) {
                let data = blocks.get(place as usize);
                let is_whole = data.is_some_and(|data| checksum(data) == entry.checksum);
                let is_live = live.binary_search(&first.plus(place)).is_ok();
                self.segments.unfinished += u64::from(entry.key.is_some() && !is_whole && !is_live);
            }
        }
    }

    fn live_blocks(&mut self, segment: SegmentIndex, blocks: &ReadBlocks) {
        let first = self.metadata.superblock().geometry.first_location(segment);
        for block in self.metadata.engine().blocks_in(segment) {
            let place = (block.location.get() - first.get()) as usize;
            let is_good = blocks.get(place).is_some_and(|data| checksum(data) == block.checksum);
            let volume = self.volumes.entry(block.volume).or_default();
            match (is_good, block.is_dirty) {
                (true, false) => volume.clean += 1,
                (true, true) => volume.dirty += 1,
                (false, false) => volume.damaged.push(block.block),
                (false, true) => volume.lost.push(block.block),
            }
        }
    }

    fn finish(mut self, superblocks: [String; 2]) -> Findings {
        for blocks in self.volumes.values_mut() {
            blocks.damaged.sort_unstable();
            blocks.lost.sort_unstable();
        }
        // A segment prepared for the next writes is free, as `inspect` and `status` count it.
        let status = self.metadata.engine().status();
        self.segments.in_use = status.segments - status.free_segments - status.retired_segments;
        let suspect = self.rotted.is_some() || !self.journal.damaged_needed.is_empty();
        let damaged_clean = if suspect { self.all_clean() } else { self.damaged_clean() };
        let mut findings = Findings {
            verdict: Verdict::Good,
            device_bytes: self.metadata.source().size(),
            superblocks,
            volumes: self.volumes.iter().map(|(id, blocks)| self.volume(*id, blocks)).collect(),
            rotted: self.rotted,
            journal: self.journal,
            segments: self.segments,
            damaged_clean,
        };
        findings.judge();
        findings
    }

    fn damaged_clean(&self) -> Vec<BlockKey> {
        let of = |(id, blocks): (&VolumeId, &VolumeBlocks)| {
            blocks.damaged.iter().map(|block| BlockKey::new(*id, *block)).collect::<Vec<_>>()
        };
        self.volumes.iter().flat_map(of).collect()
    }

    /// After damage to the log, no clean block can be trusted.
    fn all_clean(&self) -> Vec<BlockKey> {
        let engine = self.metadata.engine();
        let segments = (0..self.metadata.superblock().geometry.segment_count).map(SegmentIndex::new);
        let blocks = segments.flat_map(|segment| engine.blocks_in(segment).collect::<Vec<_>>());
        blocks.filter(|block| !block.is_dirty).map(|block| BlockKey::new(block.volume, block.block)).collect()
    }

    fn volume(&self, id: VolumeId, blocks: &VolumeBlocks) -> VolumeFindings {
        let record = self.metadata.superblock().volumes.iter().find(|record| record.id == id);
        VolumeFindings {
            name: record.map(|record| record.name.clone()).unwrap_or_default(),
            clean_blocks: blocks.clean,
            dirty_blocks: blocks.dirty,
            needless_blocks: 0,
            damaged: extents(&blocks.damaged).iter().map(Extent::from).collect(),
            lost: extents(&blocks.lost).iter().map(Extent::from).collect(),
        }
    }
}

/// Whether undecodable bytes were written by this cache, by their magic number or their uuid; by the uuid
/// alone if they are whole: remains of a cache of another layout are not damaged.
fn is_ours(bytes: &[u8], magic: [u8; 8], superblock: &Superblock) -> bool {
    if let Some(mut whole) = Reader::open(magic, bytes) {
        whole.take_u32();
        return whole.take_uuid().is_some_and(|uuid| uuid == superblock.uuid);
    }
    let mut reader = Reader::bare(bytes);
    let starts = reader.take(8).is_some_and(|found| found == magic);
    reader.take(8);
    starts || reader.take_uuid().is_some_and(|uuid| uuid == superblock.uuid)
}
