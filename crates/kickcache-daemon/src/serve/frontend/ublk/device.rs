//! One volume as a block device.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;

use super::abi::{CMD_IOCTL_ENCODE, DeviceInfo, Parameters, READ_ONLY, USER_RECOVERY, USER_RECOVERY_REISSUE};
use super::control_device::{ControlDevice, Removal};
use super::cookie::{cookie, is_of};
use super::key::UblkKey;
use super::parameters::{LogicalBlock, Writes, parameters};
use super::place::{NOBODY, UblkPlace};
use super::queue::Queue;
use super::state::{DeviceState, is_stuck_unused, stuck};
use crate::devices::volume_identity::VolumeIdentity;
use crate::driver::device::AccessMode;
use crate::driver::memory::Allocator;
use crate::plan::frontends::ublk::id::UblkId;
use crate::serve::known_volume::KnownVolume;

/// A device has its file and queues while a request is in flight.
const SERVED: &str = "a removed device has no request in flight";

/// Bytes of the largest request of a new device; the kernel splits larger requests.
const REQUEST_BYTES_MAX: u32 = 256 << 10;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Acquisition {
    Added,
    TakenOver,
}

pub(super) struct UblkDevice {
    /// The volume's index, or [`NOBODY`].
    pub(super) volume: usize,
    pub(super) id: u32,
    pub(super) begun: Acquisition,
    served: Option<ServedDevice>,
    /// Requests of this device that were passed on and have no reply, also requests that wait for a cap.
    pub(super) in_flight: usize,
    /// Whether its requests are held, while a removal of its volume is tried.
    pub(super) is_hidden: bool,
    /// The kernel's size of the device when it was opened, in sectors of 512 bytes.
    pub(super) sectors: u64,
    block: LogicalBlock,
}

struct ServedDevice {
    file: File,
    queues: Vec<Queue>,
    _memory: Allocator,
    /// The number of tags that the kernel has ended.
    ended: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RemainingTags {
    /// All other tags of the device remain.
    Others,
    Some,
    /// No tag remains: the device was closed.
    Nothing,
}

impl UblkDevice {
    /// Takes over the volume's existing device, or adds one.
    pub(super) fn open(
        control: &mut ControlDevice,
        place: &UblkPlace,
        volume: &KnownVolume,
    ) -> Result<UblkDevice, String> {
        if let Some(info) = find_own(control, place.id, &volume.identity)? {
            // The lock is not held during this wait, as the ending process may need it.
            wait_for_end(control, info.device_id)?;
        }
        control.alone(|control| UblkDevice::open_alone(control, place, volume))
    }

    fn open_alone(
        control: &mut ControlDevice,
        place: &UblkPlace,
        volume: &KnownVolume,
    ) -> Result<UblkDevice, String> {
        let (info, begun) = match find(control, place.id, &volume.identity)? {
            Some(info) => {
                // Commands on a device with an ending server would not return.
                wait_for_end(control, info.device_id)?;
                check_same(control, &info, volume)?;
                take_over(control, info.device_id)?;
                tell_differences(control, &info, place, volume);
                (info, Acquisition::TakenOver)
            }
            None => (add(control, place, volume)?, Acquisition::Added),
        };
        let opened = open_queues(control, place, &info, begun);
        if opened.is_err() && begun == Acquisition::Added {
            // No process has the device open, as it was never started.
            let _ = control.remove(info.device_id);
        }
        opened
    }

    pub(super) fn path(&self) -> PathBuf {
        format!("/dev/ublkb{}", self.id).into()
    }

    /// # Panics
    /// If the kernel has taken the device away.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.served.as_ref().expect(SERVED).file.as_fd()
    }

    /// # Panics
    /// If the kernel has taken the device away.
    pub(super) fn queue(&mut self, key: UblkKey) -> &mut Queue {
        &mut self.served.as_mut().expect(SERVED).queues[usize::from(key.queue)]
    }

    pub(super) fn queues(&self) -> &[Queue] {
        self.served.as_ref().map_or(&[], |served| &served.queues)
    }

    /// Whether the device serves no volume and is closed, so that its index is free.
    pub(super) fn is_gone(&self) -> bool {
        self.volume == NOBODY && self.served.is_none()
    }

    /// Whether the daemon has the device open, and the kernel has ended none of its tags.
    pub(super) fn is_served(&self) -> bool {
        self.served.as_ref().is_some_and(|served| served.ended == 0)
    }

