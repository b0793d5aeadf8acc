//! A volume with a working set and a second one that reads every block once: the hits that the first one
//! keeps.
//!
//! One volume reads 4 KiB at a time, zipf-distributed; its neighbour reads blocks that it never reads again,
//! not in order, so that no cut-off bypasses them.

use kickcache_engine::blank_device;
use kickcache_engine::config::{EngineSettings, Room, SequentialCutoff, VolumeSettings};
use kickcache_engine::engine::Engine;
use kickcache_engine::format::superblock::Superblock;
use kickcache_engine::request::{Operation, Request, RequestId};
use kickcache_engine::time::{Duration, Instant};
use kickcache_engine::units::{BLOCK_SIZE, ByteExtent, VolumeId};

use crate::zipf::Zipf;

const BETWEEN: Duration = Duration::from_micros(100);
const SCAN_BYTES: u64 = 1 << 50;

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Neighbour {
    pub cache_bytes: u64,
    pub data_bytes: u64,
    pub theta: f64,
    /// Reads that fill the cache, and as many after them.
    pub reads: u64,
    pub scanned: u64,
    pub min: Option<Room>,
    pub neighbour_max: Option<Room>,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct NeighbourResult {
    pub hit_ratio: f64,
    /// Blocks that reclaim copied for each promoted block of the two volumes.
    pub copies: f64,
}

impl Neighbour {
    /// The volume alone on a cache as large as its minimum, if that is a number of blocks, otherwise on the
    /// same cache.
    pub fn alone(&self) -> Neighbour {
        let cache_bytes = match self.min {
            Some(Room::Blocks(blocks)) => blocks * BLOCK_SIZE,
            Some(Room::Share(_)) | None => self.cache_bytes,
        };
        Neighbour { cache_bytes, scanned: 0, min: None, neighbour_max: None, ..*self }
    }

    /// # Panics
    /// If the sizes are impossible.
    pub fn run(&self) -> NeighbourResult {
        let mut superblock = Superblock::new([1; 16], self.cache_bytes).expect("a possible size");
        let mut add = |name, bytes| superblock.add_volume(name, bytes, name).expect("a possible size");
        let (own, neighbour) = (add("own", self.data_bytes), add("neighbour", SCAN_BYTES));
        let common = VolumeSettings {
            sequential_cutoff: SequentialCutoff::Off,
            fill_window_max: BLOCK_SIZE,
            ..VolumeSettings::new(own)
        };
        let settings = [
            VolumeSettings { room_min: self.min, ..common },
            VolumeSettings { volume: neighbour, room_max: self.neighbour_max, ..common },
        ];
        let engine = Engine::open(Instant::ZERO, &superblock, EngineSettings::default(), &settings);
        let mut engine = engine.expect("possible settings");
        blank_device::run(&mut engine, Instant::ZERO);
        let mut host = Host { engine, now: Instant::ZERO };
        let mut zipf = Zipf::new(self.data_bytes / BLOCK_SIZE, self.theta, 7);
        let mut place = 0_u64;
        let mut before = Counted::default();
        for number in 0..2 * self.reads {
            if number == self.reads {
                before = host.counted(own);
            }
            host.read(own, zipf.next());
            for _ in 0..self.scanned {
                place += 1;
                host.read(neighbour, place.wrapping_mul(0x9e37_79b9) % (1 << 34));
            }
        }
        let after = host.counted(own);
        let since = |count: fn(&Counted) -> u64| (count(&after) - count(&before)) as f64;
        let (hits, misses) = (since(|counted| counted.hits), since(|counted| counted.misses));
        let copies = since(|counted| counted.copied) / since(|counted| counted.came_in).max(1.0);
        NeighbourResult { hit_ratio: hits / (hits + misses), copies }
    }
}

#[derive(Clone, Copy, Default)]
struct Counted {
    hits: u64,
    misses: u64,
    copied: u64,
    came_in: u64,
}

struct Host {
    engine: Engine,
    now: Instant,
}

impl Host {
    fn read(&mut self, volume: VolumeId, block: u64) {
        self.now = self.now.plus(BETWEEN);
        if self.engine.poll_timeout().is_some_and(|due| due <= self.now) {
            self.engine.handle_timeout(self.now);
        }
        let extent = ByteExtent { start: block * BLOCK_SIZE, length: BLOCK_SIZE };
        let (id, operation) = (RequestId::new(1), Operation::Read);
        self.engine.handle_request(self.now, Request { id, volume, operation, extent, checksums: &[] });
        blank_device::run(&mut self.engine, self.now);
        self.engine.poll_reply().expect("devices answer at once");
    }

    fn counted(&self, volume: VolumeId) -> Counted {
        let status = self.engine.status();
        let came_in = status.volumes.iter().map(|volume| volume.counters.promoted_blocks).sum();
        let own = self.engine.counters(volume);
        let copied = status.counters.reinserted_blocks;
        Counted { hits: own.hit_blocks, misses: own.miss_blocks, copied, came_in }
    }
}
