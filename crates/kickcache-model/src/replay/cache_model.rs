//! What stands between a load and its devices: a bare device, a model of another cache, or the real engine.

use kickcache_engine::time::{Duration, Instant};
use kickcache_engine::units::ByteExtent;

use crate::replay::devices::{Devices, Place};
use crate::workload::Kind;

/// An access of a client.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Demand {
    /// Names it; unique among those in flight, and small.
    pub id: u32,
    /// Which job it comes from: some caches treat tasks differently.
    pub job: usize,
    /// What it does.
    pub kind: Kind,
    /// Where.
    pub extent: ByteExtent,
}

/// What a cache model counts; all only grow but for `dirty_bytes`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Blocks of reads that came from the cache device, or could have.
    pub hit_blocks: u64,
    /// Blocks of reads that did not.
    pub miss_blocks: u64,
    /// Bytes brought into the cache because a read missed them.
    pub promoted_bytes: u64,
    /// Bytes of client writes that entered the cache.
    pub logged_bytes: u64,
    /// Bytes that only the cache has.
    pub dirty_bytes: u64,
}

/// Something that serves accesses with the help of devices, in virtual time.
///
/// The bench hands in what happens and then takes the replies. Time never runs backwards.
pub trait CacheModel {
    /// An access arrives.
    fn handle_demand(&mut self, now: Instant, demand: Demand, devices: &mut Devices);

    /// An operation of a device ended.
    fn handle_completion(&mut self, now: Instant, place: Place, token: u64, devices: &mut Devices);

    /// Time passed; called when [`CacheModel::poll_timeout`] is due.
    fn handle_timeout(&mut self, now: Instant, devices: &mut Devices);

    /// So much time passed until something woke it: it may have got a processor later.
    fn handle_sleep(&mut self, slept: Duration) {
        let _ = slept;
    }

    /// The access that ended next, by its id.
    fn poll_reply(&mut self) -> Option<u32>;

    /// When it wants to be called, if nothing happens before.
    fn poll_timeout(&self) -> Option<Instant>;

    /// What it counted.
    fn tally(&self) -> Tally;
}
