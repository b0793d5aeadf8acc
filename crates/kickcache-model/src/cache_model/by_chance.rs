//! A cache of which only the hit ratio is known: whether a read hits is drawn at random.
//!
//! A miss is read from the origin and then written to the cache device; a write is written to the cache device, and
//! later to the origin in the background. A flush is sent to the cache device alone, and a discard ends at once. The
//! model omits the advantages of a real cache: it does not merge writes, read ahead, or fill in batches.

use kickcache_engine::time::Instant;
use kickcache_engine::units::BLOCK_SIZE;
use kickcache_random::Random;

use crate::device_model::ModelOperation;
use crate::replay::cache_model::{CacheModel, Demand, Tally};
use crate::replay::devices::{Devices, Errand, Place};
use crate::replay::slots::Slots;
use crate::workload::Kind;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Purpose {
    /// The access with this id ends with the operation.
    Access(u32),
    /// At its end the access ends, and the data read is filled.
    Miss(Demand),
    /// At its end the access ends, and the data written is written back.
    Logged(Demand),
    Background,
}

#[derive(Debug)]
pub struct ByChance {
    hit_ratio: f64,
    random: Random,
    in_flight: Slots<Purpose>,
    ended: Vec<u32>,
    tally: Tally,
}

impl ByChance {
    /// A cache that hits this part of the reads.
    pub fn new(hit_ratio: f64, seed: u64) -> ByChance {
        let (random, in_flight) = (Random::new(seed), Slots::default());
        ByChance { hit_ratio, random, in_flight, ended: Vec::new(), tally: Tally::default() }
    }

    fn submit(&mut self, now: Instant, to: Errand, purpose: Purpose, devices: &mut Devices) {
        devices.send(now, to, self.in_flight.insert(purpose));
    }
}

impl CacheModel for ByChance {
    fn handle_demand(&mut self, now: Instant, demand: Demand, devices: &mut Devices) {
        let blocks = demand.extent.length.div_ceil(BLOCK_SIZE);
        match demand.kind {
            Kind::Read if self.random.unit() < self.hit_ratio => {
                self.tally.hit_blocks += blocks;
                self.submit(
                    now,
                    (Place::Cache, ModelOperation::Read, demand.extent),
                    Purpose::Access(demand.id),
                    devices,
                );
            }
            Kind::Read => {
                self.tally.miss_blocks += blocks;
                self.submit(
                    now,
                    (Place::Origin, ModelOperation::Read, demand.extent),
                    Purpose::Miss(demand),
                    devices,
                );
            }
            Kind::Write | Kind::WriteZeroes => {
                self.tally.logged_bytes += demand.extent.length;
                self.submit(
                    now,
                    (Place::Cache, ModelOperation::Write, demand.extent),
                    Purpose::Logged(demand),
                    devices,
                );
            }
            Kind::Flush => {
                self.submit(
                    now,
                    (Place::Cache, ModelOperation::Flush, demand.extent),
                    Purpose::Access(demand.id),
                    devices,
                );
            }
            Kind::Discard => self.ended.push(demand.id),
        }
    }

    fn handle_completion(&mut self, now: Instant, _: Place, token: u64, devices: &mut Devices) {
        let purpose = self.in_flight.take(u32::try_from(token).expect("tokens are indices"));
        match purpose {
            Purpose::Access(id) => self.ended.push(id),
            Purpose::Miss(demand) => {
                self.ended.push(demand.id);
                self.tally.promoted_bytes += demand.extent.length;
                self.submit(
                    now,
                    (Place::Cache, ModelOperation::Write, demand.extent),
                    Purpose::Background,
                    devices,
                );
            }
            Purpose::Logged(demand) => {
                self.ended.push(demand.id);
                self.submit(
                    now,
                    (Place::Origin, ModelOperation::Write, demand.extent),
                    Purpose::Background,
                    devices,
                );
            }
            Purpose::Background => {}
        }
    }

    fn handle_timeout(&mut self, _: Instant, _: &mut Devices) {}

    fn poll_reply(&mut self) -> Option<u32> {
        self.ended.pop()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    fn tally(&self) -> Tally {
        self.tally
    }
}

#[cfg(test)]
mod tests {
    use kickcache_engine::time::Duration;

    use super::*;
    use crate::device_model::device_file::built_in;
    use crate::replay::bench::{Course, run};
    use crate::workload::mix::{Mix, MixShape};

    fn shape() -> MixShape {
        MixShape { volume_bytes: 1 << 30, bytes: 4096, write_share: 0.0, depth: 8 }
    }

    #[test]
    fn the_more_it_hits_the_faster_it_is() {
        let device = |name| built_in(name).unwrap().start(1);
        let measure = |hit_ratio| {
            let mut devices = Devices::cached(device("article-ssd"), device("disk-7200"));
            let course = Course { length: Duration::from_millis(5_000), ..Course::default() };
            run(
                course,
                &mut Mix::new(shape(), 1),
                &mut ByChance::new(hit_ratio, 1),
                &mut devices,
                &mut |_| (),
            )
        };
        let runs = [0.0, 0.9, 1.0].map(measure);
        assert!(runs[1].iops() > 5.0 * runs[0].iops() && runs[2].iops() > 5.0 * runs[1].iops());
        let hits = runs[1].hit_ratio().unwrap();
        assert!((0.87..0.93).contains(&hits), "{hits}");
        assert_eq!(runs[0].promoted_bytes / 4096, runs[0].origin_device.as_ref().unwrap().reads - 8);
    }
}
