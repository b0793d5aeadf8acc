//! Sequential bypass: parts of a long sequential stream are admitted while the account of such streams has a credit, or
//! while the cache has unused room.
//!
//! * Each volume has an account for streams that it reads, and one for streams that it writes. A block admitted to used
//!   room costs expected hits; a block that is used again can earn one.
//! * Extents of 1 MiB of streams are remembered, admitted or bypassed; in large caches a sample of them.
//!
//! Source: marginal utility of sequential against other data, as in SARC (Gill and Modha, USENIX ATC 2005).

use alloc::vec;
use alloc::vec::Vec;

use crate::config::VOLUME_COUNT_MAX;
use crate::policy::miniature::Use;
use crate::units::{BLOCK_SIZE, BlockIndex, BlockKey, ByteExtent, VolumeId};

const EXTENT_BLOCKS: u64 = 256;
/// Extents of a set; the oldest is dropped first.
const WAYS: usize = 8;
/// The most sets.
const SETS_MAX: u64 = 256;
/// A hit, in the units of costs and earnings.
const HIT: u64 = 1024;
/// The least cost of a block that displaces others.
const COST_MIN: u64 = HIT / 16;
/// The initial balance of an account: the cache's room divided by this, at the lowest cost.
const CREDIT_SHARE: u64 = 8;
/// The largest balance, as a multiple of the initial one.
const CREDIT_TIMES: i64 = 4;

/// The treatment of a part of a long stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    /// The part is treated as any other request.
    Enter,
    PassBy,
}

/// The blocks that a block of a stream would displace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Displaced {
    /// None: there is unused room.
    Nothing,
    /// Blocks that are dropped, with these expected hits per admitted block, in 1/1024.
    Hits(u64),
}

/// Adjacent blocks that a request reads or writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Piece {
    pub(crate) volume: VolumeId,
    pub(crate) how: Use,
    pub(crate) first: BlockIndex,
    pub(crate) blocks: u64,
}

impl Piece {
    pub(crate) fn new(volume: VolumeId, how: Use, extent: ByteExtent) -> Piece {
        let whole = extent.widened_to_blocks();
        Piece { volume, how, first: BlockIndex::containing(whole.start), blocks: whole.length / BLOCK_SIZE }
    }

    /// The parts of this piece, each within one extent.
    fn extents(self) -> impl Iterator<Item = Piece> {
        let (start, end) = (self.first.get(), self.first.get() + self.blocks);
        (start / EXTENT_BLOCKS..end.div_ceil(EXTENT_BLOCKS)).map(move |extent| {
            let first = start.max(extent * EXTENT_BLOCKS);
            let blocks = end.min((extent + 1) * EXTENT_BLOCKS) - first;
            Piece { first: BlockIndex::new(first), blocks, ..self }
        })
    }

    /// The hash of the extent with the first block of this piece.
    fn hash(self) -> u64 {
        BlockKey::new(self.volume, BlockIndex::new(self.first.get() / EXTENT_BLOCKS)).hash()
    }

    /// The start of this piece in its extent, in blocks.
    fn start(self) -> u8 {
        u8::try_from(self.first.get() % EXTENT_BLOCKS).expect("below 256")
    }

    /// The end of this piece in its extent, in blocks; the last block of an extent does not count.
    fn end(self) -> u8 {
        u8::try_from((u64::from(self.start()) + self.blocks).min(EXTENT_BLOCKS - 1)).expect("below 256")
    }
}

/// A stream with a part in an extent, admitted or not.
#[derive(Clone, Copy, Debug)]
struct Pass {
    /// When the stream first reached the extent, in extents of the clock.
    at: u32,
    /// Blocks from the extent's start to the place of the stream.
    end: u8,
    /// Blocks that may still earn a hit.
    left: u8,
    how: Use,
    way: Way,
}

const NO_PASS: Pass = Pass { at: 0, end: 0, left: 0, how: Use::Read, way: Way::PassBy };

impl Pass {
    /// Takes the blocks of a part that are behind the place of the stream, at most `left`.
    fn take(&mut self, part: Piece) -> u8 {
        let blocks = self.end.min(part.end()).saturating_sub(part.start()).min(self.left);
        self.left -= blocks;
        blocks
    }
}

/// An extent with parts of streams: the last stream, and the previous stream.
#[derive(Clone, Copy, Debug)]
struct Extent {
    /// From the hash; 0 means none.
    print: u32,
    last: Pass,
    before: Pass,
}

const NO_EXTENT: Extent = Extent { print: 0, last: NO_PASS, before: NO_PASS };
const _: () = assert!(size_of::<Extent>() == 20);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Accounts {
    read: i64,
    written: i64,
}

