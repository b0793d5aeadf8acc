//! Loads that are usual in practice.

use kickcache_random::Random;

use crate::policy_study::load::{Load, Touch};
use crate::ratio::float;
use crate::workload::Kind;

const COUNT: u64 = 1_500_000;

/// Skewed draws: compared with the block of rank 1, the block of rank r is drawn r^-exponent times as often. The ranks are
/// shuffled over the blocks.
struct Skewed {
    sums: Vec<f64>,
    blocks: Vec<u64>,
}

impl Skewed {
    fn new(count: u64, exponent: f64, random: &mut Random) -> Skewed {
        let add = |sum: &mut f64, rank: u64| {
            *sum += float(rank).powf(-exponent);
            Some(*sum)
        };
        let sums = (1..=count).scan(0.0, add).collect();
        let mut blocks: Vec<u64> = (0..count).collect();
        (1..blocks.len()).rev().for_each(|last| blocks.swap(last, random.index(last + 1)));
        Skewed { sums, blocks }
    }

    fn draw(&self, random: &mut Random) -> u64 {
        let point = random.unit() * self.sums.last().copied().unwrap_or_default();
        let rank = self.sums.partition_point(|sum| *sum < point);
        self.blocks[rank.min(self.blocks.len() - 1)]
    }
}

const fn touch(kind: Kind, block: u64, count: u64) -> Touch {
    Touch { kind, block, count }
}

/// About half of the accesses are reads, the others writes, each kind skewed over blocks of its own.
fn reader_and_writer() -> Vec<Touch> {
    const BLOCKS: u64 = 200_000;
    let mut random = Random::new(1);
    let [reads, writes] = [(); 2].map(|()| Skewed::new(BLOCKS, 1.1, &mut random));
    let mut next = || {
        if random.chance(500) {
            touch(Kind::Read, reads.draw(&mut random), 1)
        } else {
            touch(Kind::Write, BLOCKS + writes.draw(&mut random), 1)
        }
    };
    (0..COUNT).map(|_| next()).collect()
}

/// Skewed reads, interrupted by scans of other blocks in pieces of 32 KiB.
fn scans() -> Vec<Touch> {
    const BLOCKS: u64 = 200_000;
    const SCAN: u64 = 50_000;
    let mut random = Random::new(2);
    let hot = Skewed::new(BLOCKS, 1.1, &mut random);
    let mut touches = Vec::new();
    for _ in 0..12 {
        touches.extend((0..80_000).map(|_| touch(Kind::Read, hot.draw(&mut random), 1)));
        let start = BLOCKS + random.below(3 * SCAN);
        touches.extend((0..SCAN).step_by(8).map(|offset| touch(Kind::Read, start + offset, 8)));
    }
    touches
}

/// A growing working set; its newest blocks are the hottest; three of ten accesses are writes.
fn growing() -> Vec<Touch> {
    const SPREAD: u64 = 300_007;
    let mut random = Random::new(3);
    let mut next = |number: u64| {
        let size = 20_000 + 280_000 * number / COUNT;
        let block = if random.chance(300) {
            random.below(size)
        } else {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "blocks of a working set"
            )]
            let age = random.exponential(float(size) * 0.12) as u64;
            size - 1 - age.min(size - 1)
        };
        let kind = if random.chance(300) { Kind::Write } else { Kind::Read };
        touch(kind, block * 7_919 % SPREAD, 1)
    };
    (0..COUNT).map(&mut next).collect()
}

/// Two loops of different lengths, interleaved at random.
fn two_loops() -> Vec<Touch> {
    const LENGTHS: [u64; 2] = [60_000, 150_000];
    let mut random = Random::new(5);
    let mut at = [0, 0];
    let mut next = || {
        let number = random.index(2);
        let block = at[number] + if number == 0 { 0 } else { LENGTHS[0] };
        at[number] = (at[number] + 1) % LENGTHS[number];
        touch(Kind::Read, block, 1)
    };
    (0..COUNT).map(|_| next()).collect()
}

/// Seven days of skewed reads and writes, each followed by a backup that reads every block in pieces of 256 KiB.
fn week() -> Vec<Touch> {
    let mut random = Random::new(4);
    let hot = Skewed::new(150_000, 1.0, &mut random);
    let mut touches = Vec::new();
    for _ in 0..7 {
        touches.extend((0..150_000).map(|_| {
            let kind = if random.chance(700) { Kind::Read } else { Kind::Write };
            touch(kind, hot.draw(&mut random), 1)
        }));
        touches.extend((0..400_000).step_by(64).map(|block| touch(Kind::Read, block, 64)));
    }
    touches
}

pub fn all() -> Vec<Load> {
    let touches = [
        ("reader and writer", reader_and_writer()),
        ("scans", scans()),
        ("growing", growing()),
        ("two loops", two_loops()),
        ("week", week()),
    ];
    touches.iter().map(|(name, touches)| Load::of_touches(name, touches)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_loops_are_read_in_order() {
        let touches = two_loops();
        let blocks =
            |of: fn(u64) -> bool| touches.iter().map(|touch| touch.block).filter(move |block| of(*block));
        assert!(blocks(|block| block < 60_000).zip((0..60_000).cycle()).all(|(block, next)| block == next));
        assert!(
            blocks(|block| block >= 60_000).zip((60_000..210_000).cycle()).all(|(block, next)| block == next)
        );
    }

    #[test]
    fn the_first_ranks_are_drawn_in_their_proportion() {
        let mut random = Random::new(1);
        let skewed = Skewed::new(1_000, 1.0, &mut random);
        let count = |rank: usize, random: &mut Random| {
            (0..20_000).filter(|_| skewed.draw(random) == skewed.blocks[rank]).count()
        };
        let (first, fourth) = (count(0, &mut random), count(3, &mut random));
        assert!((3 * fourth..5 * fourth).contains(&first), "{first} and {fourth}");
    }
}