    /// The kernel has ended a tag: the device is being deleted. The device is closed after its last
    /// tag.
    pub(super) fn end_tag(&mut self) -> RemainingTags {
        let Some(served) = &mut self.served else { return RemainingTags::Nothing };
        served.ended += 1;
        let tags: usize = served.queues.iter().map(|queue| usize::from(queue.depth())).sum();
        match served.ended {
            ended if ended >= tags => {
                self.served = None;
                RemainingTags::Nothing
            }
            1 => RemainingTags::Others,
            _ => RemainingTags::Some,
        }
    }

    /// The sectors for a volume of `size` bytes: whole logical blocks.
    pub(super) fn sectors_of(&self, size: u64) -> u64 {
        self.block.sectors_of(size)
    }
}

fn open_queues(
    control: &mut ControlDevice,
    place: &UblkPlace,
    info: &DeviceInfo,
    begun: Acquisition,
) -> Result<UblkDevice, String> {
    let id = info.device_id;
    if info.request_bytes_max > REQUEST_BYTES_MAX {
        return Err(format!(
            "/dev/ublkb{id} has requests of up to {} bytes, which this version does not serve; remove it (kickcache ublk remove {id})",
            info.request_bytes_max
        ));
    }
    let failed = |what: &'static str| {
        move |error: io::Error| format!("/dev/ublkb{id} cannot be served: {what}: {error}")
    };
    let known = control.parameters(id).map_err(failed("its parameters are unavailable"))?.basic;
    let file = control.open_node(id).map_err(failed("its character device cannot be opened"))?;
    let mut memory = Allocator::default();
    let queues = (0..info.queue_count).map(|number| Queue::open(number, info, &file, &mut memory));
    let queues = queues.collect::<Result<_, _>>().map_err(failed("its queues cannot be mapped"))?;
    let block = LogicalBlock::of_shift(known.logical_block_shift);
    let served = Some(ServedDevice { file, queues, _memory: memory, ended: 0 });
    let (volume, sectors) = (place.volume, known.device_sectors);
    Ok(UblkDevice { volume, id, begun, served, in_flight: 0, is_hidden: false, sectors, block })
}

/// The started device that a start would take over for the volume.
fn find_own(
    control: &mut ControlDevice,
    wanted: UblkId,
    volume: &VolumeIdentity,
) -> Result<Option<DeviceInfo>, String> {
    let is_meant = |info: &DeviceInfo| match wanted {
        UblkId::Any => true,
        UblkId::Number(number) => number == info.device_id,
    };
    let mut devices = control.devices()?.into_iter().filter(|info| is_meant(info) && is_of(info, volume));
    let found = devices.find(|info| DeviceState::of(info) != DeviceState::Dead);
    // If the volume may have any device, an unused device with a server that does not end is skipped.
    Ok(found.filter(|info| wanted != UblkId::Any || !is_stuck_unused(control, info.device_id)))
}

/// The device of a volume; if a number is required, only the device with this number.
fn find(
    control: &mut ControlDevice,
    wanted: UblkId,
    volume: &VolumeIdentity,
) -> Result<Option<DeviceInfo>, String> {
    for info in control.devices()? {
        let (id, is_own) = (info.device_id, is_of(&info, volume));
        let is_dead = DeviceState::of(&info) == DeviceState::Dead;
        if is_own && is_dead {
            clear(control, id, wanted)?;
        } else if is_own && wanted == UblkId::Any && is_stuck_unused(control, id) {
            tracing::warn!(event = "ublk_stuck", "{}; the volume becomes another device", stuck(id));
        } else if is_own && wanted == UblkId::Any {
            return Ok(Some(info));
        } else if wanted == UblkId::Number(id) {
            return if is_own { Ok(Some(info)) } else { Err(is_another(id)) };
        }
    }
    Ok(None)
}

fn is_another(id: u32) -> String {
    format!(
        "/dev/ublkb{id} is there already, and is not this volume; choose another number, or remove it (kickcache ublk remove {id})"
    )
}

fn clear(control: &mut ControlDevice, id: u32, wanted: UblkId) -> Result<(), String> {
    let failed =
        |error: io::Error| format!("/dev/ublkb{id}, which was never started, cannot be removed: {error}");
    let is_gone = match control.remove_later(id).map_err(failed)? {
        Removal::Done => true,
        Removal::Begun => control.wait_until_gone(id),
    };
    match is_gone {
        true => {
            tracing::info!(event = "ublk_removed", "/dev/ublkb{id}, which was never started, was removed");
        }
        false if wanted == UblkId::Number(id) => {
            return Err(format!(
                "/dev/ublkb{id} was removed, and is deleted when its last user closes it; unmount or close it, or choose another number"
            ));
        }
        false => tracing::warn!(
            event = "ublk_removed",
            "/dev/ublkb{id} was removed, and is deleted when its last user closes it"
        ),
    }
    Ok(())
}

