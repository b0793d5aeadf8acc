//! Volumes as block devices of this host, by the kernel's ublk driver.
//!
//! A device's requests are fetched by commands on the driver's ring: the answer to a request is the command
//! that fetches the next request of its tag.
//!
//! A device outlives its daemon, unless the daemon ends cleanly and the device is unused: requests wait in the kernel
//! until the next daemon takes over, and requests in flight are issued once more.

pub(crate) mod abi;
pub(crate) mod channel;
pub(crate) mod control_device;
pub(crate) mod control_threads;
pub(crate) mod cookie;
mod device;
pub(crate) mod device_user;
mod exclusive;
#[cfg(test)]
pub(crate) mod fake_kernel;
pub(crate) mod in_use;
pub(crate) mod key;
mod membership;
pub(crate) mod open_ublk;
pub(crate) mod own_device;
pub(crate) mod parameters;
pub(crate) mod place;
mod process;
mod queue;
pub(crate) mod removal;
pub(crate) mod request;
pub(crate) mod request_conversion;
mod request_table;
mod scheduler;
mod starter;
pub(crate) mod state;
pub(crate) mod unsafe_devices;

use std::fmt::Display;
use std::path::Path;

use kickcache_engine::cache_engine::CacheEngine;
use kickcache_engine::request::{Operation, Reply};
use kickcache_engine::units::BLOCK_SIZE;

use self::abi::{COMMIT_AND_FETCH, FETCH};
use self::control_device::ControlDevice;
use self::control_threads::ControlThreads;
use self::device::{Acquisition, RemainingTags, UblkDevice};
use self::device_user::DeviceUser;
use self::in_use::user_of;
use self::key::UblkKey;
use self::open_ublk::OpenUblk;
use self::place::{NOBODY, UblkPlace};
use self::request::{UblkMemory, UblkRequest};
use self::request_conversion::{extent, operation, result};
use crate::driver::budget::{Claim, Grant};
use crate::driver::buffers::Buffers;
use crate::serve::complaints::NO_MEMORY;
use crate::serve::core::{Core, EngineRequest};
use crate::serve::error::ServeError;
use crate::serve::frontend::kinds::{Pending, WatchKey};
use crate::serve::known_volume::KnownVolume;
use crate::serve::served_volumes::Volume;

#[derive(Default)]
pub(crate) struct Ublk {
    devices: Vec<UblkDevice>,
    /// Requests that the next turn of the loop tries to begin; requests of hidden devices stay.
    held: Vec<UblkKey>,
    waiting: Vec<UblkKey>,
    is_started: bool,
    /// No more requests are accepted: the kernel keeps them for the next daemon.
    is_closed: bool,
    controls: ControlThreads,
}

impl Ublk {
    pub(crate) fn open<E>(places: &[UblkPlace], core: &mut Core<E>) -> Result<Ublk, ServeError> {
        Ublk::open_with(ControlThreads::default(), places, core)
    }

    /// As [`Ublk::open`], with another channel to the kernel's driver.
    pub(crate) fn open_with<E>(
        controls: ControlThreads,
        places: &[UblkPlace],
        core: &mut Core<E>,
    ) -> Result<Ublk, ServeError> {
        let mut ublk = Ublk::default();
        ublk.controls = controls;
        let io_engine = core.driver.io_engine();
        for place in places {
            let volume = KnownVolume::of(&core.volumes[place.volume]);
            // Without a device, no memory is locked and no warning logged.
            let open = OpenUblk::open(&ublk.controls, place, &volume, io_engine)?;
            ublk.insert(open.into_device());
        }
        Ok(ublk)
    }

    /// The block device of the volume with an index; `None` without a device, or once the kernel has ended a
    /// tag.
    pub(super) fn path_of(&self, volume: usize) -> Option<String> {
        self.path_where(volume, UblkDevice::is_served)
    }

