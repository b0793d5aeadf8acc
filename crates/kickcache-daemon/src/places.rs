//! Places where files may be made.

use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use crate::whole_path::whole_path;

/// Folders that the kernel fills.
const KERNELS: [&str; 3] = ["/dev", "/proc", "/sys"];
/// The only folder below [`KERNELS`] where files may be made.
const SHARED_MEMORY: &str = "/dev/shm";
const NAMES_SHOWN: usize = 4;

/// The reason why no file may be created at a path in [`KERNELS`]; `None` for other paths, and in
/// [`SHARED_MEMORY`].
pub(crate) fn fault(path: &Path) -> Option<String> {
    let found = resolve(path);
    let kernels = KERNELS.into_iter().find(|folder| found.starts_with(folder))?;
    if found.starts_with(SHARED_MEMORY) {
        return None;
    }
    let hint = match look_alikes(&found).as_slice() {
        [] => "check the name, or choose another place".into(),
        names => format!("did you mean {}?", names.join(", ")),
    };
    Some(format!("it does not exist, and no file can be created below {kernels}; {hint}"))
}

/// The path with its longest existing part free of links.
fn resolve(path: &Path) -> PathBuf {
    let whole = whole_path(path);
    for above in whole.ancestors() {
        let Ok(real) = std::fs::canonicalize(above) else { continue };
        let rest = whole.strip_prefix(above).unwrap_or_else(|_| Path::new(""));
        return real.join(rest);
    }
    whole
}

/// At most [`NAMES_SHOWN`] block devices in the same folder with similar names, the most similar first.
fn look_alikes(path: &Path) -> Vec<String> {
    let Some(folder) = path.parent() else { return Vec::new() };
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let is_device =
        |path: &Path| std::fs::metadata(path).is_ok_and(|found| found.file_type().is_block_device());
    let names = entries.map(|entry| entry.path()).filter(|path| is_device(path));
    let names = names.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())).collect();
    let wanted = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let alike = most_alike(wanted, names);
    alike.into_iter().map(|name| folder.join(name).display().to_string()).collect()
}

fn most_alike(wanted: &str, names: Vec<String>) -> Vec<String> {
    let shared = |name: &str| wanted.chars().zip(name.chars()).take_while(|(a, b)| a == b).count();
    let mut alike: Vec<String> = names.into_iter().filter(|name| shared(name) >= 2).collect();
    let key = |name: &String| (usize::MAX - shared(name), wanted.len().abs_diff(name.len()), name.clone());
    alike.sort_by_key(key);
    alike.truncate(NAMES_SHOWN);
    alike
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_file_is_created_among_the_devices() {
        for path in
            ["/dev/nvme0n1p99", "/dev/disk/by-id/x", "/proc/x", "/sys/x/y", "/dev/../dev/x", "/proc/self/x"]
        {
            let found = fault(Path::new(path)).unwrap_or_else(|| panic!("{path} may be made"));
            assert!(found.contains("no file can be created below /"), "{found}");
        }
        for path in ["/dev/shm/x", "/var/tmp/x", "/devices/x", "x", "/var/../tmp/dev/x"] {
            assert_eq!(fault(Path::new(path)), None, "{path}");
        }
    }

    #[test]
    fn a_link_leads_to_the_devices_too() {
        let directory = tempfile::tempdir().unwrap();
        let link = directory.path().join("link");
        std::os::unix::fs::symlink("/dev", &link).unwrap();
        assert!(fault(&link.join("sdq")).is_some());
    }

    #[test]
    fn the_devices_that_look_alike_are_named() {
        let names = ["sda", "nvme0n1", "nvme0n1p1", "nvme0n1p2", "nvme1n1p9", "nvme0n1p11", "null"];
        let names = names.map(str::to_owned).to_vec();
        assert_eq!(
            most_alike("nvme0n1p9", names.clone()),
            ["nvme0n1p1", "nvme0n1p2", "nvme0n1p11", "nvme0n1"]
        );
        assert_eq!(most_alike("sdb", names), ["sda"]);
    }
}
