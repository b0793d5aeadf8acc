//! A stop request during a start: the start checks for such a request wherever it waits for a device or
//! server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether a start is to end before it is complete. All clones share one flag.
#[derive(Clone, Debug, Default)]
pub struct StopWish(Arc<AtomicBool>);

impl StopWish {
    /// Requests a stop.
    pub fn raise(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether a stop was requested.
    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}
