//! The plan of a run, drawn from its seed: a random choice of features.

mod abandonments;
pub mod aim;
mod checkpoints;
mod coincidence;
pub(crate) mod draw;
pub mod ends;
mod failed_batches;
pub mod faults;
mod focus;
mod focused;
pub mod growth;
mod hard_starts;
pub mod latency;
pub mod load;
mod loops;
mod overtaking;
pub mod pick;
pub mod point_in_time;
mod refusals;
mod refused_supersedes;
pub mod replacement;
mod restarts;
mod stretches;
mod superseding;
mod takeovers;

use kickcache_engine::config::{EngineSettings, Mode, OriginKind, VolumeSettings};
use kickcache_engine::time::Duration;

use crate::plan::ends::Ends;
use crate::plan::faults::Faults;
use crate::plan::growth::Growth;
use crate::plan::latency::{Latency, SlowPart};
use crate::plan::load::{Shape, Weights};
use crate::plan::point_in_time::PointInTime;
use crate::plan::replacement::Replacement;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PlanKind {
    Any,
    /// Plans that focus on one subject, with errors of writes or flushes.
    Focused,
    /// Plans in which all volumes are written back in cuts.
    PointInTime,
}

impl PlanKind {
    /// The option of `kickcache-vopr` that plays plans of this kind, after a space; empty for [`PlanKind::Any`].
    pub fn option(self) -> &'static str {
        match self {
            PlanKind::Any => "",
            PlanKind::Focused => " --focused",
            PlanKind::PointInTime => " --point-in-time",
        }
    }
}

#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    pub cache_size: u64,
    /// Whether the cache device holds stale data before it is formatted.
    pub cache_stale: bool,
    pub origin_sizes: Vec<u64>,
    /// Chunks of the origins that hold data before the run, in 1/1000.
    pub filled_permille: u64,
    pub settings: EngineSettings,
    pub volumes: Vec<VolumeSettings>,
    pub mode_changes: bool,
    /// Whether the other settings of volumes change while they are served.
    pub setting_changes: bool,
    /// Whether the operator requests drains.
    pub drains: bool,
    pub clients: usize,
    /// Mean pause of a client between requests, apart from long pauses.
    pub pause: Duration,
    /// Long pauses (2 s), in 1/1000.
    pub long_pause_permille: u64,
    /// Lives in which a volume is not served, in 1/1000; one volume of the run is served in every life.
    pub absent_permille: u64,
    /// The most requests that clients issue in one stretch of work.
    pub requests: u64,
    pub lives: u64,
    pub weights: Weights,
    pub shape: Shape,
    pub cache_latency: Latency,
    /// Structures on the cache device that are slow to write, if any.
    pub slow_part: Option<SlowPart>,
    /// Latency of the origins.
    pub origin_latency: Latency,
    pub faults: Faults,
    pub ends: Ends,
    pub growth: Option<Growth>,
    pub replacement: Option<Replacement>,
    /// Lives in which the cache device is to be left out, in 1/1000 of the lives in which clients work.
    pub leaving_permille: u64,
    /// When the cache device is left out with dirty blocks, if the plan has such lives.
    pub abandoned: Option<Abandoned>,
    /// Lives in which a volume is to be removed and added again, in 1/1000 of the lives in which clients work.
    pub parting_permille: u64,
    /// Mean time from one restart of an origin to the next; `None` if the origins are local.
    pub restart_after: Option<Duration>,
    /// The redo journal, if the volumes are written back in cuts.
    pub point_in_time: Option<PointInTime>,
    /// Bytes that a power cut does not tear.
    pub atomic_unit: u64,
    /// The cache metadata is checked whenever the driver has polled the engine this many times.
    pub checks_every: u64,
    /// The longest duration of a request to an origin that is not silent, if the run checks it.
    pub wait_max: Option<Duration>,
}

/// When the operator leaves out a cache device with dirty blocks: after a random number of a life's requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Abandoned {
    /// At once.
    AnyTime,
    /// As soon as all blocks of some volume are written back and some are unflushed, if that happens in the life.
    Unflushed,
}

impl Plan {
    /// Whether no block is read for a client, or to complete a partial block, until all blocks are read after a crash.
    pub fn reads_nothing(&self) -> bool {
        let Plan { weights, shape, .. } = self;
        let asked = weights.read + weights.promote + shape.sequential_permille;
        let passes_log = |volume: &VolumeSettings| matches!(volume.mode, Mode::WriteAround | Mode::Bypass);
        let may_be_logged = self.mode_changes || !self.volumes.iter().all(passes_log);
        asked + shape.unaligned_permille == 0 && (shape.sector_permille == 0 || !may_be_logged)
    }

    /// No cache device grows, is replaced or is left out, no volume is removed, no origin restarts, and the time that
    /// requests take has no limit.
    fn forbid_changes(&mut self) {
        self.forbid_restarts();
        (self.growth, self.replacement) = (None, None);
        (self.leaving_permille, self.parting_permille, self.wait_max) = (0, 0, None);
        self.abandoned = None;
    }

    /// All origins are local. The engine treats discards of remote origins as durable, and the simulated
    /// device does so only in plans with restarts.
    fn forbid_restarts(&mut self) {
        self.restart_after = None;
        self.volumes.iter_mut().for_each(|volume| volume.origin = OriginKind::Local);
    }

    fn check_origins(&self) {
        let kind = if self.restart_after.is_some() { OriginKind::Remote } else { OriginKind::Local };
        assert!(self.volumes.iter().all(|volume| volume.origin == kind), "origins that restart are remote");
    }
}
