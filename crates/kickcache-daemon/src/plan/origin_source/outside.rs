//! Origins that the caller of this crate implements.

use std::fmt;
use std::sync::Arc;

use crate::driver::device::OpenError;
use crate::driver::queued_device::QueuedDevice;
use crate::plan::origin_source::spec::OriginSpec;

pub trait OutsideOrigin: QueuedDevice {
    /// In bytes, a multiple of 4096, which must not change.
    fn size(&self) -> u64;

    /// The origin's identity on the cache device, such as `simulated:disk`.
    fn identity(&self) -> String;
}

/// Creates an outside origin each time that it is opened, identified or shown.
#[derive(Clone)]
pub struct OutsideSource(Arc<dyn Fn() -> Box<dyn OutsideOrigin> + Send + Sync>);

impl OutsideSource {
    pub fn new(open: impl Fn() -> Box<dyn OutsideOrigin> + Send + Sync + 'static) -> OutsideSource {
        OutsideSource(Arc::new(open))
    }

    pub fn open(&self) -> Box<dyn OutsideOrigin> {
        (self.0)()
    }
}

impl fmt::Debug for OutsideSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OutsideSource")
    }
}

impl PartialEq for OutsideSource {
    fn eq(&self, other: &OutsideSource) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl OriginSpec for OutsideSource {
    fn shown(&self) -> String {
        self.open().identity()
    }

    fn name(&self) -> Option<&str> {
        None
    }

    fn identity(&self) -> Result<String, OpenError> {
        Ok(self.open().identity())
    }
}
