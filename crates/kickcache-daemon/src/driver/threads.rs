//! The backend without io_uring: a pool of threads for devices, epoll for sockets.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use crate::driver::backend::{
    Backend, DeviceCommand, Doorbells, Event, Interest, Io, Target, WATCH_KEY_MAX, Way,
};
use crate::driver::workers::Workers;

const EVENTS_MAX: usize = 256;
const WORKERS_KEY: u64 = WATCH_KEY_MAX;

pub(crate) struct Threads {
    workers: Workers,
    epoll: OwnedFd,
    watches: HashMap<u64, Watch>,
    ready: Vec<epoll::Event>,
    /// The keys of commands, which threads cannot give to a device.
    refused: Vec<u64>,
}

#[derive(Clone, Copy)]
struct Watch {
    fd: RawFd,
    armed: EventFlags,
}

impl Threads {
    /// A pool of threads and an epoll instance.
    ///
    /// # Errors
    /// If memory or descriptors are short.
    pub(crate) fn new() -> io::Result<Threads> {
        let workers = Workers::new()?;
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, workers.wakeup(), EventData::new_u64(WORKERS_KEY), EventFlags::IN)?;
        Ok(Threads {
            workers,
            epoll,
            watches: HashMap::new(),
            ready: Vec::with_capacity(EVENTS_MAX),
            refused: Vec::new(),
        })
    }

    fn report(&mut self, event: epoll::Event, events: &mut Vec<Event>) {
        let (key, flags) = (event.data.u64(), event.flags);
        if key == WORKERS_KEY {
            return self.workers.drain(events);
        }
        let Some(watch) = self.watches.get_mut(&key) else { return };
        let failed = flags.intersects(EventFlags::ERR | EventFlags::HUP);
        for (flag, interest) in [(EventFlags::IN, Interest::Readable), (EventFlags::OUT, Interest::Writable)]
        {
            if watch.armed.contains(flag) && (failed || flags.contains(flag)) {
                watch.armed.remove(flag);
                events.push(Event::Ready { key, interest });
            }
        }
        let watch = *watch;
        if !watch.armed.is_empty() {
            self.arm(key, watch);
        }
    }

    fn arm(&self, key: u64, watch: Watch) {
        // SAFETY: a watched descriptor is open until its `unwatch`.
        let fd = unsafe { BorrowedFd::borrow_raw(watch.fd) };
        let flags = watch.armed | EventFlags::ONESHOT;
        let _ = epoll::modify(&self.epoll, fd, EventData::new_u64(key), flags);
    }
}

impl Backend for Threads {
    fn register(&mut self, devices: &[(RawFd, Way)]) -> Vec<Target> {
        devices.iter().map(|&(fd, way)| Target { fd, fixed: None, way }).collect()
    }

    fn register_late(&mut self, fd: RawFd, way: Way) -> Target {
        Target { fd, fixed: None, way }
    }

    fn unregister(&mut self, _target: Target) {}

    fn start(&mut self, token: u32, io: Io) {
        self.workers.push(token, io);
    }

    fn watch(&mut self, fd: BorrowedFd<'_>, key: u64, interest: Interest) {
        assert!(key < WATCH_KEY_MAX);
        let flag = match interest {
            // A signalled eventfd is reported as readable, and the watch ends after each signal.
            Interest::Readable | Interest::Signalled => EventFlags::IN,
            Interest::Writable => EventFlags::OUT,
        };
        if let Some(watch) = self.watches.get_mut(&key) {
            watch.armed.insert(flag);
            let watch = *watch;
            return self.arm(key, watch);
        }
        self.watches.insert(key, Watch { fd: fd.as_raw_fd(), armed: flag });
        let _ = epoll::add(&self.epoll, fd, EventData::new_u64(key), flag | EventFlags::ONESHOT);
    }

    fn unwatch(&mut self, fd: BorrowedFd<'_>, key: u64) {
        if self.watches.remove(&key).is_some() {
            let _ = epoll::delete(&self.epoll, fd);
        }
    }

    fn command(&mut self, key: u64, _command: &DeviceCommand) {
        self.refused.push(key);
    }

    fn submit(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn wait(
        &mut self,
        timeout: Option<Duration>,
        doorbells: &mut dyn Doorbells,
        events: &mut Vec<Event>,
    ) -> io::Result<Duration> {
        let timeout = if self.refused.is_empty() { timeout } else { Some(Duration::ZERO) };
        let is_short = timeout.is_some_and(|timeout| timeout.is_zero());
        let timeout = if !is_short && doorbells.arm() { Some(Duration::ZERO) } else { timeout };
        let timeout = timeout.map(|span| Timespec {
            tv_sec: i64::try_from(span.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(span.subsec_nanos()),
        });
        let mut ready = std::mem::take(&mut self.ready);
        match epoll::wait(&self.epoll, spare_capacity(&mut ready), timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for event in ready.drain(..) {
            self.report(event, events);
        }
        self.ready = ready;
        let ended = |key| Event::Command { key, result: -libc::EOPNOTSUPP };
        events.extend(self.refused.drain(..).map(ended));
        Ok(Duration::ZERO)
    }
}
