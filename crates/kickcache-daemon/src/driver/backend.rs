//! What the driver needs from the kernel: plain I/O and readiness of sockets, both without blocking.

use std::io;
use std::os::fd::{BorrowedFd, RawFd};
use std::time::Duration;

/// An open device, as a backend knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Target {
    pub(crate) fd: RawFd,
    /// Index in the ring's table of registered files, if it has one.
    pub(crate) fixed: Option<u32>,
    pub(crate) way: Way,
}

/// How a device is to be asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    /// In the fastest way there is.
    Any,
    /// By threads of its own: asking may take as long as the answer does.
    Threads,
}

/// One system call's worth of work. Memory that it names stays in place until its event came.
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

// SAFETY: the memory named by an `Io` stays in place and is left alone until its event came back.
unsafe impl Send for Io {}

/// A command that the file of a device takes through the ring, and that may end long after. Memory that it names stays in place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeviceCommand {
    pub(crate) fd: RawFd,
    /// Which command of the device.
    pub(crate) number: u32,
    pub(crate) bytes: [u8; 16],
}

/// Which readiness of a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Interest {
    /// Bytes, a connection or the end of the stream can be taken.
    Readable,
    /// Bytes can be sent.
    Writable,
    /// An eventfd is signalled. The watch may go on after a report, and then needs nobody to clear the eventfd.
    Signalled,
}

/// What a backend reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Event {
    /// An [`Io`] ended: bytes moved, or a negative errno.
    Io { token: u32, result: i32 },
    /// A [`DeviceCommand`] ended.
    Command { key: u64, result: i32 },
    /// A watched descriptor is ready. The watch is over, unless it is reported as signalled.
    Ready { key: u64, interest: Interest },
}

/// Largest key of a watch.
pub(crate) const WATCH_KEY_MAX: u64 = (1 << 60) - 1;

/// Executes I/O and waits. One thread owns it.
pub(crate) trait Backend {
    /// Makes devices known, so that the kernel need not look them up each time.
    fn register(&mut self, devices: &[(RawFd, Way)]) -> Vec<Target>;

    /// Makes one more device known.
    fn register_late(&mut self, fd: RawFd, way: Way) -> Target;

    /// Forgets a device of which nothing is in flight, before it is closed.
    fn unregister(&mut self, target: Target);

    /// Starts an I/O; its event comes from [`Backend::wait`].
    fn start(&mut self, token: u32, io: Io);

    /// Reports when the descriptor is ready: once, or, if that is watched, at each signal. A key has at most one watch for each interest.
    fn watch(&mut self, fd: BorrowedFd<'_>, key: u64, interest: Interest);

    /// Ends the watches of a key; to be called before the descriptor is closed. An event may still come.
    fn unwatch(&mut self, fd: BorrowedFd<'_>, key: u64);

    /// Gives a device a command; it ends with [`Event::Command`]. Only io_uring can.
    fn command(&mut self, key: u64, command: &DeviceCommand);

    /// Hands the kernel what was started, without waiting.
    fn submit(&mut self) -> io::Result<()>;

    /// Hands the kernel what was started, waits for an event, a doorbell or the timeout (`None`: as long as it takes),
    /// and gives all events there are, and how long there was none; a backend whose own threads are between it and the
    /// devices says zero.
    fn wait(
        &mut self,
        timeout: Option<Duration>,
        doorbells: &mut dyn Doorbells,
        events: &mut Vec<Event>,
    ) -> io::Result<Duration>;
}

/// Work that comes without an event while nobody sleeps: who brings it rings only when asked to.
pub trait Doorbells {
    /// Whether there is some, found by looking.
    fn has_work(&self) -> bool;

    /// Asks for a ring from now on; `true` if there is work already, and nobody may sleep.
    fn arm(&mut self) -> bool;

    /// Whether the wait that begins is probably for a part of something long, beside which being woken costs little. It holds for
    /// that wait alone.
    fn takes_time(&mut self) -> bool {
        false
    }
}

/// Nobody brings work unannounced.
pub(crate) struct NoDoorbells;

impl Doorbells for NoDoorbells {
    fn has_work(&self) -> bool {
        false
    }

    fn arm(&mut self) -> bool {
        false
    }
}
