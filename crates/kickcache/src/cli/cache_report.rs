//! From what a server says of itself to what the control socket tells.

use std::net::SocketAddr;
use std::time::Duration;

use kickcache_curve::curve::HitRatioCurve;
use kickcache_daemon::control::activity::{Activity, Took};
use kickcache_daemon::control::last_error::LastError;
use kickcache_daemon::control::lru_curve::LruCurve;
use kickcache_daemon::control::report::{CacheFacts, CacheReport, RecordWord, Trouble, VolumeFacts};
use kickcache_daemon::driver::errno::errno_name;
use kickcache_daemon::driver::fault::Cause;
use kickcache_daemon::plan::cache_spec::CacheService;
use kickcache_daemon::plan::frontends::ServedAt;
use kickcache_daemon::serve::server::{self, Activities, Errors, ServerStatus, VolumeInfo};
use kickcache_daemon::whole_path::whole_path;
use kickcache_engine::time;

/// The report on a server, whose cache device is used in this way.
pub(crate) fn cache_report(status: ServerStatus, service: CacheService) -> CacheReport {
    let measured = status.activities.iter().zip(&status.curves);
    let told = status.origin_troubles.iter().zip(measured);
    let told = told.map(|(trouble, (activities, curve))| Told { trouble, activities, curve: curve.as_ref() });
    let volumes = status.volumes.into_iter().zip(status.served_at).zip(told);
    let facts = CacheFacts {
        device: whole_path(&status.cache),
        stop_waits_for: status.awaited,
        trouble: trouble(&status.cache_trouble),
        io_engine: status.io_engine.as_str().into(),
        volumes: volumes.map(|((info, at), told)| volume_facts(info, at, &told)).collect(),
    };
    let report = CacheReport::new(&status.engine, facts);
    match service {
        CacheService::OutOfService => CacheReport { record: Some(RecordWord::Earlier), ..report },
        CacheService::InService | CacheService::LeftOut | CacheService::WrittenBackOnly => report,
    }
}

/// What a server says of a volume beside its name and its places.
struct Told<'a> {
    trouble: &'a server::Trouble,
    activities: &'a Activities,
    curve: Option<&'a HitRatioCurve>,
}

fn volume_facts(info: VolumeInfo, served_at: ServedAt, told: &Told<'_>) -> VolumeFacts {
    let nbd = served_at.nbd.iter().map(|address| uri(address, &info.name)).collect();
    VolumeFacts {
        id: info.id,
        served_at: ServedAt { nbd, ..served_at },
        name: info.name,
        origin: info.origin,
        trouble: trouble(told.trouble),
        since_start: activity(&told.activities.since_start),
        recent: activity(&told.activities.recent),
        lru_curve: told.curve.and_then(LruCurve::new),
    }
}

/// What NBD clients take; a socket that was handed over, whose place is not known here, as the log calls it.
fn uri(address: &str, name: &str) -> String {
    match address.parse::<SocketAddr>() {
        Ok(address) => format!("nbd://{address}/{name}"),
        Err(_) if address.starts_with("the ") => address.into(),
        Err(_) => format!("nbd+unix:///{name}?socket={address}"),
    }
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
    }
}

fn took(found: &server::Took) -> Took {
    let millis = |span: time::Duration| span.as_nanos() as f64 / 1e6;
    Took { count: found.count, mean_ms: millis(found.mean), p99_ms: millis(found.p99) }
}

fn trouble(found: &server::Trouble) -> Trouble {
    Trouble {
        last_error: found.errors.map(last_error),
        silent_seconds: found.silent.map(seconds),
        away_seconds: found.away.as_ref().map(|away| away.span.as_secs_f64()),
        away_why: found.away.as_ref().map(|away| away.why.clone()),
    }
}

fn last_error(errors: Errors) -> LastError {
    let Errors { count, last, ago } = errors;
    let (errno, name) = match last.cause {
        Cause::Errno(errno) => (Some(errno), errno_name(errno)),
        Cause::Short => (None, "short".into()),
    };
    LastError {
        count,
        errno,
        name,
        operation: last.operation.into(),
        offset: last.offset,
        length: last.length,
        seconds_ago: seconds(ago),
    }
}

fn seconds(span: time::Duration) -> f64 {
    Duration::from_nanos(span.as_nanos()).as_secs_f64()
}
