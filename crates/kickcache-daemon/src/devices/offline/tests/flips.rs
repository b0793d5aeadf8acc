//! A bit of a cache device is flipped, one at a time in many bytes: a flip in durable data must not give wrong
//! data.
//!
//! Bytes that recovery does not read cannot change its result, so it runs again only for the bytes that it
//! reads.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::{fs, thread};

use kickcache_engine::config::RottedLog;
use kickcache_engine::format::batch::BATCH_MAGIC;
use kickcache_engine::format::journal::JOURNAL_MAGIC;
use kickcache_engine::format::superblock::{SUPERBLOCK_OFFSETS, SUPERBLOCK_SIZE, Superblock};
use kickcache_engine::tools::CachedBlock;
use kickcache_engine::units::{BLOCK_BYTES, ByteExtent, SegmentIndex};
use kickcache_faultsim::content::Block;
use kickcache_faultsim::device::SimulatedDevice;
use kickcache_faultsim::rot::{DurablePlaces, durable_places};

use super::image::{Ending, Image};
use crate::devices::offline::metadata::recover;
use crate::driver::checksum::checksum;

/// Of an 8 MiB device: a prime, so that the flips fall on every place of a structure.
const STEP: usize = 509;

/// The distance of the bytes with a flipped bit; 1 means every byte.
fn step() -> usize {
    std::env::var("KICKCACHE_FLIP_STEP").ok().and_then(|step| step.parse().ok()).unwrap_or(STEP)
}

fn index(number: u64) -> usize {
    usize::try_from(number).unwrap()
}

struct Recovered {
    cached: Vec<(u64, CachedBlock)>,
    read: BTreeSet<u64>,
}

