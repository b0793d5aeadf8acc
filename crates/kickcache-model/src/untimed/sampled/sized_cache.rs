//! One cache that is scaled down, and an LRU cache of the same size.

use kickcache_engine::Streams;
use kickcache_engine::config::SequentialCutoff;
use kickcache_engine::time::Instant;
use kickcache_engine::units::{BLOCK_SIZE, ByteExtent};

use crate::ratio::float;
use crate::reference_policy::lru::Lru;
use crate::reference_policy::policy::Policy;
use crate::trace_file::survey::blocks;
use crate::untimed::sampled::extents::{GROUPS, Part, Place};
use crate::untimed::sampled::read_streams::{ReadStreams, Run};
use crate::untimed::{InstantCache, Outcome};
use crate::workload::Kind;

/// The hits of the engine beyond those of LRU, in one group of extents.
#[derive(Clone, Copy, Debug, Default)]
struct Group {
    touched: f64,
    more: f64,
}

pub(super) struct SizedCache {
    engine: InstantCache,
    lru: Lru,
    groups: [Group; GROUPS],
    reads: ReadStreams,
    writes: Streams,
    cutoff: SequentialCutoff,
}

struct MissedBlocks {
    blocks: f64,
    group: usize,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Advantage {
    pub(super) ratio: f64,
    /// Standard deviation.
    pub(super) deviation: f64,
}

impl SizedCache {
    pub(super) fn new(engine: InstantCache, lru_blocks: u64, cutoff: SequentialCutoff) -> SizedCache {
        SizedCache {
            engine,
            lru: Lru::new(lru_blocks),
            groups: [Group::default(); GROUPS],
            reads: ReadStreams::new(),
            writes: Streams::new(),
            cutoff,
        }
    }

    pub(super) fn access(&mut self, at: Instant, kind: Kind, part: Part) {
        let is_stream = self.is_stream(kind, part);
        let Place::Sample { group, extent } = part.place else { return };
        let before = self.engine.misses();
        let passes_by = match self.cutoff {
            SequentialCutoff::Auto(_) => is_stream && self.engine.passes_by(kind, extent),
            SequentialCutoff::Above(_) | SequentialCutoff::Off => is_stream,
        };
        if passes_by {
            self.engine.pass_by(at, kind, extent);
        } else {
            self.engine.access(at, kind, extent);
        }
        let missed = float(self.engine.misses() - before) / float(self.engine.scale);
        self.count(kind, part.extent, &MissedBlocks { blocks: missed, group });
    }

    /// Whether an access belongs to a stream that is too long.
    fn is_stream(&mut self, kind: Kind, part: Part) -> bool {
        let length_max = match self.cutoff {
            SequentialCutoff::Off => return false,
            SequentialCutoff::Above(length) | SequentialCutoff::Auto(length) => length,
        };
        let scaled = self.engine.scaled(part.extent);
        let length = match (kind, part.place) {
            (Kind::Write, _) => self.writes.observe(scaled),
            (Kind::Read, Place::Sample { extent, .. }) => {
                let state: Vec<bool> =
                    blocks(self.engine.scaled(extent)).map(|block| self.engine.holds(block)).collect();
                let runs = state.chunk_by(|one, other| one == other).map(|run| {
                    let bytes = run.len() as u64 * BLOCK_SIZE;
                    if run[0] { Run::Cached(bytes) } else { Run::Missed(bytes) }
                });
                self.reads.observe(scaled, part.number, runs)
            }
            (Kind::Read, Place::Outside) => {
                self.reads.skip(scaled);
                0
            }
            (Kind::Flush | Kind::Discard | Kind::WriteZeroes, _) => 0,
        };
        length > length_max
    }

    fn count(&mut self, kind: Kind, extent: ByteExtent, missed: &MissedBlocks) {
        let all = blocks(extent);
        match kind {
            Kind::Read | Kind::Write => {
                let touched = float(all.len() as u64);
                let missed_by_lru = all.filter(|block| !self.lru.touch(block.get())).count();
                let group = &mut self.groups[missed.group];
                group.touched += touched;
                group.more += float(missed_by_lru as u64) - missed.blocks;
            }
            Kind::Discard | Kind::WriteZeroes => all.for_each(|block| self.lru.discard(block.get())),
            Kind::Flush => {}
        }
    }

    pub(super) fn flush(&mut self, at: Instant) {
        self.engine.access(at, Kind::Flush, ByteExtent { start: 0, length: 0 });
    }

    pub(super) fn outcome(&self) -> Outcome {
        self.engine.outcome()
    }

    pub(super) fn advantage(&self) -> Advantage {
        let touched: f64 = self.groups.iter().map(|group| group.touched).sum();
        if touched <= 0.0 {
            return Advantage { ratio: 0.0, deviation: 0.0 };
        }
        let ratio = self.groups.iter().map(|group| group.more).sum::<f64>() / touched;
        let squares: f64 = self.groups.iter().map(|group| (group.more - ratio * group.touched).powi(2)).sum();
        let count = float(GROUPS as u64);
        Advantage { ratio, deviation: (squares * count / (count - 1.0)).sqrt() / touched }
    }
}
