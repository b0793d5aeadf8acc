//! A block device with a volatile write cache: what reads see, what a power cut leaves, and the writes between.

use std::collections::VecDeque;

use kickcache_engine::units::{ByteExtent, SECTOR_SIZE};

use crate::random::Random;

/// A write that a power cut may undo.
#[derive(Clone, Debug)]
struct Pending {
    order: u64,
    offset: u64,
    data: Vec<u8>,
    completed: bool,
    durable: bool,
    /// A failed flush let go of it: no later flush makes it durable.
    abandoned: bool,
}

/// Names a write that took effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WriteTicket(u64);

/// The writes that a flush makes durable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FlushTicket(Vec<u64>);

/// A device.
#[derive(Clone, Debug)]
pub struct SimulatedDevice {
    current: Vec<u8>,
    durable: Vec<u8>,
    /// In the order of taking effect. Those at the front that are durable move into the durable image.
    pending: VecDeque<Pending>,
    order: u64,
}

fn index(offset: u64) -> usize {
    usize::try_from(offset).expect("simulated devices are small")
}

impl SimulatedDevice {
    /// A device of `size` zero bytes.
    pub fn new(size: u64) -> SimulatedDevice {
        let (current, durable) = (vec![0; index(size)], vec![0; index(size)]);
        SimulatedDevice { current, durable, pending: VecDeque::new(), order: 0 }
    }

    /// Bytes of the device.
    pub fn size(&self) -> u64 {
        self.current.len() as u64
    }

    /// Stores bytes durably, outside of any run.
    pub fn prepare(&mut self, offset: u64, bytes: &[u8]) {
        let range = index(offset)..index(offset) + bytes.len();
        self.current[range.clone()].copy_from_slice(bytes);
        self.durable[range].copy_from_slice(bytes);
    }

    /// The bytes that a read sees.
    pub fn bytes(&self, extent: ByteExtent) -> &[u8] {
        &self.current[index(extent.start)..index(extent.end())]
    }

    /// The bytes that a power cut would certainly leave if nothing more happened.
    pub fn durable_bytes(&self, extent: ByteExtent) -> &[u8] {
        &self.durable[index(extent.start)..index(extent.end())]
    }

    /// Lets a write take effect.
    pub fn write(&mut self, offset: u64, data: Vec<u8>) -> WriteTicket {
        self.current[index(offset)..index(offset) + data.len()].copy_from_slice(&data);
        self.order += 1;
        let order = self.order;
        let pending = Pending { order, offset, data, completed: false, durable: false, abandoned: false };
        self.pending.push_back(pending);
        WriteTicket(order)
    }

    /// Lets some of the atomic units of a write take effect, and ends it.
    pub fn write_torn(&mut self, offset: u64, data: &[u8], unit: u64, random: &mut Random) {
        let unit = index(unit);
        for (number, chunk) in data.chunks(unit).enumerate() {
            if random.chance(500) {
                let ticket = self.write(offset + (number * unit) as u64, chunk.to_vec());
                self.complete_write(ticket, false);
            }
        }
    }

    fn find(&mut self, order: u64) -> Option<&mut Pending> {
        let place = self.pending.partition_point(|pending| pending.order < order);
        self.pending.get_mut(place).filter(|pending| pending.order == order)
    }

    /// Ends a write; `durable` ones survive from here on.
    pub fn complete_write(&mut self, ticket: WriteTicket, durable: bool) {
        let pending = self.find(ticket.0).expect("a write that is not complete is pending");
        pending.completed = true;
        pending.durable |= durable;
        self.settle();
    }

    /// Begins a flush: it covers the writes that have ended.
    pub fn start_flush(&self) -> FlushTicket {
        let covered = self.pending.iter().filter(|pending| pending.completed && !pending.abandoned);
        FlushTicket(covered.map(|pending| pending.order).collect())
    }

    /// Ends a flush well.
    pub fn complete_flush(&mut self, ticket: &FlushTicket) {
        for order in &ticket.0 {
            if let Some(pending) = self.find(*order) {
                pending.durable |= !pending.abandoned;
            }
        }
        self.settle();
    }

    /// Ends a flush badly: the writes it covered can be lost whatever later flushes say.
    pub fn fail_flush(&mut self, ticket: &FlushTicket) {
        for order in &ticket.0 {
            if let Some(pending) = self.find(*order) {
                pending.abandoned = !pending.durable;
            }
        }
    }

