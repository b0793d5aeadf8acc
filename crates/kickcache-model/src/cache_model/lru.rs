//! A reference policy: a cache of 4 KiB blocks that keeps the most recently used blocks, and fills exactly
//! the requested blocks.
//!
//! Omits all other work of a real cache: no metadata, no log, no cleaning; writes are sent to both devices, flushes to
//! the origin, and discards have no effect.

use std::collections::BTreeMap;

use kickcache_engine::time::Instant;
use kickcache_engine::units::{BLOCK_SIZE, ByteExtent};

use crate::cache_model::parts::Parts;
use crate::device_model::ModelOperation;
use crate::replay::cache_model::{CacheModel, Demand, Tally};
use crate::replay::devices::{Devices, Errand, Place};
use crate::replay::slots::Slots;
use crate::workload::Kind;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Purpose {
    Access(u32),
    Miss { id: u32, extent: ByteExtent },
    Fill,
}

#[derive(Debug, Default)]
struct Order {
    used: BTreeMap<u64, u64>,
    by_time: BTreeMap<u64, u64>,
    clock: u64,
}

impl Order {
    fn touch(&mut self, block: u64) -> bool {
        let Some(time) = self.used.get_mut(&block) else { return false };
        self.clock += 1;
        self.by_time.remove(time);
        *time = self.clock;
        self.by_time.insert(self.clock, block);
        true
    }

    fn insert(&mut self, block: u64, capacity: usize) {
        if self.touch(block) {
            return;
        }
        while self.used.len() >= capacity {
            let Some((_, oldest)) = self.by_time.pop_first() else { break };
            self.used.remove(&oldest);
        }
        self.clock += 1;
        self.used.insert(block, self.clock);
        self.by_time.insert(self.clock, block);
    }
}

#[derive(Debug)]
pub struct Lru {
    order: Order,
    capacity: usize,
    parts: Parts,
    in_flight: Slots<Purpose>,
    tally: Tally,
}

fn blocks(extent: ByteExtent) -> std::ops::Range<u64> {
    extent.start / BLOCK_SIZE..extent.end().div_ceil(BLOCK_SIZE)
}

impl Lru {
    pub fn new(cache_bytes: u64) -> Lru {
        let capacity = usize::try_from(cache_bytes / BLOCK_SIZE).expect("fits the address space");
        let (order, parts, tally) = (Order::default(), Parts::default(), Tally::default());
        Lru { order, capacity, parts, in_flight: Slots::default(), tally }
    }

    fn submit(&mut self, now: Instant, to: Errand, purpose: Purpose, devices: &mut Devices) {
        devices.send(now, to, self.in_flight.insert(purpose));
    }

    fn read(&mut self, now: Instant, demand: &Demand, devices: &mut Devices) {
        let count = blocks(demand.extent).count() as u64;
        let found = blocks(demand.extent).filter(|block| self.order.touch(*block)).count() as u64;
        self.tally.hit_blocks += found;
        self.tally.miss_blocks += count - found;
        self.parts.hold(demand.id);
        let (place, purpose) = if found == count {
            (Place::Cache, Purpose::Access(demand.id))
        } else {
            (Place::Origin, Purpose::Miss { id: demand.id, extent: demand.extent })
        };
        self.submit(now, (place, ModelOperation::Read, demand.extent), purpose, devices);
    }
}

impl CacheModel for Lru {
    fn handle_demand(&mut self, now: Instant, demand: Demand, devices: &mut Devices) {
        self.parts.hold(demand.id);
        match demand.kind {
            Kind::Read => self.read(now, &demand, devices),
            Kind::Write | Kind::WriteZeroes => {
                blocks(demand.extent).for_each(|block| self.order.insert(block, self.capacity));
                self.tally.logged_bytes += demand.extent.length;
                for place in [Place::Cache, Place::Origin] {
                    self.parts.hold(demand.id);
                    let purpose = Purpose::Access(demand.id);
                    self.submit(now, (place, ModelOperation::Write, demand.extent), purpose, devices);
                }
            }
            Kind::Flush => {
                self.parts.hold(demand.id);
                let purpose = Purpose::Access(demand.id);
                self.submit(now, (Place::Origin, ModelOperation::Flush, demand.extent), purpose, devices);
            }
            Kind::Discard => {}
        }
        self.parts.release(demand.id);
    }

    fn handle_completion(&mut self, now: Instant, _: Place, token: u64, devices: &mut Devices) {
        let purpose = self.in_flight.take(u32::try_from(token).expect("tokens are indices"));
        match purpose {
            Purpose::Access(id) => self.parts.release(id),
            Purpose::Miss { id, extent } => {
                self.parts.release(id);
                blocks(extent).for_each(|block| self.order.insert(block, self.capacity));
                self.tally.promoted_bytes += extent.length;
                self.submit(now, (Place::Cache, ModelOperation::Write, extent), Purpose::Fill, devices);
            }
            Purpose::Fill => {}
        }
    }

    fn handle_timeout(&mut self, _: Instant, _: &mut Devices) {}

    fn poll_reply(&mut self) -> Option<u32> {
        self.parts.poll_reply()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    fn tally(&self) -> Tally {
        self.tally
    }
}
