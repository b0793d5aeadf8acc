//! A wakeup, by any thread, of a thread that waits for descriptors.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};

/// An eventfd: rung from any thread, readable until it is cleared.
#[derive(Debug)]
pub struct Wakeup(OwnedFd);

impl Wakeup {
    /// # Errors
    /// If the system refuses, as without free descriptors.
    pub fn new() -> io::Result<Wakeup> {
        Ok(Wakeup(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// Makes the eventfd readable.
    pub fn ring(&self) {
        #[expect(clippy::host_endian_bytes, reason = "an eventfd takes the host's byte order")]
        let one = 1_u64.to_ne_bytes();
        // The write can only fail if the counter is full, and then the eventfd is readable already.
        let _ = rustix::io::write(&self.0, &one);
    }

    pub fn clear(&self) {
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.0, &mut count);
    }
}

impl AsFd for Wakeup {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
