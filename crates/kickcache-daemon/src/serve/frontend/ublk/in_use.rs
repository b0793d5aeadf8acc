//! Who uses a block device of this host.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What uses a block device, in words, or `None`: a mounted file system, swap, a device on top of it, or a process that has
/// it open. Nothing is asked of the device itself.
pub fn user_of(device: &Path) -> Option<String> {
    let number = fs::metadata(device).ok()?.rdev();
    let name = device.file_name()?.to_string_lossy().into_owned();
    mounted(number).or_else(|| swap(device)).or_else(|| holder(&name)).or_else(|| opener(number))
}

fn mounted(number: u64) -> Option<String> {
    let wanted = format!("{}:{}", libc::major(number), libc::minor(number));
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let line = mounts.lines().find(|line| line.split(' ').nth(2) == Some(&wanted))?;
    Some(format!("the file system mounted on {}", line.split(' ').nth(4)?))
}

fn swap(device: &Path) -> Option<String> {
    let swaps = fs::read_to_string("/proc/swaps").ok()?;
    let path = device.to_string_lossy();
    swaps.lines().any(|line| line.split_whitespace().next() == Some(&path)).then(|| "swap".into())
}

fn holder(name: &str) -> Option<String> {
    let holder = fs::read_dir(format!("/sys/class/block/{name}/holders")).ok()?.next()?.ok()?;
    Some(format!("the device {}", holder.file_name().to_string_lossy()))
}

fn opener(number: u64) -> Option<String> {
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let mut ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let has_open = |id: &u32| {
        let descriptors = fs::read_dir(format!("/proc/{id}/fd"));
        let is_it = |path: &Path| fs::metadata(path).is_ok_and(|found| found.rdev() == number);
        descriptors.is_ok_and(|all| all.flatten().any(|entry| is_it(&entry.path())))
    };
    let id = ids.find(has_open)?;
    let name = fs::read_to_string(format!("/proc/{id}/comm")).unwrap_or_default();
    Some(format!("the process {id} ({})", name.trim()))
}
