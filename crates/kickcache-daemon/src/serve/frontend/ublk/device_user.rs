//! The users of a block device.

use std::fmt::{self, Display, Formatter};
use std::path::PathBuf;

/// A user of a block device, or of one of its partitions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DeviceUser {
    Mount(PathBuf),
    Swap(String),
    Device(String),
    /// A file system that no mount table shows, by its kind: it was unmounted lazily.
    FileSystem(String),
    Process(u32, String),
    /// A user in the kernel that no table shows.
    Kernel,
    /// An unknown user: an open waits for longer than these seconds, or no thread can be started for it.
    Unknown(u64),
}

impl DeviceUser {
    pub fn to_let_go(&self) -> String {
        match self {
            DeviceUser::Mount(place) => format!("unmount it (umount {})", place.display()),
            DeviceUser::Swap(name) => format!("take it out of use (swapoff /dev/{name})"),
            DeviceUser::Device(name) => format!("remove the device {name}"),
            DeviceUser::FileSystem(_) => "end the processes with open files on it".into(),
            DeviceUser::Process(id, _) => format!("end the process {id}"),
            DeviceUser::Kernel => "unmount or stop that".into(),
            DeviceUser::Unknown(_) => "wait for that, or look at the kernel's log".into(),
        }
    }
}

impl Display for DeviceUser {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            DeviceUser::Mount(place) => write!(f, "the file system mounted on {}", place.display()),
            DeviceUser::Swap(_) => f.write_str("swap"),
            DeviceUser::Device(name) => write!(f, "the device {name}"),
            DeviceUser::FileSystem(kind) => write!(f, "a file system ({kind})"),
            DeviceUser::Process(id, name) => write!(f, "the process {id} ({name})"),
            DeviceUser::Kernel => {
                f.write_str("something in the kernel (a file system, its journal, or RAID)")
            }
            DeviceUser::Unknown(seconds) => {
                write!(f, "an unknown user: it cannot be opened within {seconds} s")
            }
        }
    }
}
