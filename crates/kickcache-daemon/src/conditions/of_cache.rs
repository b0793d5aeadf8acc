//! Conditions of a cache device.

use std::path::Path;

use kickcache_units::{counted, show_bytes, show_ratio};

use crate::conditions::of_volume::RECENT_SECONDS;
use crate::conditions::{Surroundings, in_order, show_span};
use crate::control::condition::{Condition, ConditionKind};
use crate::control::replacing_report::{ReplacingReport, ReplacingStep};
use crate::control::report::{CacheReport, HealthWord, RecordWord};
use crate::control::wear_report::GivenUpWord;
use crate::shell_command::{DaemonCommands, ShellCommand};

/// A condition exists if dirty and unflushed blocks fill at least this share of the capacity.
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
        let remedy = format!("check both devices, then run `{replace} DEVICE` again");
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
            let what =
                "out of service, and neither the device nor the state directory can record it: writes fail";
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
    let device = Path::new(&cache.device);
    let drains = cache.volumes.iter().filter(|volume| volume.incomplete);
    let drains: Vec<String> = drains.map(|volume| commands.drain(&volume.name).to_string()).collect();
    let hangs = match drains.as_slice() {
        [] => String::new(),
        _ => format!("; {}", commands.if_a_drain_hangs(device)),
    };
    let last = [commands.stop().to_string(), commands.format(device).to_string()];
    let all: Vec<String> = drains.into_iter().chain(last).collect();
    let remedy = format!("before the device is used again, {}{hangs}", in_order(&all));
    let what = "out of service: every request goes to the origin";
    Some(Condition::new(ConditionKind::CacheOutOfService, what, remedy).because(place).commands(all))
}

fn left_out(cache: &CacheReport, commands: &DaemonCommands) -> Condition {
    let replace = commands.replace(Path::new(&cache.device));
    let remedy = format!("`{replace} DEVICE` takes another device in, if that is wanted");
    Condition::new(ConditionKind::CacheLeftOut, "left out: every request goes to the origin", remedy)
}

fn unlinked(cache: &CacheReport, commands: &DaemonCommands) -> Option<Condition> {
    cache.unlinked_at.as_ref()?;
    let what = "its file was removed, or replaced by another one: its blocks are lost when the daemon ends";
    let stop = commands.to_daemon(ShellCommand::new("stop").word("--drain")).to_string();
    let replace = commands.replace(Path::new(&cache.device));
    let remedy = format!("{}, or move the cache to another device (`{replace} DEVICE`)", in_order(&[&stop]));
    Some(Condition::new(ConditionKind::FileUnlinked, what, remedy).commands([stop]))
}

fn silent(cache: &CacheReport) -> Option<Condition> {
    let seconds = cache.silent_seconds?;
    let what = format!("silent: it has completed no operation for {}; requests wait", show_span(seconds));
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
    let remedy = format!("check the device; `{replace} DEVICE` moves the cache to another one");
    let condition = Condition::new(ConditionKind::CacheFailing, what, remedy);
    let retired = cache.retired_segments as f64;
    Some(condition.figure("errors", error.count as f64, "operations").figure("retired", retired, "segments"))
}

/// The condition of a nearly full log; its remedy drains the volume with most dirty blocks.
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
        "the log is nearly full: {} ({share}) are dirty, and at the dirty limit ({limit:.0} % for {}) writes are as slow as the origin",
        show_bytes(dirty),
        most.name
    );
    let drain = commands.drain(&most.name).to_string();
    let remedy =
        format!("{}; if the log fills again, use a faster origin or a larger cache", in_order(&[&drain]));
    let condition = Condition::new(ConditionKind::LogNearlyFull, what, remedy).commands([drain]);
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
        "{written} were written in the last day, {share} of the write budget of {}; {given_up}",
        show_bytes(budget)
    );
    let remedy = "raise `write-budget`, or write less to the cache with another mode";
    let condition = Condition::new(ConditionKind::WearOverBudget, what, remedy);
    Some(condition.figure("written", wear.day_bytes as f64, "bytes").figure("budget", budget as f64, "bytes"))
}

/// The running operations of the device.
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

/// The progress of the replacement.
fn show_replacing(ReplacingReport { with, step, copied_bytes, bytes }: &ReplacingReport) -> String {
    match step {
        ReplacingStep::Preparing => format!("is being replaced: {with} is prepared"),
        ReplacingStep::Copying => {
            format!("is being replaced: {} are copied to {with}", show_ratio(*copied_bytes, *bytes))
        }
        ReplacingStep::TakingOver => format!("is being replaced: {with} has all blocks, and takes over"),
    }
}
