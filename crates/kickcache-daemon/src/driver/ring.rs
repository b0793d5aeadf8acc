//! The backend on io_uring: one ring for devices and sockets.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::time::{Duration, Instant};

use io_uring::types::{Fd, FsyncFlags, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};

use crate::driver::adaptive_polling::{AdaptivePolling, LOOK_MAX};
use crate::driver::backend::{
    Backend, DeviceCommand, Doorbells, Event, Interest, Io, IoKind, Target, WATCH_KEY_MAX, Way,
};
use crate::driver::workers::Workers;

/// Entries of the submission queue; a full queue is handed over early.
const SUBMISSIONS: u32 = 1024;
/// Entries of the completion queue; the kernel keeps the overflow.
const COMPLETIONS: u32 = 8192;
/// Kernel threads for each device that is registered at the start. By default, one device that does not
/// respond would soon occupy the threads of all.
const KERNEL_WORKER_COUNT: u32 = 128;

const TAG_SHIFT: u32 = 60;
const TAG_IO: u64 = 0;
const TAG_READABLE: u64 = 1;
const TAG_WRITABLE: u64 = 2;
const TAG_IGNORED: u64 = 3;
const TAG_COMMAND: u64 = 4;
const WORKERS_KEY: u64 = WATCH_KEY_MAX;

pub(crate) struct Ring {
    ring: IoUring,
    workers: Option<Workers>,
    polling: AdaptivePolling,
    awake_since: Instant,
    /// I/Os submitted to the ring with no event yet; I/Os on worker threads do not count.
    in_flight: usize,
}

impl Ring {
    /// A ring of this thread.
    ///
    /// # Errors
    /// If io_uring is switched off, not permitted, or older than Linux 6.1, or memory or descriptors are short.
    pub(crate) fn new() -> io::Result<Ring> {
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_taskrun_flag()
            .setup_clamp()
            .setup_submit_all()
            .setup_cqsize(COMPLETIONS)
            .build(SUBMISSIONS)?;
        // If this is refused, the ring is used by its descriptor.
        let _ = ring.submitter().register_ring_fd();
        let polling = AdaptivePolling::default();
        Ok(Ring { ring, workers: None, polling, awake_since: Instant::now(), in_flight: 0 })
    }

    fn push(&mut self, entry: &squeue::Entry) {
        loop {
            // SAFETY: memory that the entry names stays in place until its event arrived; `Io` and `watch`
            // require it.
            let pushed = unsafe { self.ring.submission().push(entry) };
            if pushed.is_ok() {
                return;
            }
            // The kernel empties a full queue; if it refuses, this is tried again.
            let _ = self.ring.submit();
        }
    }

    fn start_on_workers(&mut self, token: u32, io: Io) {
        if self.workers.is_none() {
            match Workers::new() {
                Ok(workers) => self.workers = Some(workers),
                Err(_) => return self.refuse(token),
            }
            self.watch_workers();
        }
        if let Some(workers) = &mut self.workers {
            workers.push(token, io);
        }
    }

    fn push_io(&mut self, entry: squeue::Entry, token: u32) {
        self.in_flight += 1;
        self.push(&entry.user_data(u64::from(token)));
    }

    /// Makes an I/O fail by an entry in the ring, so that its event arrives like all events.
    fn refuse(&mut self, token: u32) {
        self.push_io(opcode::Fsync::new(Fd(-1)).build(), token);
    }

    fn watch_workers(&mut self) {
        let Some(workers) = &self.workers else { return };
        let fd = workers.wakeup().as_raw_fd();
        self.push(&poll_entry(fd, WORKERS_KEY, Interest::Readable));
    }

    fn look(&mut self, start: Instant, longest: Duration, doorbells: &dyn Doorbells) -> bool {
        while !self.is_ready() && !doorbells.has_work() {
            if start.elapsed() >= longest {
                return false;
            }
            std::hint::spin_loop();
        }
        true
    }

    fn is_ready(&mut self) -> bool {
        !self.ring.completion().is_empty() || self.ring.submission().taskrun()
    }

    fn sleep(&mut self, timeout: Option<Duration>) -> io::Result<usize> {
        let Some(timeout) = timeout else { return self.ring.submit_and_wait(1) };
        let span = Timespec::from(timeout);
        let arguments = SubmitArgs::new().timespec(&span);
        self.ring.submitter().submit_with_args(1, &arguments)
    }

