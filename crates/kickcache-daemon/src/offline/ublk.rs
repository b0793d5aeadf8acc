//! The ublk devices of this host, with or without a daemon.

use std::path::{Path, PathBuf};

use crate::serve::frontend::ublk::abi::DeviceInfo;
use crate::serve::frontend::ublk::control::Control;
use crate::serve::frontend::ublk::cookie::is_ours;
pub use crate::serve::frontend::ublk::in_use::user_of;

/// The numbers that devices have.
const IDS: std::ops::Range<u32> = 0..64;

/// How a device is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UblkState {
    /// It was never started, or is being deleted.
    Dead,
    /// A process serves it.
    Live,
    /// Its server is gone; requests wait for the next one.
    Waiting,
}

/// Who made a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UblkMaker {
    /// A kickcache.
    Kickcache,
    /// Somebody else.
    Other,
}

/// A device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UblkDevice {
    /// Its number.
    pub id: u32,
    /// The block device.
    pub path: PathBuf,
    /// How it is.
    pub state: UblkState,
    /// Bytes.
    pub size: u64,
    /// The process that serves it.
    pub server: Option<i32>,
    /// Who made it.
    pub maker: UblkMaker,
    /// What uses it, in words.
    pub user: Option<String>,
}

/// Whether a device is removed that is in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum InUse {
    /// It is not.
    #[default]
    Keep,
    /// It is: what waits in it fails.
    Fail,
}

/// All devices.
///
/// # Errors
/// A sentence: without the kernel's driver, or the right to ask it.
pub fn list() -> Result<Vec<UblkDevice>, String> {
    let mut control = Control::open()?;
    let mut found = Vec::new();
    for id in IDS {
        let info = control.info(id).map_err(|error| format!("ublk devices cannot be looked at: {error}"))?;
        if let Some(info) = info {
            found.push(describe(&mut control, &info));
        }
    }
    Ok(found)
}

/// Deletes a device of a kickcache that is gone.
///
/// # Errors
/// A sentence: if there is none, somebody serves it, somebody uses it, or it is not ours.
pub fn remove(id: u32, in_use: InUse) -> Result<(), String> {
    let mut control = Control::open()?;
    let info = control.info(id).map_err(|error| format!("ublk devices cannot be looked at: {error}"))?;
    let info = info
        .ok_or_else(|| format!("there is no /dev/ublkb{id}; `kickcache ublk list` shows which there are"))?;
    let device = describe(&mut control, &info);
    let path = device.path.display();
    if device.maker == UblkMaker::Other {
        return Err(format!("{path} was not made by kickcache; remove it with the program that made it"));
    }
    if let Some(pid) = device.server {
        return Err(format!("{path} is served by the process {pid}; stop that daemon, which removes it"));
    }
    match (device.user, in_use) {
        (Some(user), InUse::Keep) => Err(format!(
            "{path} is used by {user}; serve its volume again and unmount it, or say --force, which lets what waits in it fail"
        )),
        _ => control.remove(id).map_err(|error| format!("{path} cannot be removed: {error}")),
    }
}

fn describe(control: &mut Control, info: &DeviceInfo) -> UblkDevice {
    let id = info.device_id;
    let path = PathBuf::from(format!("/dev/ublkb{id}"));
    let state = match info.state {
        1 => UblkState::Live,
        2 | 3 => UblkState::Waiting,
        _ => UblkState::Dead,
    };
    let is_alive = |pid: &i32| Path::new(&format!("/proc/{pid}")).exists();
    UblkDevice {
        id,
        state,
        size: control.parameters(id).map_or(0, |known| known.basic.device_sectors * 512),
        server: Some(info.server_pid).filter(|pid| state == UblkState::Live && is_alive(pid)),
        maker: if is_ours(info) { UblkMaker::Kickcache } else { UblkMaker::Other },
        user: user_of(&path),
        path,
    }
}
