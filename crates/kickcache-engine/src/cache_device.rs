//! The cache device as it is written: its log, its journal, and the durability of both.

use alloc::vec::Vec;

use crate::cache::segments::Segments;
use crate::config::{CACHE_WRITE_ERRORS_MAX, EngineSettings};
use crate::device::{Device, DeviceError, DeviceOperation};
use crate::format::durable::Durable;
use crate::format::journal::{Fact, Record};
use crate::format::summary::Summary;
use crate::format::superblock::Superblock;
use crate::inflight::jobs::Checkpoint;
use crate::inflight::purpose::{Prepared, Purpose};
use crate::journal::{Journal, RecordsWrite};
use crate::log::Log;
use crate::order::Order;
use crate::request::Durability;
use crate::stats::{CacheCounters, CacheHealth};
use crate::units::Sequence;

#[derive(Debug)]
pub(crate) struct CacheDevice {
    pub(crate) uuid: [u8; 16],
    pub(crate) log: Log,
    pub(crate) journal: Journal,
    pub(crate) order: Order,
    pub(crate) checkpoint: Option<Checkpoint>,
    /// Blocks became clean without *clean* records; the next checkpoint is to include them.
    pub(crate) has_untold_clean: bool,
    /// Summaries that wait until the batches of their segments are durable.
    summaries: Vec<Summary>,
    /// The newest sequence number at the last [`CacheDevice::note_gone`]; 0 before the first.
    newest_gone: Sequence,
    failed_batches: u32,
    pub(crate) health: CacheHealth,
    pub(crate) counters: CacheCounters,
}

impl CacheDevice {
    pub(crate) fn new(superblock: &Superblock, settings: &EngineSettings) -> CacheDevice {
        let (uuid, geometry) = (superblock.uuid, superblock.geometry);
        CacheDevice {
            uuid,
            log: Log::new(uuid, geometry, settings.fill_linger),
            journal: Journal::new(uuid, geometry, 0, 0),
            order: Order::new(Sequence::new(1), 0),
            checkpoint: None,
            has_untold_clean: false,
            summaries: Vec::new(),
            newest_gone: Sequence::new(0),
            failed_batches: 0,
            health: CacheHealth::Good,
            counters: CacheCounters::default(),
        }
    }

    pub(crate) fn is_out_of_service(&self) -> bool {
        self.health == CacheHealth::OutOfService
    }

    /// The durable part of this life, for the next structure.
    pub(crate) fn durable(&self) -> Durable {
        let mut journal = self.order.durable_blocks();
        journal.end = self.journal.kept_end(journal.end);
        Durable { batches: self.order.durable_range(), journal }
    }

    /// Whether operations that create records must wait for a checkpoint.
    pub(crate) fn is_journal_full(&self) -> bool {
        !self.journal.has_room() && !self.is_out_of_service()
    }

    /// Whether, in service, only a checkpoint can make it durable that some blocks are clean.
    pub(crate) fn is_clean_untold(&self) -> bool {
        let is_on_its_way = self
            .checkpoint
            .as_ref()
            .is_some_and(|checkpoint| checkpoint.tells_clean && !mutant!(DrainBeforeCheckpoint));
        (self.has_untold_clean || is_on_its_way) && !self.is_out_of_service()
    }

    pub(crate) fn give_up_checkpoint(&mut self) {
        let told = self.checkpoint.take().is_some_and(|checkpoint| checkpoint.tells_clean);
        self.has_untold_clean |= told;
    }

    pub(crate) fn record(&mut self, fact: Fact) {
        if self.is_out_of_service() {
            return;
        }
        let sequence = self.order.assign();
        self.counters.journal_records += 1;
        self.journal.add(Record { sequence, fact });
    }

    /// The next block of records as a write, if at least this many have gathered and the device is in service.
    pub(crate) fn take_records(&mut self, least: usize) -> Option<Prepared> {
        if self.journal.gathered() < least || self.is_out_of_service() {
            return None;
        }
        let RecordsWrite { write, sequences } = self.journal.take_records(self.durable());
        self.order.begin_journal_block(write.number);
        let operation = DeviceOperation::WriteMetadata {
            device: Device::Cache,
            offset: write.offset,
            bytes: write.bytes.into_boxed_slice(),
            pieces: Vec::new(),
            durability: Durability::Volatile,
        };
        Some(Prepared { purpose: Purpose::Journal { block: write.number, sequences }, operation })
    }

    pub(crate) fn end_records(
        &mut self,
        block: u64,
        sequences: &[Sequence],
        result: Result<(), DeviceError>,
    ) {
        self.order.end_journal_block(block, result);
        sequences.iter().for_each(|sequence| self.order.land(*sequence));
        self.counters.errors += u64::from(result.is_err());
    }

    pub(crate) fn note_gone(&mut self) {
        if !mutant!(GoneNotCounted) {
            self.newest_gone = self.order.newest();
        }
    }

    pub(crate) fn newest_gone(&self) -> Sequence {
        self.newest_gone
    }

    pub(crate) fn note_failed_batch(&mut self) {
        self.counters.errors += 1;
        self.failed_batches += 1;
        if let Some(checkpoint) = &mut self.checkpoint {
            checkpoint.is_outdated = !mutant!(OutdatedCheckpoint);
        }
    }

    pub(crate) fn failed_batches(&self) -> u32 {
        self.failed_batches
    }

    pub(crate) fn fails_too_often(&self) -> bool {
        self.failed_batches >= CACHE_WRITE_ERRORS_MAX
    }

