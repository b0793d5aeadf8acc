//! A bare device: every access is sent straight to the origin, except discards, which end at once.
//!
//! Leaves out the block layer: no merging and no I/O scheduler but the drive's own.

use std::collections::VecDeque;

use kickcache_engine::time::Instant;

use crate::device_model::{ModelOperation, ModelRequest};
use crate::replay::cache_model::{CacheModel, Demand, Tally};
use crate::replay::devices::{Devices, Place};
use crate::workload::Kind;

#[derive(Debug, Default)]
pub struct Bare {
    replies: VecDeque<u32>,
}

impl CacheModel for Bare {
    fn handle_demand(&mut self, now: Instant, demand: Demand, devices: &mut Devices) {
        let operation = match demand.kind {
            Kind::Read => ModelOperation::Read,
            Kind::Write | Kind::WriteZeroes => ModelOperation::Write,
            Kind::Flush => ModelOperation::Flush,
            Kind::Discard => return self.replies.push_back(demand.id),
        };
        let (offset, length) = (demand.extent.start, demand.extent.length);
        let request = ModelRequest { operation, offset, length, token: u64::from(demand.id) };
        devices.submit(now, Place::Origin, request);
    }

    fn handle_completion(&mut self, _: Instant, _: Place, token: u64, _: &mut Devices) {
        self.replies.push_back(u32::try_from(token).expect("tokens are ids"));
    }

    fn handle_timeout(&mut self, _: Instant, _: &mut Devices) {}

    fn poll_reply(&mut self) -> Option<u32> {
        self.replies.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    fn tally(&self) -> Tally {
        Tally::default()
    }
}
