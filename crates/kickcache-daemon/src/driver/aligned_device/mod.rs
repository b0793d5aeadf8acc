//! A queued device with a minimum block above a sector, as a device that takes any sectors.
//!
//! Invariants:
//! * one partial write of a block is in flight at a time, in the order of submission: it reads the block, replaces its own bytes
//!   and writes the block. The bytes of earlier writes of neighbours are kept.
//! * whole blocks are submitted at once. A partial write of such a block would overlap, and overlapping accesses to an origin are
//!   never in flight together (I-6).
//! * A request ends once, when all of its parts have.

use std::collections::{BTreeMap, VecDeque};
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::BorrowedFd;

use kickcache_engine::request::{Durability, Unmap};
use kickcache_engine::samples::Sample;
use kickcache_engine::time::Instant;
use kickcache_engine::units::ByteExtent;

use crate::driver::minimum_block::{BlockParts, MinimumBlock};
use crate::driver::queued_device::{
    DeviceExtent, ExtentsTold, QueuedDevice, QueuedEnd, QueuedRequest, ServerOutage,
};

/// The driver's tokens have 32 bits. The head and the tail of a request have tokens of their own above them.
const PART_SHIFT: u32 = 32;
const HEAD: u64 = 1 << PART_SHIFT;
const TAIL: u64 = 2 << PART_SHIFT;

pub(crate) struct AlignedDevice {
    inner: Box<dyn QueuedDevice>,
    block: MinimumBlock,
    /// Writes, and writes of zeroes, with a head or a tail, by the driver's token.
    split: BTreeMap<u64, SplitRequest>,
    /// Writes of heads and tails that have not ended, in the order of submission.
    partial: Vec<PartialWrite>,
    /// Discards that contain no whole block, which the device does not get.
    ended: VecDeque<(Instant, u64)>,
    /// Bytes between the start of the block and of the requested extent, by the token of the query.
    question_heads: BTreeMap<u64, u64>,
}

struct SplitRequest {
    parts_left: u32,
    error: Option<i32>,
}

struct PartialWrite {
    token: u64,
    extent: ByteExtent,
    data: Vec<u8>,
    durability: Durability,
    phase: Phase,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Waiting,
    Reading,
    Writing,
}

#[derive(Clone, Copy)]
struct UnalignedWrite<'a> {
    extent: ByteExtent,
    durability: Durability,
    bytes: Bytes<'a>,
}

#[derive(Clone, Copy)]
enum Bytes<'a> {
    Data(&'a [u8]),
    Zeroes(Unmap),
}

impl AlignedDevice {
    /// Wraps a device, so that it accepts any sectors; returns the device itself if its minimum block is a sector.
    pub(crate) fn over(inner: Box<dyn QueuedDevice>, block: MinimumBlock) -> Box<dyn QueuedDevice> {
        if block == MinimumBlock::SECTOR {
            return inner;
        }
        Box::new(AlignedDevice {
            inner,
            block,
            split: BTreeMap::new(),
            partial: Vec::new(),
            ended: VecDeque::new(),
            question_heads: BTreeMap::new(),
        })
    }

    fn submit_parts(&mut self, now: Instant, token: u64, write: UnalignedWrite<'_>) {
        let UnalignedWrite { extent, durability, bytes } = write;
        let BlockParts { head, middle, tail } = self.block.parts(extent);
        let parts_left = [head, middle, tail].iter().map(|part| u32::from(part.length > 0)).sum();
        self.split.insert(token, SplitRequest { parts_left, error: None });
        let data_of = |part: ByteExtent| match bytes {
            Bytes::Data(data) => &data[index(part.start - extent.start)..index(part.end() - extent.start)],
            Bytes::Zeroes(_) => &[],
        };
        for (number, part) in [(HEAD, head), (TAIL, tail)].into_iter().filter(|(_, part)| part.length > 0) {
            let mut data = data_of(part).to_vec();
            data.resize(index(part.length), 0);
            let (token, phase) = (token | number, Phase::Waiting);
            self.partial.push(PartialWrite { token, extent: part, data, durability, phase });
            self.start_first(now, part);
        }
        if middle.length == 0 {
            return;
        }
        let pieces = [IoSlice::new(data_of(middle))];
        let request = match bytes {
            Bytes::Zeroes(unmap) => QueuedRequest::WriteZeroes { extent: middle, unmap, durability },
            Bytes::Data(_) => QueuedRequest::Write { offset: middle.start, pieces: &pieces, durability },
        };
        self.inner.submit(now, token, request);
    }

    /// Starts the first partial write of a block, if none of the block is in flight.
    fn start_first(&mut self, now: Instant, extent: ByteExtent) {
        let block = self.block.widened(extent);
        let Some(first) = self.partial.iter_mut().find(|write| block.contains(write.extent)) else { return };
        if first.phase == Phase::Waiting {
            first.phase = Phase::Reading;
            self.inner.submit(now, first.token, QueuedRequest::Read(block));
        }
    }

    fn on_end(&mut self, now: Instant, end: QueuedEnd) -> Option<QueuedEnd> {
        let QueuedEnd { token, result } = end;
        let whole = token & (HEAD - 1);
        if whole == token {
            return if self.split.contains_key(&token) { self.end_part(token, result) } else { Some(end) };
        }
        let at = self.partial.iter().position(|write| write.token == token)?;
        if result.is_ok() && self.partial[at].phase == Phase::Reading {
            self.write_block(now, at);
            return None;
        }
        let write = self.partial.remove(at);
        self.start_first(now, write.extent);
        self.end_part(whole, result)
    }