    fn collect(&mut self, events: &mut Vec<Event>) {
        let mut workers_rang = false;
        for entry in self.ring.completion() {
            match event(&entry) {
                Some(Event::Ready { key: WORKERS_KEY, .. }) => workers_rang = true,
                Some(event) => {
                    self.in_flight -= usize::from(matches!(event, Event::Io { .. }));
                    events.push(event);
                }
                None => {}
            }
        }
        if let Some(workers) = self.workers.as_ref().filter(|_| workers_rang) {
            workers.drain(events);
            self.watch_workers();
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // Closing the ring alone releases the files, and their locks, at some later time.
        let _ = self.ring.submitter().unregister_files();
    }
}

impl Backend for Ring {
    fn register(&mut self, devices: &[(RawFd, Way)]) -> Vec<Target> {
        let fds: Vec<RawFd> = devices.iter().map(|device| device.0).collect();
        let registered = self.ring.submitter().register_files(&fds).is_ok();
        let count = u32::try_from(fds.len()).unwrap_or(u32::MAX).saturating_mul(KERNEL_WORKER_COUNT);
        // If this is refused, the default limit stays.
        let _ = self.ring.submitter().register_iowq_max_workers(&mut [count, 0]);
        let fixed = |index: usize| u32::try_from(index).ok().filter(|_| registered);
        let target = |(index, &(fd, way))| Target { fd, fixed: fixed(index), way };
        devices.iter().enumerate().map(target).collect()
    }

    fn register_late(&mut self, fd: RawFd, way: Way) -> Target {
        // The table of registered files has a fixed size, so a later device is not registered.
        Target { fd, fixed: None, way }
    }

    fn unregister(&mut self, target: Target) {
        if let Some(index) = target.fixed {
            // If the kernel refuses this, the ring keeps the file open until the ring is closed.
            let _ = self.ring.submitter().register_files_update(index, &[-1]);
        }
    }

    fn start(&mut self, token: u32, io: Io) {
        match entry(&io) {
            Some(entry) => self.push_io(entry, token),
            None => self.start_on_workers(token, io),
        }
    }

    fn watch(&mut self, fd: BorrowedFd<'_>, key: u64, interest: Interest) {
        assert!(key < WATCH_KEY_MAX);
        self.push(&poll_entry(fd.as_raw_fd(), key, interest));
    }

    fn unwatch(&mut self, _fd: BorrowedFd<'_>, key: u64) {
        for tag in [TAG_READABLE, TAG_WRITABLE] {
            let remove = opcode::PollRemove::new((tag << TAG_SHIFT) | key).build();
            self.push(&remove.user_data(TAG_IGNORED << TAG_SHIFT));
        }
    }

    fn command(&mut self, key: u64, command: &DeviceCommand) {
        assert!(key < WATCH_KEY_MAX);
        let entry = opcode::UringCmd16::new(Fd(command.fd), command.number).cmd(command.bytes).build();
        self.push(&entry.user_data((TAG_COMMAND << TAG_SHIFT) | key));
    }

    fn submit(&mut self) -> io::Result<()> {
        let submission = self.ring.submission();
        if submission.is_empty() && !submission.taskrun() {
            return Ok(());
        }
        drop(submission);
        tolerate(self.ring.submit())
    }

    fn wait(
        &mut self,
        timeout: Option<Duration>,
        doorbells: &mut dyn Doorbells,
        events: &mut Vec<Event>,
    ) -> io::Result<Duration> {
        let start = Instant::now();
        let longest = timeout.map_or(LOOK_MAX, |timeout| timeout.min(LOOK_MAX));
        let takes_time = doorbells.takes_time();
        let looks = self.polling.looks(self.in_flight) && !longest.is_zero() && !takes_time;
        if looks {
            self.submit()?;
        }
        let found = looks && self.look(start, longest, doorbells);
        let sleeps = !(found || longest.is_zero() || self.is_ready() || doorbells.arm());
        if sleeps {
            tolerate(self.sleep(timeout))?;
        } else {
            self.submit()?;
        }
        let waited = start.elapsed();
        if longest == LOOK_MAX {
            self.polling.learn(start.saturating_duration_since(self.awake_since), waited);
        }
        self.awake_since = start + waited;
        self.collect(events);
        Ok(if sleeps || looks { waited } else { Duration::ZERO })
    }
}

/// A timeout, a signal and a full completion queue are no errors.
fn tolerate(result: io::Result<usize>) -> io::Result<()> {
    match result {
        Ok(_) => Ok(()),
        Err(error) => match error.raw_os_error() {
            Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN) => Ok(()),
            _ => Err(error),
        },
    }
}

