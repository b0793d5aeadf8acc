//! Conditions of a cache device.

use std::path::Path;

use kickcache_units::{counted, show_bytes, show_ratio};

use crate::conditions::Surroundings;
use crate::conditions::of_volume::{RECENT_SECONDS, dirty_reads};
use crate::control::condition::{Condition, ConditionKind};
use crate::control::last_error::LastError;
use crate::control::remedy::{Remedy, Step};
use crate::control::replacing_report::{ReplacingReport, ReplacingStep};
use crate::control::report::{CacheReport, HealthWord, RecordWord, VolumeReport};
use crate::control::wear_report::GivenUpWord;
use crate::shell_command::{DaemonCommands, ShellCommand};

/// The log of a cache device in service is nearly full if dirty and unflushed blocks fill at least this share of
/// its capacity.
const DIRTY_SHARE_MAX: f64 = 0.6;

pub(super) fn find(cache: &CacheReport, around: &Surroundings<'_>, found: &mut Vec<Condition>) {
    let of_device = |condition: Condition| condition.of_device(&cache.device);
    found.extend(out_of_service(cache, around.commands).map(of_device));
    if cache.health == HealthWord::Good {
        found.extend(silent(cache).map(of_device));
        found.extend(nearly_full(cache, around.commands).map(of_device));
        found.extend(worn(cache).map(of_device));
    }
    found.extend(unlinked(cache, around.commands).map(of_device));
    found.extend(failing(cache, around.commands).map(of_device));
    if let Some(failure) = &cache.replacement_failure {
        let replace = around.commands.replace(Path::new(&cache.device));
        let remedy = vec![
            Step::outside("check both devices"),
            Step::run("replace the device again", format!("{replace} DEVICE")),
        ];
        let condition = Condition::new(ConditionKind::ReplacementFailed, "was not replaced", remedy);
        found.push(of_device(condition.because(failure)));
    }
    found.extend(operations(cache).map(of_device));
}

fn out_of_service(cache: &CacheReport, commands: &DaemonCommands) -> Option<Condition> {
    let place = match (cache.health, cache.record) {
        (HealthWord::Good, _) => return None,
        (HealthWord::OutOfService, Some(RecordWord::ByOrder)) => return Some(left_out(cache, commands)),
        (HealthWord::OutOfService, Some(RecordWord::Failed)) => {
            let remedy = "make the state directory writable; the daemon tries again";
            let what = "out of service, and neither the device nor the state directory can record it";
            return Some(Condition::new(ConditionKind::OutOfServiceUnrecorded, what, remedy));
        }
        (HealthWord::OutOfService, Some(RecordWord::Earlier)) => "it failed before the start",
        (HealthWord::OutOfService, Some(RecordWord::OnDevice)) => "its failure is recorded on the device",
        (HealthWord::OutOfService, Some(RecordWord::InStateDirectory)) => {
            "its failure is recorded in the state directory"
        }
        (HealthWord::OutOfService, Some(RecordWord::Pending) | None) => {
            "its failure is being recorded, and writes wait for that"
        }
    };
    let error = cache.last_error.as_ref().map_or_else(String::new, |error| {
        let LastError { name, operation, count, .. } = error;
        format!("{}, the last {name} of a {operation}; ", counted(*count, "error"))
    });
    let what = "out of service";
    let condition = Condition::new(ConditionKind::CacheOutOfService, what, use_another(cache, commands));
    let dirty: Vec<String> = incomplete(cache).map(dirty_of).collect();
    let (only, effect) = match dirty.as_slice() {
        [] => (String::new(), String::new()),
        some => (format!("; dirty and only on it: {}", some.join(", ")), format!(". {}", dirty_reads(cache))),
    };
    let served = "clients are served, but at the speed of the origins, without the cache";
    Some(condition.because(format!("{error}{place}{only}")).with_effect(format!("{served}{effect}")))
}

