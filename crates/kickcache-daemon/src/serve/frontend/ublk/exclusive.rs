//! Whether a block device can be opened for exclusive use.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use super::device_user::DeviceUser;

/// The longest wait for an open, since an open that waits for the device's server may never end.
const WAIT: Duration = Duration::from_secs(3);

/// The user that prevents exclusive use of a device or one of its partitions. Kernel users without a table
/// entry, such as the journal of a file system on another device, hold it in this way.
pub(super) fn claimant(device: &Path) -> Option<DeviceUser> {
    let path = device.to_owned();
    let (told, answer) = mpsc::sync_channel(1);
    let open = move || {
        let opened = OpenOptions::new().read(true).custom_flags(libc::O_EXCL | libc::O_CLOEXEC).open(path);
        // The receiver may be dropped.
        let _ = told.send(opened.err().and_then(|error| error.raw_os_error()));
    };
    let thread = thread::Builder::new().name("open".into()).spawn(open);
    match thread.ok().and_then(|_| answer.recv_timeout(WAIT).ok()) {
        Some(Some(libc::EBUSY)) => Some(DeviceUser::Kernel),
        Some(_) => None,
        None => Some(DeviceUser::Unknown(WAIT.as_secs())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_and_a_missing_path_need_no_claim() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(claimant(file.path()), None);
        assert_eq!(claimant(Path::new("/nothing/here")), None);
    }
}
