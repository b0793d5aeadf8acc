//! Converts the status of a server into the report of the control socket.

use std::time::Duration;

use kickcache_engine::device::Device;
use kickcache_engine::time;

use crate::control::activity::{Activity, RequestLatency};
use crate::control::error_count::ErrorCount;
use crate::control::last_error::LastError;
use crate::control::lru_curve::LruCurve;
use crate::control::replacing_report::{LeavingOutReport, ReplacingReport, ReplacingStep};
use crate::control::report::{CacheFacts, CacheReport, RecordWord, Trouble, VolumeFacts};
use crate::control::wear_report::WearReport;
use crate::driver::errno::errno_name;
use crate::driver::fault::Cause;
use crate::latency::Latencies;
use crate::plan::cache_spec::{CacheService, CacheSpec};
use crate::serve::server::{self, Errors, FaultCount, ServerSample, ServerStatus, TakeoverStage};
use crate::whole_path::whole_path;

pub(crate) fn cache_report(status: ServerStatus, spec: &CacheSpec) -> CacheReport {
    as_used(report_of(status, spec, None, &[]), spec.service)
}

/// Adds the progress of a leave-out, if one is running; `bytes` were dirty or unflushed at its begin.
pub(crate) fn with_leaving(report: CacheReport, bytes: Option<u64>) -> CacheReport {
    let left_bytes = report.not_clean_bytes();
    CacheReport { leaving_out: bytes.map(|bytes| LeavingOutReport { left_bytes, bytes }), ..report }
}

/// The report on a server for metrics, from a sample.
pub fn sample_report(sample: ServerSample, spec: &CacheSpec) -> CacheReport {
    as_used(report_of(sample.status, spec, Some(seconds(sample.pause)), &sample.latencies), spec.service)
}

fn as_used(report: CacheReport, service: CacheService) -> CacheReport {
    match service {
        CacheService::OutOfService => CacheReport { record: Some(RecordWord::Earlier), ..report },
        CacheService::InService | CacheService::LeftOut | CacheService::WrittenBackOnly => report,
    }
}

fn report_of(
    status: ServerStatus,
    spec: &CacheSpec,
    sample_seconds: Option<f64>,
    latencies: &[Latencies],
) -> CacheReport {
    let faults = &status.faults;
    let volumes = status.volumes.into_iter().enumerate().map(|(index, info)| {
        let activities = status.activities[index];
        VolumeFacts {
            id: info.id,
            served_at: status.served_at[index].clone(),
            sessions: status.sessions[index],
            client_cap: status.client_caps[index],
            held_requests: status.held_requests[index],
            recordings: status.recordings[index] as u64,
            recovered: status.recovery.left_bytes(info.id, &status.engine),
            trouble: trouble(&status.origin_troubles[index], faults, Device::Origin(info.id)),
            name: info.name,
            origin: info.origin,
            since_start: activity(&activities.since_start),
            recent: activity(&activities.recent),
            lru_curve: status.curves[index].as_ref().and_then(LruCurve::new),
            latencies: latencies.get(index).copied(),
        }
    });
    let volumes = volumes.collect();
    let facts = CacheFacts {
        now: status.now,
        device: whole_path(&status.cache),
        size: status.cache_size,
        growing_to: status.growing_to,
        replacing: status.takeover.map(|takeover| ReplacingReport {
            with: takeover.with,
            step: match takeover.stage {
                TakeoverStage::Preparing => ReplacingStep::Preparing,
                TakeoverStage::Copying => ReplacingStep::Copying,
                TakeoverStage::TakingOver => ReplacingStep::TakingOver,
            },
            copied_bytes: takeover.copied,
            bytes: takeover.bytes,
        }),
        replacement_failure: status.takeover_failure,
        wear: WearReport::new(&status.wear, spec.endurance),
        stop_waits_for: status.awaited,
        trouble: trouble(&status.cache_trouble, faults, Device::Cache),
        io_engine: status.io_engine.as_str().into(),
        sample_seconds,
        volumes,
    };
    CacheReport::new(&status.engine, facts)
}

fn activity(found: &server::Activity) -> Activity {
    let seconds = seconds(found.span);
    let per_second = |number: u64| number as f64 / seconds.max(1e-3);
    Activity {
        seconds,
        reads_per_second: per_second(found.hits.count + found.misses.count),
        writes_per_second: per_second(found.writes.count),
        read_bytes_per_second: per_second(found.hits.bytes + found.misses.bytes),
        write_bytes_per_second: per_second(found.writes.bytes),
        hits: took(&found.hits),
        misses: took(&found.misses),
        writes: took(&found.writes),
        flushes: took(&found.flushes),
    }
}

fn took(found: &server::LatencySum) -> RequestLatency {
    let millis = |span: time::Duration| span.as_nanos() as f64 / 1e6;
    RequestLatency { count: found.count, mean_ms: millis(found.mean), p99_ms: millis(found.p99) }
}

fn trouble(found: &server::Trouble, faults: &[FaultCount], device: Device) -> Trouble {
    Trouble {
        last_error: found.errors.map(last_error),
        errors_by_kind: faults.iter().filter(|fault| fault.device == device).map(error_count).collect(),
        silent_seconds: found.silent.map(seconds),
        away_seconds: found.away.as_ref().map(|away| away.span.as_secs_f64()),
        away_why: found.away.as_ref().map(|away| away.why.clone()),
        fails_in_seconds: found.away.as_ref().map(|away| away.fails_in.as_secs_f64()),
        unlinked_at: found.unlinked_at.clone(),
    }
}

fn last_error(errors: Errors) -> LastError {
    let Errors { count, last, ago } = errors;
    let errno = match last.cause {
        Cause::Errno(errno) => Some(errno),
        Cause::Short => None,
    };
    LastError {
        count,
        errno,
        name: cause_name(last.cause),
        operation: last.operation.into(),
        offset: last.offset,
        length: last.length,
        seconds_ago: seconds(ago),
    }
}

fn error_count(fault: &FaultCount) -> ErrorCount {
    ErrorCount { operation: fault.operation.into(), name: cause_name(fault.cause), count: fault.count }
}

fn cause_name(cause: Cause) -> String {
    match cause {
        Cause::Errno(errno) => errno_name(errno),
        Cause::Short => "short".into(),
    }
}

fn seconds(span: time::Duration) -> f64 {
    Duration::from_nanos(span.as_nanos()).as_secs_f64()
}