/// Refuses a device that is larger than the volume, or writable although the volume is read-only.
fn check_same(control: &mut ControlDevice, info: &DeviceInfo, volume: &KnownVolume) -> Result<(), String> {
    let id = info.device_id;
    let known = control
        .parameters(id)
        .map_err(|error| format!("the parameters of /dev/ublkb{id} cannot be read: {error}"))?
        .basic;
    let sectors = LogicalBlock::of_shift(known.logical_block_shift).sectors_of(volume.size);
    if known.device_sectors > sectors {
        return Err(format!(
            "/dev/ublkb{id} has {} sectors, and the volume {sectors}: a process that has it open could \
             write behind the end; unmount and remove it (kickcache ublk remove {id})",
            known.device_sectors
        ));
    }
    if volume.access == AccessMode::ReadOnly && known.attributes & READ_ONLY == 0 {
        return Err(format!(
            "/dev/ublkb{id} may be written to, and the volume is read-only; remove it (kickcache ublk remove {id})"
        ));
    }
    Ok(())
}

/// Logs that a device which is taken over keeps its properties, if the present settings differ.
fn tell_differences(control: &mut ControlDevice, info: &DeviceInfo, place: &UblkPlace, volume: &KnownVolume) {
    let (id, queues, depth) = (info.device_id, info.queue_count, info.queue_depth);
    if (queues, depth) != (place.queues, place.depth) {
        let (wanted, wanted_depth) = (place.queues, place.depth);
        tracing::info!(
            event = "ublk_differs",
            "/dev/ublkb{id} keeps its {queues} queues of {depth} requests from its creation; {wanted} of \
             {wanted_depth} take effect when it is removed and served again"
        );
    }
    let Ok(Parameters { basic, .. }) = control.parameters(id) else { return };
    let (bytes, wanted) = (LogicalBlock::of_shift(basic.logical_block_shift).bytes(), place.block_bytes);
    if bytes != wanted {
        tracing::info!(
            event = "ublk_differs",
            "/dev/ublkb{id} keeps its logical blocks of {bytes} bytes from its creation; {wanted} take \
             effect when it is removed and served again"
        );
    }
    if basic.attributes & READ_ONLY != 0 && volume.access == AccessMode::ReadWrite {
        tracing::info!(
            event = "ublk_differs",
            "/dev/ublkb{id} stays read-only, as it was made; it can be written to when it is removed and served again"
        );
    }
}

/// Waits for the end of a device's server.
fn wait_for_end(control: &mut ControlDevice, id: u32) -> Result<(), String> {
    let mut state = DeviceState::Dead;
    control.wait_until(|control| {
        let info = control.info(id).ok().flatten();
        state = info.map_or(DeviceState::Dead, |info| DeviceState::of(&info));
        matches!(state, DeviceState::Waiting | DeviceState::Dead)
    });
    match state {
        DeviceState::Live(pid) => {
            Err(format!("/dev/ublkb{id} is served by the process {pid}; stop that first"))
        }
        DeviceState::Ending => Err(stuck(id)),
        DeviceState::Waiting | DeviceState::Dead => Ok(()),
    }
}

fn take_over(control: &mut ControlDevice, id: u32) -> Result<(), String> {
    control.begin_recovery(id).map_err(|error| format!("/dev/ublkb{id} cannot be taken over: {error}"))
}

