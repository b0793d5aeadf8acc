//! Runs the phases, one after the other.

use std::time::Duration;

use kickcache_command::interrupt::Interrupt;
use kickcache_daemon::serve::server::ServerHandle;
use kickcache_engine::stats::VolumeStatus;
use kickcache_model::result::RunResult;
use kickcache_units::show_bytes;

use crate::demo::devices::{DATA, DemoDevices};
use crate::demo::job_result::job_result;
use crate::demo::load::measure::JobMeasure;
use crate::demo::load::{Glance, Run, built_in, fio, measure};
use crate::demo::load_maker::LoadMaker;
use crate::demo::progress::Progress;
use crate::demo::result::{CacheFigures, Phase, PhaseResult};
use crate::demo::run_display::RunDisplay;
use crate::demo::slow_disk;
use crate::demo::workload::{DEPTH, JOB_COUNT, JobLoad, Order, Scale, THETA};
use crate::process_times;
use crate::timeline::Timeline;

pub(crate) struct Context<'a> {
    pub(crate) devices: &'a DemoDevices,
    pub(crate) scale: Scale,
    pub(crate) seed: u64,
    pub(crate) load: LoadMaker,
    pub(crate) display: Option<&'a dyn RunDisplay>,
    pub(crate) interrupt: &'a Interrupt,
}

impl Phase {
    pub(crate) fn duration(self, scale: &Scale) -> Duration {
        match self {
            Phase::SlowDisk | Phase::FastFile => scale.plain,
            Phase::Cold | Phase::Stale | Phase::Restart => scale.cached,
        }
    }

    fn order(self) -> Order {
        match self {
            Phase::Restart => Order::Second,
            Phase::SlowDisk | Phase::FastFile | Phase::Cold | Phase::Stale => Order::First,
        }
    }

    fn has_cache(self) -> bool {
        match self {
            Phase::SlowDisk | Phase::FastFile => false,
            Phase::Cold | Phase::Stale | Phase::Restart => true,
        }
    }
}

pub(crate) struct PhaseFigures {
    pub(crate) result: PhaseResult,
    pub(crate) run: RunResult,
    /// The server of the run, which still runs.
    pub(crate) server: ServerHandle,
}

/// Runs one phase.
///
/// # Errors
/// If the server or the load fails, or the demo was interrupted.
pub(crate) fn run(
    context: &Context<'_>,
    phase: Phase,
    progress: &mut Progress,
) -> anyhow::Result<PhaseFigures> {
    let preparation = if phase == Phase::Stale { "filling a cache with stale data" } else { phase.name() };
    progress.say(preparation);
    let server = context.devices.start(phase, context.interrupt)?;
    if let Some(display) = context.display {
        display.show(&server, context.devices.cache_spec(phase));
    }
    progress.say(phase.name());
    let before = data_volume(&server)?;
    let mut timeline = Timeline::begin(&server, DATA)?;
    let own = [std::process::id()].into();
    let processors = process_times::look(&own);
    let measured = make_load(context, phase, progress, &mut timeline)?;
    let mut result = measure::summarize(phase, phase.duration(&context.scale), &measured);
    if let (Some(before), Some(after)) = (processors, process_times::look(&own)) {
        result.others = after.others_since(&before);
    }
    let mut run = run_result(context, phase, &measured);
    let after = data_volume(&server)?;
    if phase.has_cache() {
        result.cache = Some(cache_figures(&before, &after));
        timeline.finish(phase.duration(&context.scale), &mut run)?;
    } else {
        drop(timeline);
    }
    progress.finish_run(phase.duration(&context.scale));
    Ok(PhaseFigures { result, run, server })
}

/// The run as a report shows it, without the server's counters.
fn run_result(context: &Context<'_>, phase: Phase, measured: &[JobMeasure]) -> RunResult {
    let depth = u32::try_from(DEPTH).expect("small");
    let workload = format!("{JOB_COUNT} jobs x {DEPTH} reads of 4 KiB in flight, zipf {THETA}");
    let mut run = RunResult::new(phase.name(), &workload, context.seed);
    run.nanos = u64::try_from(phase.duration(&context.scale).as_nanos()).unwrap_or(u64::MAX);
    run.cache = phase.has_cache().then(|| format!("{} in a file", show_bytes(context.scale.cache_bytes)));
    run.origin = match phase {
        Phase::FastFile => "a file".into(),
        Phase::SlowDisk | Phase::Cold | Phase::Stale | Phase::Restart => slow_disk::DESCRIPTION.into(),
    };
    run.jobs = (1..).zip(measured).map(|(number, job)| job_result(number, depth, job)).collect();
    run
}

fn make_load(
    context: &Context<'_>,
    phase: Phase,
    progress: &mut Progress,
    timeline: &mut Timeline<'_>,
) -> anyhow::Result<Vec<JobMeasure>> {
    let duration = phase.duration(&context.scale);
    let jobs = JobLoad::all(&context.scale, context.seed, phase.order());
    let run = Run {
        socket: &context.devices.socket(),
        export: DATA,
        content: DemoDevices::content(phase),
        jobs: &jobs,
        depth: DEPTH,
        duration,
    };
    let mut watch = |glance: Glance| {
        progress.show(glance);
        timeline.go_on(glance.elapsed)?;
        context.interrupt.check()
    };
    match context.load {
        LoadMaker::BuiltIn => built_in::run(&run, &mut watch),
        LoadMaker::Fio => fio::run(&run, context.devices.directory(), &mut watch),
    }
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
