//! Identities of files and block devices: a cache device recognises an origin by its identity after a restart.
//!
//! `file:PATH`; `disk:` and the name that the hardware or the creator of a device assigned (`assigned.rs`); else `block:` and a
//! name below /dev/disk/by-id, the name below /dev/disk/by-path that the user gives, or the kernel's name.
//!
//! Invariants:
//! * An identity that another present device has as well, or that is the kernel's name or a name of the content, is weak: after a
//!   restart it may be another disk's.
//! * Identities that older versions recorded of a device are recognised: `block:` with any of its names.

mod assigned;

use std::fs;
use std::path::{Path, PathBuf};

use kickcache_engine::format::superblock::ORIGIN_IDENTITY_MAX;

use self::assigned::{Roots, file_of_loop};
use crate::driver::device::sysfs;

const ASSIGNED: &str = "disk:";
const NAMED: &str = "block:";
const FILE: &str = "file:";
/// Names that udev derives from the content of a device, which clones share.
const CONTENT_NAME: &str = "lvm-pv-uuid-";
const BY_PLACE: &str = "disk/by-path";
/// Drivers that number their disks with letters.
const LETTERED: [&str; 4] = ["sd", "vd", "hd", "xvd"];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Strength {
    /// The identity counts as that of one disk alone, also after a restart.
    Strong,
    /// After a restart, the identity may belong to another disk.
    Weak,
}

/// An identity that an older version may have recorded for a device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OlderIdentity {
    pub identity: String,
    pub strength: Strength,
}

/// The identities of a device, by which it is recognised.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Identified {
    pub identity: String,
    pub strength: Strength,
    pub older: Vec<OlderIdentity>,
    /// Other present devices of equal size and of the same driver with a weak identity.
    pub peers: Vec<PathBuf>,
    /// Other present devices of equal size and of the same driver without a name below /dev/disk/by-id, other
    /// than names of the content.
    pub older_peers: Vec<PathBuf>,
}

impl Identified {
    pub fn strong(identity: String) -> Identified {
        let (older, peers) = (Vec::new(), Vec::new());
        Identified { identity, strength: Strength::Strong, older, older_peers: peers.clone(), peers }
    }

    /// The identity by the place in the machine, if the device has only a weak identity by a name, and the
    /// user names it by its place.
    fn or_by_place(self, roots: &Roots, named: &Path) -> Identified {
        let is_unnamed = self.strength == Strength::Weak && self.identity.starts_with(NAMED);
        if !is_unnamed || !named.starts_with(roots.dev.join(BY_PLACE)) {
            return self;
        }
        let own = OlderIdentity { identity: self.identity, strength: Strength::Weak };
        let older = self.older.into_iter().chain([own]).collect();
        Identified { older, ..Identified::strong(format!("{NAMED}{}", named.display())) }
    }

