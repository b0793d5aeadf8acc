//! `/dev/ublk-control`: devices are added, started, recovered and deleted here. Commands may wait for long,
//! so a serving loop does not send them.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use super::abi::{self, ControlCommand, DeviceInfo, NO_QUEUE, Parameters};
use super::channel::{CONTROL, Channel, LineSink, RingChannel, Starts};
use super::device_user::DeviceUser;
use super::in_use::opener_of;
use crate::opener::Opener;

/// The longest wait, in pauses, while the kernel answers EBUSY, or while another kickcache has the lock.
const PATIENCE: Duration = Duration::from_secs(30);
/// The divisor of the patience for the wait until a device node appears, or a daemon ends.
const PART: u32 = 3;
const PAUSE: Duration = Duration::from_millis(50);
/// The longest wait, in pauses, until a removed device is deleted.
const GOING: Duration = Duration::from_secs(2);
/// The device numbers of [`ControlDevice::devices`].
const IDS: std::ops::Range<u32> = 0..64;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Removal {
    Done,
    /// The kernel deletes the device once no process has it open.
    Begun,
}

pub(crate) struct ControlDevice {
    channel: Box<dyn Channel>,
    nodes: PathBuf,
    patience: Duration,
}

impl ControlDevice {
    /// # Errors
    /// A sentence that names the missing resource.
    pub(crate) fn open() -> Result<ControlDevice, String> {
        ControlDevice::open_telling(Box::new(|line| tracing::warn!(event = "ublk_waits", "{line}")))
    }

    /// As [`ControlDevice::open`], with a receiver of messages about slow commands.
    ///
    /// # Errors
    /// As [`ControlDevice::open`].
    pub(crate) fn open_telling(tell: LineSink) -> Result<ControlDevice, String> {
        ControlDevice::open_on(RingChannel::open(Starts::InChild, tell)?)
    }

    /// # Errors
    /// As [`ControlDevice::open`].
    pub(crate) fn open_to_start() -> Result<ControlDevice, String> {
        ControlDevice::open_on(RingChannel::open(Starts::Here, Box::new(|_| {}))?)
    }

    fn open_on(channel: RingChannel) -> Result<ControlDevice, String> {
        Ok(ControlDevice { channel: Box::new(channel), nodes: "/dev".into(), patience: PATIENCE })
    }

    #[cfg(test)]
    pub(crate) fn with_channel(channel: Box<dyn Channel>, nodes: PathBuf) -> ControlDevice {
        ControlDevice { channel, nodes, patience: Duration::from_millis(300) }
    }

    fn call(&mut self, number: u32, command: &ControlCommand) -> io::Result<i32> {
        self.channel.call(number, command)
    }

    /// Waits for a condition that other processes bring about: `false` if it takes too long.
    pub(crate) fn wait_until(&mut self, is_so: impl FnMut(&mut ControlDevice) -> bool) -> bool {
        self.wait_for(self.patience / PART, is_so)
    }

    fn wait_for(&mut self, longest: Duration, mut is_so: impl FnMut(&mut ControlDevice) -> bool) -> bool {
        // Pauses are counted, not time, so that a stop of this process costs no attempts.
        for _ in 0..longest.as_millis() / PAUSE.as_millis() {
            if is_so(self) {
                return true;
            }
            thread::sleep(PAUSE);
        }
        is_so(self)
    }

    /// Does work during which no other kickcache of this host adds, takes over or deletes a device.
    ///
    /// # Errors The errors of the work, and a sentence if the lock cannot be had.
    pub(crate) fn alone<T>(
        &mut self,
        work: impl FnOnce(&mut ControlDevice) -> Result<T, String>,
    ) -> Result<T, String> {
        let mut locked = Ok(false);
        self.wait_for(self.patience, |control| {
            locked = control.channel.try_lock();
            !matches!(locked, Ok(false))
        });
        match locked {
            Ok(true) => {}
            Ok(false) => return Err(occupied(self.patience)),
            Err(error) => return Err(format!("/dev/ublk-control cannot be locked: {error}")),
        }
        let done = work(self);
        self.channel.unlock();
        done
    }

    /// Opens the character device of a device; waits if udev has not made it yet.
    ///
    /// # Errors
    /// As the system gives them.
    pub(crate) fn open_node(&mut self, id: u32) -> io::Result<File> {
        let path = self.node(id);
        self.wait_until(|_| path.exists());
        OpenOptions::new().read(true).write(true).open(path)
    }

    /// The process that has the device's character device open.
    pub(crate) fn opener(&self, id: u32) -> Option<DeviceUser> {
        opener_of(&self.node(id))
    }

    fn node(&self, id: u32) -> PathBuf {
        self.nodes.join(format!("ublkc{id}"))
    }