    /// The block device that the volume of an index was until another process removed it.
    pub(super) fn removed_path_of(&self, volume: usize) -> Option<String> {
        self.path_where(volume, |device| !device.is_served())
    }

    fn path_where(&self, volume: usize, is_so: impl Fn(&UblkDevice) -> bool) -> Option<String> {
        let device = self.devices.iter().find(|device| device.volume == volume && is_so(device))?;
        Some(device.path().display().to_string())
    }

    /// At the first call, has the devices started.
    pub(super) fn watch<E: CacheEngine>(&mut self, core: &mut Core<E>) {
        if std::mem::replace(&mut self.is_started, true) {
            return;
        }
        (0..self.devices.len()).for_each(|index| self.fetch(core, index));
    }

    fn fetch<E>(&self, core: &mut Core<E>, index: usize) {
        let device = &self.devices[index];
        let index = u16::try_from(index).expect("few volumes");
        for (number, queue) in (0..).zip(device.queues()) {
            for tag in 0..queue.depth() {
                let key = WatchKey::Ublk(UblkKey { device: index, queue: number, tag });
                core.driver.command(key.bits(), device.fd(), FETCH, queue.command(tag, 0).bytes());
            }
        }
        self.start_aside(device, &core.volumes[device.volume]);
    }

    /// Starts a device on another thread, as the start waits until the loop has fetched requests.
    fn start_aside(&self, device: &UblkDevice, volume: &Volume) {
        let (id, begun, name) = (device.id, device.begun, volume.info.name.clone());
        let sectors = device.sectors_of(volume.info.size);
        let has_grown = sectors > device.sectors;
        let path = device.path();
        let work = move |control: &mut ControlDevice| {
            match begun {
                Acquisition::Added => {
                    control.start(id, std::process::id()).map(|()| switch_scheduler_off(id))
                }
                Acquisition::TakenOver => control.end_recovery(id),
            }?;
            if has_grown {
                tell_size(&path, sectors, control.set_size(id, sectors));
            }
            Ok(())
        };
        self.controls.aside(work, move |started| match (started, begun) {
            (Ok(()), Acquisition::Added) => {
                tracing::info!(event = "ublk_started", "/dev/ublkb{id} is {name}");
            }
            (Ok(()), Acquisition::TakenOver) => {
                tracing::info!(event = "ublk_started", "/dev/ublkb{id} is {name} again");
            }
            (Err(error), _) => {
                tracing::error!(
                    event = "ublk_failed",
                    "/dev/ublkb{id}, which is to be {name}, cannot be started: {error}"
                );
            }
        });
    }

    /// A command has ended: with 0 the kernel has a request, otherwise the kernel has ended the tag.
    pub(super) fn on_command<E: CacheEngine>(&mut self, core: &mut Core<E>, key: UblkKey, ended: i32) {
        match ended {
            0 if !self.is_closed => self.begin_or_hold(core, key, None),
            0 => {}
            _ => self.on_end(core, key, ended),
        }
    }

    /// Handles the end of a tag: the device is being deleted. The daemon continues, as acknowledged writes
    /// must reach their origins.
    fn on_end<E>(&mut self, core: &Core<E>, key: UblkKey, ended: i32) {
        let device = &mut self.devices[usize::from(key.device)];
        let (path, name) = (device.path(), core.volumes.name(device.volume));
        let path = path.display();
        match device.end_tag() {
            RemainingTags::Others if !self.is_closed && device.volume != NOBODY => tracing::error!(
                event = "ublk_lost",
                "{path}, which was {name}, was removed by another program ({}): {name} is no block \
                 device any more; acknowledged writes are kept; to create it again, stop this daemon and \
                 serve the volume again",
                std::io::Error::from_raw_os_error(-ended)
            ),
            RemainingTags::Others | RemainingTags::Some => {}
            RemainingTags::Nothing if device.volume == NOBODY => {}
            RemainingTags::Nothing => {
                tracing::info!(event = "ublk_removed", "{path}, which was removed, is closed");
            }
        }
    }