    /// The strength of a recorded identity for this device; `None` if the identity is not the device's.
    pub fn recognises(&self, recorded: &str) -> Option<Strength> {
        if recorded == self.identity {
            return Some(self.strength);
        }
        let older = self.older.iter().find(|older| older.identity == recorded);
        older.map(|older| older.strength)
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Present {
    name: String,
    /// Major and minor number, as the kernel writes them.
    number: Option<String>,
    path: PathBuf,
    /// The size in sectors of 512 bytes.
    size: u64,
    assigned: Option<String>,
    /// Names below /dev/disk/by-id, in alphabetical order.
    names: Vec<PathBuf>,
}

impl Present {
    /// The first name that does not depend on the content.
    fn stable_name(&self) -> Option<&PathBuf> {
        self.names.iter().find(|name| !is_of_content(name))
    }

    fn by_name(&self, name: &Path) -> String {
        format!("{NAMED}{}", name.display())
    }

    fn identity(&self) -> String {
        match (&self.assigned, self.stable_name()) {
            (Some(assigned), _) => format!("{ASSIGNED}{assigned}"),
            (None, Some(name)) => self.by_name(name),
            (None, None) => self.by_name(self.names.first().unwrap_or(&self.path)),
        }
    }

    fn older(&self) -> Vec<OlderIdentity> {
        let strength = |name: &PathBuf| if is_of_content(name) { Strength::Weak } else { Strength::Strong };
        let names = self.names.iter().map(|name| (name, strength(name)));
        let all = names.chain([(&self.path, Strength::Weak)]);
        let all = all.map(|(name, strength)| OlderIdentity { identity: self.by_name(name), strength });
        all.filter(|older| older.identity != self.identity()).collect()
    }

    /// Whether the kernel may exchange the names of the two devices.
    fn may_exchange_names(&self, other: &Present) -> bool {
        self.name != other.name && self.size == other.size && family(&self.name) == family(&other.name)
    }
}

/// The present block devices, except hidden ones and those without sectors.
struct PresentDevices(Vec<Present>);

impl PresentDevices {
    fn look(roots: &Roots) -> PresentDevices {
        let folder = roots.sys.join("class/block");
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let number = |name: &str, file: &str| {
            fs::read_to_string(folder.join(name).join(file)).ok()?.trim().parse::<u64>().ok()
        };
        let is_hidden = |name: &str| number(name, "hidden").is_some_and(|hidden| hidden > 0);
        let by_id = names_by_id(roots);
        let present = names.filter(|name| !is_hidden(name)).filter_map(|name| {
            let size = number(&name, "size").filter(|size| *size > 0)?;
            let path = roots.dev.join(name.replace('!', "/"));
            let names = by_id.iter().filter(|link| link.device == path);
            let names = names.map(|link| link.name.clone()).collect();
            let number = fs::read_to_string(folder.join(&name).join("dev")).ok();
            let number = number.map(|number| number.trim().to_owned());
            // A longer identity does not fit into a superblock.
            let assigned = roots.assigned_identity(&name);
            let assigned = assigned.filter(|name| ASSIGNED.len() + name.len() <= ORIGIN_IDENTITY_MAX);
            Some(Present { path, size, assigned, names, number, name })
        });
        let mut present: Vec<Present> = present.collect();
        present.sort_by(|one, other| one.name.cmp(&other.name));
        PresentDevices(present)
    }

    fn at(&self, path: &Path, number: &str) -> Identified {
        let named = format!("{NAMED}{}", path.display());
        let Some(device) = self.0.iter().find(|device| device.number.as_deref() == Some(number)) else {
            return Identified { strength: Strength::Weak, ..Identified::strong(named) };
        };
        let mut found = self.identified(device);
        if found.recognises(&named).is_none() {
            found.older.push(OlderIdentity { identity: named, strength: Strength::Weak });
        }
        found
    }

    fn identified(&self, device: &Present) -> Identified {
        let peers = |is_weak: &dyn Fn(&Present) -> bool| {
            let peers = self.0.iter().filter(|other| device.may_exchange_names(other) && is_weak(other));
            peers.map(|other| other.path.clone()).collect()
        };
        Identified {
            identity: device.identity(),
            strength: self.strength(device),
            older: device.older(),
            peers: peers(&|other| self.strength(other) == Strength::Weak),
            older_peers: peers(&|other| other.stable_name().is_none()),
        }
    }

    fn strength(&self, device: &Present) -> Strength {
        let is_named = device.assigned.is_some() || device.stable_name().is_some();
        let identity = device.identity();
        let is_shared = self.0.iter().any(|other| other.name != device.name && other.identity() == identity);
        if is_named && !is_shared { Strength::Strong } else { Strength::Weak }
    }

    /// The device with an assigned identity; `None` if no device or several devices have it.
    fn only(&self, identity: &str) -> Option<&Present> {
        let is_it = |device: &&Present| device.assigned.is_some() && device.identity() == identity;
        let mut found = self.0.iter().filter(is_it);
        found.next().filter(|_| found.next().is_none())
    }
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct UdevLink {
    name: PathBuf,
    device: PathBuf,
}

fn names_by_id(roots: &Roots) -> Vec<UdevLink> {
    let entries = fs::read_dir(roots.dev.join("disk/by-id")).into_iter().flatten().flatten();
    let links = entries.filter_map(|entry| {
        Some(UdevLink { name: entry.path(), device: fs::canonicalize(entry.path()).ok()? })
    });
    let mut links: Vec<_> = links.collect();
    links.sort();
    links
}

fn is_of_content(name: &Path) -> bool {
    name.file_name().and_then(|name| name.to_str()).is_none_or(|name| name.starts_with(CONTENT_NAME))
}

/// The part of a kernel's name that all devices of a driver have in common.
fn family(name: &str) -> &str {
    let letters = name.split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or(name);
    LETTERED.into_iter().find(|family| letters.starts_with(family) && letters != *family).unwrap_or(letters)
}

pub(super) fn of_file(path: &Path) -> Identified {
    Identified::strong(format!("{FILE}{}", path.display()))
}

/// The identity of the block device with a number; `path` is `named` without links.
pub(super) fn of_block_device(named: &Path, path: &Path, number: u64) -> Identified {
    let roots = Roots::of_system();
    PresentDevices::look(&roots).at(path, &sysfs::number(number)).or_by_place(&roots, named)
}

/// The path of the only present device with an assigned identity; `None` for an identity of another kind.
pub fn path_of_identity(identity: &str) -> Option<PathBuf> {
    if !identity.starts_with(ASSIGNED) {
        return None;
    }
    let present = PresentDevices::look(&Roots::of_system());
    present.only(identity).map(|device| device.path.clone())
}

/// Identities of older versions for the only present device with an assigned identity.
pub fn older_identities(identity: &str) -> Vec<OlderIdentity> {
    if !identity.starts_with(ASSIGNED) {
        return Vec::new();
    }
    let present = PresentDevices::look(&Roots::of_system());
    present.only(identity).map(Present::older).unwrap_or_default()
}

/// Whether a recorded identity is equal to an identity, or an older identity of the present device with this assigned identity.
pub fn is_same_device(identity: &str, recorded: &str) -> bool {
    identity == recorded || older_identities(identity).iter().any(|older| older.identity == recorded)
}

/// The file of an origin, or the file below its loop device.
pub fn file_of_identity(identity: &str) -> Option<&Path> {
    path_of_file(identity).or_else(|| file_of_loop(identity.strip_prefix(ASSIGNED)?))
}

/// The path of a regular file, by its identity.
pub fn path_of_file(identity: &str) -> Option<&Path> {
    identity.strip_prefix(FILE).map(Path::new)
}

/// The first name below /dev/disk/by-path, in alphabetical order, of the device at a path without links.
pub fn stable_path(path: &Path) -> Option<PathBuf> {
    let places = fs::read_dir(Roots::of_system().dev.join(BY_PLACE)).into_iter().flatten().flatten();
    let mut names: Vec<PathBuf> = places.map(|entry| entry.path()).collect();
    names.sort();
    names.into_iter().find(|name| fs::canonicalize(name).is_ok_and(|target| target == path))
}

#[cfg(test)]
mod tests;
