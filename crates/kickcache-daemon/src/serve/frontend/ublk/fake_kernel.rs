//! A kernel for tests.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard};

use super::abi::{self, BasicParameters, ControlCommand, DeviceInfo, IoDescription, Parameters};
use super::channel::Channel;
use super::control_device::ControlDevice;
use super::control_threads::ControlThreads;
use super::cookie::cookie;
use crate::devices::volume_identity::VolumeIdentity;

pub(crate) const DEAD: u16 = 0;
pub(crate) const LIVE: u16 = 1;
pub(crate) const QUIESCED: u16 = 2;
/// No process has this number.
pub(crate) const NOBODY: i32 = i32::MAX;
/// Bytes that the descriptions of a queue have room for: 4096 of 24 bytes.
const QUEUE_BYTES: u64 = 4096 * 24;

#[derive(Clone, Copy)]
pub(crate) struct FakeDevice {
    pub(crate) info: DeviceInfo,
    pub(crate) parameters: Parameters,
}

#[derive(Default)]
pub(crate) struct DriverState {
    pub(crate) devices: BTreeMap<u32, FakeDevice>,
    /// The numbers of the commands that succeeded, except queries, in their order.
    pub(crate) done: Vec<u32>,
    /// How many commands, other than additions and queries, are answered with EBUSY first.
    pub(crate) busy: usize,
    pub(crate) unknown: Vec<u32>,
    /// Devices that a process has open: [`abi::DEL_DEV_ASYNC`] does not delete them.
    pub(crate) open: Vec<u32>,
    pub(crate) is_locked: bool,
    pub(crate) kept_out: usize,
    /// The commands among `done` that add, take over, stop or delete a device, and arrived without the lock.
    pub(crate) unlocked: Vec<u32>,
    pub(crate) processors: u16,
}

#[derive(Clone)]
pub(crate) struct FakeKernel {
    known: Arc<Mutex<DriverState>>,
    nodes: PathBuf,
}

impl FakeKernel {
    pub(crate) fn new(nodes: &Path) -> FakeKernel {
        let known = DriverState { processors: 4, ..DriverState::default() };
        FakeKernel { known: Arc::new(Mutex::new(known)), nodes: nodes.into() }
    }

