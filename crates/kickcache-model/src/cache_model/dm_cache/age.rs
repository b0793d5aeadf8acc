//! Versions of dm-cache, and the steps of the repair between them.
//!
//! The names of functions are those of `dm-cache-policy-smq.c` and `dm-cache-target.c`.

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Victims {
    /// The oldest of the lowest level that begins with a block that was not used for one to two minutes.
    Rested,
    /// The oldest of the lowest level.
    Any,
    /// The oldest of the lowest level of the lower half.
    LowerHalf,
}

/// The accesses that keep the cache from being idle (`accountable_bio`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BusyAccesses {
    /// Accesses of clients in flight at the origin, and the ends of their accesses at either device
    /// (`__iot_io_end` until 072792dcdfc8).
    OriginAndEnds,
    /// Accesses of clients in flight at the origin.
    Origin,
    /// Accesses of clients in flight at either device.
    Both,
}

/// When a dirty block is written back because no clean block can be demoted (`queue_demotion`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CleansForRoom {
    /// While less than a quarter of the cache is clean, or will be.
    BelowQuarter,
    Always,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Age {
    /// Every access feeds the hotspot queue, not only misses.
    pub every_access_counts: bool,
    /// The promotion threshold, the level of writes and the place of surplus entries are those of 4.11.
    pub uses_table: bool,
    pub cache_period: u64,
    pub enters_at_top: bool,
    pub victims: Victims,
    pub watched: BusyAccesses,
    /// While idle, blocks are demoted until a quarter of the cache is free (`free_target_met` in
    /// `smq_get_background_work`).
    pub frees_when_idle: bool,
    /// A quarter of the cache is kept clean also while it is busy (`clean_target_met`).
    pub cleans_when_busy: bool,
    pub cleans_for_room: CleansForRoom,
    /// While idle, blocks are written back independent of their last use (`queue_writeback` since 4.15).
    pub cleans_all_when_idle: bool,
    /// No background work while the cache is busy and as many migrations are in flight as the threshold allows
    /// (`spare_migration_bandwidth`).
    pub is_throttled: bool,
    /// As before 4.12, the access that causes a promotion waits for it, reads wait for a block that is being moved, a
    /// promotion over the limit is refused, and a victim is removed at once.
    pub waits_for_copy: bool,
}

impl Age {
    /// Linux 4.11 and before.
    pub const LINUX_4_11: Age = Age {
        every_access_counts: true,
        uses_table: true,
        cache_period: 10,
        enters_at_top: false,
        victims: Victims::Rested,
        watched: BusyAccesses::OriginAndEnds,
        frees_when_idle: false,
        cleans_when_busy: false,
        cleans_for_room: CleansForRoom::BelowQuarter,
        cleans_all_when_idle: false,
        is_throttled: true,
        waits_for_copy: true,
    };

    /// Linux 4.12-rc1: reworked, not yet repaired.
    pub const LINUX_4_12_RC1: Age = Age {
        every_access_counts: false,
        uses_table: false,
        cache_period: 60,
        enters_at_top: false,
        victims: Victims::Any,
        watched: BusyAccesses::OriginAndEnds,
        frees_when_idle: true,
        cleans_when_busy: true,
        cleans_for_room: CleansForRoom::BelowQuarter,
        cleans_all_when_idle: false,
        is_throttled: true,
        waits_for_copy: false,
    };

    /// Up to 78c45607b909: only accesses at the origin keep the cache from being idle (072792dcdfc8), victims are of the
    /// lower half only, and a dirty block is written back if there is no victim.
    pub const PART_OF_REPAIR: Age = Age {
        watched: BusyAccesses::Origin,
        victims: Victims::LowerHalf,
        cleans_for_room: CleansForRoom::Always,
        ..Age::LINUX_4_12_RC1
    };

    /// Up to 6cf4cc8f8b3b: promoted blocks enter at the top (4d44ec5ab751), and no block is freed ahead of need.
    pub const MOST_OF_REPAIR: Age =
        Age { enters_at_top: true, frees_when_idle: false, ..Age::PART_OF_REPAIR };

    /// Linux 4.12 and later: all accesses keep the cache from being idle (701e03e4e180), copies are not limited
    /// (49b7f768900f), and blocks are written back only while the cache is idle, or for space (2e63309507c8). An idle cache
    /// is cleaned as since 4.15 (deb71918ae29).
    pub const REPAIRED: Age = Age {
        watched: BusyAccesses::Both,
        cleans_when_busy: false,
        cleans_all_when_idle: true,
        is_throttled: false,
        ..Age::MOST_OF_REPAIR
    };
}
