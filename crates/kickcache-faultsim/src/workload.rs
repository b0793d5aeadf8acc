//! The requests of clients: mixed sizes and alignments, hot spots, sequential streams.

use kickcache_engine::request::{Durability, Operation, Unmap};
use kickcache_engine::time::Duration;
use kickcache_engine::units::{BLOCK_SIZE, ByteExtent, SECTOR_SIZE, VolumeId};
use kickcache_random::Random;

use crate::content::UNIT_SIZE;
use crate::plan::Plan;
use crate::plan::load::{Shape, Weights};

/// A request of a client, or a read that verifies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ask {
    pub volume: VolumeId,
    pub operation: Operation,
    pub extent: ByteExtent,
}

impl Ask {
    /// Whether the request leaves the content of its volume as it is.
    pub fn changes_nothing(&self) -> bool {
        matches!(self.operation, Operation::Read | Operation::Promote | Operation::Flush)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Stream {
    next: u64,
    length: u64,
    writes: bool,
}

#[derive(Clone, Debug)]
pub struct Client {
    random: Random,
    volume: VolumeId,
    size: u64,
    /// First block of the hot region.
    hot: u64,
    stream: Option<Stream>,
    weights: Weights,
    shape: Shape,
    pause: Duration,
    long_pause_permille: u64,
}

impl Client {
    pub fn new(plan: &Plan, hot_places: &[u64], mut random: Random) -> Client {
        let number = random.index(plan.origin_sizes.len());
        let size = plan.origin_sizes[number];
        let stream = random.chance(plan.shape.sequential_permille).then(|| Stream {
            next: random.below(size / BLOCK_SIZE) * BLOCK_SIZE,
            length: BLOCK_SIZE << random.below(6),
            writes: random.chance(400),
        });
        Client {
            random,
            volume: VolumeId::new(u8::try_from(number).expect("few volumes")),
            size,
            hot: hot_places[number],
            stream,
            weights: plan.weights,
            shape: plan.shape,
            pause: plan.pause,
            long_pause_permille: plan.long_pause_permille,
        }
    }

    pub fn volume(&self) -> VolumeId {
        self.volume
    }

    pub fn pause(&mut self) -> Duration {
        if self.random.chance(self.long_pause_permille) {
            return Duration::from_millis(2_000);
        }
        Duration::from_nanos(self.random.within(0, self.pause.as_nanos() * 2))
    }

    pub fn next_ask(&mut self) -> Ask {
        let stream = self.stream.filter(|_| self.random.chance(900));
        match stream {
            Some(stream) => self.next_of_stream(stream),
            None => self.next_of_mix(),
        }
    }

    fn next_of_stream(&mut self, stream: Stream) -> Ask {
        let start = if stream.next >= self.size { 0 } else { stream.next };
        let length = stream.length.min(self.size - start);
        self.stream = Some(Stream { next: start + length, ..stream });
        let operation = if stream.writes { Operation::Write(Durability::Volatile) } else { Operation::Read };
        Ask { volume: self.volume, operation, extent: ByteExtent { start, length } }
    }

    fn next_of_mix(&mut self) -> Ask {
        let operation = self.draw_operation();
        let extent = match operation {
            Operation::Flush => ByteExtent { start: 0, length: 0 },
            Operation::Discard | Operation::WriteZeroes { .. } => self.draw_wide_extent(),
            Operation::Read | Operation::Write(_) | Operation::Promote => self.draw_extent(),
        };
        Ask { volume: self.volume, operation, extent }
    }

    fn draw_operation(&mut self) -> Operation {
        let Weights { read, write, flush, discard, zeroes, promote, durable_permille } = self.weights;
        let mut ticket = self.random.below(read + write + flush + discard + zeroes + promote);
        let durable = self.random.chance(durable_permille);
        let durability = if durable { Durability::Durable } else { Durability::Volatile };
        let unmap = if self.random.chance(500) { Unmap::Allow } else { Unmap::Forbid };
        let choices = [
            (read, Operation::Read),
            (write, Operation::Write(durability)),
            (flush, Operation::Flush),
            (discard, Operation::Discard),
            (zeroes, Operation::WriteZeroes { unmap, durability }),
        ];
        for (weight, operation) in choices {
            if ticket < weight {
                return operation;
            }
            ticket -= weight;
        }
        Operation::Promote
    }

    /// Some discards and write-zeroes are longer than other requests.
    fn draw_wide_extent(&mut self) -> ByteExtent {
        let mut extent = self.draw_extent();
        if self.random.chance(100) {
            let length = self.random.below(self.size / 4) / BLOCK_SIZE * BLOCK_SIZE;
            extent.length = extent.length.max(length).min(self.size - extent.start);
        }
        extent
    }

    fn draw_extent(&mut self) -> ByteExtent {
        let unit = self.draw_unit();
        let length = self.draw_length(unit);
        let start = self.draw_start() / unit * unit;
        let shift = if unit < BLOCK_SIZE { self.random.below(BLOCK_SIZE / unit) * unit } else { 0 };
        let start = (start + shift).min((self.size - unit) / unit * unit);
        let length = length.min((self.size - start) / unit * unit);
        ByteExtent { start, length: length.max(unit) }
    }

    fn draw_unit(&mut self) -> u64 {
        if self.random.chance(self.shape.unaligned_permille) {
            UNIT_SIZE
        } else if self.random.chance(self.shape.sector_permille) {
            SECTOR_SIZE
        } else {
            BLOCK_SIZE
        }
    }

    fn draw_length(&mut self, unit: u64) -> u64 {
        let top = (self.shape.length_max / BLOCK_SIZE).ilog2();
        let usual = top.min(4);
        let power = if self.random.chance(50) { top } else { usual };
        let most = BLOCK_SIZE << self.random.below(u64::from(power) + 1);
        let length = self.random.within(1, most);
        let length = if self.random.chance(600) { most } else { length };
        length.next_multiple_of(unit)
    }

    fn draw_start(&mut self) -> u64 {
        let blocks = self.size / BLOCK_SIZE;
        if self.random.chance(self.shape.hot_permille) {
            return (self.hot + self.random.below(self.shape.hot_blocks)).min(blocks - 1) * BLOCK_SIZE;
        }
        self.random.below(blocks) * BLOCK_SIZE
    }
}
