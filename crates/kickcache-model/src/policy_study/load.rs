//! Loads of the study: traces, and loads that are made.

use std::collections::HashSet;
use std::path::Path;

use kickcache_engine::time::Instant;
use kickcache_engine::units::{BLOCK_SIZE, ByteExtent};
use kickcache_random::Random;

use crate::ratio::share;
use crate::trace_file::TraceError;
use crate::trace_file::placement::{PlacedAccess, accesses};
use crate::trace_file::survey::survey;
use crate::workload::Kind;
use crate::zipf::Zipf;

const STEP: u64 = 1_000_000;
/// A trace with a smaller share of repeated accesses cannot compare caches.
const REPEATED_MIN: f64 = 0.3;
const THETA: f64 = 0.9;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Touch {
    pub kind: Kind,
    pub block: u64,
    pub count: u64,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Load {
    pub name: String,
    pub accesses: Vec<PlacedAccess>,
    pub volume_bytes: u64,
    /// Different blocks that are accessed; above 2^22 of a trace an estimate.
    pub footprint: u64,
    /// Blocks that are read or written, each time counted.
    pub touches: u64,
}

impl Load {
    /// # Errors
    /// If it cannot be read.
    pub fn read(path: &Path) -> Result<Load, TraceError> {
        let found = survey(path, None)?;
        let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        Ok(Load {
            name: name.split('.').next().unwrap_or_default().into(),
            accesses: accesses(path, &found)?.collect::<Result<_, _>>()?,
            volume_bytes: found.placement.volume_bytes(),
            footprint: found.footprint,
            touches: found.touches,
        })
    }

    pub fn tells_something(&self) -> bool {
        self.repeated() >= REPEATED_MIN
    }

    /// The share of accesses to blocks that were accessed before.
    pub fn repeated(&self) -> f64 {
        1.0 - share(self.footprint, self.touches)
    }

    fn made(name: &str, blocks: impl IntoIterator<Item = u64>) -> Load {
        let read = |block| Touch { kind: Kind::Read, block, count: 1 };
        Load::of_touches(name, &blocks.into_iter().map(read).collect::<Vec<_>>())
    }

    pub fn of_touches(name: &str, touches: &[Touch]) -> Load {
        let access = |(number, touch): (u64, &Touch)| PlacedAccess {
            at: Instant::from_nanos(number * STEP),
            kind: touch.kind,
            extent: ByteExtent { start: touch.block * BLOCK_SIZE, length: touch.count * BLOCK_SIZE },
        };
        let accesses: Vec<PlacedAccess> = (0..).zip(touches).map(access).collect();
        let volume_bytes = accesses.iter().map(|access| access.extent.end()).max().unwrap_or(0);
        let different: HashSet<u64> =
            touches.iter().flat_map(|touch| touch.block..touch.block + touch.count).collect();
        Load {
            name: name.into(),
            accesses,
            volume_bytes,
            footprint: different.len() as u64,
            touches: touches.iter().map(|touch| touch.count).sum(),
        }
    }

    /// Reads of `length` blocks, one after the other, again and again.
    pub fn repeat(name: &str, length: u64, passes: u64) -> Load {
        Load::made(name, (0..length * passes).map(|number| number % length))
    }

    /// The reads of [`Load::repeat`], mixed at random with about as many skewed reads of `others` other blocks.
    pub fn mixed(name: &str, length: u64, others: u64, passes: u64) -> Load {
        let mut zipf = Zipf::new(others, THETA, 1);
        let mut random = Random::new(2);
        let mut next = 0;
        let blocks = (0..2 * length * passes).map(|_| {
            if random.chance(500) {
                return length + zipf.next();
            }
            next += 1;
            (next - 1) % length
        });
        Load::made(name, blocks)
    }

    pub fn skewed(name: &str, blocks: u64, count: u64) -> Load {
        let mut zipf = Zipf::new(blocks, THETA, 3);
        Load::made(name, (0..count).map(|_| zipf.next()))
    }

    /// This load, and then the other load on other blocks; each access becomes a read of its first block.
    #[must_use]
    pub fn then(&self, next: &Load, name: &str) -> Load {
        let block = |base: u64| move |access: &PlacedAccess| base + access.extent.start / BLOCK_SIZE;
        let (own, base) = (self.accesses.iter().map(block(0)), self.volume_bytes / BLOCK_SIZE);
        Load::made(name, own.chain(next.accesses.iter().map(block(base))).collect::<Vec<u64>>())
    }
}
