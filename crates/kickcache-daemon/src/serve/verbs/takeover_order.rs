//! An order to have a device take over from the cache device.

use std::path::PathBuf;
use std::sync::mpsc::Sender;

use crate::devices::cache_device::Overwrite;
use crate::devices::cache_device::successor::SuccessorSpec;
use crate::devices::succession::check_awaited;
use crate::serve::control::TakeoverBegun;
use crate::serve::error::ServeError;

/// A check of a device for further obstacles; the check may wait for the device.
type DeviceCheck = Box<dyn FnOnce() -> Result<(), ServeError> + Send>;

pub(crate) type TakeoverAnswer = Sender<Result<TakeoverBegun, ServeError>>;

pub(crate) struct TakeoverOrder {
    pub(crate) spec: SuccessorSpec,
    pub(crate) check: DeviceCheck,
    pub(crate) given: OrderTime,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OrderTime {
    Now,
    /// The takeover was ordered before the start of the server, which continues it.
    Earlier,
}

impl TakeoverOrder {
    /// `check` is called on a thread that may wait for the device.
    pub(crate) fn now(
        spec: SuccessorSpec,
        check: impl FnOnce() -> Result<(), ServeError> + Send + 'static,
    ) -> TakeoverOrder {
        TakeoverOrder { spec, check: Box::new(check), given: OrderTime::Now }
    }

    /// An order of an earlier daemon, by the record on `device`.
    pub(crate) fn earlier(device: PathBuf, with: PathBuf) -> TakeoverOrder {
        let spec = SuccessorSpec { path: with.clone(), size: None, overwrite: Overwrite::Refuse };
        let check = Box::new(move || check_awaited(&device, &with));
        TakeoverOrder { spec, check, given: OrderTime::Earlier }
    }
}
