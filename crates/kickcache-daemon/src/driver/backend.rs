//! The driver's interface to the kernel.

use std::io;
use std::os::fd::{BorrowedFd, RawFd};
use std::time::Duration;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Target {
    pub(crate) fd: RawFd,
    /// The device's index in the ring's table of registered files; `None` if it is not registered.
    pub(crate) fixed: Option<u32>,
    pub(crate) way: Way,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    Any,
    /// Separate threads execute the I/O.
    Threads,
}

/// The work of one system call. Memory that it names stays in place until its event arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Io {
    pub(crate) target: Target,
    pub(crate) offset: u64,
    pub(crate) kind: IoKind,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum IoKind {
    Read { iovecs: *const libc::iovec, count: u32 },
    Write { iovecs: *const libc::iovec, count: u32, flags: i32 },
    DataSync,
    Allocate { mode: i32, length: u64 },
    BlockDiscard { length: u64 },
}

// SAFETY: the memory named by an `Io` stays in place and is not accessed until its event arrived.
unsafe impl Send for Io {}

/// A command that the file of a device takes through the ring. Memory that it names stays in place until its
/// end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeviceCommand {
    pub(crate) fd: RawFd,
    pub(crate) number: u32,
    pub(crate) bytes: [u8; 16],
}

/// The awaited readiness of a descriptor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Interest {
    /// Bytes, a connection or the end of the stream can be taken.
    Readable,
    Writable,
    Signalled,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Event {
    /// An [`Io`] ended: bytes moved, or a negative errno.
    Io {
        token: u32,
        result: i32,
    },
    Command {
        key: u64,
        result: i32,
    },
    /// A watched descriptor is ready; unless it is signalled, its watch is over.
    Ready {
        key: u64,
        interest: Interest,
    },
}

/// The largest key of a watch. Backends use it for their worker threads; callers of a backend use smaller
/// keys only.
pub(crate) const WATCH_KEY_MAX: u64 = (1 << 60) - 1;

/// Executes I/O and waits. One thread owns it.
pub(crate) trait Backend {
    fn register(&mut self, devices: &[(RawFd, Way)]) -> Vec<Target>;

    fn register_late(&mut self, fd: RawFd, way: Way) -> Target;

    /// Removes a device without I/O in flight, before it is closed.
    fn unregister(&mut self, target: Target);

    /// Starts an I/O; [`Backend::wait`] returns its event.
    fn start(&mut self, token: u32, io: Io);

    /// Reports when the descriptor is ready: once, or for [`Interest::Signalled`] at each signal until a signal is reported as
    /// [`Interest::Readable`]. A key has at most one watch for each interest.
    fn watch(&mut self, fd: BorrowedFd<'_>, key: u64, interest: Interest);

    /// Ends the watches of a key; to be called before the descriptor is closed. A last event may still
    /// arrive.
    fn unwatch(&mut self, fd: BorrowedFd<'_>, key: u64);

    /// Gives a device a command; it ends with [`Event::Command`]. Only io_uring can: another backend reports EOPNOTSUPP.
    fn command(&mut self, key: u64, command: &DeviceCommand);

    /// Submits started I/O to the kernel, without waiting.
    fn submit(&mut self) -> io::Result<()>;

    /// Submits started I/O to the kernel, and waits for an event, a doorbell or the timeout (`None`: without
    /// limit). Returns the time in which no event was available; the backend without io_uring returns zero.
    fn wait(
        &mut self,
        timeout: Option<Duration>,
        doorbells: &mut dyn Doorbells,
        events: &mut Vec<Event>,
    ) -> io::Result<Duration>;
}

/// Work that arrives without an event while the loop is awake: its producers ring only on request.
pub trait Doorbells {
    fn has_work(&self) -> bool;

    /// Requests a ring from now on; `true` if there is work already, so that the loop must not sleep.
    fn arm(&mut self) -> bool;

    /// Whether the next wait is probably for a part of a long operation. The answer applies to that wait
    /// only.
    fn takes_time(&mut self) -> bool {
        false
    }
}

pub(crate) struct NoDoorbells;

impl Doorbells for NoDoorbells {
    fn has_work(&self) -> bool {
        false
    }

    fn arm(&mut self) -> bool {
        false
    }
}
