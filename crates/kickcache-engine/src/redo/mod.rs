//! The redo journal in use: the cut in progress, and the groups that are committed and not yet released.

pub(crate) mod cut;
pub(crate) mod group;
pub mod recovery;

use alloc::collections::VecDeque;

use crate::format::redo::{CHUNK_BLOCKS_MAX, RedoGeometry, RedoTail};
use crate::redo::cut::Cut;
use crate::redo::group::{Applying, RedoGroup};
use crate::redo::recovery::FoundGroup;
use crate::time::{Duration, Instant};
use crate::units::VolumeSet;

/// The least time between two slices of work.
const REST: Duration = Duration::from_micros(30);
/// Pause after an error of the journal, or a failed cut.
pub(crate) const BACKOFF: Duration = Duration::from_millis(1_000);

/// The redo journal of an engine, as it is attached.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RedoSettings {
    /// The id of the journal.
    pub uuid: [u8; 16],
    /// The ring.
    pub geometry: RedoGeometry,
    /// The volumes of the group.
    pub volumes: VolumeSet,
    /// The tail of the journal.
    pub tail: RedoTail,
    /// The committed groups from the tail on, oldest first.
    pub groups: alloc::vec::Vec<FoundGroup>,
    /// The time between the beginnings of two cuts, if none is urgent.
    pub cut_every: Duration,
    /// The zero of the engine's clock, in nanoseconds since 1970.
    pub zero: u64,
}

/// The redo journal in use.
#[derive(Debug)]
pub(crate) struct Redo {
    pub(crate) uuid: [u8; 16],
    pub(crate) geometry: RedoGeometry,
    pub(crate) volumes: VolumeSet,
    /// The tail that is durable on the journal.
    pub(crate) tail: RedoTail,
    /// Position after the last committed group.
    pub(crate) head: u64,
    /// Number of the last group that was begun.
    pub(crate) last_number: u64,
    pub(crate) cut: Option<Cut>,
    /// Committed groups that are not released, oldest first.
    pub(crate) groups: VecDeque<RedoGroup>,
    /// The progress of the oldest group.
    pub(crate) applying: Option<Applying>,
    pub(crate) cut_every: Duration,
    /// The next cut begins at this time, if none is urgent.
    pub(crate) next_cut: Instant,
    /// After an error of the journal or of a cut, no cut begins until this time.
    pub(crate) backoff_until: Instant,
    /// When the next slice of work may begin.
    pub(crate) next_slice: Instant,
    /// A write waits until the group has fewer dirty blocks.
    pub(crate) is_awaited: bool,
    /// The instant of the last committed cut, in nanoseconds since 1970.
    pub(crate) committed: u64,
    zero: u64,
    pub(crate) counters: RedoCounters,
}

/// Counters of a redo journal since it was attached; all only grow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RedoCounters {
    /// Groups that were committed.
    pub committed_groups: u64,
    /// Cuts that were abandoned after an error.
    pub abandoned_cuts: u64,
    /// Blocks of committed groups.
    pub committed_blocks: u64,
    /// Groups with all data on the origins, durably.
    pub released_groups: u64,
    /// Errors that the journal returned.
    pub errors: u64,
}

/// The state of a redo journal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RedoStatus {
    /// The instant of the last committed cut, in nanoseconds since 1970: without the cache device, the origins and the
    /// journal have the data of this instant.
    pub committed: u64,
    /// Committed groups that are not released.
    pub waiting_groups: u64,
    /// Slots of the ring, and slots in use.
    pub slots: u64,
    /// Slots in use by committed groups.
    pub used_slots: u64,
    /// Whether a cut is in progress.
    pub is_cutting: bool,
    /// Counters.
    pub counters: RedoCounters,
}

impl Redo {
    pub(crate) fn new(now: Instant, settings: RedoSettings) -> Redo {
        let RedoSettings { uuid, geometry, volumes, tail, groups, cut_every, zero } = settings;
        let groups: VecDeque<RedoGroup> = groups.into_iter().map(RedoGroup::found).collect();
        let last = groups.back();
        Redo {
            uuid,
            geometry,
            volumes,
            tail,
            head: last.map_or(tail.position, |group| group.end),
            last_number: last.map_or(tail.released, |group| group.number),
            cut: None,
            committed: last.map_or(tail.instant, |group| group.instant),
            groups,
            applying: None,
            cut_every,
            next_cut: now.plus(cut_every),
            backoff_until: Instant::ZERO,
            next_slice: Instant::ZERO,
            is_awaited: false,
            zero,
            counters: RedoCounters::default(),
        }
    }

    /// A point of the engine's clock, in nanoseconds since 1970.
    pub(crate) fn nanos_of(&self, at: Instant) -> u64 {
        self.zero.saturating_add(at.as_nanos())
    }

    /// Begins a slice of work if it is due.
    pub(crate) fn begin_slice(&mut self, now: Instant) -> bool {
        let is_due = now >= self.next_slice;
        if is_due {
            self.next_slice = now.plus(REST);
        }
        is_due
    }

    /// Slots in use by committed groups.
    pub(crate) fn used_slots(&self) -> u64 {
        self.head - self.tail.position
    }

    /// Whether a cut of this many blocks finds room in the ring.
    pub(crate) fn has_room(&self, blocks: u64) -> bool {
        self.used_slots() + slots_of(blocks) <= self.geometry.slot_count
    }

    /// The most dirty blocks that no group has: half of the ring, so that a cut finds room while another group is
    /// applied.
    pub(crate) fn dirty_max(&self) -> u64 {
        (self.geometry.slot_count / 2 - 1) * CHUNK_BLOCKS_MAX as u64
    }

    /// The most dirty blocks, those of groups included: after a restart one cut has all of them.
    pub(crate) fn all_dirty_max(&self) -> u64 {
        (self.geometry.slot_count - 1) * CHUNK_BLOCKS_MAX as u64
    }

    pub(crate) fn status(&self) -> RedoStatus {
        RedoStatus {
            committed: self.committed,
            waiting_groups: self.groups.len() as u64,
            slots: self.geometry.slot_count,
            used_slots: self.used_slots(),
            is_cutting: self.cut.is_some(),
            counters: self.counters,
        }
    }
}

/// Slots of a group of this many blocks, with its commit.
pub(crate) const fn slots_of(blocks: u64) -> u64 {
    blocks.div_ceil(CHUNK_BLOCKS_MAX as u64) + 1
}
