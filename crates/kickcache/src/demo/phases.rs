//! Runs the phases, one after the other.

use std::time::Duration;

use kickcache_engine::stats::VolumeStatus;

use crate::demo::Load;
use crate::demo::interrupt::Interrupt;
use crate::demo::load::{Run, built_in, fio, measure};
use crate::demo::progress::Progress;
use crate::demo::result::{CacheFigures, Phase, PhaseResult};
use crate::demo::stage::{DATA, Stage};
use crate::demo::workload::{DEPTH, JobLoad, Order, Scale};
use crate::serve::server::ServerHandle;

/// Everything that the phases share.
pub(crate) struct Context<'a> {
    pub(crate) stage: &'a Stage,
    pub(crate) scale: Scale,
    pub(crate) seed: u64,
    pub(crate) load: Load,
    pub(crate) interrupt: &'a Interrupt,
}

impl Phase {
    /// How long its run takes.
    pub(crate) fn duration(self, scale: &Scale) -> Duration {
        match self {
            Phase::SlowDisk | Phase::FastFile => scale.plain,
            Phase::Cold | Phase::Junk | Phase::Restart => scale.cached,
        }
    }

    fn order(self) -> Order {
        match self {
            Phase::Restart => Order::Second,
            Phase::SlowDisk | Phase::FastFile | Phase::Cold | Phase::Junk => Order::First,
        }
    }

    fn has_cache(self) -> bool {
        match self {
            Phase::SlowDisk | Phase::FastFile => false,
            Phase::Cold | Phase::Junk | Phase::Restart => true,
        }
    }
}

/// Runs one phase: starts its server, makes the load, stops the server.
///
/// # Errors
/// If the server or the load fails, or the demo was interrupted.
pub(crate) fn run(
    context: &Context<'_>,
    phase: Phase,
    progress: &mut Progress,
) -> anyhow::Result<PhaseResult> {
    let preparation = if phase == Phase::Junk { "filling a cache with junk" } else { phase.name() };
    progress.say(preparation);
    let server = context.stage.start(phase, context.interrupt)?;
    progress.say(phase.name());
    let before = data_volume(&server)?;
    let mut result = make_load(context, phase, progress)?;
    let after = data_volume(&server)?;
    if phase.has_cache() {
        result.cache = Some(cache_figures(&before, &after));
    }
    context.stage.stop(phase, &server)?;
    progress.finish_run(phase.duration(&context.scale));
    Ok(result)
}

fn make_load(context: &Context<'_>, phase: Phase, progress: &mut Progress) -> anyhow::Result<PhaseResult> {
    let duration = phase.duration(&context.scale);
    let jobs = JobLoad::all(&context.scale, context.seed, phase.order());
    let run = Run {
        socket: &context.stage.socket(),
        export: DATA,
        content: Stage::content(phase),
        jobs: &jobs,
        depth: DEPTH,
        duration,
    };
    let mut watch = |glance| {
        progress.show(glance);
        context.interrupt.check()
    };
    let measured = match context.load {
        Load::BuiltIn => built_in::run(&run, &mut watch)?,
        Load::Fio => fio::run(&run, context.stage.directory(), &mut watch)?,
    };
    Ok(measure::summarize(phase, duration, &measured))
}

fn data_volume(server: &ServerHandle) -> anyhow::Result<VolumeStatus> {
    let status = server.status()?;
    let id = status.volumes.iter().find(|volume| volume.name == DATA).map(|volume| volume.id);
    let found = status.engine.volumes.into_iter().find(|volume| Some(volume.volume) == id);
    found.ok_or_else(|| anyhow::anyhow!("the server does not know the volume `{DATA}`"))
}

fn cache_figures(before: &VolumeStatus, after: &VolumeStatus) -> CacheFigures {
    let (old, new) = (&before.counters, &after.counters);
    let hit_blocks = new.hit_blocks - old.hit_blocks;
    let miss_blocks = new.miss_blocks - old.miss_blocks;
    CacheFigures {
        hit_blocks,
        miss_blocks,
        hit_ratio: CacheFigures::ratio(hit_blocks, miss_blocks),
        promoted_blocks: new.promoted_blocks - old.promoted_blocks,
        origin_reads: new.origin_reads - old.origin_reads,
        cached_blocks: after.cached_blocks,
    }
}