fn add(control: &mut ControlDevice, place: &UblkPlace, volume: &KnownVolume) -> Result<DeviceInfo, String> {
    let writes = if volume.access == AccessMode::ReadOnly { Writes::Refused } else { Writes::Allowed };
    let block = if place.block_bytes == 512 { LogicalBlock::Bytes512 } else { LogicalBlock::Bytes4096 };
    let wanted = DeviceInfo {
        queue_count: place.queues,
        queue_depth: place.depth,
        request_bytes_max: REQUEST_BYTES_MAX,
        device_id: match place.id {
            UblkId::Any => u32::MAX,
            UblkId::Number(id) => id,
        },
        flags: USER_RECOVERY | USER_RECOVERY_REISSUE | CMD_IOCTL_ENCODE,
        server_flags: cookie(&volume.identity),
        ..DeviceInfo::default()
    };
    let added = control.add(wanted).map_err(|error| match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            "ublk devices may not be added; that needs CAP_SYS_ADMIN".to_owned()
        }
        _ => format!("a ublk device cannot be added: {error}"),
    })?;
    let id = added.device_id;
    if added.queue_count < place.queues {
        let (got, wanted) = (added.queue_count, place.queues);
        tracing::info!(
            event = "ublk_differs",
            "/dev/ublkb{id} has {got} queues instead of {wanted}: the kernel gives no more than there are processors"
        );
    }
    let promised = parameters(volume.size, added.request_bytes_max, block, writes);
    control.set_parameters(id, promised).map_err(|error| {
        let _ = control.remove(id);
        format!("/dev/ublkb{id} does not take its parameters: {error}")
    })?;
    Ok(added)
}

#[cfg(test)]
mod tests {
    use super::super::abi::{self, IoDescription};
    use super::super::fake_kernel::{FakeKernel, LIVE, NOBODY, QUIESCED};
    use super::*;

    const PLACE: UblkPlace = UblkPlace { volume: 0, id: UblkId::Any, queues: 2, depth: 8, block_bytes: 512 };

    struct Scene {
        kernel: FakeKernel,
        volume: KnownVolume,
        _nodes: tempfile::TempDir,
    }

    impl Scene {
        fn new() -> Scene {
            let nodes = tempfile::tempdir().unwrap();
            let identity = VolumeIdentity::of_origin("v", "file:/o");
            let volume = KnownVolume { identity, size: 1 << 20, access: AccessMode::ReadWrite };
            let kernel = FakeKernel::new(nodes.path());
            Scene { kernel, volume, _nodes: nodes }
        }

        fn open(&mut self, place: &UblkPlace) -> Result<UblkDevice, String> {
            UblkDevice::open(&mut self.kernel.control(), place, &self.volume)
        }

        fn refused(&mut self, place: &UblkPlace) -> String {
            self.open(place).err().expect("it is refused")
        }

        fn left(&mut self) {
            drop(self.open(&PLACE).unwrap());
            self.kernel.control().start(0, 1).unwrap();
            self.change(|info| (info.state, info.server_pid) = (QUIESCED, NOBODY));
            self.kernel.known().done.clear();
        }

        fn change(&self, change: impl FnOnce(&mut DeviceInfo)) {
            change(&mut self.kernel.known().devices.get_mut(&0).unwrap().info);
        }
    }

    #[test]
    fn a_volume_that_was_none_becomes_a_device() {
        let mut scene = Scene::new();
        let device = scene.open(&PLACE).unwrap();
        assert_eq!((device.id, device.begun, device.sectors), (0, Acquisition::Added, 2048));
        assert_eq!(device.queues().iter().map(Queue::depth).collect::<Vec<_>>(), [8, 8]);
        let known = scene.kernel.known();
        assert_eq!(known.done, [abi::ADD_DEV, abi::SET_PARAMS], "it is started when the loop fetches");
        let flags = USER_RECOVERY | USER_RECOVERY_REISSUE | CMD_IOCTL_ENCODE;
        assert_eq!((known.devices[&0].info.flags, known.devices[&0].info.queue_count), (flags, 2));
    }

    #[test]
    fn queues_are_no_more_than_the_kernel_gives() {
        let mut scene = Scene::new();
        scene.kernel.known().processors = 1;
        assert_eq!(scene.open(&PLACE).unwrap().queues().len(), 1);
    }

    #[test]
    fn a_waiting_device_is_taken_over_unchanged() {
        let mut scene = Scene::new();
        scene.left();
        let other = UblkPlace { queues: 1, depth: 128, ..PLACE };
        let device = scene.open(&other).unwrap();
        assert_eq!((device.id, device.begun), (0, Acquisition::TakenOver));
        assert_eq!(device.queues().iter().map(Queue::depth).collect::<Vec<_>>(), [8, 8]);
        assert_eq!(scene.kernel.known().done, [abi::START_USER_RECOVERY], "parameters are not set again");
    }

    #[test]
    fn a_device_that_is_served_is_left_alone() {
        let mut scene = Scene::new();
        scene.left();
        let own = i32::try_from(std::process::id()).unwrap();
        scene.change(|info| (info.state, info.server_pid) = (LIVE, own));
        assert!(scene.refused(&PLACE).contains(&format!("is served by the process {own}")));
        assert!(scene.kernel.known().done.is_empty());
    }

