//! Threads that execute I/O with blocking system calls.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use crate::driver::backend::{Event, Io, IoKind};
use crate::driver::wakeup::Wakeup;

/// A pool of threads; what ended is collected after its wakeup rang.
pub(crate) struct Workers {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    queue: Mutex<Queue>,
    more: Condvar,
    ended: Mutex<Vec<Event>>,
    wakeup: Wakeup,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<(u32, Io)>,
    closed: bool,
}

impl Workers {
    pub(crate) fn new(count: usize) -> io::Result<Workers> {
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            more: Condvar::new(),
            ended: Mutex::default(),
            wakeup: Wakeup::new()?,
        });
        let mut workers = Workers { shared, threads: Vec::new() };
        for _ in 0..count {
            let shared = Arc::clone(&workers.shared);
            let builder = thread::Builder::new().name("kickcache-io".into());
            workers.threads.push(builder.spawn(move || shared.work())?);
        }
        Ok(workers)
    }

    pub(crate) fn push(&self, token: u32, io: Io) {
        lock(&self.shared.queue).jobs.push_back((token, io));
        self.shared.more.notify_one();
    }

    /// Moves what ended to `events`.
    pub(crate) fn drain(&self, events: &mut Vec<Event>) {
        self.shared.wakeup.clear();
        events.append(&mut lock(&self.shared.ended));
    }

    /// Readable when there is something to drain.
    pub(crate) fn wakeup(&self) -> BorrowedFd<'_> {
        self.shared.wakeup.as_fd()
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        lock(&self.shared.queue).closed = true;
        self.shared.more.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn work(&self) {
        while let Some((token, io)) = self.next() {
            let event = Event::Io { token, result: perform(&io) };
            let mut ended = lock(&self.ended);
            ended.push(event);
            if ended.len() == 1 {
                self.wakeup.ring();
            }
        }
    }

    fn next(&self) -> Option<(u32, Io)> {
        let mut queue = lock(&self.queue);
        loop {
            if let Some(job) = queue.jobs.pop_front() {
                return Some(job);
            }
            if queue.closed {
                return None;
            }
            queue = self.more.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

const BLKDISCARD: libc::Ioctl = 0x1277;

/// Executes an I/O: bytes moved, or a negative errno.
fn perform(io: &Io) -> i32 {
    let fd = io.target.fd;
    let offset = i64::try_from(io.offset).expect("devices are smaller than 2^63 bytes");
    let count = |count: u32| i32::try_from(count).expect("at most 1024 stretches");
    let result = match io.kind {
        IoKind::Read { iovecs, count: n } => {
            // SAFETY: the driver keeps the stretches and their memory in place until the event came.
            unsafe { libc::preadv2(fd, iovecs, count(n), offset, 0) }
        }
        IoKind::Write { iovecs, count: n, dsync } => {
            let flags = if dsync { libc::RWF_DSYNC } else { 0 };
            // SAFETY: as above.
            unsafe { libc::pwritev2(fd, iovecs, count(n), offset, flags) }
        }
        // SAFETY: fdatasync takes no memory.
        IoKind::DataSync => unsafe { libc::fdatasync(fd) as isize },
        IoKind::Allocate { mode, length } => {
            let length = i64::try_from(length).expect("devices are smaller than 2^63 bytes");
            // SAFETY: fallocate takes no memory.
            unsafe { libc::fallocate(fd, mode, offset, length) as isize }
        }
        IoKind::BlockDiscard { length } => {
            let range = [io.offset, length];
            // SAFETY: BLKDISCARD reads two 64-bit numbers.
            unsafe { libc::ioctl(fd, BLKDISCARD, range.as_ptr()) as isize }
        }
    };
    if result < 0 {
        return -io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO);
    }
    i32::try_from(result).expect("one call moves less than 2 GiB")
}