    /// A command about a device; EBUSY of the kernel is waited out up to the patience.
    fn about(&mut self, number: u32, id: u32, data: u64) -> io::Result<()> {
        let command = ControlCommand { device_id: id, queue_id: NO_QUEUE, data, ..ControlCommand::default() };
        let mut last = Ok(0);
        self.wait_for(self.patience, |control| {
            last = control.call(number, &command);
            !matches!(&last, Err(error) if error.raw_os_error() == Some(libc::EBUSY))
        });
        last.map(drop)
    }

    /// The kernel's information on a device; `None` if no device has the number.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub(crate) fn info(&mut self, id: u32) -> io::Result<Option<DeviceInfo>> {
        let mut info = DeviceInfo::default();
        let command = ControlCommand::with_buffer(id, &raw mut info);
        match self.call(abi::GET_DEV_INFO, &command) {
            Ok(_) => Ok(Some(info)),
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The devices with numbers of [`IDS`], the lowest number first.
    ///
    /// # Errors
    /// A sentence, if the kernel refuses.
    pub(crate) fn devices(&mut self) -> Result<Vec<DeviceInfo>, String> {
        let found = IDS.map(|id| self.info(id)).filter_map(Result::transpose);
        found.collect::<io::Result<_>>().map_err(|error| match error {
            error if is_unknown(&error) => {
                "this kernel's ublk driver is too old: Linux 6.4 or later is needed; serve over NBD".into()
            }
            error => format!("ublk devices cannot be looked at: {error}"),
        })
    }

    /// # Errors As the kernel gives them.
    pub(crate) fn parameters(&mut self, id: u32) -> io::Result<Parameters> {
        let mut parameters = Parameters { length: abi::PARAMETERS_LENGTH, ..Parameters::default() };
        let command = ControlCommand::with_buffer(id, &raw mut parameters);
        self.call(abi::GET_PARAMS, &command).map(|_| parameters)
    }

    /// # Errors
    /// EEXIST if the number is in use.
    pub(crate) fn add(&mut self, mut info: DeviceInfo) -> io::Result<DeviceInfo> {
        let command = ControlCommand::with_buffer(info.device_id, &raw mut info);
        self.call(abi::ADD_DEV, &command)?;
        Ok(info)
    }

    /// Sets the capabilities of a device, before it is started.
    ///
    /// # Errors
    /// EINVAL for parameters that this kernel does not support.
    pub(crate) fn set_parameters(&mut self, id: u32, mut parameters: Parameters) -> io::Result<()> {
        let command = ControlCommand::with_buffer(id, &raw mut parameters);
        self.call(abi::SET_PARAMS, &command).map(drop)
    }

    /// Starts a device; waits until its server has fetched requests of all tags.
    ///
    /// # Errors
    /// As the kernel gives them.
    pub(crate) fn start(&mut self, id: u32, server: u32) -> io::Result<()> {
        self.about(abi::START_DEV, id, u64::from(server))
    }

    /// Takes over a device without a server.
    ///
    /// # Errors
    /// EBUSY if it has a server.
    pub(crate) fn begin_recovery(&mut self, id: u32) -> io::Result<()> {
        self.about(abi::START_USER_RECOVERY, id, 0)
    }

    /// As [`ControlDevice::start`], for a device that was taken over.
    ///
    /// # Errors
    /// As the kernel gives them.
    pub(crate) fn end_recovery(&mut self, id: u32) -> io::Result<()> {
        self.about(abi::END_USER_RECOVERY, id, u64::from(std::process::id()))
    }

    /// Sets another size, in sectors of 512 bytes.
    ///
    /// # Errors An error of the kernel before Linux 6.16.
    pub(crate) fn set_size(&mut self, id: u32, sectors: u64) -> io::Result<()> {
        self.about(abi::UPDATE_SIZE, id, sectors)
    }

    /// As [`ControlDevice::remove`], but from Linux 6.7 on without a wait until every process has closed the
    /// device.
    ///
    /// # Errors
    /// As the kernel gives them.
    pub(crate) fn remove_later(&mut self, id: u32) -> io::Result<Removal> {
        self.about(abi::STOP_DEV, id, 0)?;
        match self.about(abi::DEL_DEV_ASYNC, id, 0) {
            Err(error) if is_unknown(&error) => self.about(abi::DEL_DEV, id, 0).map(|()| Removal::Done),
            other => other.map(|()| Removal::Begun),
        }
    }

    /// Waits for the end of a [`ControlDevice::remove_later`]: `false` if the device is not deleted within
    /// [`GOING`].
    pub(crate) fn wait_until_gone(&mut self, id: u32) -> bool {
        self.wait_for(GOING.min(self.patience), |control| control.info(id).is_ok_and(|info| info.is_none()))
    }

    /// Ends and deletes a device; waits until every process has closed it.
    ///
    /// # Errors
    /// As the kernel gives them.
    pub(crate) fn remove(&mut self, id: u32) -> io::Result<()> {
        self.about(abi::STOP_DEV, id, 0)?;
        self.about(abi::DEL_DEV, id, 0)
    }
}

fn occupied(waited: Duration) -> String {
    format!(
        "another kickcache has been adding or removing a ublk device for {} s; find it ({}) and the reason (kickcache ublk \
         list), then try again",
        waited.as_secs(),
        Opener::of_any(&[Path::new(CONTROL)])
            .map_or_else(|| format!("fuser {CONTROL}"), |opener| opener.to_string())
    )
}

fn is_unknown(error: &io::Error) -> bool {
    /// ENOTSUPP of the kernel, which no header of the system has.
    const NOT_SUPPORTED: i32 = 524;
    matches!(error.raw_os_error(), Some(NOT_SUPPORTED | libc::EOPNOTSUPP | libc::EINVAL))
}

#[cfg(test)]
mod tests {
    use super::super::fake_kernel::{FakeKernel, LIVE, NOBODY, QUIESCED};
    use super::*;

