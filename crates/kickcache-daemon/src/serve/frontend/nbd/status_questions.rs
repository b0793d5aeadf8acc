//! Block status of volumes when the origin reports its holes in a delayed answer.
//!
//! Invariants:
//! * Blocks that were cached when the query arrived are data, whatever the origin reports: before their
//!   writeback the origin may have a hole there, and by the time of the answer they may be written back and
//!   dropped from the cache.
//! * A query waits for its own answer only; if there can be no answer, it is answered with data.

use std::collections::BTreeMap;

use kickcache_engine::cache_engine::CacheEngine;
use kickcache_engine::device::Device;
use kickcache_engine::units::{BLOCK_SIZE, BlockIndex, ByteExtent};
use kickcache_nbd::{Command, StatusExtent};

use crate::driver::queued_device::{DeviceExtent, ExtentsTold};
use crate::serve::core::Core;
use crate::serve::frontend::nbd::block_status::{EXTENT_COUNT_MAX, data, push};
use crate::serve::frontend::nbd::key::ConnectionId;

/// The most bytes of one question before it is widened to whole blocks.
const QUESTION_BYTES_MAX: u64 = 32 << 20;

#[derive(Debug)]
pub(super) struct Question {
    pub(super) connection: ConnectionId,
    pub(super) command: Command,
    /// The beginning of the command's extent that is queried, extended to whole blocks.
    extent: ByteExtent,
    /// Which blocks of the extent were cached when the query was sent.
    cached: Vec<bool>,
}

#[derive(Default)]
pub(super) struct StatusQuestions {
    asked: BTreeMap<u64, Question>,
    next: u64,
}

pub(super) struct StatusAnswer {
    pub(super) question: Question,
    pub(super) extents: Vec<StatusExtent>,
}

impl StatusQuestions {
    pub(super) fn ask<E: CacheEngine>(
        &mut self,
        core: &mut Core<E>,
        volume: usize,
        connection: ConnectionId,
        command: Command,
    ) {
        let (id, size) = (core.volumes[volume].info.id, core.volumes[volume].info.size);
        let length = command.length.min(QUESTION_BYTES_MAX);
        let extent = ByteExtent { start: command.offset, length }.widened_to_blocks();
        let extent = ByteExtent { length: extent.length.min(size - extent.start), ..extent };
        let blocks = 0..extent.length.div_ceil(BLOCK_SIZE);
        let first = BlockIndex::containing(extent.start);
        let cached = blocks.map(|number| core.engine.is_cached(id, first.plus(number))).collect();
        self.next += 1;
        self.asked.insert(self.next, Question { connection, command, extent, cached });
        core.driver.ask_extents(Device::Origin(id), self.next, extent);
    }

    pub(super) fn answer(&mut self, told: &ExtentsTold) -> Option<StatusAnswer> {
        let question = self.asked.remove(&told.token)?;
        let extents = question.merged(&told.extents);
        Some(StatusAnswer { question, extents })
    }

    /// Takes all questions in flight.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = Question> + use<> {
        std::mem::take(&mut self.asked).into_values()
    }
}

impl Question {
    fn merged(&self, told: &[DeviceExtent]) -> Vec<StatusExtent> {
        let wanted = ByteExtent { start: self.command.offset, length: self.command.length };
        let end = wanted.end().min(self.extent.end());
        let mut extents: Vec<StatusExtent> = Vec::new();
        let mut offset = self.extent.start;
        for found in told {
            let found_end = offset.saturating_add(found.length).min(end);
            offset = offset.max(wanted.start);
            while offset < found_end && extents.len() < EXTENT_COUNT_MAX {
                let next = ((offset / BLOCK_SIZE + 1) * BLOCK_SIZE).min(found_end);
                let length = next - offset;
                let status = StatusExtent { length, hole: found.is_hole, zero: found.is_zero };
                push(&mut extents, if self.is_cached(offset) { data(length) } else { status });
                offset = next;
            }
            offset = found_end.max(self.extent.start);
        }
        if extents.is_empty() { vec![data(self.command.length)] } else { extents }
    }

    fn is_cached(&self, offset: u64) -> bool {
        let number = usize::try_from((offset - self.extent.start) / BLOCK_SIZE);
        number.ok().and_then(|number| self.cached.get(number).copied()).unwrap_or(true)
    }
}

#[cfg(test)]
mod tests {
    use kickcache_nbd::CommandKind;

    use super::*;

    fn question(offset: u64, length: u64, cached: &[bool]) -> Question {
        let kind = CommandKind::BlockStatus { one: false };
        let extent = ByteExtent { start: offset, length }.widened_to_blocks();
        Question {
            connection: ConnectionId { index: 0, generation: 0 },
            command: Command { cookie: 1, kind, offset, length, export: 0 },
            extent,
            cached: cached.to_vec(),
        }
    }

    fn told(length: u64, is_hole: bool) -> DeviceExtent {
        DeviceExtent { length, is_hole, is_zero: is_hole }
    }

    fn shown(extents: &[StatusExtent]) -> Vec<(u64, bool)> {
        extents.iter().map(|extent| (extent.length, extent.hole)).collect()
    }

    #[test]
    fn cached_blocks_are_data_and_unknown_extents_are_omitted() {
        let question = question(4096, 16384, &[false, true, false, false]);
        assert_eq!(
            shown(&question.merged(&[told(12288, true), told(4096, false)])),
            [(4096, true), (4096, false), (4096, true), (4096, false)]
        );
        assert_eq!(shown(&question.merged(&[told(4096, true)])), [(4096, true)]);
        assert_eq!(
            shown(&question.merged(&[told(u64::MAX, true)])),
            [(4096, true), (4096, false), (8192, true)]
        );
        assert_eq!(shown(&question.merged(&[])), [(16384, false)], "nobody knows");
    }

    #[test]
    fn a_question_may_begin_and_end_within_blocks() {
        let question = question(512, 4096, &[false, false]);
        assert_eq!(shown(&question.merged(&[told(100, true), told(8092, false)])), [(4096, false)]);
        assert_eq!(
            shown(&question.merged(&[told(1024, true), told(7168, false)])),
            [(512, true), (3584, false)]
        );
    }

    #[test]
    fn a_cached_block_is_data_wherever_the_question_begins() {
        let hole = [told(u64::MAX, true)];
        let shown_from =
            |offset, length, cached: &[bool]| shown(&question(offset, length, cached).merged(&hole));
        for start in [512, 2048, 3584] {
            assert_eq!(
                shown_from(start, 12288 - start, &[false, true, false]),
                [(4096 - start, true), (4096, false), (4096, true)],
                "{start}"
            );
            assert_eq!(shown_from(start, 4096 - start, &[true]), [(4096 - start, false)], "{start}");
        }
        assert_eq!(
            shown_from((1 << 20) + 2048, 8192, &[false, true, false]),
            [(2048, true), (4096, false), (2048, true)]
        );
        assert_eq!(shown_from(2048, 6144, &[true, false]), [(2048, false), (4096, true)]);
        assert_eq!(
            shown_from(4096, 6144, &[false, true]),
            [(4096, true), (2048, false)],
            "it ends in a block"
        );
    }

    #[test]
    fn blocks_of_unknown_place_count_as_cached() {
        assert_eq!(
            shown(&question(0, 8192, &[false]).merged(&[told(8192, true)])),
            [(4096, true), (4096, false)]
        );
    }
}