    pub(crate) fn add_summary(&mut self, summary: Summary) {
        self.summaries.push(summary);
    }

    /// Takes the summaries of segments with durable batches; none if the device is out of service. Recovery trusts a
    /// summary without checking the data, so that a summary must not survive a power cut that loses a batch.
    pub(crate) fn take_durable_summaries(&mut self, segments: &Segments) -> Vec<Summary> {
        if self.is_out_of_service() {
            return Vec::new();
        }
        let is_ripe = |summary: &Summary| {
            let newest = segments.get(summary.segment).last_sequence;
            self.order.is_durable(newest) || mutant!(SummaryBeforeFlush)
        };
        let (ripe, left): (Vec<_>, Vec<_>) =
            core::mem::take(&mut self.summaries).into_iter().partition(is_ripe);
        self.summaries = left;
        ripe
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::Cache;
    use crate::format::journal::{Chunk, RECORD_COUNT_MAX};
    use crate::inflight::jobs::Position;
    use crate::order::{DurableWaiter, FlushCount, Need};
    use crate::queue::Queue;
    use crate::units::{Generation, SegmentIndex, VolumeId};

    fn device() -> (CacheDevice, Superblock) {
        let superblock = Superblock::new([1; 16], 16 << 20).unwrap();
        (CacheDevice::new(&superblock, &EngineSettings::default()), superblock)
    }

    fn flush(device: &mut CacheDevice) {
        device.order.wait(Need::NextFlush, DurableWaiter::Nobody);
        assert!(device.order.begin_flush());
        device.order.end_flush();
    }

    #[test]
    fn full_record_batches_are_written_only_in_service() {
        let (mut device, _) = device();
        (0..=RECORD_COUNT_MAX).for_each(|_| device.record(Fact::Dropped(VolumeId::new(0))));
        let taken = device.take_records(RECORD_COUNT_MAX);
        assert!(
            matches!(taken.map(|taken| taken.purpose), Some(Purpose::Journal { block: 0, sequences }) if sequences.len() == RECORD_COUNT_MAX)
        );
        assert!(device.take_records(RECORD_COUNT_MAX).is_none(), "one is left, which is no full block");
        device.health = CacheHealth::OutOfService;
        device.record(Fact::Dropped(VolumeId::new(0)));
        assert!(device.take_records(1).is_none());
        assert_eq!(device.counters.journal_records, RECORD_COUNT_MAX as u64 + 1);
    }

    #[test]
    fn a_summary_waits_for_the_batches_of_its_segment() {
        let (mut device, superblock) = device();
        let mut cache = Cache::new(superblock.geometry);
        let segment = SegmentIndex::new(3);
        let batch = device.order.assign_batch();
        cache.segment_mut(segment).last_sequence = batch;
        let (uuid, generation) = (device.uuid, Generation::new(1));
        let (queue, durable) = (Queue::Main, Durable::NOTHING);
        device.add_summary(Summary { uuid, segment, generation, queue, durable, entries: Vec::new() });
        device.order.land(batch);
        assert!(device.take_durable_summaries(cache.segments()).is_empty(), "no flush covers the batch");
        flush(&mut device);
        let taken = device.take_durable_summaries(cache.segments());
        assert_eq!(taken.iter().map(|summary| summary.segment).collect::<Vec<_>>(), [segment]);
        assert!(device.take_durable_summaries(cache.segments()).is_empty(), "each is written once");
    }

    fn checkpoint(superblock: &Superblock, tells_clean: bool) -> Checkpoint {
        Checkpoint {
            position: Position::Between,
            geometry: superblock.geometry,
            start: Sequence::new(1),
            ring: 0,
            next: 0,
            snapped: Vec::new(),
            writes_in_flight: 0,
            landed: 0,
            landed_at: FlushCount::default(),
            finishing: false,
            is_outdated: false,
            tells_clean,
        }
    }

    /// The next life may write blocks of these numbers again.
    #[test]
    fn blocks_of_an_unfinished_checkpoint_do_not_count_as_durable() {
        let (mut device, _) = device();
        for number in 0..2 {
            let segments = Vec::new();
            let chunk = Chunk { start: Sequence::new(1), number, count: 3, begun: Some(0), segments };
            let write = device.journal.take_chunk(chunk, Durable::NOTHING);
            device.order.begin_journal_block(write.number);
            device.order.end_journal_block(write.number, Ok(()));
        }
        flush(&mut device);
        assert_eq!((device.order.durable_blocks().end, device.durable().journal.end), (2, 0));
        device.journal.forget_before(0);
        assert_eq!(device.durable().journal.end, 2);
    }

    #[test]
    fn clean_blocks_are_untold_until_a_checkpoint_is_durable() {
        let (mut device, superblock) = device();
        device.checkpoint = Some(checkpoint(&superblock, true));
        assert!(device.is_clean_untold(), "the checkpoint is not durable");
        device.give_up_checkpoint();
        assert!(device.is_clean_untold() && device.has_untold_clean, "another checkpoint must record them");
    }

    #[test]
    fn a_failed_batch_outdates_a_checkpoint_in_progress() {
        let (mut device, superblock) = device();
        device.checkpoint = Some(checkpoint(&superblock, false));
        device.note_failed_batch();
        assert!(device.checkpoint.as_ref().is_some_and(|checkpoint| checkpoint.is_outdated));
        assert!(!device.fails_too_often(), "one error is none");
        (1..CACHE_WRITE_ERRORS_MAX).for_each(|_| device.note_failed_batch());
        assert!(device.fails_too_often());
    }
}
