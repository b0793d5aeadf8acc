//! A block device with a volatile write cache: the content that reads see, a durable image, and the pending writes
//! between the two.

use std::collections::{BTreeSet, VecDeque};

use kickcache_engine::request::Durability;
use kickcache_engine::units::{BLOCK_SIZE, ByteExtent, SECTOR_SIZE};
use kickcache_random::Random;

use crate::content::Block;
use crate::index::index;
use crate::payload::{Payload, copy};

/// A write that a power cut may undo, or a durable write behind such a write in the queue.
#[derive(Clone, Debug)]
struct Pending {
    order: u64,
    offset: u64,
    data: Payload,
    /// The number of the last flush that had begun when the write ended, 1 if none had; `None` while the write is in
    /// flight.
    ended: Option<u64>,
    durable: bool,
    /// A failed flush dropped the write: no later flush makes it durable.
    abandoned: bool,
    /// A flush that covered the write reported success without doing anything, or [`SimulatedDevice::blame_abandoned`]
    /// counted the dropped write as such a write.
    lied_about: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WriteTicket(u64);

/// A flush: it covers the writes that had ended when it began.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlushTicket(u64);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Loss {
    Fair,
    /// The power cut dropped or tore a write that counts as lied about.
    Lied,
}

#[derive(Clone, Debug)]
pub struct SimulatedDevice {
    size: u64,
    current: Vec<Block>,
    durable: Vec<Block>,
    /// In the order of taking effect.
    pending: VecDeque<Pending>,
    order: u64,
    flushes: u64,
    /// Writes that ended before the flush of this number began are durable, unless they are abandoned.
    flushed: u64,
    /// Blocks that cannot be read until a write covers a part of the block, or until [`SimulatedDevice::mend`].
    unreadable: BTreeSet<u64>,
}

impl SimulatedDevice {
    pub fn new(size: u64) -> SimulatedDevice {
        let image = vec![Block::Zeroes; index(size.div_ceil(BLOCK_SIZE))];
        SimulatedDevice {
            size,
            current: image.clone(),
            durable: image,
            pending: VecDeque::new(),
            order: 0,
            flushes: 1,
            flushed: 0,
            unreadable: BTreeSet::new(),
        }
    }

    pub fn size(&self) -> u64 {
        self.size
    }

    /// The device has grown to `size` bytes; the new part reads as zeroes.
    pub fn extend(&mut self, size: u64) {
        assert!(size >= self.size, "a device does not shrink");
        self.size = size;
        for image in [&mut self.current, &mut self.durable] {
            image.resize(index(size.div_ceil(BLOCK_SIZE)), Block::Zeroes);
        }
    }

    /// Stores a block in both images, without a submission.
    pub fn prepare(&mut self, number: u64, block: &Block) {
        self.current[index(number)].clone_from(block);
        self.durable[index(number)].clone_from(block);
    }

    /// The content that reads see, block by block.
    pub fn blocks(&self) -> &[Block] {
        &self.current
    }

    /// The content after a power cut that loses all volatile writes, block by block.
    pub fn durable(&self) -> Vec<Block> {
        let mut image = self.durable.clone();
        for write in self.pending.iter().filter(|write| is_durable(write, self.flushed)) {
            store(&mut image, write, 0, write.data.length);
        }
        image
    }

    /// The bytes that reads see in the blocks of an extent, from the start of its first block to the end of its last.
    pub fn bytes(&self, extent: ByteExtent) -> Vec<u8> {
        let range = index(extent.start / BLOCK_SIZE)..index(extent.end().div_ceil(BLOCK_SIZE));
        let mut bytes = Vec::with_capacity(range.len() * index(BLOCK_SIZE));
        self.current[range].iter().for_each(|block| block.append_to(&mut bytes));
        bytes
    }

    pub fn make_unreadable(&mut self, number: u64) {
        self.unreadable.insert(number);
    }

    pub fn unreadable(&self) -> impl Iterator<Item = u64> {
        self.unreadable.iter().copied()
    }

    pub fn is_unreadable(&self, number: u64) -> bool {
        self.unreadable.contains(&number)
    }

    pub fn can_read(&self, extent: ByteExtent) -> bool {
        let blocks = extent.start / BLOCK_SIZE..extent.end().div_ceil(BLOCK_SIZE);
        self.unreadable.range(blocks).next().is_none()
    }

    pub fn mend(&mut self) {
        self.unreadable.clear();
    }

    pub fn write(&mut self, offset: u64, data: Payload) -> WriteTicket {
        if !self.unreadable.is_empty() {
            let blocks = offset / BLOCK_SIZE..(offset + data.length as u64).div_ceil(BLOCK_SIZE);
            self.unreadable.retain(|number| !blocks.contains(number));
        }
        copy((&data.blocks, data.skip), (&mut self.current, index(offset)), data.length);
        self.order += 1;
        let (order, lied_about) = (self.order, false);
        let pending =
            Pending { order, offset, data, ended: None, durable: false, abandoned: false, lied_about };
        self.pending.push_back(pending);
        WriteTicket(order)
    }