fn event(entry: &cqueue::Entry) -> Option<Event> {
    let data = entry.user_data();
    let key = data & WATCH_KEY_MAX;
    match data >> TAG_SHIFT {
        TAG_IO => {
            let token = u32::try_from(data).expect("tokens have 32 bits");
            Some(Event::Io { token, result: entry.result() })
        }
        TAG_READABLE if cqueue::more(entry.flags()) => {
            Some(Event::Ready { key, interest: Interest::Signalled })
        }
        TAG_READABLE => Some(Event::Ready { key, interest: Interest::Readable }),
        TAG_COMMAND => Some(Event::Command { key, result: entry.result() }),
        TAG_WRITABLE => Some(Event::Ready { key, interest: Interest::Writable }),
        _ => None,
    }
}

fn poll_entry(fd: RawFd, key: u64, interest: Interest) -> squeue::Entry {
    let (mask, tag) = match interest {
        Interest::Readable | Interest::Signalled => (libc::POLLIN, TAG_READABLE),
        Interest::Writable => (libc::POLLOUT, TAG_WRITABLE),
    };
    let mask = u32::from(mask.unsigned_abs());
    // A poll that stays in force reports each signal of an eventfd, even if the eventfd is never read.
    let stays = interest == Interest::Signalled;
    opcode::PollAdd::new(Fd(fd), mask).multi(stays).build().user_data((tag << TAG_SHIFT) | key)
}

/// The ring's entry for an I/O, or `None` if threads execute it: a discard of a block device, or any I/O for
/// [`Way::Threads`]. The kernel may wait for a device of [`Way::Threads`] while it takes an entry.
fn entry(io: &Io) -> Option<squeue::Entry> {
    if io.target.way == Way::Threads {
        return None;
    }
    let Some(index) = io.target.fixed else { return build(io, Fd(io.target.fd)) };
    let index = i32::try_from(index).expect("few devices");
    Some(build(io, Fd(index))?.flags(squeue::Flags::FIXED_FILE))
}

fn build(io: &Io, fd: Fd) -> Option<squeue::Entry> {
    Some(match io.kind {
        IoKind::Read { iovecs, count: 1 } => {
            // SAFETY: the driver keeps the stretch in place until the event arrived.
            let only = unsafe { *iovecs };
            opcode::Read::new(fd, only.iov_base.cast(), length(only)).offset(io.offset).build()
        }
        IoKind::Read { iovecs, count } => opcode::Readv::new(fd, iovecs, count).offset(io.offset).build(),
        IoKind::Write { iovecs, count: 1, flags } => {
            // SAFETY: the driver keeps the stretch in place until the event arrived.
            let only = unsafe { *iovecs };
            let write = opcode::Write::new(fd, only.iov_base.cast_const().cast(), length(only));
            write.offset(io.offset).rw_flags(flags).build()
        }
        IoKind::Write { iovecs, count, flags } => {
            let write = opcode::Writev::new(fd, iovecs, count);
            write.offset(io.offset).rw_flags(flags).build()
        }
        IoKind::DataSync => opcode::Fsync::new(fd).flags(FsyncFlags::DATASYNC).build(),
        IoKind::Allocate { mode, length } => {
            opcode::Fallocate::new(fd, length).offset(io.offset).mode(mode).build()
        }
        IoKind::BlockDiscard { .. } => return None,
    })
}

fn length(stretch: libc::iovec) -> u32 {
    u32::try_from(stretch.iov_len).expect("pieces have 32-bit lengths")
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Doorbells that never ring, and count the checks for work.
    struct Silent {
        takes_time: bool,
        looks: Cell<u32>,
    }

    impl Doorbells for Silent {
        fn has_work(&self) -> bool {
            self.looks.set(self.looks.get() + 1);
            false
        }

        fn arm(&mut self) -> bool {
            false
        }

        fn takes_time(&mut self) -> bool {
            self.takes_time
        }
    }

    #[test]
    fn long_operations_are_slept_for_despite_short_waits() {
        let Ok(mut ring) = Ring::new() else {
            return eprintln!("skipped: io_uring is not permitted here");
        };
        for takes_time in [false, true] {
            (0..100).for_each(|_| ring.polling.learn(Duration::ZERO, Duration::ZERO));
            let mut doorbells = Silent { takes_time, looks: Cell::new(0) };
            ring.wait(Some(Duration::from_millis(1)), &mut doorbells, &mut Vec::new()).unwrap();
            assert_eq!(doorbells.looks.get() == 0, takes_time);
        }
    }
}
