//! An order to have a device take over from the cache device.

use std::path::PathBuf;

use crate::serve::cache_device::Overwrite;
use crate::serve::cache_device::successor::SuccessorSpec;
use crate::serve::error::ServeError;
use crate::serve::succession::check_awaited;

/// Finds what else is in the way of a device, which may wait for it.
type DeviceCheck = Box<dyn FnOnce() -> Result<(), ServeError> + Send>;

/// An order.
pub(crate) struct TakeoverOrder {
    pub(crate) spec: SuccessorSpec,
    pub(crate) check: DeviceCheck,
    pub(crate) given: OrderTime,
}

/// When it was given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OrderTime {
    /// While the server runs.
    Now,
    /// Before its start, which goes on with it.
    Earlier,
}

impl TakeoverOrder {
    /// One of now. `check` is called on a thread that may wait for the device.
    pub(crate) fn now(
        spec: SuccessorSpec,
        check: impl FnOnce() -> Result<(), ServeError> + Send + 'static,
    ) -> TakeoverOrder {
        TakeoverOrder { spec, check: Box::new(check), given: OrderTime::Now }
    }

    /// That which `device` says was given before the start.
    pub(crate) fn earlier(device: PathBuf, with: PathBuf) -> TakeoverOrder {
        let spec = SuccessorSpec { path: with.clone(), size: None, overwrite: Overwrite::Refuse };
        let check = Box::new(move || check_awaited(&device, &with));
        TakeoverOrder { spec, check, given: OrderTime::Earlier }
    }
}