/// The volumes that may have blocks that only the device has, if it is out of service.
fn incomplete(cache: &CacheReport) -> impl Iterator<Item = &VolumeReport> {
    cache.volumes.iter().filter(|volume| volume.incomplete)
}

fn dirty_of(volume: &VolumeReport) -> String {
    format!("{} of {}", show_bytes(volume.dirty_bytes), volume.name)
}

/// The steps to another device without a stop.
fn use_another(cache: &CacheReport, commands: &DaemonCommands) -> Remedy {
    let device = Path::new(&cache.device);
    let drains: Vec<Step> = incomplete(cache)
        .map(|volume| {
            let what = format!("keep the daemon running, and write back the dirty {}", dirty_of(volume));
            Step::run(what, commands.drain(&volume.name))
        })
        .collect();
    let (hangs, after) = match drains.as_slice() {
        [] => (String::new(), ""),
        _ => (
            format!(
                "{}: {} at most; ",
                commands.if_a_drain_hangs(device),
                show_bytes(incomplete(cache).map(|volume| volume.dirty_bytes).sum())
            ),
            "once no block is dirty on it, ",
        ),
    };
    let others = [
        Step::run("end the use of the failed device; it can then be removed", commands.leave_out(device)),
        Step::run(
            "put another device, DEVICE, in its place: the cache begins empty",
            format!("{} DEVICE", commands.replace(device)),
        ),
        Step::outside(format!(
            "in the configuration file of the daemon, write the path of DEVICE in place of {}, for the next start (no \
             reload is needed)",
            cache.device
        )),
    ];
    let again = format!(
        "to use the same device again after a repair: {after}`{}`, then `{}`, then {}",
        commands.stop(),
        commands.format(device),
        commands.start_step().sentence()
    );
    Remedy::from(drains.into_iter().chain(others).collect::<Vec<Step>>()).or(Some(hangs + &again))
}

fn left_out(cache: &CacheReport, commands: &DaemonCommands) -> Condition {
    let replace = commands.replace(Path::new(&cache.device));
    let remedy = Step::run("take another device in, if that is wanted", format!("{replace} DEVICE"));
    Condition::new(ConditionKind::CacheLeftOut, "left out", remedy)
}

fn unlinked(cache: &CacheReport, commands: &DaemonCommands) -> Option<Condition> {
    cache.unlinked_at.as_ref()?;
    let what = "its file was removed, or replaced by another one";
    let stop = commands.to_daemon(ShellCommand::new("stop").word("--drain"));
    let replace = commands.replace(Path::new(&cache.device));
    let remedy = Remedy::from(Step::run("write all dirty blocks back, and stop the daemon", stop))
        .or(Some(format!("or move the cache to another device without a stop (`{replace} DEVICE`)")));
    Some(Condition::new(ConditionKind::FileUnlinked, what, remedy))
}

fn silent(cache: &CacheReport) -> Option<Condition> {
    let seconds = cache.silent_seconds?;
    let what = "silent: it completes no operation";
    let condition = Condition::new(ConditionKind::CacheSilent, what, "check the device and its connection");
    Some(condition.lasting(seconds))
}

fn failing(cache: &CacheReport, commands: &DaemonCommands) -> Option<Condition> {
    let error = cache.last_error.as_ref().filter(|error| error.seconds_ago < RECENT_SECONDS)?;
    let retired = match cache.retired_segments {
        0 => String::new(),
        some => format!("; {} of the log retired", counted(some, "segment")),
    };
    let what = format!("{}{retired}", error.show());
    let replace = commands.replace(Path::new(&cache.device));
    let remedy = vec![
        Step::outside("check the device"),
        Step::run("move the cache to another one, if it has to be replaced", format!("{replace} DEVICE")),
    ];
    let condition = Condition::new(ConditionKind::CacheFailing, what, remedy);
    let retired = cache.retired_segments as f64;
    Some(condition.figure("errors", error.count as f64, "operations").figure("retired", retired, "segments"))
}

