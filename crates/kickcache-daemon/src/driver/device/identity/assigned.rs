//! Identities of a block device that its hardware or its creator assigned, as the kernel shows them in /sys.
//!
//! The UUID or label of a file system is no such identity: clones share it, and a guest may change it while
//! blocks are dirty.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::driver::device::sysfs::loop_file;
use crate::driver::rights::access;

/// The most loop devices on top of each other that are followed.
const DEPTH_MAX: usize = 8;
/// Bytes of the header of a page of vital product data (SPC-5, 7.7).
const VPD_HEADER: usize = 4;

const LOOP: &str = "loop:";
const PART: &str = "part";

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Roots {
    pub(super) sys: PathBuf,
    pub(super) dev: PathBuf,
}

impl Roots {
    pub(super) fn of_system() -> Roots {
        Roots { sys: "/sys".into(), dev: "/dev".into() }
    }

    fn folder(&self, name: &str) -> PathBuf {
        self.sys.join("class/block").join(name)
    }

    /// The identity of a device by its name in /sys; `None` if the device has no assigned identity.
    pub(super) fn assigned_identity(&self, name: &str) -> Option<String> {
        self.of_folder(&fs::canonicalize(self.folder(name)).ok()?, 0)
    }

    fn of_folder(&self, folder: &Path, depth: usize) -> Option<String> {
        if let Some(number) = number(&folder.join("partition")) {
            return Some(format!("{PART}{number}:{}", self.of_folder(folder.parent()?, depth)?));
        }
        if let Some(file) = loop_file(folder) {
            return self.of_loop(folder, &file, depth);
        }
        let own = |kind: &str, file: &str| Some(format!("{kind}:{}", text(&folder.join(file))?));
        let mapped = own("dm-uuid", "dm/uuid").or_else(|| own("md-uuid", "md/uuid"));
        let named = mapped.or_else(|| own("wwid", "wwid")).or_else(|| own("wwid", "device/wwid"));
        let card = || own("mmc", "device/cid");
        named.or_else(card).or_else(|| product_serial(folder)).or_else(|| own("serial", "serial"))
    }

    /// The identity of a loop device: its offset, and the path or the identity below.
    fn of_loop(&self, folder: &Path, file: &Path, depth: usize) -> Option<String> {
        let offset = number(&folder.join("loop/offset"))?;
        if depth == DEPTH_MAX {
            return None;
        }
        let device = file.strip_prefix(&self.dev).ok().and_then(|name| name.to_str());
        let device = device.and_then(|name| fs::canonicalize(self.folder(&name.replace('/', "!"))).ok());
        let below = match device {
            Some(folder) => self.of_folder(&folder, depth + 1)?,
            // The path of a file that was removed ends with a remark of the kernel.
            None if is_absent(file) => return None,
            None => file.to_str()?.to_owned(),
        };
        Some(format!("{LOOP}{offset}:{below}"))
    }
}

/// The file below a loop device or below its partition, from the assigned identity of the device.
pub(super) fn file_of_loop(assigned: &str) -> Option<&Path> {
    let mut below = assigned;
    while let Some(rest) = below.strip_prefix(LOOP).or_else(|| below.strip_prefix(PART)) {
        below = rest.split_once(':')?.1;
    }
    below.starts_with('/').then(|| Path::new(below))
}

/// Vendor, model, serial number and namespace of a disk; `None` without a serial number.
fn product_serial(folder: &Path) -> Option<String> {
    let device = folder.join("device");
    let page = fs::read(device.join("vpd_pg80")).ok().and_then(|page| clean(page.get(VPD_HEADER..)?));
    let serial = page.or_else(|| text(&device.join("serial")))?;
    let known = ["vendor", "model"].into_iter().filter_map(|name| text(&device.join(name)));
    let namespace = number(&folder.join("nsid")).map(|number| number.to_string());
    let parts: Vec<String> = known.chain([serial]).chain(namespace).collect();
    Some(format!("product:{}", parts.join(":")))
}

fn is_absent(file: &Path) -> bool {
    access::metadata(file).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// A name that a device reports; `None` if it cannot be read, is blank, or consists of zeroes and the characters `-_.`.
fn text(path: &Path) -> Option<String> {
    clean(&fs::read(path).ok()?)
}

/// Bytes of a name in one word of ASCII. Padding differs between kernels.
fn clean(bytes: &[u8]) -> Option<String> {
    let words = bytes.split(|byte| byte.is_ascii_whitespace() || *byte == 0).filter(|word| !word.is_empty());
    let joined = words.map(|word| word.escape_ascii().to_string()).collect::<Vec<_>>().join("_");
    let is_blank = joined.chars().all(|character| "0-_.".contains(character));
    (!is_blank).then_some(joined)
}
