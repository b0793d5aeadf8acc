//! How control commands reach the kernel's ublk driver: a ring with entries of 128 bytes.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::abi::{ControlCommand, START_DEV};
use super::starter::start_in_child;
use crate::own_user::own_user;

/// Seconds after which a command through the ring is reported.
const LONG: u64 = 10;
/// Time between two checks for the end of a command while the kernel refuses to wait for it.
const PAUSE: Duration = Duration::from_millis(10);

pub(crate) type LineSink = Box<dyn Fn(&str) + Send>;

pub(crate) trait Channel {
    /// Sends a command, and waits for its end; the caller keeps the memory that the command points to in
    /// place until then.
    ///
    /// # Errors
    /// As the kernel gives them.
    fn call(&mut self, number: u32, command: &ControlCommand) -> io::Result<i32>;

    /// Takes the lock that excludes other kickcache processes of this host; `false` if the lock is
    /// taken.
    ///
    /// # Errors
    /// As the system gives them.
    fn try_lock(&mut self) -> io::Result<bool>;

    fn unlock(&mut self);
}

type ControlRing = IoUring<squeue::Entry128, cqueue::Entry>;

pub(super) struct RingChannel {
    /// [`RingChannel::call`] drops a ring whose command the kernel did not take: the kernel could take the
    /// command at a later call, after the end of its memory.
    ring: Option<ControlRing>,
    device: File,
    tell: LineSink,
    starts: Starts,
    /// The held lock, on a file of its own: a command that waits in the kernel keeps `device` open.
    locked: Option<File>,
}

pub(super) const CONTROL: &str = "/dev/ublk-control";

/// Which process has the kernel start a device. The kernel reads the partition table during the start, and an old
/// kernel (Linux 6.12) lets the process end only after that read: a daemon killed meanwhile would keep its devices
/// locked until the next reboot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Starts {
    InChild,
    Here,
}

impl RingChannel {
    pub(super) fn open(starts: Starts, tell: LineSink) -> Result<RingChannel, String> {
        let device = OpenOptions::new().read(true).write(true).open(CONTROL);
        let device = device.map_err(|error| match error.raw_os_error() {
            Some(libc::ENOENT | libc::ENODEV | libc::ENXIO) => {
                "this kernel has no ublk driver loaded; load it (modprobe ublk_drv; Linux 6.4 or later), or serve over NBD".into()
            }
            Some(libc::EACCES | libc::EPERM) => {
                format!("{} may not open {CONTROL}; ublk needs root (CAP_SYS_ADMIN)", own_user())
            }
            _ => format!("/dev/ublk-control cannot be opened: {error}"),
        })?;
        let ring = new_ring();
        let ring = ring.map_err(|error| format!("ublk needs io_uring, which is not available: {error}"))?;
        Ok(RingChannel { ring: Some(ring), device, tell, starts, locked: None })
    }
}

impl Channel for RingChannel {
    fn call(&mut self, number: u32, command: &ControlCommand) -> io::Result<i32> {
        if (number, self.starts) == (START_DEV, Starts::InChild) {
            return start_in_child(command);
        }
        let entry = opcode::UringCmd80::new(Fd(self.device.as_raw_fd()), number).cmd(command.bytes()).build();
        let mut ring = self.ring.take().map_or_else(new_ring, Ok)?;
        // SAFETY: memory that the command points to outlives this call, which waits for the end of a command that the
        // kernel has taken, and otherwise drops the ring.
        unsafe { ring.submission().push(&entry) }.map_err(io::Error::other)?;
        let result = wait_for_end(&mut ring, || (self.tell)(&waits(command.device_id)))?;
        self.ring = Some(ring);
        if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(result) }
    }

    fn try_lock(&mut self) -> io::Result<bool> {
        let file = File::open(CONTROL)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {
                self.locked = Some(file);
                Ok(true)
            }
            Err(Errno::WOULDBLOCK) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn unlock(&mut self) {
        self.locked = None;
    }
}

