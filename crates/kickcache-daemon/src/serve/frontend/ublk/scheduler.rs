//! Sets the kernel's I/O scheduler of a device to none.
//!
//! The kernel selects `mq-deadline` for devices with one queue.

use std::path::Path;
use std::{fs, io};

/// # Errors
/// If the file cannot be written.
pub(super) fn switch_off(id: u32) -> io::Result<()> {
    switch_off_in(Path::new("/sys/block"), id)
}

fn switch_off_in(blocks: &Path, id: u32) -> io::Result<()> {
    let file = blocks.join(format!("ublkb{id}/queue/scheduler"));
    // If the kernel has no such file, none is made.
    let mut file = fs::File::options().write(true).open(file)?;
    io::Write::write_all(&mut file, b"none")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheduler_of_the_device_is_none() {
        let blocks = tempfile::tempdir().unwrap();
        let queue = |id: u32| blocks.path().join(format!("ublkb{id}/queue"));
        for id in [1, 11] {
            fs::create_dir_all(queue(id)).unwrap();
            fs::write(queue(id).join("scheduler"), "").unwrap();
        }
        switch_off_in(blocks.path(), 11).unwrap();
        assert_eq!(fs::read(queue(11).join("scheduler")).unwrap(), b"none");
        assert_eq!(fs::read(queue(1).join("scheduler")).unwrap(), b"", "another device's");
        assert_eq!(switch_off_in(blocks.path(), 2).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(!queue(2).exists());
    }
}