    fn write_block(&mut self, now: Instant, at: usize) {
        let PartialWrite { token, extent, data, durability, phase } = &mut self.partial[at];
        let block = self.block.widened(*extent);
        let mut bytes = vec![0; index(block.length)];
        self.inner.take_read(*token, block, &mut [IoSliceMut::new(&mut bytes)]);
        bytes[index(extent.start - block.start)..index(extent.end() - block.start)].copy_from_slice(data);
        *phase = Phase::Writing;
        let pieces = [IoSlice::new(&bytes)];
        let request = QueuedRequest::Write { offset: block.start, pieces: &pieces, durability: *durability };
        self.inner.submit(now, *token, request);
    }

    fn end_part(&mut self, token: u64, result: Result<(), i32>) -> Option<QueuedEnd> {
        let split = self.split.get_mut(&token)?;
        split.parts_left -= 1;
        if let Err(errno) = result {
            // After EOPNOTSUPP the driver writes the zeroes: another error takes precedence.
            let is_worse = split.error.is_none_or(|known| known == libc::EOPNOTSUPP);
            split.error = if is_worse { Some(errno) } else { split.error };
        }
        if split.parts_left > 0 {
            return None;
        }
        let SplitRequest { error, .. } = self.split.remove(&token)?;
        Some(QueuedEnd { token, result: error.map_or(Ok(()), Err) })
    }
}

impl QueuedDevice for AlignedDevice {
    fn submit(&mut self, now: Instant, token: u64, request: QueuedRequest<'_>) {
        match request {
            QueuedRequest::Read(extent) => {
                self.inner.submit(now, token, QueuedRequest::Read(self.block.widened(extent)));
            }
            QueuedRequest::Write { offset, pieces, durability } => {
                let length = pieces.iter().map(|piece| piece.len() as u64).sum();
                let extent = ByteExtent { start: offset, length };
                if self.block.is_aligned(extent) {
                    return self.inner.submit(now, token, request);
                }
                let data: Vec<u8> = pieces.iter().flat_map(|piece| piece.iter().copied()).collect();
                let bytes = Bytes::Data(&data);
                self.submit_parts(now, token, UnalignedWrite { extent, durability, bytes });
            }
            QueuedRequest::WriteZeroes { extent, unmap, durability } if !self.block.is_aligned(extent) => {
                let bytes = Bytes::Zeroes(unmap);
                self.submit_parts(now, token, UnalignedWrite { extent, durability, bytes });
            }
            // Only whole blocks are discarded; a head and a tail keep their data.
            QueuedRequest::Discard(extent) => match self.block.parts(extent).middle {
                ByteExtent { length: 0, .. } => self.ended.push_back((now, token)),
                middle => self.inner.submit(now, token, QueuedRequest::Discard(middle)),
            },
            QueuedRequest::WriteZeroes { .. } | QueuedRequest::Flush => {
                self.inner.submit(now, token, request);
            }
        }
    }

    fn poll(&mut self, now: Instant) -> Option<QueuedEnd> {
        if let Some((_, token)) = self.ended.pop_front() {
            return Some(QueuedEnd { token, result: Ok(()) });
        }
        while let Some(end) = self.inner.poll(now) {
            if let Some(end) = self.on_end(now, end) {
                return Some(end);
            }
        }
        None
    }

    fn take_read(&mut self, token: u64, extent: ByteExtent, into: &mut [IoSliceMut<'_>]) {
        let whole = self.block.widened(extent);
        let mut head = vec![0; index(extent.start - whole.start)];
        let mut tail = vec![0; index(whole.end() - extent.end())];
        let mut pieces = vec![IoSliceMut::new(&mut head)];
        pieces.extend(into.iter_mut().map(|piece| IoSliceMut::new(piece)));
        pieces.push(IoSliceMut::new(&mut tail));
        self.inner.take_read(token, whole, &mut pieces);
    }

    fn next_wakeup(&self) -> Option<Instant> {
        let own = self.ended.front().map(|(since, _)| *since);
        own.into_iter().chain(self.inner.next_wakeup()).min()
    }

    fn wakeup(&self) -> Option<BorrowedFd<'_>> {
        self.inner.wakeup()
    }

    fn take_restart(&mut self) -> bool {
        self.inner.take_restart()
    }

    fn away(&self) -> Option<ServerOutage> {
        self.inner.away()
    }

    fn give_up(&mut self) {
        self.inner.give_up();
    }

    fn begin_compare(&mut self, samples: &[Sample]) {
        self.inner.begin_compare(samples);
    }

    fn end_compare(&mut self) -> Result<(), String> {
        self.inner.end_compare()
    }

    fn expect(&mut self, samples: Vec<Sample>) {
        self.inner.expect(samples);
    }

    fn has_extents(&self) -> bool {
        self.inner.has_extents()
    }

    fn ask_extents(&mut self, token: u64, extent: ByteExtent) {
        let whole = self.block.widened(extent);
        self.question_heads.insert(token, extent.start - whole.start);
        self.inner.ask_extents(token, whole);
    }

    fn take_extents(&mut self) -> Option<ExtentsTold> {
        let ExtentsTold { token, extents } = self.inner.take_extents()?;
        let mut head = self.question_heads.remove(&token).unwrap_or(0);
        let behind_head = extents.into_iter().map(|extent| {
            let cut = head.min(extent.length);
            head -= cut;
            DeviceExtent { length: extent.length - cut, ..extent }
        });
        let extents = behind_head.filter(|extent| extent.length > 0).collect();
        Some(ExtentsTold { token, extents })
    }
}

fn index(length: u64) -> usize {
    usize::try_from(length).expect("requests lie in memory")
}

#[cfg(test)]
mod tests;
