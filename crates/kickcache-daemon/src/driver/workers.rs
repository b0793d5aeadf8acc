//! Threads that execute I/O with blocking system calls, separate for each device.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use crate::driver::backend::{Event, Io, IoKind};
use crate::jobs::Jobs;
use crate::wakeup::Wakeup;

/// The most threads of a device.
const THREADS_MAX: usize = 32;

pub(crate) struct Workers {
    ended: Arc<CompletionQueue>,
    lanes: BTreeMap<RawFd, Lane>,
}

struct CompletionQueue {
    events: Mutex<Vec<Event>>,
    wakeup: Wakeup,
}

#[derive(Default)]
struct Lane {
    jobs: Arc<Jobs<(u32, Io)>>,
    threads: Vec<JoinHandle<()>>,
}

impl Workers {
    pub(crate) fn new() -> io::Result<Workers> {
        let ended = CompletionQueue { events: Mutex::default(), wakeup: Wakeup::new()? };
        Ok(Workers { ended: Arc::new(ended), lanes: BTreeMap::new() })
    }

    pub(crate) fn push(&mut self, token: u32, io: Io) {
        let lane = self.lanes.entry(io.target.fd).or_default();
        if lane.jobs.push((token, io)) && lane.threads.len() < THREADS_MAX {
            lane.start_thread(&self.ended);
        }
    }

    pub(crate) fn drain(&self, events: &mut Vec<Event>) {
        self.ended.wakeup.clear();
        events.append(&mut self.ended.lock());
    }

    pub(crate) fn wakeup(&self) -> BorrowedFd<'_> {
        self.ended.wakeup.as_fd()
    }
}

impl Lane {
    /// If the system refuses a thread, the jobs wait for the existing threads; if there is none, they fail.
    fn start_thread(&mut self, ended: &Arc<CompletionQueue>) {
        let (jobs, to) = (Arc::clone(&self.jobs), Arc::clone(ended));
        let work = move || {
            while let Some((token, io)) = jobs.next() {
                to.push(token, perform(&io));
            }
        };
        match thread::Builder::new().name("kickcache-io".into()).spawn(work) {
            Ok(thread) => self.threads.push(thread),
            Err(_) if self.threads.is_empty() => {
                self.jobs.take_all().into_iter().for_each(|(token, _)| ended.push(token, -libc::EAGAIN));
            }
            Err(_) => {}
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.lanes.values().for_each(|lane| lane.jobs.close());
        for thread in std::mem::take(&mut self.lanes).into_values().flat_map(|lane| lane.threads) {
            let _ = thread.join();
        }
    }
}

impl CompletionQueue {
    fn push(&self, token: u32, result: i32) {
        let mut events = self.lock();
        events.push(Event::Io { token, result });
        if events.len() == 1 {
            self.wakeup.ring();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Event>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const BLKDISCARD: libc::Ioctl = 0x1277;

fn perform(io: &Io) -> i32 {
    let fd = io.target.fd;
    let offset = i64::try_from(io.offset).expect("devices are smaller than 2^63 bytes");
    let count = |count: u32| i32::try_from(count).expect("at most 1024 stretches");
    let result = match io.kind {
        IoKind::Read { iovecs, count: n } => {
            // SAFETY: the driver keeps the stretches and their memory in place until the event arrived.
            unsafe { libc::preadv2(fd, iovecs, count(n), offset, 0) }
        }
        IoKind::Write { iovecs, count: n, flags } => {
            // SAFETY: the driver keeps the stretches and their memory in place until the event arrived.
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
