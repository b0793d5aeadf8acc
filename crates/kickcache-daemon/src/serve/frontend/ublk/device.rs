//! One volume as a block device: its queue, and where the data of its requests goes.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::abi::{
    CMD_IOCTL_ENCODE, DeviceInfo, IoCommand, IoDescription, USER_RECOVERY, USER_RECOVERY_REISSUE,
};
use super::control::Control;
use super::cookie::cookie;
use super::descriptions::Descriptions;
use super::parameters::{LogicalBlock, Writes, parameters};
use super::place::UblkPlace;
use crate::driver::memory::{Allocator, Chunk};
use crate::plan::ublk_id::UblkId;
use crate::serve::core::Volume;

/// Requests of a device that the kernel hands over at once.
const DEPTH: u16 = 128;
/// Bytes of the largest; the kernel splits larger ones.
const REQUEST_BYTES_MAX: u32 = 256 << 10;
/// The numbers that devices have.
const IDS: std::ops::Range<u32> = 0..64;
/// How long the device node may take to come, and a daemon before to go.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(20);
/// A device that is served.
const LIVE: u16 = 1;

/// How this process came to a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Begun {
    Added,
    TakenOver,
}

/// A device.
pub(super) struct UblkDevice {
    /// The volume's index.
    pub(super) volume: usize,
    pub(super) id: u32,
    pub(super) begun: Begun,
    pub(super) depth: u16,
    file: File,
    descriptions: Descriptions,
    /// By tag: the kernel puts the data of writes there, and takes that of reads. It is lent for most requests.
    memory: Vec<Option<Chunk>>,
    addresses: Vec<u64>,
}

impl UblkDevice {
    /// Takes the device over that the volume was before, or adds one.
    pub(super) fn open(
        control: &mut Control,
        place: &UblkPlace,
        volume: &Volume,
        allocator: &mut Allocator,
    ) -> Result<UblkDevice, String> {
        let own = cookie(&volume.info.name, &volume.info.origin);
        let failed = |what: &'static str| move |error: io::Error| format!("{what}: {error}");
        let (info, begun) = match find(control, place.id, own)? {
            Some(info) => {
                check_same(control, &info, volume)?;
                take_over(control, info.device_id)?;
                (info, Begun::TakenOver)
            }
            None => (add(control, place, volume, own)?, Begun::Added),
        };
        let (id, depth) = (info.device_id, info.queue_depth);
        let opened = (|| {
            if info.queue_count != 1 || info.request_bytes_max > REQUEST_BYTES_MAX {
                return Err(format!(
                    "/dev/ublkb{id} has {} queues and requests of up to {} bytes, which this version does not serve; remove it \
                     (kickcache ublk remove {id})",
                    info.queue_count, info.request_bytes_max
                ));
            }
            let file = open_node(id).map_err(failed("its character device cannot be opened"))?;
            let descriptions =
                Descriptions::map(&file, depth).map_err(failed("its descriptions cannot be mapped"))?;
            let chunks = (0..depth).map(|_| allocator.allocate(info.request_bytes_max as usize));
            let memory: Vec<Chunk> =
                chunks.collect::<Result<_, _>>().map_err(failed("there is no memory for its requests"))?;
            let addresses = memory.iter().map(|chunk| chunk.base().expose_provenance() as u64).collect();
            let memory = memory.into_iter().map(Some).collect();
            Ok(UblkDevice { volume: place.volume, id, begun, depth, file, descriptions, memory, addresses })
        })();
        if opened.is_err() && begun == Begun::Added {
            // Nobody has it open: it was never started.
            let _ = control.remove(id);
        }
        opened
    }

    /// The block device.
    pub(super) fn path(&self) -> PathBuf {
        format!("/dev/ublkb{}", self.id).into()
    }

    /// The character device, which commands go to.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    pub(super) fn description(&self, tag: u16) -> IoDescription {
        self.descriptions.get(tag)
    }

    /// The memory of a tag, for as long as its request is ours.
    pub(super) fn lend(&mut self, tag: u16) -> Chunk {
        self.memory[usize::from(tag)].take().expect("a tag has one request at a time")
    }

    pub(super) fn give_back(&mut self, tag: u16, chunk: Chunk) {
        self.memory[usize::from(tag)] = Some(chunk);
    }

    /// The bytes of a tag's request, while it is ours and not lent.
    pub(super) fn bytes(&mut self, tag: u16, length: usize) -> &mut [u8] {
        self.memory[usize::from(tag)].as_mut().expect("it is not lent").bytes_mut(length)
    }

    /// What is said to the kernel about a tag.
    pub(super) fn command(&self, tag: u16, result: i32) -> IoCommand {
        IoCommand { queue_id: 0, tag, result, address: self.addresses[usize::from(tag)] }
    }
}