impl Accounts {
    fn of(&mut self, how: Use) -> &mut i64 {
        match how {
            Use::Read => &mut self.read,
            Use::Write => &mut self.written,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Passage {
    capacity: u64,
    sets: Vec<[Extent; WAYS]>,
    /// One extent in two to the power of this is remembered.
    sample_bits: u32,
    accounts: [Accounts; VOLUME_COUNT_MAX],
    credit_max: i64,
    /// Blocks of read misses and of some client writes so far, admitted or not.
    clock: u64,
    /// A stream was recorded.
    has_streams: bool,
}

impl Passage {
    pub(crate) fn new(capacity: u64) -> Passage {
        let extents = capacity / EXTENT_BLOCKS;
        let sets = (extents * 2 / WAYS as u64).clamp(4, SETS_MAX);
        let mut sample_bits = 0;
        while (extents >> sample_bits) * 2 > sets * WAYS as u64 {
            sample_bits += 1;
        }
        let credit = i64::try_from(capacity * COST_MIN / CREDIT_SHARE).expect("less than 2^40");
        Passage {
            capacity,
            sets: vec![[NO_EXTENT; WAYS]; usize::try_from(sets).expect("few")],
            sample_bits,
            accounts: [Accounts { read: credit, written: credit }; VOLUME_COUNT_MAX],
            credit_max: CREDIT_TIMES * credit,
            clock: 0,
            has_streams: false,
        }
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        (self.sets.len() * size_of::<[Extent; WAYS]>()) as u64
    }

    /// Advances the clock by the blocks of a piece.
    pub(crate) fn on_time(&mut self, piece: Piece) {
        self.clock += piece.blocks;
    }

    /// Whether a part of a long stream is admitted.
    pub(crate) fn choose(&mut self, piece: Piece, displaced: Displaced) -> Way {
        let account = self.accounts[usize::from(piece.volume.get())].of(piece.how);
        let way = match displaced {
            Displaced::Nothing => Way::Enter,
            Displaced::Hits(_) if *account <= 0 => Way::PassBy,
            Displaced::Hits(hits) => {
                let cost = piece.blocks * hits.clamp(COST_MIN, HIT);
                *account -= i64::try_from(cost).expect("at most 8,192 hits");
                Way::Enter
            }
        };
        piece.extents().for_each(|part| self.note(part, way));
        way
    }

    /// Blocks of a read miss, or of a client's write that may enter the log.
    pub(crate) fn on_missed(&mut self, piece: Piece) {
        self.on_time(piece);
        if !self.has_streams {
            return;
        }
        let (now, horizon) = (self.now(), self.capacity / EXTENT_BLOCKS);
        for part in piece.extents() {
            self.come_back(part, |pass| {
                pass.way == Way::PassBy && u64::from(now.wrapping_sub(pass.at)) < horizon
            });
        }
    }

    /// A cached block without hits was read, or a cached block was overwritten.
    #[inline]
    pub(crate) fn on_hit(&mut self, key: BlockKey) {
        if self.has_streams {
            self.earn_hit(key);
        }
    }

    #[inline(never)]
    fn earn_hit(&mut self, key: BlockKey) {
        let part = Piece { volume: key.volume(), how: Use::Read, first: key.block(), blocks: 1 };
        self.come_back(part, |pass| pass.way == Way::Enter);
    }

    /// A part of an extent is used again: of its last two streams, the newest that may earn from it does.
    fn come_back(&mut self, part: Piece, may_earn: impl Fn(&Pass) -> bool) {
        let Some(extent) = self.find(part.hash()) else { return };
        let passes = [&mut extent.last, &mut extent.before].into_iter().filter(|pass| may_earn(pass));
        let found = passes.map(|pass| (pass.how, pass.take(part))).find(|(_, blocks)| *blocks > 0);
        if let Some((how, blocks)) = found {
            self.earn(part.volume, how, blocks);
        }
    }

    fn earn(&mut self, volume: VolumeId, how: Use, blocks: u8) {
        let hits = i64::try_from((u64::from(blocks) * HIT) << self.sample_bits).expect("at most 2^40");
        let account = self.accounts[usize::from(volume.get())].of(how);
        *account = (*account + hits).min(self.credit_max);
    }

    fn note(&mut self, part: Piece, way: Way) {
        self.has_streams = true;
        let now = self.now();
        let hash = part.hash();
        if !self.is_sampled(hash) {
            return;
        }
        let new = Pass { at: now, end: part.end(), left: part.end() - part.start(), how: part.how, way };
        if let Some(Extent { last, before, .. }) = self.find(hash) {
            if part.start() >= last.end && part.how == last.how {
                *last = Pass { at: last.at, left: last.left.saturating_add(new.left), ..new };
            } else {
                (*before, *last) = (*last, new);
            }
            return;
        }
        let age = |extent: &&mut Extent| match extent.print {
            0 => u32::MAX,
            _ => now.wrapping_sub(extent.last.at),
        };
        let oldest = self.set(hash).iter_mut().max_by_key(age).expect("a set has ways");
        *oldest = Extent { print: print(hash), last: new, before: NO_PASS };
    }

    const fn is_sampled(&self, hash: u64) -> bool {
        hash & ((1 << self.sample_bits) - 1) == 0
    }

    fn find(&mut self, hash: u64) -> Option<&mut Extent> {
        if !self.is_sampled(hash) {
            return None;
        }
        self.set(hash).iter_mut().find(|extent| extent.print == print(hash))
    }

    fn set(&mut self, hash: u64) -> &mut [Extent; WAYS] {
        let scaled = (hash >> 32) * self.sets.len() as u64;
        &mut self.sets[usize::try_from(scaled >> 32).expect("below the number of sets")]
    }

    #[expect(clippy::cast_possible_truncation, reason = "it wraps")]
    const fn now(&self) -> u32 {
        (self.clock / EXTENT_BLOCKS) as u32
    }
}

#[expect(clippy::cast_possible_truncation, reason = "32 bits are the print")]
const fn print(hash: u64) -> u32 {
    let print = (hash >> 12) as u32;
    if print == 0 { 1 } else { print }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPACITY: u64 = 65_536;
    const STEP: u64 = 32;
    const STRIDE: usize = 32;

    fn piece(how: Use, first: u64) -> Piece {
        Piece { volume: VolumeId::new(3), how, first: BlockIndex::new(first), blocks: STEP }
    }

    fn stream(passage: &mut Passage, how: Use, blocks: core::ops::Range<u64>, hits: u64) -> u64 {
        let mut entered = 0;
        for first in blocks.step_by(STRIDE) {
            let part = piece(how, first);
            passage.on_missed(part);
            if passage.choose(part, Displaced::Hits(hits)) == Way::Enter {
                entered += STEP;
            }
        }
        entered
    }

    fn hit(passage: &mut Passage, blocks: core::ops::Range<u64>) {
        let key = |block| BlockKey::new(VolumeId::new(3), BlockIndex::new(block));
        blocks.for_each(|block| passage.on_hit(key(block)));
    }

    #[test]
    fn unread_streams_get_an_eighth_of_the_cache_or_less() {
        for (hits, share) in [(0, CREDIT_SHARE), (HIT / 4, 4 * CREDIT_SHARE)] {
            let mut passage = Passage::new(CAPACITY);
            assert_eq!(stream(&mut passage, Use::Read, 0..4 * CAPACITY, hits), CAPACITY / share);
        }
    }

    #[test]
    fn written_streams_read_back_from_cache_keep_entering() {
        let mut passage = Passage::new(CAPACITY);
        for file in 0..100 {
            let blocks = file * 1_024..(file + 1) * 1_024;
            assert_eq!(stream(&mut passage, Use::Write, blocks.clone(), HIT / 2), 1_024);
            hit(&mut passage, blocks);
        }
    }

    #[test]
    fn bypassed_streams_enter_again_once_they_would_hit() {
        for (others, enters) in [(CAPACITY / 2, true), (2 * CAPACITY, false)] {
            let mut passage = Passage::new(CAPACITY);
            stream(&mut passage, Use::Read, 0..CAPACITY, HIT / 4);
            let again = CAPACITY / 2..CAPACITY * 3 / 4;
            passage.on_time(Piece { blocks: others - CAPACITY / 2, ..piece(Use::Read, 0) });
            let entered = stream(&mut passage, Use::Read, again, HIT / 4);
            assert_eq!(entered > CAPACITY / 8, enters, "{entered} blocks after {others}");
        }
    }

    #[test]
    fn unused_room_costs_no_hits() {
        let mut passage = Passage::new(CAPACITY);
        for first in (0..CAPACITY).step_by(STRIDE) {
            assert_eq!(passage.choose(piece(Use::Read, first), Displaced::Nothing), Way::Enter);
        }
        assert_eq!(stream(&mut passage, Use::Read, CAPACITY..2 * CAPACITY, 0), CAPACITY / CREDIT_SHARE);
    }

    #[test]
    fn reads_and_writes_of_each_volume_are_judged_by_themselves() {
        let mut passage = Passage::new(CAPACITY);
        stream(&mut passage, Use::Read, 0..4 * CAPACITY, 0);
        assert_eq!(passage.choose(piece(Use::Write, 1 << 30), Displaced::Hits(0)), Way::Enter);
        let other = Piece { volume: VolumeId::new(4), ..piece(Use::Read, 0) };
        assert_eq!(passage.choose(other, Displaced::Hits(0)), Way::Enter);
    }

    #[test]
    fn a_large_cache_looks_at_a_sample_in_40_kib() {
        let capacity = 1 << 26;
        let mut passage = Passage::new(capacity);
        assert_eq!(passage.memory_bytes(), 40 << 10);
        stream(&mut passage, Use::Read, 0..capacity / 2, HIT / 4);
        let entered = stream(&mut passage, Use::Read, capacity / 4..capacity / 2, HIT / 4);
        assert!(entered > capacity / 5, "{entered} of {}", capacity / 4);
    }
}