    /// Stores each sector of a write with a probability of one half, as a completed write.
    pub fn write_torn(&mut self, offset: u64, data: &Payload, durability: Durability, random: &mut Random) {
        let unit = SECTOR_SIZE;
        for start in (0..data.length).step_by(index(unit)) {
            if random.chance(500) {
                let length = index(unit).min(data.length - start);
                let ticket = self.write(offset + start as u64, part(data, start, length));
                self.complete_write(ticket, durability);
            }
        }
    }

    fn find(&mut self, order: u64) -> Option<&mut Pending> {
        let place = self.pending.partition_point(|pending| pending.order < order);
        self.pending.get_mut(place).filter(|pending| pending.order == order)
    }

    pub fn complete_write(&mut self, ticket: WriteTicket, durability: Durability) {
        let flushes = self.flushes;
        let pending = self.find(ticket.0).expect("a write that is not complete is pending");
        pending.ended = Some(flushes);
        if durability == Durability::Durable {
            pending.durable = true;
            self.make_durable();
        }
    }

    pub fn start_flush(&mut self) -> FlushTicket {
        self.flushes += 1;
        FlushTicket(self.flushes)
    }

    pub fn complete_flush(&mut self, ticket: FlushTicket) {
        self.flushed = self.flushed.max(ticket.0);
        self.make_durable();
    }

    /// Ends a flush with an error: a power cut may lose the writes that it covered and that were not durable, even
    /// after later successful flushes.
    pub fn fail_flush(&mut self, ticket: FlushTicket) {
        self.abandon(|pending| is_covered(pending, ticket));
    }

    /// Ends a flush with an error, as a file system does that reports an error once: a power cut may lose all writes
    /// that have ended so far without becoming durable, even after later successful flushes.
    pub fn fail_flush_of_all(&mut self) {
        self.abandon(|pending| pending.ended.is_some());
    }

    fn abandon(&mut self, is_meant: impl Fn(&Pending) -> bool) {
        let flushed = self.flushed;
        for pending in self.pending.iter_mut().filter(|pending| is_meant(pending)) {
            pending.abandoned |= !is_durable(pending, flushed);
        }
    }

    /// Ends a flush with success although it did nothing.
    pub fn lie_about(&mut self, ticket: FlushTicket) {
        for pending in self.pending.iter_mut().filter(|pending| is_covered(pending, ticket)) {
            pending.lied_about = true;
        }
    }

    pub fn complete_all(&mut self) {
        let flushes = self.flushes;
        self.pending.iter_mut().for_each(|pending| _ = pending.ended.get_or_insert(flushes));
    }

    /// Counts the writes that failed flushes dropped as lied about: the next life has no record of the failed flushes.
    pub fn blame_abandoned(&mut self) {
        self.pending.iter_mut().for_each(|pending| pending.lied_about |= pending.abandoned);
    }

    /// Writes that a power cut may undo although they have ended.
    pub fn volatile_writes(&self) -> u64 {
        let is_volatile = |write: &&Pending| write.ended.is_some() && !is_durable(write, self.flushed);
        self.pending.iter().filter(is_volatile).count() as u64
    }

    pub fn make_all_durable(&mut self) {
        self.pending.clear();
        self.durable.clone_from(&self.current);
    }

    fn make_durable(&mut self) {
        while self.pending.front().is_some_and(|pending| is_durable(pending, self.flushed)) {
            let pending = self.pending.pop_front().expect("there is a front");
            store(&mut self.durable, &pending, 0, pending.data.length);
        }
    }

    /// Cuts the power: each write that is not durable is kept, dropped or torn into its atomic units.
    pub fn cut_power(&mut self, unit: u64, random: &mut Random) -> Loss {
        let keep = random.below(1001);
        let pending = std::mem::take(&mut self.pending);
        let mut loss = Loss::Fair;
        for write in &pending {
            if is_durable(write, self.flushed) || random.chance(keep) {
                store(&mut self.durable, write, 0, write.data.length);
                continue;
            }
            if write.lied_about {
                loss = Loss::Lied;
            }
            if random.chance(400) {
                tear(&mut self.durable, write, index(unit), random);
            }
        }
        for write in &pending {
            let start = index(write.offset);
            copy((&self.durable, start), (&mut self.current, start), write.data.length);
        }
        loss
    }

    pub fn flip_bit(&mut self, extent: ByteExtent, random: &mut Random) {
        let (byte, bit) = (index(extent.start + random.below(extent.length)), random.below(8));
        let (block, byte) = (byte / index(BLOCK_SIZE), byte % index(BLOCK_SIZE));
        self.current[block].flip(byte, bit);
        self.durable[block].flip(byte, bit);
    }

