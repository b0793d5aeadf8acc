//! A stop request during a start, a change or an offline writeback: it ends the wait for the server of an origin, and the
//! writeback.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The flag of a requested stop; all clones share it.
#[derive(Clone, Debug, Default)]
pub struct StopWish(Arc<AtomicBool>);

impl StopWish {
    pub fn raise(&self) {
        self.0.store(true, Ordering::Release);
    }

    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}
