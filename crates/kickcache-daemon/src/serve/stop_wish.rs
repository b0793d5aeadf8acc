//! A stop request during a start, a change or an offline writeback: it ends the wait for the server of an origin, and the
//! writeback.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether such work is to end before it is complete. All clones share one flag.
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