    pub(crate) fn known(&self) -> MutexGuard<'_, DriverState> {
        self.known.lock().unwrap()
    }

    pub(crate) fn control(&self) -> ControlDevice {
        ControlDevice::with_channel(Box::new(self.clone()), self.nodes.clone())
    }

    pub(crate) fn controls(&self) -> ControlThreads {
        let kernel = self.clone();
        ControlThreads::new(move || Ok(kernel.control()))
    }

    /// Adds the device of a volume after its daemon has ended: one queue of two requests, waiting.
    pub(crate) fn leave(&self, id: u32, volume: &str, origin: &str, sectors: u64) {
        let server_flags = cookie(&VolumeIdentity::of_origin(volume, origin));
        let info = DeviceInfo {
            queue_count: 1,
            queue_depth: 2,
            device_id: id,
            server_flags,
            ..DeviceInfo::default()
        };
        let known = &mut *self.known();
        self.add(known, info).unwrap();
        let device = known.devices.get_mut(&id).unwrap();
        (device.info.state, device.info.server_pid) = (QUIESCED, NOBODY);
        device.parameters.basic = BasicParameters { device_sectors: sectors, ..BasicParameters::default() };
        device.info.request_bytes_max = 4096;
    }

    pub(crate) fn describe(&self, id: u32, (queue, tag): (u16, u16), wanted: IoDescription) {
        use std::os::unix::fs::FileExt;
        let file = File::options().write(true).open(self.node(id)).unwrap();
        let mut bytes = Vec::new();
        bytes.extend(wanted.operation_and_flags.to_le_bytes());
        bytes.extend(wanted.sector_count.to_le_bytes());
        bytes.extend(wanted.first_sector.to_le_bytes());
        bytes.extend(wanted.address.to_le_bytes());
        file.write_all_at(&bytes, u64::from(queue) * QUEUE_BYTES + u64::from(tag) * 24).unwrap();
    }

    pub(crate) fn nodes(&self) -> &Path {
        &self.nodes
    }

    fn node(&self, id: u32) -> PathBuf {
        self.nodes.join(format!("ublkc{id}"))
    }

    fn add(&self, known: &mut DriverState, mut info: DeviceInfo) -> Result<DeviceInfo, i32> {
        if info.device_id == u32::MAX {
            info.device_id = (0..64).find(|id| !known.devices.contains_key(id)).ok_or(libc::ENOSPC)?;
        }
        if known.devices.contains_key(&info.device_id) {
            return Err(libc::EEXIST);
        }
        info.queue_count = info.queue_count.min(known.processors);
        info.server_pid = -1;
        if let Ok(node) = File::create(self.node(info.device_id)) {
            node.set_len(QUEUE_BYTES * u64::from(info.queue_count)).unwrap();
        }
        known.devices.insert(info.device_id, FakeDevice { info, parameters: Parameters::default() });
        Ok(info)
    }

    fn answer(&self, number: u32, command: &ControlCommand) -> Result<(), i32> {
        let known = &mut *self.known();
        if known.unknown.contains(&number) {
            return Err(libc::EOPNOTSUPP);
        }
        if number == abi::ADD_DEV {
            let wanted = read::<DeviceInfo>(command);
            write(command, self.add(known, wanted)?);
            known.note_done(number);
            return Ok(());
        }
        let device = known.devices.get_mut(&command.device_id).ok_or(libc::ENODEV)?;
        match number {
            abi::GET_DEV_INFO => {
                write(command, device.info);
                return Ok(());
            }
            abi::GET_PARAMS => {
                write(command, device.parameters);
                return Ok(());
            }
            _ if known.busy > 0 => {
                known.busy -= 1;
                return Err(libc::EBUSY);
            }
            abi::SET_PARAMS => device.parameters = read(command),
            abi::START_DEV | abi::END_USER_RECOVERY => {
                device.info.state = LIVE;
                device.info.server_pid = i32::try_from(command.data).unwrap();
            }
            abi::START_USER_RECOVERY if device.info.state == QUIESCED => {}
            abi::START_USER_RECOVERY => return Err(libc::EBUSY),
            abi::STOP_DEV => device.info.state = DEAD,
            abi::DEL_DEV_ASYNC if known.open.contains(&command.device_id) => device.info.state = DEAD,
            abi::DEL_DEV | abi::DEL_DEV_ASYNC => drop(known.devices.remove(&command.device_id)),
            abi::UPDATE_SIZE => device.parameters.basic.device_sectors = command.data,
            _ => return Err(libc::EOPNOTSUPP),
        }
        known.note_done(number);
        Ok(())
    }
}

impl DriverState {
    fn note_done(&mut self, number: u32) {
        let is_change = matches!(
            number,
            abi::ADD_DEV | abi::START_USER_RECOVERY | abi::STOP_DEV | abi::DEL_DEV | abi::DEL_DEV_ASYNC
        );
        self.unlocked.extend((is_change && !self.is_locked).then_some(number));
        self.done.push(number);
    }
}

impl Channel for FakeKernel {
    fn call(&mut self, number: u32, command: &ControlCommand) -> io::Result<i32> {
        self.answer(number, command).map(|()| 0).map_err(io::Error::from_raw_os_error)
    }

    fn try_lock(&mut self) -> io::Result<bool> {
        let known = &mut *self.known();
        let is_free = !std::mem::replace(&mut known.is_locked, true);
        known.kept_out += usize::from(!is_free);
        Ok(is_free)
    }

    fn unlock(&mut self) {
        self.known().is_locked = false;
    }
}

fn read<T: Copy>(command: &ControlCommand) -> T {
    assert_eq!(usize::from(command.length), size_of::<T>());
    let address = ptr::with_exposed_provenance::<T>(usize::try_from(command.address).unwrap());
    // SAFETY: the command names a struct of this type that lives until it was answered.
    unsafe { address.read() }
}

fn write<T: Copy>(command: &ControlCommand, value: T) {
    assert_eq!(usize::from(command.length), size_of::<T>());
    let address = ptr::with_exposed_provenance_mut::<T>(usize::try_from(command.address).unwrap());
    // SAFETY: the command names a struct of this type that lives until it was answered; no other code reads
    // it meanwhile.
    unsafe { address.write(value) }
}
