//! `/dev/ublk-control`: devices are added, started, recovered and deleted here. Commands may wait for long: for the loop that
//! serves the device, or for everybody who has it open. They are never given on the loop's thread while it serves.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::thread;
use std::time::{Duration, Instant};

use io_uring::types::Fd;
use io_uring::{IoUring, cqueue, opcode, squeue};

use super::abi::{self, ControlCommand, DeviceInfo, NO_QUEUE, Parameters};

/// What the kernel has to do first when it answers EBUSY takes no longer.
const PATIENCE: Duration = Duration::from_secs(30);
/// It is asked again after so long.
const PAUSE: Duration = Duration::from_millis(50);

/// The kernel's ublk driver.
pub(crate) struct Control {
    ring: IoUring<squeue::Entry128, cqueue::Entry>,
    device: File,
}

impl Control {
    /// Opens it.
    ///
    /// # Errors
    /// A sentence that says what is missing.
    pub(crate) fn open() -> Result<Control, String> {
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
        Ok(Control { ring, device })
    }

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

    /// A command about a device, asked again for as long as the kernel is busy with what must come first.
    fn about(&mut self, number: u32, id: u32, data: u64) -> io::Result<()> {
        let command = ControlCommand { device_id: id, queue_id: NO_QUEUE, data, ..ControlCommand::default() };
        let start = Instant::now();
        loop {
            match self.call(number, &command) {
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) && start.elapsed() < PATIENCE => {
                    thread::sleep(PAUSE);
                }
                other => return other.map(drop),
            }
        }
    }

    /// What the kernel knows of a device, or `None` if there is none of that number.
    ///
    /// # Errors
    /// If the kernel refuses to tell.
    pub(crate) fn info(&mut self, id: u32) -> io::Result<Option<DeviceInfo>> {
        let mut info = DeviceInfo::default();
        let command = ControlCommand::with_buffer(id, &raw mut info);
        match self.call(abi::GET_DEV_INFO, &command) {
            Ok(_) => Ok(Some(info)),
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The parameters of a device.
    ///
    /// # Errors
    /// If there is none, or they were never set.
    pub(crate) fn parameters(&mut self, id: u32) -> io::Result<Parameters> {
        let mut parameters = Parameters { length: abi::PARAMETERS_LENGTH, ..Parameters::default() };
        let command = ControlCommand::with_buffer(id, &raw mut parameters);
        self.call(abi::GET_PARAMS, &command).map(|_| parameters)
    }

    /// Adds a device; the kernel completes what it is.
    ///
    /// # Errors
    /// EEXIST if there is one of that number.
    pub(crate) fn add(&mut self, mut info: DeviceInfo) -> io::Result<DeviceInfo> {
        let command = ControlCommand::with_buffer(info.device_id, &raw mut info);
        self.call(abi::ADD_DEV, &command)?;
        Ok(info)
    }

    /// Says what a device promises, before it is started.
    ///
    /// # Errors
    /// EINVAL for what this kernel does not allow.
    pub(crate) fn set_parameters(&mut self, id: u32, mut parameters: Parameters) -> io::Result<()> {
        let command = ControlCommand::with_buffer(id, &raw mut parameters);
        self.call(abi::SET_PARAMS, &command).map(drop)
    }

    /// Starts a device: waits until its loop has fetched requests of all tags, which it then must serve.
    ///
    /// # Errors
    /// As the kernel gives them.
    pub(crate) fn start(&mut self, id: u32) -> io::Result<()> {
        self.about(abi::START_DEV, id, u64::from(std::process::id()))
    }

    /// Takes over a device whose server is gone, once the kernel has noticed.
    ///
    /// # Errors
    /// EBUSY if it has a server.
    pub(crate) fn begin_recovery(&mut self, id: u32) -> io::Result<()> {
        self.about(abi::START_USER_RECOVERY, id, 0)
    }

    /// As [`Control::start`], of a device that was taken over.
    ///
    /// # Errors
    /// As the kernel gives them.
    pub(crate) fn end_recovery(&mut self, id: u32) -> io::Result<()> {
        self.about(abi::END_USER_RECOVERY, id, u64::from(std::process::id()))
    }

    /// Tells the kernel another size, in sectors of 512 bytes.
    ///
    /// # Errors
    /// EOPNOTSUPP or EINVAL before Linux 6.16.
    pub(crate) fn set_size(&mut self, id: u32, sectors: u64) -> io::Result<()> {
        self.about(abi::UPDATE_SIZE, id, sectors)
    }

    /// As [`Control::remove`], and does not wait: this process has yet to let go of it.
    ///
    /// # Errors
    /// EOPNOTSUPP before Linux 6.7.
    pub(crate) fn remove_later(&mut self, id: u32) -> io::Result<()> {
        self.about(abi::STOP_DEV, id, 0)?;
        self.about(abi::DEL_DEV_ASYNC, id, 0)
    }

    /// Ends a device, with an error for what waits in it, and deletes it; waits until its server has let go of it.
    ///
    /// # Errors
    /// As the kernel gives them.
    pub(crate) fn remove(&mut self, id: u32) -> io::Result<()> {
        self.about(abi::STOP_DEV, id, 0)?;
        self.about(abi::DEL_DEV, id, 0)
    }
}