    struct Scene {
        kernel: FakeKernel,
        control: ControlDevice,
        _nodes: tempfile::TempDir,
    }

    fn scene() -> Scene {
        let nodes = tempfile::tempdir().unwrap();
        let kernel = FakeKernel::new(nodes.path());
        let mut control = kernel.control();
        let wanted =
            DeviceInfo { queue_count: 1, queue_depth: 1, device_id: u32::MAX, ..DeviceInfo::default() };
        assert_eq!(control.add(wanted).unwrap().device_id, 0);
        kernel.known().done.clear();
        Scene { kernel, control, _nodes: nodes }
    }

    #[test]
    fn a_device_that_is_not_there_is_none() {
        let Scene { mut control, .. } = scene();
        assert_eq!(control.info(0).unwrap().map(|info| info.device_id), Some(0));
        assert_eq!(control.info(1).unwrap(), None);
    }

    #[test]
    fn a_busy_kernel_is_retried() {
        let Scene { kernel, mut control, .. } = scene();
        kernel.known().busy = 3;
        control.start(0, 1).unwrap();
        assert_eq!(kernel.known().devices[&0].info.state, LIVE);
        assert_eq!(kernel.known().done, [abi::START_DEV]);
    }

    #[test]
    fn but_not_for_ever() {
        let Scene { kernel, mut control, .. } = scene();
        kernel.known().busy = usize::MAX;
        assert_eq!(control.start(0, 1).unwrap_err().raw_os_error(), Some(libc::EBUSY));
        let attempts = usize::MAX - kernel.known().busy;
        assert_eq!(attempts, 7, "300 ms in pauses of 50 ms, and the first");
    }

    #[test]
    fn a_recovery_waits_until_the_kernel_has_noticed() {
        let Scene { kernel, mut control, .. } = scene();
        kernel.known().devices.get_mut(&0).unwrap().info.state = LIVE;
        assert!(control.begin_recovery(0).is_err(), "it has a server");
        kernel.known().devices.get_mut(&0).unwrap().info.state = QUIESCED;
        kernel.known().busy = 1;
        control.begin_recovery(0).unwrap();
        control.end_recovery(0).unwrap();
        assert_eq!(kernel.known().done, [abi::START_USER_RECOVERY, abi::END_USER_RECOVERY]);
        assert_ne!(kernel.known().devices[&0].info.server_pid, NOBODY);
    }

    #[test]
    fn a_kernel_that_cannot_delete_aside_deletes() {
        let Scene { kernel, mut control, .. } = scene();
        kernel.known().unknown.push(abi::DEL_DEV_ASYNC);
        control.remove_later(0).unwrap();
        assert_eq!(kernel.known().done, [abi::STOP_DEV, abi::DEL_DEV]);
        assert_eq!(control.info(0).unwrap(), None);
    }

    #[test]
    fn one_works_on_devices_at_a_time() {
        let Scene { kernel, mut control, .. } = scene();
        let said = control.alone(|_| kernel.control().alone(|_| Ok(()))).unwrap_err();
        assert!(said.starts_with("another kickcache has been adding or removing"), "{said}");
        let after = control.alone(|_| Err::<(), _>("the work failed".into())).unwrap_err();
        assert_eq!(after, "the work failed");
        assert_eq!(kernel.control().alone(|_| Ok(5)), Ok(5), "the lock was released each time");
    }

    #[test]
    fn a_node_that_does_not_come_is_an_error() {
        let mut scene = scene();
        assert!(scene.control.open_node(0).is_ok());
        assert_eq!(scene.control.open_node(1).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
