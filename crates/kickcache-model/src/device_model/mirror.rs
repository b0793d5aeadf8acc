//! Two disks with the same data (RAID-1), as Linux md drives them.

use std::collections::BTreeMap;

use kickcache_engine::time::{Instant, earlier};
use kickcache_random::Random;

use crate::device_model::disk::Disk;
use crate::device_model::disk::parameters::DiskParameters;
use crate::device_model::{DeviceModel, ModelOperation, ModelRequest};

/// A read is sent to an idle disk, or else to the disk with the nearest head; writes and flushes are sent to
/// both.
#[derive(Clone, Debug)]
pub struct Mirror {
    disks: [Disk; 2],
    /// For each write or flush in flight, the number of disks on which it still runs.
    doubled: BTreeMap<u64, u64>,
    in_flight: [u64; 2],
}

impl Mirror {
    pub fn new(parameters: DiskParameters, seed: u64) -> Mirror {
        let mut random = Random::new(seed);
        let disks = std::array::from_fn(|_| Disk::new(parameters, random.next_u64()));
        Mirror { disks, doubled: BTreeMap::new(), in_flight: [0; 2] }
    }

    fn choose(&self, offset: u64) -> usize {
        let idle = self.in_flight.iter().position(|count| *count == 0);
        let nearest =
            usize::from(self.disks[1].head().abs_diff(offset) < self.disks[0].head().abs_diff(offset));
        idle.unwrap_or(nearest)
    }

    fn submit_to(&mut self, disk: usize, now: Instant, request: ModelRequest) {
        self.in_flight[disk] += 1;
        self.disks[disk].submit(now, request);
    }

    fn poll_member(&mut self, now: Instant) -> Option<u64> {
        let due = |disk: &Disk| disk.next_event().filter(|at| *at <= now);
        loop {
            let (one, two) = (due(&self.disks[0]), due(&self.disks[1]));
            let first = match (one, two) {
                (None, None) => return None,
                (Some(one), Some(two)) => usize::from(two < one),
                (one, _) => usize::from(one.is_none()),
            };
            let at = earlier(one, two).unwrap_or(now);
            if let Some(token) = self.disks[first].poll(at) {
                self.in_flight[first] -= 1;
                return Some(token);
            }
        }
    }
}

impl DeviceModel for Mirror {
    fn submit(&mut self, now: Instant, request: ModelRequest) {
        if request.operation == ModelOperation::Read {
            let disk = self.choose(request.offset);
            return self.submit_to(disk, now, request);
        }
        self.doubled.insert(request.token, 2);
        self.submit_to(0, now, request);
        self.submit_to(1, now, request);
    }

    fn next_event(&self) -> Option<Instant> {
        self.disks.iter().filter_map(Disk::next_event).min()
    }

    fn poll(&mut self, now: Instant) -> Option<u64> {
        loop {
            let token = self.poll_member(now)?;
            match self.doubled.get_mut(&token) {
                Some(left) if *left > 1 => *left -= 1,
                Some(_) | None => {
                    self.doubled.remove(&token);
                    return Some(token);
                }
            }
        }
    }
}
