//! What changed in smq over time: the three ages of it, and the steps of the repair between them.

/// Which blocks may be demoted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Victims {
    /// The oldest of any level that was not used for one to two minutes.
    Rested,
    /// The oldest of the lowest level.
    Any,
    /// The oldest of the lowest level of the lower half.
    LowerHalf,
}

/// How one version of the policy behaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Age {
    /// Every access feeds the hotspot queue, not only misses.
    pub every_access_counts: bool,
    /// The promotion threshold comes from the table of hit ratios.
    pub uses_table: bool,
    /// Seconds between two redistributions of the cached blocks.
    pub cache_period: u64,
    /// What is promoted enters at the highest level, not at the lowest.
    pub enters_at_top: bool,
    /// Who may be demoted.
    pub victims: Victims,
    /// While idle, a quarter of the cache is freed.
    pub frees_when_idle: bool,
    /// No background work while as much is under way as the threshold allows.
    pub is_throttled: bool,
    /// The access that causes a promotion waits for it.
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
        frees_when_idle: false,
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
        frees_when_idle: true,
        is_throttled: true,
        waits_for_copy: false,
    };

    /// Linux 4.12-rc1 with the first part of the repair (78c45607b909).
    pub const PART_OF_REPAIR: Age = Age { victims: Victims::LowerHalf, ..Age::LINUX_4_12_RC1 };

    /// Linux 4.12 and later.
    pub const REPAIRED: Age =
        Age { enters_at_top: true, frees_when_idle: false, is_throttled: false, ..Age::PART_OF_REPAIR };
}
