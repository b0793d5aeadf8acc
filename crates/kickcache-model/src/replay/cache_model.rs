//! The layer between a load and its devices: a bare device, a model of another cache, or the real engine.

use kickcache_engine::time::{Duration, Instant};
use kickcache_engine::units::ByteExtent;

use crate::replay::devices::{Devices, Place};
use crate::workload::Kind;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Demand {
    /// Identifies the access: small, and unique among the accesses in flight.
    pub id: u32,
    pub job: usize,
    pub kind: Kind,
    pub extent: ByteExtent,
}

/// The counters of a cache model; all only grow except `dirty_bytes`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Blocks of reads that the cache device served, or could have served.
    pub hit_blocks: u64,
    pub miss_blocks: u64,
    /// Bytes copied from the origin into the cache after a miss, read-ahead and, in dm-cache, the whole block
    /// included.
    pub promoted_bytes: u64,
    /// Bytes of client writes that entered the cache; in dm-cache only of writes that brought a block in.
    pub logged_bytes: u64,
    /// Bytes of dirty blocks; in kickcache also of blocks that were written back and not yet flushed.
    pub dirty_bytes: u64,
}

/// Time never runs backwards.
pub trait CacheModel {
    fn handle_demand(&mut self, now: Instant, demand: Demand, devices: &mut Devices);

    fn handle_completion(&mut self, now: Instant, place: Place, token: u64, devices: &mut Devices);

    fn handle_timeout(&mut self, now: Instant, devices: &mut Devices);

    /// The cache model slept for this time until an event woke it, so its processor may have been late.
    fn handle_sleep(&mut self, slept: Duration) {
        let _ = slept;
    }

    fn poll_reply(&mut self) -> Option<u32>;

    /// The time of the next call, if no event happens before; `None` if no call is needed.
    fn poll_timeout(&self) -> Option<Instant>;

    fn tally(&self) -> Tally;
}