    /// Ends all writes: the process that waited for them is gone.
    pub fn complete_all(&mut self) {
        self.pending.iter_mut().for_each(|pending| pending.completed = true);
    }

    fn settle(&mut self) {
        while self.pending.front().is_some_and(|pending| pending.durable) {
            let pending = self.pending.pop_front().expect("there is a front");
            let start = index(pending.offset);
            self.durable[start..start + pending.data.len()].copy_from_slice(&pending.data);
        }
    }

    /// Cuts the power: each write that is not durable is kept, dropped or torn into its atomic units.
    pub fn cut_power(&mut self, unit: u64, random: &mut Random) {
        let keep = random.below(1001);
        let pending = std::mem::take(&mut self.pending);
        let range = |write: &Pending| index(write.offset)..index(write.offset) + write.data.len();
        for write in &pending {
            if write.durable || random.chance(keep) {
                self.durable[range(write)].copy_from_slice(&write.data);
            } else if random.chance(400) {
                Self::tear(&mut self.durable[range(write)], write, unit, random);
            }
        }
        for write in &pending {
            self.current[range(write)].copy_from_slice(&self.durable[range(write)]);
        }
    }

    fn tear(target: &mut [u8], pending: &Pending, unit: u64, random: &mut Random) {
        let unit = index(unit);
        let chunks = target.chunks_mut(unit).zip(pending.data.chunks(unit));
        // A prefix, a suffix, or any units of the write.
        let (shape, cut) = (random.below(3), random.below((pending.data.len() / unit) as u64 + 1));
        for (number, (slot, chunk)) in chunks.enumerate() {
            let kept = match shape {
                0 => (number as u64) < cut,
                1 => (number as u64) >= cut,
                _ => random.chance(500),
            };
            if kept {
                slot.copy_from_slice(chunk);
            }
        }
    }

    /// Flips one bit of what is stored.
    pub fn flip_bit(&mut self, extent: ByteExtent, random: &mut Random) {
        let (byte, bit) = (index(extent.start + random.below(extent.length)), random.below(8));
        self.current[byte] ^= 1 << bit;
        self.durable[byte] ^= 1 << bit;
    }

    /// Whether an extent lies on the device and on its sectors.
    pub fn allows(&self, extent: ByteExtent, unit: u64) -> bool {
        debug_assert!(unit.is_multiple_of(SECTOR_SIZE), "devices have sectors");
        let aligned = extent.start.is_multiple_of(unit) && extent.length.is_multiple_of(unit);
        aligned
            && extent.length > 0
            && extent.start.checked_add(extent.length).is_some_and(|end| end <= self.size())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(offset: u64) -> ByteExtent {
        ByteExtent { start: offset, length: 1 }
    }

    #[test]
    fn flush_covers_only_writes_that_ended_before_it() {
        let mut device = SimulatedDevice::new(8192);
        let early = device.write(0, vec![1; 512]);
        let late = device.write(512, vec![2; 512]);
        device.complete_write(early, false);
        let flush = device.start_flush();
        device.complete_write(late, false);
        device.complete_flush(&flush);
        assert_eq!((device.durable_bytes(at(0))[0], device.durable_bytes(at(512))[0]), (1, 0));
        assert_eq!(device.bytes(at(512))[0], 2);
    }

    #[test]
    fn a_durable_write_is_not_undone_by_an_older_one() {
        for seed in 0..50 {
            let mut device = SimulatedDevice::new(4096);
            let old = device.write(0, vec![1; 512]);
            device.complete_write(old, false);
            let new = device.write(0, vec![2; 512]);
            device.complete_write(new, true);
            device.cut_power(512, &mut Random::new(seed));
            assert_eq!(device.bytes(at(0))[0], 2);
        }
    }

    #[test]
    fn power_cuts_keep_drop_and_tear() {
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..200 {
            let mut device = SimulatedDevice::new(4096);
            let write = device.write(0, vec![1; 1024]);
            device.complete_write(write, false);
            device.cut_power(512, &mut Random::new(seed));
            seen.insert((device.bytes(at(0))[0], device.bytes(at(512))[0]));
        }
        assert_eq!(seen.len(), 4);
    }
}
