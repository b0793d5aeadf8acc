//! The ublk devices of this host, with or without a daemon.

use std::fs;
use std::path::{Path, PathBuf};

use crate::devices::offline::metadata::superblock;
use crate::devices::offline::offline_device::OfflineDevice;
use crate::devices::state::uuid_text;
use crate::devices::volume_identity::VolumeIdentity;
use crate::serve::frontend::ublk::abi::DeviceInfo;
use crate::serve::frontend::ublk::channel::LineSink;
use crate::serve::frontend::ublk::control_device::{ControlDevice, Removal};
use crate::serve::frontend::ublk::cookie::{is_of, is_ours};
pub use crate::serve::frontend::ublk::device_user::DeviceUser;
use crate::serve::frontend::ublk::in_use::known_user_of;
pub use crate::serve::frontend::ublk::in_use::user_of;
use crate::serve::frontend::ublk::state::{DeviceState, stuck};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UblkState {
    /// The device was never started, or was ended.
    Dead,
    Live,
    /// The server of the device has ended.
    Waiting,
    /// The device has a server for the kernel, and that process has no open descriptor.
    Ending,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UblkMaker {
    Kickcache,
    Other,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UblkDevice {
    pub id: u32,
    pub path: PathBuf,
    pub state: UblkState,
    /// The size in bytes; 0 if it is unknown.
    pub size: u64,
    /// The process that serves the device; `None` unless the device is live.
    pub server: Option<i32>,
    pub maker: UblkMaker,
    pub user: Option<DeviceUser>,
}

/// Whether a device is removed that is in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum InUse {
    #[default]
    Keep,
    /// Remove the device nevertheless: its waiting requests fail.
    Fail,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Removed {
    Gone,
    /// The waiting requests fail, and the device is deleted once this user closes it.
    Ended(DeviceUser),
}

/// All devices; `tell` gets messages about slow commands.
///
/// # Errors
/// A sentence that names the missing resource, or the kernel's refusal.
pub fn list(tell: LineSink) -> Result<Vec<UblkDevice>, String> {
    let mut control = ControlDevice::open_telling(tell)?;
    let found = control.devices()?;
    Ok(found.iter().map(|info| describe(&mut control, info)).collect())
}

/// Deletes a device of an ended kickcache; `tell` gets messages about slow commands.
///
/// # Errors
/// A sentence, if the device does not exist, is served, is in use and to be kept, or belongs to another program.
pub fn remove(id: u32, in_use: InUse, tell: LineSink) -> Result<Removed, String> {
    remove_with(&mut ControlDevice::open_telling(tell)?, id, in_use)
}

fn remove_with(control: &mut ControlDevice, id: u32, in_use: InUse) -> Result<Removed, String> {
    // The daemon of the device may be ending, or about to start the device, and needs the lock in both cases.
    control.wait_until(|control| !matches!(find(control, id), Ok(Some(found)) if found.is_under_way()));
    let PendingRemoval { removal, user } = control.alone(|control| begin_removal(control, id, in_use))?;
    if removal == Removal::Done || control.wait_until_gone(id) {
        return Ok(Removed::Gone);
    }
    // A user that appeared meanwhile is named only if it still has the device open.
    Ok(user.or_else(|| known_user_of(&path_of(id))).map_or(Removed::Gone, Removed::Ended))
}

struct PendingRemoval {
    removal: Removal,
    user: Option<DeviceUser>,
}

/// A device, and the process that is about to serve it, if it has no server.
struct ListedDevice {
    info: DeviceInfo,
    starter: Option<DeviceUser>,
}

impl ListedDevice {
    fn is_under_way(&self) -> bool {
        DeviceState::of(&self.info) == DeviceState::Ending || self.starter.is_some()
    }
}

fn find(control: &mut ControlDevice, id: u32) -> Result<Option<ListedDevice>, String> {
    let Some(info) = control.devices()?.into_iter().find(|info| info.device_id == id) else {
        return Ok(None);
    };
    let state = DeviceState::of(&info);
    let has_server = state.is_served() || state == DeviceState::Ending;
    Ok(Some(ListedDevice { info, starter: if has_server { None } else { control.opener(id) } }))
}

fn begin_removal(control: &mut ControlDevice, id: u32, in_use: InUse) -> Result<PendingRemoval, String> {
    let ListedDevice { info, starter } = find(control, id)?
        .ok_or_else(|| format!("there is no /dev/ublkb{id}; `kickcache ublk list` shows which there are"))?;
    let device = describe(control, &info);
    let path = device.path.display();
    if device.maker == UblkMaker::Other {
        return Err(format!("{path} was not made by kickcache; remove it with the program that made it"));
    }
    if let Some(pid) = device.server {
        return Err(format!("{path} is served by the process {pid}; stop that daemon, which removes it"));
    }
    if let Some(starter) = starter {
        return Err(format!("{path} is about to be served by {starter}; stop that daemon, which removes it"));
    }
    let failed = |error: std::io::Error| format!("{path} cannot be removed: {error}");
    match (device.user, in_use) {
        _ if device.state == UblkState::Ending => Err(stuck(id)),
        (Some(user), InUse::Keep) => Err(format!(
            "{path} is used by {user}; serve its volume again and {}, or use --force, which makes its waiting requests fail",
            user.to_let_go()
        )),
        (user @ Some(_), InUse::Fail) | (user @ None, _) => {
            Ok(PendingRemoval { removal: control.remove_later(id).map_err(failed)?, user })
        }
    }
}

/// Refuses to free a volume's name on a cache device while a block device belongs to that volume: otherwise
/// the device would serve the next volume with the same name.
///
/// # Errors
/// A sentence.
pub fn check_name_is_free(cache: &Path, name: &str) -> Result<(), String> {
    let read = OfflineDevice::open(cache).and_then(|device| superblock(&device));
    let Some((known, record)) =
        read.ok().and_then(|known| known.volume(name).cloned().map(|record| (known, record)))
    else {
        return Ok(());
    };
    let cache = Some(uuid_text(known.uuid));
    let volume = VolumeIdentity { cache, ..VolumeIdentity::of_origin(name, &record.origin_identity) };
    ControlDevice::open().map_or(Ok(()), |mut control| check_none_is(&mut control, &volume))
}

fn check_none_is(control: &mut ControlDevice, volume: &VolumeIdentity) -> Result<(), String> {
    let devices = control.devices().unwrap_or_default();
    let is_it = |info: &&DeviceInfo| DeviceState::of(info) != DeviceState::Dead && is_of(info, volume);
    let Some(id) = devices.iter().find(is_it).map(|info| info.device_id) else { return Ok(()) };
    Err(format!(
        "/dev/ublkb{id} is the volume {}, and waits for its daemon; close or unmount it, and remove it first (kickcache ublk remove {id})",
        volume.name
    ))
}

/// Makes the kernel start a device that another process serves, and returns the number of the error, or 0.
pub fn start(id: u32, server: u32) -> i32 {
    let started = ControlDevice::open_to_start().map(|mut control| control.start(id, server));
    match started {
        Ok(Ok(())) => 0,
        Ok(Err(error)) => error.raw_os_error().unwrap_or(libc::EIO),
        Err(_) => libc::EIO,
    }
}

fn path_of(id: u32) -> PathBuf {
    format!("/dev/ublkb{id}").into()
}

fn describe(control: &mut ControlDevice, info: &DeviceInfo) -> UblkDevice {
    let id = info.device_id;
    let path = path_of(id);
    let (state, server) = match DeviceState::of(info) {
        DeviceState::Live(pid) => (UblkState::Live, Some(pid)),
        DeviceState::Waiting => (UblkState::Waiting, None),
        DeviceState::Ending => (UblkState::Ending, None),
        DeviceState::Dead => (UblkState::Dead, None),
    };
    // If the kernel has not released the device from its server, a query or an open would not return.
    let user = if state == UblkState::Ending { known_user_of(&path) } else { user_of(&path) };
    let size = size_of_disk(id)
        .unwrap_or_else(|| control.parameters(id).map_or(0, |known| known.basic.device_sectors * 512));
    let maker = if is_ours(info) { UblkMaker::Kickcache } else { UblkMaker::Other };
    UblkDevice { id, state, size, server, maker, user, path }
}

fn size_of_disk(id: u32) -> Option<u64> {
    let sectors = fs::read_to_string(Path::new("/sys/block").join(format!("ublkb{id}")).join("size"));
    Some(sectors.ok()?.trim().parse::<u64>().ok()? * 512)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::frontend::ublk::abi::{DEL_DEV_ASYNC, STOP_DEV};
    use crate::serve::frontend::ublk::fake_kernel::{DEAD, FakeKernel, LIVE, NOBODY};

    /// A number that no test of a host's devices uses.
    const ID: u32 = 63;
    const NONE: [u32; 0] = [];

    fn scene(change: impl FnOnce(&mut DeviceInfo)) -> (FakeKernel, tempfile::TempDir) {
        let nodes = tempfile::tempdir().unwrap();
        let kernel = FakeKernel::new(nodes.path());
        kernel.leave(ID, "v", "file:/o", 2048);
        change(&mut kernel.known().devices.get_mut(&ID).unwrap().info);
        (kernel, nodes)
    }

    #[test]
    fn an_unused_device_is_removed() {
        for state in [2, DEAD] {
            let (kernel, _nodes) = scene(|info| info.state = state);
            assert_eq!(remove_with(&mut kernel.control(), ID, InUse::Keep), Ok(Removed::Gone));
            assert_eq!(kernel.known().done, [STOP_DEV, DEL_DEV_ASYNC]);
            assert_eq!(kernel.known().unlocked, NONE, "no start ran between the check and the removal");
        }
    }

    #[test]
    fn a_device_about_to_start_is_not_removed() {
        for state in [2, DEAD] {
            let (kernel, nodes) = scene(|info| info.state = state);
            let node = nodes.path().join(format!("ublkc{ID}"));
            fs::remove_file(&node).unwrap();
            let _open = fs::File::open("/dev/null").unwrap();
            std::os::unix::fs::symlink("/dev/null", node).unwrap();
            let said = remove_with(&mut kernel.control(), ID, InUse::Fail).unwrap_err();
            assert!(said.contains("is about to be served by the process"), "{said}");
            assert!(kernel.known().done.is_empty());
        }
    }

    #[test]
    fn no_device_is_removed_during_a_start() {
        let (kernel, nodes) = scene(|_| {});
        let node = nodes.path().join(format!("ublkc{ID}"));
        kernel.known().is_locked = true;
        let other = kernel.clone();
        let removal = std::thread::spawn(move || remove_with(&mut other.control(), ID, InUse::Fail));
        while kernel.known().kept_out == 0 && !removal.is_finished() {
            std::thread::yield_now();
        }
        assert_eq!(kernel.known().done, NONE, "it waits for the start");
        // The start has opened it: a character device that this process has open.
        fs::remove_file(&node).unwrap();
        let _open = fs::File::open("/dev/null").unwrap();
        std::os::unix::fs::symlink("/dev/null", node).unwrap();
        kernel.known().is_locked = false;
        let said = removal.join().unwrap().unwrap_err();
        assert!(said.contains("is about to be served by the process"), "{said}");
        assert_eq!(kernel.known().done, NONE);
    }

    #[test]
    fn the_name_of_a_waiting_volume_is_not_free() {
        let (kernel, _nodes) = scene(|_| {});
        let check = |volume: &VolumeIdentity| check_none_is(&mut kernel.control(), volume);
        assert!(
            check(&VolumeIdentity::of_origin("v", "file:/o"))
                .unwrap_err()
                .contains("/dev/ublkb63 is the volume v")
        );
        assert_eq!(check(&VolumeIdentity::of_origin("w", "file:/o")), Ok(()));
        kernel.known().devices.get_mut(&ID).unwrap().info.state = DEAD;
        assert_eq!(check(&VolumeIdentity::of_origin("v", "file:/o")), Ok(()));
    }

    #[test]
    fn a_served_or_foreign_device_is_not_removed() {
        let own = i32::try_from(std::process::id()).unwrap();
        let refused = |change: &dyn Fn(&mut DeviceInfo), words: &str| {
            let (kernel, _nodes) = scene(change);
            let said = remove_with(&mut kernel.control(), ID, InUse::Fail).unwrap_err();
            assert!(said.contains(words), "{said}");
            assert!(kernel.known().done.is_empty());
        };
        refused(&|info| (info.state, info.server_pid) = (LIVE, own), "is served by the process");
        refused(&|info| info.server_flags = 0, "was not made by kickcache");
        refused(&|info| (info.state, info.server_pid) = (LIVE, NOBODY), "is stuck");
        let (kernel, _nodes) = scene(|_| {});
        assert!(
            remove_with(&mut kernel.control(), 5, InUse::Keep)
                .unwrap_err()
                .contains("there is no /dev/ublkb5")
        );
    }
}
