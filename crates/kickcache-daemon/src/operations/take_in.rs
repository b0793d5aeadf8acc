//! Puts a cache device into use while volumes are served without one.

use std::path::Path;

use crate::control::ControlError;
use crate::control::wire::ReplacementOrder;
use crate::devices::cache_device::{CacheDevice, Overwrite};
use crate::driver::rights::access;
use crate::error_sentence::error_sentence;
use crate::plan::cache_spec::CacheService;
use crate::serve::config::StatePlace;
use crate::serve::error::ServeError;

use crate::devices::offline::format_check::FormatCheck;
use crate::operations::cache_insertion::{self, CacheInsertion};
use crate::operations::control_error::control_error;
use crate::start::servers::PlannedServer;

/// Whether volumes of a cache device are served without it by order, or since the start; a device that failed later
/// does not count.
pub(crate) fn is_left_out(served: &PlannedServer) -> bool {
    match served.cache.service {
        CacheService::LeftOut | CacheService::OutOfService => true,
        CacheService::InService | CacheService::WrittenBackOnly => false,
    }
}

pub(crate) fn check(
    served: &PlannedServer,
    order: &ReplacementOrder,
    state: &StatePlace,
) -> Result<(), ControlError> {
    let size = formatting(order, state).check().map_err(|error| refused(&order.with, &error))?;
    cache_insertion::check(&served.handle, &order.with, size, &served.cache.volumes).map_err(control_error)
}

/// Puts a device into use.
///
/// # Errors
/// If the device cannot be put into use; the volumes are then served as before.
pub(crate) fn take_in(
    served: &mut PlannedServer,
    order: &ReplacementOrder,
    state: &StatePlace,
) -> Result<(), ControlError> {
    check(served, order, state)?;
    served.look_at_modes();
    let freed_segments = served.cache.freed_segments();
    let settings = served.settings();
    let taken_in = CacheInsertion { volumes: &served.cache.volumes, settings: &settings, freed_segments };
    let is_new = !access::exists(&order.with);
    let format = || -> Result<CacheDevice, ServeError> {
        let what = |error: anyhow::Error| error_sentence(&*error);
        formatting(order, state)
            .format()
            .map_err(|error| ServeError::Cache { path: order.with.clone(), what: what(error) })
    };
    let taken_in = cache_insertion::take_in(&served.handle, &taken_in, format);
    if taken_in.is_err() && is_new {
        drop(access::remove_made(&order.with));
    }
    taken_in.map_err(control_error)?;
    let former = std::mem::replace(&mut served.cache.device, order.with.clone());
    served.cache.former.push(former);
    served.cache.service = CacheService::InService;
    served.cache.size = None;
    Ok(())
}

pub(crate) fn tell(with: &str, left_out: &str) {
    let what = match with == left_out {
        true => format!(
            "again, and empty; if the configuration names another device, name {with} there before the next start"
        ),
        false => format!(
            "now, and empty; {left_out} stays left out: name {with} in the configuration before the next start"
        ),
    };
    tracing::info!(event = "cache_inserted", device = with, "{with} is the cache device {what}");
}

fn formatting<'a>(order: &'a ReplacementOrder, state: &'a StatePlace) -> FormatCheck<'a> {
    let overwrite = if order.force { Overwrite::Allow } else { Overwrite::Refuse };
    FormatCheck { path: &order.with, size: order.size_bytes, overwrite, state }
}

fn refused(path: &Path, error: &anyhow::Error) -> ControlError {
    let what = error_sentence(&**error);
    let path = path.display().to_string();
    ControlError::Refused(if what.contains(&path) { what } else { format!("{path}: {what}") })
}