    pub(super) fn take_requests<E: CacheEngine>(&mut self, core: &mut Core<E>) {
        for key in std::mem::take(&mut self.held) {
            self.begin_or_hold(core, key, None);
        }
    }

    pub(super) fn on_memory<E: CacheEngine>(&mut self, core: &mut Core<E>, key: UblkKey, grant: Grant) {
        match self.waiting.iter().position(|waiting| *waiting == key) {
            Some(index) => {
                self.waiting.swap_remove(index);
                self.begin_or_hold(core, key, Some(grant));
            }
            None => core.driver.buffers().budget.release(grant),
        }
    }

    fn begin_or_hold<E: CacheEngine>(&mut self, core: &mut Core<E>, key: UblkKey, granted: Option<Grant>) {
        let device = &mut self.devices[usize::from(key.device)];
        if device.volume == NOBODY || device.is_hidden {
            if let Some(grant) = granted {
                core.driver.buffers().budget.release(grant);
            }
            return match device.volume {
                NOBODY => self.answer(core, key, -libc::EIO),
                _ => self.held.push(key),
            };
        }
        let description = device.queue(key).description(key.tag);
        let volume = &core.volumes[device.volume].info;
        let (operation, extent) = (operation(&description), extent(&description, volume.size));
        let id = volume.id;
        let (Some(operation), Some(extent)) = (operation, extent) else {
            return self.answer(core, key, -libc::EIO);
        };
        let has_payload = matches!(operation, Operation::Read | Operation::Write(_));
        // If a request begins at a block of the volume, devices use the memory of its tag directly; otherwise
        // the data is copied.
        let is_lent = has_payload && extent.start.is_multiple_of(BLOCK_SIZE);
        let buffers = core.driver.buffers();
        let allocated = if is_lent {
            let length = usize::try_from(extent.length).expect("at most 256 KiB");
            Ok(buffers.lend(device.queue(key).lend(key.tag), length))
        } else if has_payload {
            let (volume, bytes) = (device.volume, Buffers::cost(extent));
            let claim = Claim { volume, bytes, held: 0, key: WatchKey::Ublk(key).bits() };
            let Some(grant) = granted.or_else(|| buffers.budget.reserve(claim)) else {
                return self.waiting.push(key);
            };
            buffers.allocate(grant, extent)
        } else {
            Ok(buffers.allocate_empty())
        };
        let request = match allocated {
            Ok(request) => request,
            Err(error) => {
                let line = format_args!("a request of {} bytes failed: no memory ({error})", extent.length);
                core.complaints.say(core.now, NO_MEMORY, line);
                return self.answer(core, key, -libc::ENOMEM);
            }
        };
        if let (Operation::Write(_), false) = (operation, is_lent) {
            let payload = core.driver.buffers().payload_mut(request);
            let length = payload.len();
            payload.copy_from_slice(device.queue(key).bytes(key.tag, length));
        }
        let memory = if is_lent { UblkMemory::Tag } else { UblkMemory::Own };
        let bytes = if has_payload { i32::try_from(extent.length).expect("at most 256 KiB") } else { 0 };
        device.in_flight += 1;
        let pending = Pending::Ublk(UblkRequest { key, bytes, memory });
        core.begin(&EngineRequest { id: request, volume: id, operation, extent }, pending);
    }

    pub(super) fn on_reply<E: CacheEngine>(
        &mut self,
        core: &mut Core<E>,
        operation: Operation,
        request: UblkRequest,
        reply: &Reply,
    ) {
        let UblkRequest { key, bytes, memory } = request;
        let device = &mut self.devices[usize::from(key.device)];
        device.in_flight -= 1;
        match memory {
            UblkMemory::Tag => {
                device.queue(key).give_back(key.tag, core.driver.buffers().take_back(reply.id));
            }
            UblkMemory::Own => {
                if operation == Operation::Read && reply.result.is_ok() {
                    let payload = core.driver.buffers().payload(reply.id);
                    device.queue(key).bytes(key.tag, payload.len()).copy_from_slice(payload);
                }
                core.driver.buffers().release(reply.id);
            }
        }
        self.answer(core, key, result(bytes, reply.result));
    }