    /// Whether an extent is within the device, aligned to `unit` bytes, and not empty.
    pub fn allows(&self, extent: ByteExtent, unit: u64) -> bool {
        debug_assert!(unit.is_multiple_of(SECTOR_SIZE), "devices have sectors");
        let aligned = extent.start.is_multiple_of(unit) && extent.length.is_multiple_of(unit);
        aligned
            && extent.length > 0
            && extent.start.checked_add(extent.length).is_some_and(|end| end <= self.size)
    }
}

fn is_covered(pending: &Pending, flush: FlushTicket) -> bool {
    pending.ended.is_some_and(|ended| ended < flush.0)
}

fn is_durable(pending: &Pending, flushed: u64) -> bool {
    pending.durable || (!pending.abandoned && is_covered(pending, FlushTicket(flushed)))
}

fn part(data: &Payload, start: usize, length: usize) -> Payload {
    let (at, size) = (data.skip + start, index(BLOCK_SIZE));
    let blocks = data.blocks[at / size..(at + length).div_ceil(size)].to_vec();
    Payload { skip: at % size, length, blocks }
}

fn store(image: &mut [Block], write: &Pending, start: usize, length: usize) {
    copy((&write.data.blocks, write.data.skip + start), (image, index(write.offset) + start), length);
}

/// Stores a prefix, a suffix, or any units of the write.
fn tear(image: &mut [Block], write: &Pending, unit: usize, random: &mut Random) {
    let units = write.data.length / unit;
    let (shape, cut) = (random.below(3), random.index(units + 1));
    for number in 0..units {
        let kept = match shape {
            0 => number < cut,
            1 => number >= cut,
            _ => random.chance(500),
        };
        if kept {
            store(image, write, number * unit, unit);
        }
    }
}

#[cfg(test)]
mod tests {
    use kickcache_engine::units::VolumeId;

    use super::*;

    fn data(start: u64, length: u64, version: u64) -> Payload {
        Payload::stamped(VolumeId::new(0), ByteExtent { start, length }, version)
    }

    fn versions(image: &[Block], sectors: u64) -> Vec<u64> {
        let version = |sector: u64| {
            let units = sector * 16..sector * 16 + 16;
            image[index(sector / 8)].version_of_units(VolumeId::new(0), units).unwrap()
        };
        (0..sectors).map(version).collect()
    }

    #[test]
    fn flush_covers_only_writes_that_ended_before_it() {
        let mut device = SimulatedDevice::new(8192);
        let early = device.write(0, data(0, 512, 1));
        let late = device.write(512, data(512, 512, 2));
        device.complete_write(early, Durability::Volatile);
        let flush = device.start_flush();
        device.complete_write(late, Durability::Volatile);
        device.complete_flush(flush);
        assert_eq!(versions(&device.durable, 2), [1, 0]);
        assert_eq!(versions(&device.current, 2), [1, 2]);
    }

    #[test]
    fn a_durable_write_is_not_undone_by_an_older_one() {
        for seed in 0..50 {
            let mut device = SimulatedDevice::new(4096);
            let old = device.write(0, data(0, 512, 1));
            device.complete_write(old, Durability::Volatile);
            let new = device.write(0, data(0, 512, 2));
            device.complete_write(new, Durability::Durable);
            device.cut_power(512, &mut Random::new(seed));
            assert_eq!(versions(&device.current, 1), [2]);
        }
    }

    #[test]
    fn power_cuts_keep_drop_and_tear() {
        let mut seen = BTreeSet::new();
        for seed in 0..200 {
            let mut device = SimulatedDevice::new(4096);
            let write = device.write(0, data(0, 1024, 1));
            device.complete_write(write, Durability::Volatile);
            assert_eq!(device.cut_power(512, &mut Random::new(seed)), Loss::Fair);
            seen.insert(versions(&device.current, 2));
        }
        assert_eq!(seen.len(), 4);
    }

    #[test]
    fn failed_and_lying_flushes_make_no_write_durable() {
        let lost = |seed| {
            let mut device = SimulatedDevice::new(4096);
            for (version, is_lie) in [(1, true), (2, false)] {
                let write = device.write(0, data(0, 512, version));
                device.complete_write(write, Durability::Volatile);
                let flush = device.start_flush();
                if is_lie { device.lie_about(flush) } else { device.fail_flush(flush) }
            }
            let loss = device.cut_power(4096, &mut Random::new(seed));
            (versions(&device.current, 1)[0], loss)
        };
        let seen: Vec<_> = (0..50).map(lost).collect();
        assert!(seen.contains(&(0, Loss::Lied)) && seen.contains(&(2, Loss::Fair)));
    }
}
