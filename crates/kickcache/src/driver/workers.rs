//! Threads that execute I/O with blocking system calls: each device has its own, so that one that does not answer keeps
//! nobody else waiting.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, RawFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use crate::driver::backend::{Event, Io, IoKind};
use crate::driver::wakeup::Wakeup;

/// The threads of all devices; what ended is collected after its wakeup rang.
pub(crate) struct Workers {
    ended: Arc<Ended>,
    lanes: BTreeMap<RawFd, Lane>,
    threads_max: usize,
}

struct Ended {
    events: Mutex<Vec<Event>>,
    wakeup: Wakeup,
}

/// The jobs and threads of a device.
#[derive(Default)]
struct Lane {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    more: Condvar,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<(u32, Io)>,
    /// Threads that wait for a job and were not called.
    idle: usize,
    /// Threads that were called and have not woken yet.
    called: usize,
    closed: bool,
}

impl Workers {
    /// At most so many threads for each device; they are started when they are needed.
    pub(crate) fn new(threads_max: usize) -> io::Result<Workers> {
        let ended = Ended { events: Mutex::default(), wakeup: Wakeup::new()? };
        Ok(Workers { ended: Arc::new(ended), lanes: BTreeMap::new(), threads_max })
    }

    pub(crate) fn push(&mut self, token: u32, io: Io) {
        let lane = self.lanes.entry(io.target.fd).or_default();
        let mut queue = lock(&lane.shared.queue);
        queue.jobs.push_back((token, io));
        if queue.idle > 0 {
            queue.idle -= 1;
            queue.called += 1;
            lane.shared.more.notify_one();
            return;
        }
        drop(queue);
        if lane.threads.len() < self.threads_max {
            lane.start_thread(&self.ended);
        }
    }

    /// Moves what ended to `events`.
    pub(crate) fn drain(&self, events: &mut Vec<Event>) {
        self.ended.wakeup.clear();
        events.append(&mut lock(&self.ended.events));
    }

    /// Readable when there is something to drain.
    pub(crate) fn wakeup(&self) -> BorrowedFd<'_> {
        self.ended.wakeup.as_fd()
    }
}

impl Lane {
    /// Starts a thread. If the system has none left, the jobs wait for those that there are; without any, they fail.
    fn start_thread(&mut self, ended: &Arc<Ended>) {
        let (shared, to) = (Arc::clone(&self.shared), Arc::clone(ended));
        match thread::Builder::new().name("kickcache-io".into()).spawn(move || shared.work(&to)) {
            Ok(thread) => self.threads.push(thread),
            Err(_) if self.threads.is_empty() => {
                let jobs = std::mem::take(&mut lock(&self.shared.queue).jobs);
                jobs.into_iter().for_each(|(token, _)| ended.push(token, -libc::EAGAIN));
            }
            Err(_) => {}
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        for lane in self.lanes.values() {
            lock(&lane.shared.queue).closed = true;
            lane.shared.more.notify_all();
        }
        for thread in std::mem::take(&mut self.lanes).into_values().flat_map(|lane| lane.threads) {
            let _ = thread.join();
        }
    }
}

impl Ended {
    fn push(&self, token: u32, result: i32) {
        let mut events = lock(&self.events);
        events.push(Event::Io { token, result });
        if events.len() == 1 {
            self.wakeup.ring();
        }
    }
}

impl Shared {
    fn work(&self, ended: &Ended) {
        while let Some((token, io)) = self.next() {
            ended.push(token, perform(&io));
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
            queue.idle += 1;
            queue = self.more.wait(queue).unwrap_or_else(PoisonError::into_inner);
            // A thread may wake without being called.
            match queue.called {
                0 => queue.idle -= 1,
                _ => queue.called -= 1,
            }
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