    #[test]
    fn a_device_that_was_never_started_is_created_again() {
        for id in [UblkId::Any, UblkId::Number(0)] {
            let mut scene = Scene::new();
            drop(scene.open(&UblkPlace { queues: 1, ..PLACE }).unwrap());
            scene.kernel.known().done.clear();
            let device = scene.open(&UblkPlace { id, ..PLACE }).unwrap();
            assert_eq!((device.id, device.begun, device.queues().len()), (0, Acquisition::Added, 2));
            let anew = [abi::STOP_DEV, abi::DEL_DEV_ASYNC, abi::ADD_DEV, abi::SET_PARAMS];
            assert_eq!(scene.kernel.known().done, anew);
        }
    }

    #[test]
    fn a_device_ending_with_its_user_is_not_awaited() {
        let mut scene = Scene::new();
        drop(scene.open(&PLACE).unwrap());
        scene.kernel.known().open.push(0);
        let said = scene.refused(&UblkPlace { id: UblkId::Number(0), ..PLACE });
        assert!(said.contains("is deleted when its last user closes it"), "{said}");
        assert_eq!(scene.open(&PLACE).unwrap().id, 1, "another one");
    }

    #[test]
    fn a_device_is_taken_over_although_its_origin_moved() {
        let mut scene = Scene::new();
        scene.volume.identity.cache = Some("1".into());
        scene.left();
        scene.volume.identity.origins = vec!["file:/p".into()];
        assert_eq!(scene.open(&PLACE).unwrap().begun, Acquisition::TakenOver);
    }

    #[test]
    fn a_live_device_without_its_daemon_is_taken_over() {
        let mut scene = Scene::new();
        scene.left();
        scene.change(|info| info.state = LIVE);
        // The parameters of the device are not queried, as the query would never end.
        scene.kernel.known().unknown.push(abi::GET_PARAMS);
        assert!(scene.refused(&PLACE).contains("is stuck"), "the kernel has not noticed");
        scene.kernel.known().unknown.clear();
        scene.change(|info| info.state = QUIESCED);
        assert!(scene.open(&PLACE).is_ok());
    }

    #[test]
    fn the_device_of_another_volume_is_left_alone() {
        let mut scene = Scene::new();
        scene.left();
        scene.volume.identity.name = "w".into();
        let said = scene.refused(&UblkPlace { id: UblkId::Number(0), ..PLACE });
        assert!(said.contains("is not this volume"), "{said}");
        assert_eq!(scene.open(&PLACE).unwrap().id, 1, "the next free one");
    }

    #[test]
    fn a_device_that_promises_too_much_is_not_taken_over() {
        let mut scene = Scene::new();
        scene.left();
        scene.volume.size = 512 << 10;
        assert!(scene.refused(&PLACE).contains("has 2048 sectors, and the volume 1024"));
        scene.volume.size = 1 << 20;
        scene.volume.access = AccessMode::ReadOnly;
        assert!(scene.refused(&PLACE).contains("may be written to"));
        assert!(scene.kernel.known().done.is_empty());
    }

    #[test]
    fn a_device_that_cannot_be_served_is_not_left_behind() {
        let mut scene = Scene::new();
        scene.kernel = FakeKernel::new(&scene.kernel.nodes().join("none"));
        let said = scene.refused(&PLACE);
        assert!(said.contains("its character device cannot be opened"), "{said}");
        assert!(scene.kernel.known().devices.is_empty());
    }

    #[test]
    fn each_queue_has_its_own_descriptions() {
        let mut scene = Scene::new();
        let mut device = scene.open(&PLACE).unwrap();
        let wanted = |first_sector| IoDescription { first_sector, ..IoDescription::default() };
        scene.kernel.describe(0, (0, 7), wanted(5));
        scene.kernel.describe(0, (1, 7), wanted(6));
        let mut at =
            |queue, tag| device.queue(UblkKey { device: 0, queue, tag }).description(tag).first_sector;
        assert_eq!((at(0, 7), at(1, 7), at(1, 0)), (5, 6, 0));
    }

    #[test]
    fn the_size_is_one_of_whole_blocks() {
        let mut scene = Scene::new();
        let device = scene.open(&UblkPlace { block_bytes: 4096, ..PLACE }).unwrap();
        assert_eq!(device.sectors_of((1 << 20) + 512), 2048);
    }
}
