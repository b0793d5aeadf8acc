//! Commands of other threads, carried out by the loop.

use std::os::fd::AsFd;
use std::sync::mpsc::TryRecvError;

use kickcache_engine::cache_engine::CacheEngine;
use kickcache_engine::device::Device;
use kickcache_engine::format::superblock::VolumeRecord;
use kickcache_engine::time::Instant;
use kickcache_engine::units::{BLOCK_SIZE, VolumeId};

use super::{CONTROL_KEY, EventLoop};
use crate::driver::Interest;
use crate::latency::Latencies;
use crate::serve::control::{Activities, MemoryUse, Orphan, ServerHealth, ServerSample, ServerStatus};
use crate::serve::core::LoopPhase;
use crate::serve::error::ServeError;
use crate::serve::served_volumes::Volume;
use crate::serve::verbs::Control;
use crate::serve::verbs::report::ReportVerbs;

impl<E: CacheEngine> EventLoop<E> {
    pub(super) fn take_controls(&mut self, now: Instant) {
        self.wakeup.clear();
        loop {
            match self.control.try_recv() {
                Ok(control) => self.take_control(now, control),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => {
                    self.begin_stop(now, "its last handle was dropped");
                    break;
                }
            }
        }
        self.lend_to_next();
        self.note_queue.go_on();
        self.core.driver.watch(self.wakeup.as_fd(), CONTROL_KEY, Interest::Readable);
    }

    fn take_control(&mut self, now: Instant, control: Control) {
        match control {
            Control::Verbs(verbs) => verbs(self, now),
            Control::Stop => self.begin_stop(now, "a stop was requested"),
            Control::Insist => self.insist(now),
        }
    }

    pub(super) fn apply_write_budget(&mut self, now: Instant) {
        let size = self.superblock.geometry.device_size;
        let budget = self.write_budget.map(|budget| budget.per_day(size));
        self.core.engine.set_write_budget(now, budget);
    }

    pub(super) fn volume_id(&self, name: &str) -> Result<VolumeId, ServeError> {
        let found = self.core.volumes.iter().find(|volume| volume.info.name == name);
        found.map(|volume| volume.info.id).ok_or_else(|| {
            let names: Vec<&str> = self.core.volumes.iter().map(|volume| volume.info.name.as_str()).collect();
            let what = format!("it is not served here; served are: {}", names.join(", "));
            ServeError::Volume { name: name.into(), what }
        })
    }

    fn orphans(&self) -> Vec<Orphan> {
        let is_served =
            |record: &&VolumeRecord| self.core.volumes.iter().any(|volume| volume.info.id == record.id);
        let unserved = self.superblock.volumes.iter().filter(|record| !is_served(record));
        let left = unserved.map(|VolumeRecord { id, name, origin_identity, .. }| Orphan {
            name: name.clone(),
            origin: origin_identity.clone(),
            blocks: self.core.engine.not_clean_blocks(*id),
        });
        left.filter(|left| left.blocks > 0).collect()
    }

    fn memory_use(&self) -> MemoryUse {
        let budget = self.core.driver.budget();
        MemoryUse { bytes: budget.used(), waiting: budget.waiting_count() }
    }

    /// The state, except its expensive parts.
    fn state(&self, now: Instant) -> ServerStatus {
        let of_origin = |volume: &Volume| self.trouble_of(now, Device::Origin(volume.info.id));
        let indices = || self.core.volumes.indices();
        let ids = || self.core.volumes.iter().map(|volume| volume.info.id);
        ServerStatus {
            now,
            io_engine: self.core.driver.io_engine(),
            cache_trouble: self.trouble_of(now, Device::Cache),
            recovery: self.recovery.clone(),
            activities: Vec::new(),
            curves: Vec::new(),
            orphans: self.orphans(),
            origin_troubles: self.core.volumes.iter().map(of_origin).collect(),
            faults: self.troubles.counts(),
            cache: self.cache.clone(),
            engine: self.core.engine.status(),
            wear: self.core.engine.wear(now),
            cache_size: self.superblock.geometry.device_size,
            growing_to: self.growth.as_ref().and_then(|growth| growth.size),
            takeover: self.takeover_progress(),
            takeover_failure: self.takeover.failure.clone(),
            has_taken_over: self.takeover.is_done,
            volumes: self.core.volumes.iter().map(|volume| volume.info.clone()).collect(),
            awaited: (self.core.stage != LoopPhase::Serving).then(|| self.awaited(now)),
            memory: self.memory_use(),
            connections: self.frontends.connection_count(),
            tls_failure: self.frontends.tls_failure(),
            sessions: indices().map(|index| self.frontends.sessions(index)).collect(),
            served_at: indices()
                .map(|index| self.frontends.served_at(index, self.core.volumes.name(index)))
                .collect(),
            client_caps: ids().map(|id| self.core.throttles.cap(id)).collect(),
            recordings: ids().map(|id| self.core.recorders.count(id)).collect(),
            held_requests: ids().map(|id| self.core.throttles.held_total(id)).collect(),
        }
    }
}

impl<E: CacheEngine> ReportVerbs for EventLoop<E> {
    fn status(&mut self, now: Instant) -> ServerStatus {
        let curves = self.core.volumes.iter().map(|volume| self.core.curves.of(volume.info.id)).collect();
        ServerStatus { curves, ..self.vitals(now) }
    }

    fn vitals(&mut self, now: Instant) -> ServerStatus {
        let activities = self.core.volumes.iter().map(|volume| {
            let times = self.core.times.of(volume.info.id);
            times.map_or_else(Activities::default, |times| Activities {
                since_start: times.since_start(now),
                recent: times.recent(now),
            })
        });
        let activities = activities.collect();
        let curves = vec![None; self.core.volumes.count()];
        ServerStatus { activities, curves, ..self.state(now) }
    }

    fn sample(&mut self) -> ServerSample {
        let begun = self.core.clock.now();
        let count = self.core.volumes.count();
        let turn = self.curve_turn % count.max(1);
        self.curve_turn = turn + 1;
        let curve = |(index, volume): (usize, &Volume)| {
            (index == turn).then(|| self.core.curves.of(volume.info.id))?
        };
        let curves = self.core.volumes.iter().enumerate().map(curve).collect();
        let latencies = self.core.volumes.iter().map(|volume| {
            let times = self.core.times.of(volume.info.id);
            times.map_or_else(Latencies::default, |times| times.latencies())
        });
        let latencies = latencies.collect();
        let activities = vec![Activities::default(); count];
        let status = ServerStatus { activities, curves, ..self.state(begun) };
        ServerSample { status, latencies, pause: self.core.clock.now().since(begun) }
    }

    fn health(&self, now: Instant) -> ServerHealth {
        let engine = self.core.engine.status();
        ServerHealth {
            volumes: self.core.volumes.count(),
            dirty_bytes: engine.volumes.iter().map(|volume| volume.dirty_blocks * BLOCK_SIZE).sum(),
            awaited: (self.core.stage != LoopPhase::Serving).then(|| self.awaited(now)),
        }
    }
}
