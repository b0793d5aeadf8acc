//! How control commands reach the kernel's ublk driver: a ring with entries of 128 bytes.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;

use io_uring::types::Fd;
use io_uring::{IoUring, cqueue, opcode, squeue};

use super::abi::ControlCommand;

/// Whom commands are given to.
pub(crate) trait Channel {
    /// Gives a command, and waits for its end; what it points to stays in place until then.
    ///
    /// # Errors
    /// As the kernel gives them.
    fn call(&mut self, number: u32, command: &ControlCommand) -> io::Result<i32>;
}

/// The kernel.
pub(super) struct RingChannel {
    ring: IoUring<squeue::Entry128, cqueue::Entry>,
    device: File,
}

impl RingChannel {
    pub(super) fn open() -> Result<RingChannel, String> {
        let device = OpenOptions::new().read(true).write(true).open("/dev/ublk-control");
        let device = device.map_err(|error| match error.raw_os_error() {
            Some(libc::ENOENT | libc::ENODEV | libc::ENXIO) => {
                "this kernel has no ublk driver loaded; load it (modprobe ublk_drv; Linux 6.1 or later), or serve over NBD".into()
            }
            Some(libc::EACCES | libc::EPERM) => {
                "/dev/ublk-control may not be opened; ublk needs root (CAP_SYS_ADMIN)".to_owned()
            }
            _ => format!("/dev/ublk-control cannot be opened: {error}"),
        })?;
        let ring = IoUring::builder().build(4);
        let ring = ring.map_err(|error| format!("ublk needs io_uring, which is not available: {error}"))?;
        Ok(RingChannel { ring, device })
    }
}

impl Channel for RingChannel {
    fn call(&mut self, number: u32, command: &ControlCommand) -> io::Result<i32> {
        let entry = opcode::UringCmd80::new(Fd(self.device.as_raw_fd()), number).cmd(command.bytes()).build();
        // SAFETY: what the command points to outlives this call, which waits for its end.
        unsafe { self.ring.submission().push(&entry) }.map_err(io::Error::other)?;
        loop {
            match self.ring.submit_and_wait(1) {
                Ok(_) => {}
                Err(error) if error.raw_os_error() == Some(libc::EINTR) => continue,
                Err(error) => return Err(error),
            }
            if let Some(ended) = self.ring.completion().next() {
                let result = ended.result();
                return if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(result) };
            }
        }
    }
}