/// `None` if the device is refused.
fn recovered(device: &[u8]) -> Option<Recovered> {
    let copies = SUPERBLOCK_OFFSETS.map(|offset| &device[index(offset)..index(offset) + SUPERBLOCK_SIZE]);
    let superblock = Superblock::decode(copies, device.len() as u64).ok()?;
    let read = RefCell::new(BTreeSet::new());
    let note = |start: u64, length: u64| read.borrow_mut().extend(start / 4096..(start + length) / 4096);
    SUPERBLOCK_OFFSETS.iter().for_each(|offset| note(*offset, SUPERBLOCK_SIZE as u64));
    let take = |ByteExtent { start, length }| {
        note(start, length);
        Ok(device[index(start)..index(start + length)].to_vec())
    };
    let engine = recover(&superblock, RottedLog::Refused, take).ok()?.expect("recovery ends");
    let geometry = superblock.geometry;
    let cached = (0..geometry.segment_count)
        .map(SegmentIndex::new)
        .flat_map(|segment| engine.blocks_in(segment))
        .map(|cached| (geometry.byte_offset(cached.location) / 4096, cached))
        .collect();
    Some(Recovered { cached, read: read.into_inner() })
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Outcome {
    Same,
    Refused,
    Fails(usize),
    /// This block of the volume reads as something else.
    Wrong(u64),
}

#[derive(Default)]
struct Tally {
    count: u64,
    recoveries: u64,
    refused: u64,
    failed: u64,
    wrong: Vec<(u64, u64)>,
}

struct Bench {
    device: Vec<u8>,
    origin: Vec<u8>,
    expected: Vec<u8>,
    untouched: Recovered,
}

impl Bench {
    fn new(ending: Ending) -> Bench {
        let Image { folder, expected } = Image::make(ending);
        let [device, origin] = ["cache", "origin"].map(|name| fs::read(folder.path().join(name)).unwrap());
        let untouched = recovered(&device).expect("a good device is not refused");
        let bench = Bench { device, origin, expected, untouched };
        assert_eq!(bench.judge_all(&bench.device, &bench.untouched.cached), Outcome::Same, "without a flip");
        bench
    }

    fn flip_all(&self) -> Tally {
        let places: Vec<usize> = (0..self.device.len()).step_by(step()).collect();
        let half = places.len().div_ceil(2);
        thread::scope(|scope| {
            let workers: Vec<_> =
                places.chunks(half).map(|places| scope.spawn(|| self.flip_each(places))).collect();
            workers.into_iter().fold(Tally::default(), |tally, worker| tally.plus(worker.join().unwrap()))
        })
    }

    fn flip_each(&self, places: &[usize]) -> Tally {
        let mut device = self.device.clone();
        let mut tally = Tally::default();
        for &at in places {
            device[at] ^= 1 << (at % 8);
            tally.add(at as u64, self.judge(&device, at as u64));
            tally.recoveries += u64::from(self.is_read(at as u64));
            device[at] ^= 1 << (at % 8);
        }
        tally
    }

    fn is_read(&self, at: u64) -> bool {
        self.untouched.read.contains(&(at / 4096))
    }

    fn judge(&self, device: &[u8], at: u64) -> Outcome {
        if !self.is_read(at) {
            return self.judge_place(device, at / 4096);
        }
        match recovered(device) {
            None => Outcome::Refused,
            Some(found) if found.cached == self.untouched.cached => self.judge_place(device, at / 4096),
            Some(found) => self.judge_all(device, &found.cached),
        }
    }

    /// With unchanged metadata, only the block at this place can read differently.
    fn judge_place(&self, device: &[u8], place: u64) -> Outcome {
        let cached = &self.untouched.cached;
        let Ok(found) = cached.binary_search_by_key(&place, |(place, _)| *place) else {
            return Outcome::Same;
        };
        let (_, cached) = cached[found];
        self.judge_block(cached.block.get(), self.read(device, place, &cached))
    }

    fn judge_all(&self, device: &[u8], cached: &[(u64, CachedBlock)]) -> Outcome {
        let mut content: Vec<Option<&[u8]>> = self.origin.chunks(BLOCK_BYTES).map(Some).collect();
        for (place, cached) in cached {
            content[index(cached.block.get())] = self.read(device, *place, cached);
        }
        let mut failed = 0;
        for (block, bytes) in (0..).zip(content) {
            match self.judge_block(block, bytes) {
                Outcome::Fails(_) => failed += 1,
                wrong @ Outcome::Wrong(_) => return wrong,
                Outcome::Same | Outcome::Refused => {}
            }
        }
        if failed == 0 { Outcome::Same } else { Outcome::Fails(failed) }
    }

    /// A clean block with a wrong checksum is read from the origin, a dirty one is an error.
    fn read<'a>(&'a self, device: &'a [u8], place: u64, cached: &CachedBlock) -> Option<&'a [u8]> {
        let block = |bytes: &'a [u8], number: u64| &bytes[index(number) * BLOCK_BYTES..][..BLOCK_BYTES];
        let bytes = block(device, place);
        if checksum(bytes) == cached.checksum {
            return Some(bytes);
        }
        (!cached.is_dirty).then(|| block(&self.origin, cached.block.get()))
    }

    fn judge_block(&self, block: u64, bytes: Option<&[u8]>) -> Outcome {
        let expected = &self.expected[index(block) * BLOCK_BYTES..][..BLOCK_BYTES];
        match bytes {
            None => Outcome::Fails(1),
            Some(bytes) if bytes == expected => Outcome::Same,
            Some(_) => Outcome::Wrong(block),
        }
    }
}

impl Tally {
    fn add(&mut self, at: u64, outcome: Outcome) {
        self.count += 1;
        match outcome {
            Outcome::Same => {}
            Outcome::Refused => self.refused += 1,
            Outcome::Fails(_) => self.failed += 1,
            Outcome::Wrong(block) => self.wrong.push((at, block)),
        }
    }

    fn plus(mut self, other: Tally) -> Tally {
        self.count += other.count;
        self.recoveries += other.recoveries;
        self.refused += other.refused;
        self.failed += other.failed;
        self.wrong.extend(other.wrong);
        self
    }

    fn print(&self, what: &str) {
        eprintln!(
            "{what}: {} flips, {} of them in what recovery reads: {} refused, {} with a block that fails, {} with wrong \
             data, the others made no difference",
            self.count,
            self.recoveries,
            self.refused,
            self.failed,
            self.wrong.len()
        );
    }
}

#[test]
fn a_flipped_byte_never_gives_wrong_data_after_a_stop() {
    let tally = Bench::new(Ending::Clean).flip_all();
    tally.print("after a clean stop");
    let wrong = &tally.wrong;
    assert!(wrong.is_empty(), "{} flips gave wrong data, such as {:?}", wrong.len(), wrong.first());
}

/// The blocks of a device that the log records as durable.
pub(super) fn durable(device: &[u8]) -> DurablePlaces {
    let mut simulated = SimulatedDevice::new(device.len() as u64);
    for (number, block) in (0..).zip(device.as_chunks::<BLOCK_BYTES>().0) {
        simulated.prepare(number, &Block::from_bytes(block));
    }
    durable_places(&simulated, simulated.blocks())
}

/// The last writes of a killed process have no second record: a flip there looks like a torn write.
#[test]
fn a_flipped_byte_in_durable_data_never_gives_wrong_data() {
    let bench = Bench::new(Ending::Cut);
    let DurablePlaces { data, headers, journal } = durable(&bench.device);
    assert!(journal.len() > 2, "{journal:?}");
    let durable: BTreeSet<u64> = [data, headers, journal].concat().into_iter().collect();
    let tally = bench.flip_all();
    tally.print("after a crash");
    let (in_durable, others): (Vec<(u64, u64)>, Vec<_>) =
        tally.wrong.iter().partition(|(at, _)| durable.contains(&(at / BLOCK_BYTES as u64)));
    let kind = |at: u64| match &bench.device[index(at / 4096 * 4096)..][..8] {
        magic if *magic == JOURNAL_MAGIC => "journal blocks",
        magic if *magic == BATCH_MAGIC => "batch headers",
        _ => "data",
    };
    for wanted in ["journal blocks", "batch headers", "data"] {
        let count = others.iter().filter(|(at, _)| kind(*at) == wanted).count();
        eprintln!("wrong data from flips in {wanted}: {count}");
    }
    assert!(durable.len() > 100, "{} blocks are known to be durable", durable.len());
    assert!(in_durable.is_empty(), "{} flips gave wrong data: {in_durable:?}", in_durable.len());
}