    fn answer<E>(&mut self, core: &mut Core<E>, key: UblkKey, result: i32) {
        let device = &mut self.devices[usize::from(key.device)];
        let command = device.queue(key).command(key.tag, result);
        core.driver.command(WatchKey::Ublk(key).bits(), device.fd(), COMMIT_AND_FETCH, command.bytes());
    }

    #[cfg(test)]
    pub(crate) fn memory_of(&mut self, key: UblkKey, length: usize) -> &mut [u8] {
        self.devices[usize::from(key.device)].queue(key).bytes(key.tag, length)
    }

    pub(super) fn stop_listening(&mut self) {
        self.is_closed = true;
        // Requests in these queues have not begun: the kernel gives them to the next daemon again.
        self.held.clear();
        self.waiting.clear();
    }

    pub(super) fn is_idle(&self) -> bool {
        self.held.is_empty() && self.waiting.is_empty()
    }

    pub(super) fn resize(&self, volume: usize, size: u64) {
        let is_meant = |device: &&UblkDevice| device.volume == volume && device.is_served();
        for device in self.devices.iter().filter(is_meant) {
            let (id, path, sectors) = (device.id, device.path(), device.sectors_of(size));
            let tell = move |done| tell_size(&path, sectors, done);
            self.controls.aside(move |control| control.set_size(id, sectors), tell);
        }
    }
}

impl Drop for Ublk {
    /// Unused devices are deleted, used ones wait for the next daemon.
    fn drop(&mut self) {
        for device in self.devices.drain(..).filter(UblkDevice::is_served) {
            let (id, path, is_leaving) = (device.id, device.path(), device.volume == NOBODY);
            drop(device);
            let end =
                self.controls.open().and_then(|mut control| control.alone(|control| end(control, id, &path)));
            let shown = path.display();
            match end {
                Ok(End::Removed) => tracing::info!(event = "ublk_removed", "{shown} was removed"),
                Ok(End::TakenOver(by)) => {
                    tracing::info!(event = "ublk_left", "{shown} stays, as {by} serves it already");
                }
                Ok(End::Used(by)) => tracing::warn!(
                    event = "ublk_left",
                    "{shown} stays, as {by} has it open; its requests wait until the volume is served again, or it is removed \
                     (kickcache ublk remove {id})"
                ),
                // The deletion of this device began before, and may be complete.
                Err(_) if is_leaving => {}
                Err(error) => tracing::warn!(event = "ublk_left", "{shown} cannot be removed: {error}"),
            }
        }
    }
}

enum End {
    Removed,
    TakenOver(DeviceUser),
    Used(DeviceUser),
}

fn end(control: &mut ControlDevice, id: u32, path: &Path) -> Result<End, String> {
    if let Some(server) = control.opener(id) {
        return Ok(End::TakenOver(server));
    }
    if let Some(user) = user_of(path) {
        return Ok(End::Used(user));
    }
    control.remove_later(id).map(|_| End::Removed).map_err(|error| error.to_string())
}

fn switch_scheduler_off(id: u32) {
    if let Err(error) = scheduler::switch_off(id) {
        tracing::info!(event = "ublk_differs", "/dev/ublkb{id} keeps the kernel's I/O scheduler: {error}");
    }
}

fn tell_size(path: &Path, sectors: u64, done: Result<(), impl Display>) {
    let path = path.display();
    match done {
        Ok(()) => tracing::info!(event = "ublk_resized", "{path} has {} bytes now", sectors * 512),
        Err(error) => tracing::warn!(
            event = "ublk_differs",
            "{path} keeps its size until it is removed and served again, as the kernel cannot change it ({error}; Linux 6.16 can)"
        ),
    }
}
