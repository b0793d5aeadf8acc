//! The results of a run: counts of the exercised features, or a failure.

use kickcache_engine::stats::Status;

use crate::plan::PlanKind;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Injected {
    pub errors: u64,
    /// Blocks of the cache device that were damaged, not stored, or stored elsewhere.
    pub damaged_blocks: u64,
    /// Bits that flipped in data of the log between two lives.
    pub rotted_blocks: u64,
    /// Batch headers in which a bit flipped.
    pub rotted_headers: u64,
    /// Journals in which a bit flipped, in one block or in each.
    pub rotted_journals: u64,
    pub zeroed_segments: u64,
    /// Blocks chosen to be unreadable in the next life; a block may be chosen twice.
    pub unreadable_blocks: u64,
    /// Flushes that did not make writes durable and reported success.
    pub lies: u64,
    pub hangs: u64,
    pub restarts: u64,
    /// Unflushed writes at the restarts, which may be lost.
    pub restart_writes: u64,
    /// Blocks that waited for their flush at the restarts.
    pub restart_blocks: u64,
    /// Submissions in flight that were repeated.
    pub repeated: u64,
}

/// Counts of the activity of one run or of several.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Summary {
    /// Hash of all events; for several runs, the sum of their hashes.
    pub trace_hash: u64,
    /// Entries of the trace.
    pub events: u64,
    pub injected: Injected,
    pub request_blocks: u64,
    pub requests: u64,
    pub errors: u64,
    pub nanos: u64,
    pub lives: u64,
    pub kills: u64,
    pub power_cuts: u64,
    pub recovery_crashes: u64,
    /// Logs that were refused because a part was unreadable.
    pub refused_logs: u64,
    /// Recoveries that failed because of a device error or a refused log.
    pub failed_recoveries: u64,
    /// Starts before which the cache device was out of service.
    pub lives_after_service: u64,
    /// Volumes that may have lacked data of a cache device out of service.
    pub incomplete_volumes: u64,
    pub grown_caches: u64,
    /// Successors that took over.
    pub successors: u64,
    pub copied_parts: u64,
    pub interrupted_replacements: u64,
    /// Crashes after which the successor was found to be complete, while the old device had no record of the takeover.
    pub completed_successors: u64,
    /// Successors that were abandoned because of an error or a stop.
    pub abandoned_successors: u64,
    /// Successors that were abandoned because they did not respond.
    pub deserted_successors: u64,
    /// Cache devices that were drained and left out while they were served.
    pub left_out_caches: u64,
    /// Cache devices that were put into use while volumes were served without one.
    pub taken_in_caches: u64,
    pub parted_volumes: u64,
    /// Cache devices that were formatted again.
    pub replaced_caches: u64,
    pub hit_blocks: u64,
    /// Blocks that reads, or requests to promote, missed.
    pub miss_blocks: u64,
    pub writeback_blocks: u64,
    /// Segments that reclaim began to empty.
    pub reclaimed_segments: u64,
    pub reinserted_blocks: u64,
    pub checkpoints: u64,
    /// Blocks read from the origin because their cached copies had a wrong checksum or were unreadable.
    pub healed_blocks: u64,
    /// How often the origins were examined without the cache device.
    pub examined_instants: u64,
}

impl Summary {
    pub fn add(&mut self, other: &Summary) {
        // A sum, so that the runs of a series may end in any order.
        self.trace_hash = self.trace_hash.wrapping_add(other.trace_hash);
        self.events += other.events;
        self.requests += other.requests;
        self.errors += other.errors;
        self.nanos += other.nanos;
        self.lives += other.lives;
        self.kills += other.kills;
        self.power_cuts += other.power_cuts;
        self.recovery_crashes += other.recovery_crashes;
        self.refused_logs += other.refused_logs;
        self.failed_recoveries += other.failed_recoveries;
        self.replaced_caches += other.replaced_caches;
        self.grown_caches += other.grown_caches;
        self.successors += other.successors;
        self.copied_parts += other.copied_parts;
        self.interrupted_replacements += other.interrupted_replacements;
        self.completed_successors += other.completed_successors;
        self.abandoned_successors += other.abandoned_successors;
        self.deserted_successors += other.deserted_successors;
        self.left_out_caches += other.left_out_caches;
        self.taken_in_caches += other.taken_in_caches;
        self.parted_volumes += other.parted_volumes;
        self.lives_after_service += other.lives_after_service;
        self.incomplete_volumes += other.incomplete_volumes;
        self.request_blocks += other.request_blocks;
        self.injected.errors += other.injected.errors;
        self.injected.damaged_blocks += other.injected.damaged_blocks;
        self.injected.rotted_blocks += other.injected.rotted_blocks;
        self.injected.rotted_headers += other.injected.rotted_headers;
        self.injected.rotted_journals += other.injected.rotted_journals;
        self.injected.zeroed_segments += other.injected.zeroed_segments;
        self.injected.unreadable_blocks += other.injected.unreadable_blocks;
        self.injected.lies += other.injected.lies;
        self.injected.hangs += other.injected.hangs;
        self.injected.restarts += other.injected.restarts;
        self.injected.restart_writes += other.injected.restart_writes;
        self.injected.restart_blocks += other.injected.restart_blocks;
        self.injected.repeated += other.injected.repeated;
        self.hit_blocks += other.hit_blocks;
        self.miss_blocks += other.miss_blocks;
        self.writeback_blocks += other.writeback_blocks;
        self.reclaimed_segments += other.reclaimed_segments;
        self.reinserted_blocks += other.reinserted_blocks;
        self.checkpoints += other.checkpoints;
        self.healed_blocks += other.healed_blocks;
        self.examined_instants += other.examined_instants;
    }

    pub(crate) fn add_status(&mut self, status: &Status) {
        self.reclaimed_segments += status.counters.reclaimed_segments;
        self.reinserted_blocks += status.counters.reinserted_blocks;
        self.checkpoints += status.counters.checkpoints;
        for volume in &status.volumes {
            self.hit_blocks += volume.counters.hit_blocks;
            self.miss_blocks += volume.counters.miss_blocks;
            self.writeback_blocks += volume.counters.writeback_blocks;
            self.healed_blocks += volume.counters.healed_blocks;
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    pub seed: u64,
    pub plans: PlanKind,
    pub what: String,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Failure { seed, plans, what } = self;
        let option = plans.option();
        writeln!(formatter, "seed {seed} failed: {what}")?;
        write!(
            formatter,
            "replay: cargo run --release -p kickcache-faultsim --bin kickcache-vopr -- --seed {seed}{option} --trace"
        )
    }
}

impl std::error::Error for Failure {}