/// `None` below [`DIRTY_SHARE_MAX`], and without volumes.
fn nearly_full(cache: &CacheReport, commands: &DaemonCommands) -> Option<Condition> {
    let dirty = cache.not_clean_bytes();
    let limit = DIRTY_SHARE_MAX * cache.capacity_bytes as f64;
    let most = cache.volumes.iter().max_by_key(|volume| volume.dirty_bytes)?;
    if cache.capacity_bytes == 0 || (dirty as f64) < limit {
        return None;
    }
    let share = show_ratio(dirty, cache.capacity_bytes);
    let limit = most.limits.dirty_limit * 100.0;
    let what = format!(
        "the log is nearly full: {} ({share}) are dirty; the dirty limit is {limit:.0} % for {}",
        show_bytes(dirty),
        most.name
    );
    let drain =
        Step::run(format!("write back the dirty blocks of {}", most.name), commands.drain(&most.name));
    let remedy =
        Remedy::from(drain).or(Some("if the log fills again, use a faster origin or a larger cache".into()));
    let condition = Condition::new(ConditionKind::LogNearlyFull, what, remedy);
    Some(condition.figure("dirty", dirty as f64, "bytes"))
}

fn worn(cache: &CacheReport) -> Option<Condition> {
    let wear = &cache.wear;
    let budget = wear.budget_bytes_per_day?;
    let is_above = wear.day_bytes > budget;
    let given_up = match wear.given_up {
        GivenUpWord::KnownBlocks | GivenUpWord::Everything => wear.given_up.effect(),
        GivenUpWord::Nothing | GivenUpWord::ReadAhead | GivenUpWord::UnknownBlocks => {
            is_above.then_some("client writes are not limited by it")
        }
    }?;
    let (written, share) = (show_bytes(wear.day_bytes), show_ratio(wear.day_bytes, budget));
    let what = format!(
        "{written} were written in the last day, {share} of the write budget of {}",
        show_bytes(budget)
    );
    let remedy = "raise `write-budget`, or write less to the cache with another mode";
    let condition = Condition::new(ConditionKind::WearOverBudget, what, remedy);
    let condition = condition.with_effect(format!("clients are served; {given_up}"));
    Some(condition.figure("written", wear.day_bytes as f64, "bytes").figure("budget", budget as f64, "bytes"))
}

fn operations(cache: &CacheReport) -> impl Iterator<Item = Condition> {
    let running = |what: String| Condition::new(ConditionKind::OperationRunning, what, "wait for its end");
    let replacing = cache.replacing.as_ref().map(|replacing| {
        let ReplacingReport { copied_bytes, bytes, .. } = replacing;
        running(show_replacing(replacing)).figure("copied", *copied_bytes as f64, "bytes").figure(
            "all",
            *bytes as f64,
            "bytes",
        )
    });
    let growing = cache.growing_to_bytes.map(|size| {
        running(format!("grows from {} to {}", show_bytes(cache.device_bytes), show_bytes(size))).figure(
            "size",
            size as f64,
            "bytes",
        )
    });
    let leaving = cache.leaving_out.as_ref().map(|leaving| {
        let left = show_bytes(leaving.left_bytes);
        running(format!("is being left out: {left} are to be written back before")).figure(
            "left",
            leaving.left_bytes as f64,
            "bytes",
        )
    });
    let stopping = cache
        .stop_waits_for
        .as_ref()
        .map(|awaited| running(format!("its server stops, and waits for {awaited}")));
    [replacing, growing, leaving, stopping].into_iter().flatten()
}

fn show_replacing(ReplacingReport { with, step, copied_bytes, bytes }: &ReplacingReport) -> String {
    match step {
        ReplacingStep::Preparing => format!("is being replaced: {with} is prepared"),
        ReplacingStep::Copying => {
            format!("is being replaced: {} are copied to {with}", show_ratio(*copied_bytes, *bytes))
        }
        ReplacingStep::TakingOver => format!("is being replaced: {with} has all blocks, and takes over"),
    }
}