fn new_ring() -> io::Result<ControlRing> {
    IoUring::builder().build(4)
}

trait CommandRing {
    /// Gives the kernel the command, unless it has it, and waits for the end, or until the limit.
    fn enter(&mut self, limit: Option<&Timespec>) -> io::Result<()>;

    /// Whether the kernel has taken the command: it may use the command's memory until the end.
    fn is_taken(&mut self) -> bool;

    fn result(&mut self) -> Option<i32>;
}

impl CommandRing for ControlRing {
    fn enter(&mut self, limit: Option<&Timespec>) -> io::Result<()> {
        let entered = match limit {
            Some(span) => self.submitter().submit_with_args(1, &SubmitArgs::new().timespec(span)),
            None => self.submit_and_wait(1),
        };
        entered.map(drop)
    }

    fn is_taken(&mut self) -> bool {
        self.submission().is_empty()
    }

    fn result(&mut self) -> Option<i32> {
        self.completion().next().map(|ended| ended.result())
    }
}

/// Waits for the end of a ring's command and returns its result.
///
/// # Errors
/// If the kernel does not take the command. After the kernel has taken it, no error ends the wait.
fn wait_for_end(ring: &mut impl CommandRing, tell: impl Fn()) -> io::Result<i32> {
    let span = Timespec::new().sec(LONG);
    let mut limit = Some(&span);
    loop {
        let entered = ring.enter(limit);
        if let Some(result) = ring.result() {
            return Ok(result);
        }
        match entered {
            Ok(()) => {}
            Err(error) if error.raw_os_error() == Some(libc::EINTR) => {}
            Err(error) if error.raw_os_error() == Some(libc::ETIME) => {
                tell();
                limit = None;
            }
            Err(error) if !ring.is_taken() => return Err(error),
            // The ring reports the end even if the kernel refuses to wait for it.
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}

fn waits(id: u32) -> String {
    format!(
        "the kernel has not answered a request about /dev/ublkb{id} for {LONG} s: it waits for the \
         daemon of that device, or for a process that has it open; if that daemon was killed, only a \
         reboot may help"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Scripted {
        errors: Vec<i32>,
        is_taken: bool,
    }

    impl CommandRing for Scripted {
        fn enter(&mut self, _limit: Option<&Timespec>) -> io::Result<()> {
            Err(io::Error::from_raw_os_error(self.errors.remove(0)))
        }

        fn is_taken(&mut self) -> bool {
            self.is_taken
        }

        fn result(&mut self) -> Option<i32> {
            (self.is_taken && self.errors.is_empty()).then_some(7)
        }
    }

    #[test]
    fn the_end_of_a_taken_command_is_awaited_despite_errors() {
        let errors = vec![libc::EINTR, libc::EBADR, libc::ETIME, libc::EBUSY, libc::EBADR];
        let told = std::cell::Cell::new(0);
        let ended = wait_for_end(&mut Scripted { errors, is_taken: true }, || told.set(told.get() + 1));
        assert_eq!((ended.unwrap(), told.get()), (7, 1));
    }

    #[test]
    fn a_command_that_the_kernel_does_not_take_fails() {
        let mut ring = Scripted { errors: vec![libc::EINTR, libc::EAGAIN], is_taken: false };
        let failed = wait_for_end(&mut ring, || {}).unwrap_err();
        assert_eq!((failed.raw_os_error(), ring.errors.len()), (Some(libc::EAGAIN), 0));
    }

    #[test]
    fn the_kernel_reports_whether_it_took_a_command() {
        let Ok(mut ring) = new_ring() else { return eprintln!("skipped: there is no io_uring here") };
        let entry = opcode::UringCmd80::new(Fd(-1), 0).build();
        // SAFETY: the command points to no memory.
        unsafe { ring.submission().push(&entry) }.unwrap();
        assert!(!ring.is_taken());
        assert_eq!(wait_for_end(&mut ring, || {}).unwrap(), -libc::EBADF);
        assert!(ring.is_taken());
    }
}