/// The device that carries the cookie of a volume; of a number that was asked for, only that one.
fn find(control: &mut Control, wanted: UblkId, own: u64) -> Result<Option<DeviceInfo>, String> {
    let ids = match wanted {
        UblkId::Any => IDS,
        UblkId::Number(id) => id..id + 1,
    };
    for id in ids {
        let info = control.info(id).map_err(|error| format!("ublk devices cannot be looked at: {error}"))?;
        match (info, wanted) {
            (Some(info), _) if info.server_flags == own => return Ok(Some(info)),
            (Some(_), UblkId::Number(id)) => {
                return Err(format!(
                    "/dev/ublkb{id} is there already, and is not this volume; choose another number, or remove it (kickcache ublk \
                     remove {id})"
                ));
            }
            (Some(_) | None, _) => {}
        }
    }
    Ok(None)
}

/// Refuses to go on with a device that promises something else.
fn check_same(control: &mut Control, info: &DeviceInfo, volume: &Volume) -> Result<(), String> {
    let id = info.device_id;
    let known = control
        .parameters(id)
        .map_err(|error| format!("/dev/ublkb{id} does not tell its parameters: {error}"))?
        .basic;
    let sectors = volume.info.size / 512;
    if known.device_sectors > sectors {
        return Err(format!(
            "/dev/ublkb{id} has {} sectors, and the volume {sectors}: whoever has it open would write behind its end; unmount and \
             remove it (kickcache ublk remove {id})",
            known.device_sectors
        ));
    }
    if volume.info.read_only && known.attributes & super::abi::READ_ONLY == 0 {
        return Err(format!(
            "/dev/ublkb{id} may be written to, and the volume is read-only; remove it (kickcache ublk remove {id})"
        ));
    }
    Ok(())
}

/// Becomes the server of a device whose server is gone, or is about to go.
fn take_over(control: &mut Control, id: u32) -> Result<(), String> {
    let start = Instant::now();
    loop {
        let info = control.info(id).ok().flatten();
        let server = info.filter(|info| info.state == LIVE).map(|info| info.server_pid);
        let is_served = server.is_some_and(|pid| std::path::Path::new(&format!("/proc/{pid}/fd")).exists());
        if !is_served {
            break;
        }
        if start.elapsed() > PATIENCE {
            let pid = server.unwrap_or_default();
            return Err(format!("/dev/ublkb{id} is served by the process {pid}; stop that first"));
        }
        std::thread::sleep(PAUSE);
    }
    control.begin_recovery(id).map_err(|error| format!("/dev/ublkb{id} cannot be taken over: {error}"))
}

fn add(control: &mut Control, place: &UblkPlace, volume: &Volume, own: u64) -> Result<DeviceInfo, String> {
    let writes = if volume.info.read_only { Writes::Refused } else { Writes::Allowed };
    let block = if place.block_bytes == 512 { LogicalBlock::Bytes512 } else { LogicalBlock::Bytes4096 };
    let wanted = DeviceInfo {
        queue_count: 1,
        queue_depth: DEPTH,
        request_bytes_max: REQUEST_BYTES_MAX,
        device_id: match place.id {
            UblkId::Any => u32::MAX,
            UblkId::Number(id) => id,
        },
        flags: USER_RECOVERY | USER_RECOVERY_REISSUE | CMD_IOCTL_ENCODE,
        server_flags: own,
        ..DeviceInfo::default()
    };
    let added = control.add(wanted).map_err(|error| match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            "ublk devices may not be added; that needs CAP_SYS_ADMIN".to_owned()
        }
        _ => format!("a ublk device cannot be added: {error}"),
    })?;
    let id = added.device_id;
    let promised = parameters(volume.info.size, added.request_bytes_max, block, writes);
    control.set_parameters(id, promised).map_err(|error| {
        let _ = control.remove(id);
        format!("/dev/ublkb{id} does not take its parameters: {error}")
    })?;
    Ok(added)
}

/// Opens the character device, which udev may have to make first.
fn open_node(id: u32) -> io::Result<File> {
    let start = Instant::now();
    loop {
        match OpenOptions::new().read(true).write(true).open(format!("/dev/ublkc{id}")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && start.elapsed() < PATIENCE => {
                std::thread::sleep(PAUSE);
            }
            other => return other,
        }
    }
}
