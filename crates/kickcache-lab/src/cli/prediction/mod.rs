//! `kickcache bench --predict`: the same job on models of the devices, compared with the measurement.

mod simulated_target;
mod spec;

use kickcache_command::exit::Failure;
use kickcache_engine::config::Mode;
use kickcache_model::cache_model::cache_kind::CacheKind;
use kickcache_model::device_model::device_file::DeviceFile;
use kickcache_model::result::RunResult;

use crate::bench::{BenchResult, Prediction, SimulatedLoad, TargetSpec};
use crate::cli::prediction::simulated_target::{SimulatedPhase, SimulatedTarget};
pub(crate) use crate::cli::prediction::spec::PredictionSpec;
use crate::cli::simulate::compare::find_device;
use crate::cli::simulate::pool::{Task, processors, run_all};

/// Predictions with devices that were found, for a load that can be simulated.
pub(crate) struct Predictions {
    load: SimulatedLoad,
    planned: Vec<Planned>,
}

struct Planned {
    target: String,
    cache: CacheKind,
    origin: DeviceFile,
    cache_device: Option<DeviceFile>,
    size: Option<u64>,
}

impl Predictions {
    /// Checks the specifications and the devices.
    ///
    /// # Errors
    /// If a specification does not fit the targets, or a device cannot be used.
    pub(crate) fn plan(
        specs: &[PredictionSpec],
        targets: &[TargetSpec],
        load: SimulatedLoad,
    ) -> Result<Predictions, Failure> {
        for (index, spec) in specs.iter().enumerate() {
            if specs[..index].iter().any(|other| other.target == spec.target) {
                return Err(Failure::usage(format!(
                    "--predict {} is there twice; a target is predicted once",
                    spec.target
                )));
            }
        }
        let planned = specs.iter().map(|spec| plan(spec, targets)).collect::<Result<Vec<_>, Failure>>()?;
        Ok(Predictions { load, planned })
    }

    /// Adds the predictions of the planned targets to a result.
    ///
    /// # Errors
    /// A sentence, if a cache cannot be simulated.
    pub(crate) fn add_to(&self, result: &mut BenchResult, seed: u64) -> anyhow::Result<()> {
        let targets: Vec<SimulatedTarget> =
            self.planned.iter().filter_map(|planned| self.simulated(planned, result, seed)).collect();
        let tasks = targets.into_iter().map(task).collect();
        for found in run_all(tasks, processors()) {
            result.predictions.extend(found.map_err(anyhow::Error::msg)?);
        }
        Ok(())
    }

    /// A target with its measured phases; `None` without a measured phase.
    fn simulated(&self, planned: &Planned, result: &BenchResult, seed: u64) -> Option<SimulatedTarget> {
        let measured = result.measured(&planned.target);
        let known = measured.first()?.result.cache_bytes;
        Some(SimulatedTarget {
            name: planned.target.clone(),
            cache: planned.cache,
            size: planned.size.or(known).unwrap_or(0),
            origin: planned.origin.clone(),
            cache_device: planned.cache_device.clone(),
            load: self.load.clone(),
            seed,
            phases: measured
                .iter()
                .map(|run| SimulatedPhase { phase: run.phase, run: named(&run.result) })
                .collect(),
        })
    }
}

/// A prediction of a run, without its figures.
fn named(measured: &RunResult) -> RunResult {
    let mut run = RunResult::new(&format!("{}, predicted", measured.name), &measured.workload, measured.seed);
    run.family = measured.family.as_ref().map(|family| format!("{family}, predicted"));
    run.predicts = Some(measured.name.clone());
    run
}

fn task(target: SimulatedTarget) -> Task<Result<Vec<Prediction>, String>> {
    let name = format!("predicting {}", target.name);
    let nanos = target.expected_nanos();
    Task { name, weight: 1, nanos, work: Box::new(move |progress| target.run(progress)) }
}

fn plan(spec: &PredictionSpec, targets: &[TargetSpec]) -> Result<Planned, Failure> {
    let known = targets.iter().find(|target| target.name == spec.target).ok_or_else(|| {
        let names: Vec<&str> = targets.iter().map(|target| target.name.as_str()).collect();
        Failure::usage(format!(
            "--predict {}: there is no such target; the targets are {}",
            spec.target,
            names.join(", ")
        ))
    })?;
    let mode = known.own_mode();
    let own = || CacheKind::Kickcache(mode.map_or(Mode::WriteThrough, Mode::from));
    let cache = match &spec.cache {
        None => CacheKind::None,
        Some(_) => spec.model.unwrap_or_else(own),
    };
    if cache == CacheKind::None && mode.is_some() {
        return Err(Failure::usage(format!(
            "--predict {0}: the target has a cache; write {0}=origin:DEVICE,cache:DEVICE",
            spec.target
        )));
    }
    if cache != CacheKind::None && mode.is_none() && spec.size.is_none() {
        return Err(Failure::usage(format!(
            "--predict {}: the size of its cache is not known; add size:SIZE",
            spec.target
        )));
    }
    Ok(Planned {
        target: spec.target.clone(),
        cache,
        origin: find_device(&spec.origin)?,
        cache_device: spec.cache.as_deref().map(find_device).transpose()?,
        size: spec.size.map(kickcache_units::Size::bytes),
    })
}
