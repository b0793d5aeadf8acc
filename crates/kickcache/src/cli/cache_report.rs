//! From what a server says of itself to what the control socket tells.

use std::time::Duration;

use kickcache_engine::time;

use crate::control::last_error::LastError;
use crate::control::report::{CacheFacts, CacheReport, Trouble, VolumeFacts};
use crate::driver::errno::errno_name;
use crate::driver::fault::Cause;
use crate::plan::CachePlan;
use crate::serve::server::{self, Errors, ServerStatus, VolumeInfo};

/// The report on a server and its part of the plan.
pub(crate) fn cache_report(plan: &CachePlan, status: ServerStatus) -> CacheReport {
    let volumes = status.volumes.into_iter().zip(&status.origin_troubles);
    let facts = CacheFacts {
        device: status.cache,
        trouble: trouble(&status.cache_trouble),
        volumes: volumes.map(|(info, trouble)| volume_facts(plan, info, trouble)).collect(),
    };
    CacheReport::new(&status.engine, facts)
}

fn volume_facts(plan: &CachePlan, info: VolumeInfo, of_origin: &server::Trouble) -> VolumeFacts {
    let plan = plan.volumes.iter().find(|plan| plan.name == info.name);
    let nbd = plan.map(|plan| plan.nbd.iter().map(|address| address.uri(&plan.name)).collect());
    VolumeFacts {
        id: info.id,
        name: info.name,
        origin: info.origin,
        trouble: trouble(of_origin),
        nbd: nbd.unwrap_or_default(),
    }
}

fn trouble(found: &server::Trouble) -> Trouble {
    Trouble { last_error: found.errors.map(last_error), silent_seconds: found.silent.map(seconds) }
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
