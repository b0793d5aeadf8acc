//! How control commands reach the kernel's ublk driver: a ring with entries of 128 bytes.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;

use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::abi::{ControlCommand, START_DEV};
use super::starter::start_in_child;
use crate::own_user::own_user;

/// A command through the ring that takes longer, in seconds, is reported once, as it may wait for ever.
const LONG: u64 = 10;

/// A function that shows the user a line.
pub(crate) type LineSink = Box<dyn Fn(&str) + Send>;

/// A channel for control commands: the kernel's, or that of a fake kernel.
pub(crate) trait Channel {
    /// Sends a command, and waits for its end; the caller keeps the memory that the command points to in
    /// place until then.
    ///
    /// # Errors
    /// As the kernel gives them.
    fn call(&mut self, number: u32, command: &ControlCommand) -> io::Result<i32>;

    /// Takes the lock that excludes other kickcache processes of this host; `false` if another process has
    /// it.
    ///
    /// # Errors
    /// As the system gives them.
    fn try_lock(&mut self) -> io::Result<bool>;

    /// Releases the lock.
    fn unlock(&mut self);
}

/// The channel to the kernel's driver.
pub(super) struct RingChannel {
    ring: IoUring<squeue::Entry128, cqueue::Entry>,
    device: File,
    tell: LineSink,
    starts: Starts,
    /// The held lock, on a file of its own: a command that waits in the kernel keeps `device` open.
    locked: Option<File>,
}

/// The device of the kernel's driver.
pub(super) const CONTROL: &str = "/dev/ublk-control";

/// Which process has the kernel start a device. The kernel reads the partition table during the start, and an old
/// kernel (Linux 6.12) lets the process end only after that read: a daemon killed meanwhile would keep its devices
/// locked until the next reboot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Starts {
    /// A child, which holds no resources.
    InChild,
    /// This process.
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
        let ring = IoUring::builder().build(4);
        let ring = ring.map_err(|error| format!("ublk needs io_uring, which is not available: {error}"))?;
        Ok(RingChannel { ring, device, tell, starts, locked: None })
    }
}

impl Channel for RingChannel {
    fn call(&mut self, number: u32, command: &ControlCommand) -> io::Result<i32> {
        if (number, self.starts) == (START_DEV, Starts::InChild) {
            return start_in_child(command);
        }
        let entry = opcode::UringCmd80::new(Fd(self.device.as_raw_fd()), number).cmd(command.bytes()).build();
        // SAFETY: memory that the command points to outlives this call, which waits for its end.
        unsafe { self.ring.submission().push(&entry) }.map_err(io::Error::other)?;
        let span = Timespec::new().sec(LONG);
        let mut patience = Some(SubmitArgs::new().timespec(&span));
        loop {
            let waited = match &patience {
                Some(arguments) => self.ring.submitter().submit_with_args(1, arguments),
                None => self.ring.submit_and_wait(1),
            };
            match waited {
                Ok(_) => {}
                Err(error) if error.raw_os_error() == Some(libc::EINTR) => continue,
                Err(error) if error.raw_os_error() == Some(libc::ETIME) => {
                    (self.tell)(&waits(command.device_id));
                    patience = None;
                }
                Err(error) => return Err(error),
            }
            if let Some(ended) = self.ring.completion().next() {
                let result = ended.result();
                return if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(result) };
            }
        }
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

fn waits(id: u32) -> String {
    format!(
        "the kernel has not answered a request about /dev/ublkb{id} for {LONG} s: it waits for the \
         daemon of that device, or for a process that has it open; if that daemon was killed, only a \
         reboot may help"
    )
}
