//! Whether a device holds data that may be needed.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::Context;
use kickcache_daemon::plan::nbd_uri::NbdUri;
use kickcache_daemon::signature;
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

use crate::bench::place::{Place, connect};

/// The samples of a device, less one: they are spread evenly, in whole blocks, from its first to its last
/// block.
const SAMPLES: u64 = 2_048;
/// Bytes of a sample, except a shorter one at the end of a device.
const SAMPLE: usize = 4_096;

type Read<'a> = &'a mut dyn FnMut(u64, &mut [u8]) -> anyhow::Result<()>;

/// The content of a place, in words; `None` if no data was found, and for a directory.
///
/// # Errors
/// If it cannot be read.
pub(super) fn look(place: &Place) -> anyhow::Result<Option<&'static str>> {
    match place {
        Place::Directory(_) => Ok(None),
        Place::Disk(path) => of_disk(path),
        Place::Nbd(uri) => of_export(uri),
    }
}

fn of_disk(path: &Path) -> anyhow::Result<Option<&'static str>> {
    let failed = || format!("{} cannot be read", path.display());
    let file = File::open(path).with_context(failed)?;
    let size = seek(&file, SeekFrom::End(0)).with_context(failed)?;
    if path.metadata()?.is_file() {
        match seek(&file, SeekFrom::Data(0)) {
            Err(Errno::NXIO) => return Ok(None),
            // With an error, the file system cannot report data and holes.
            Ok(_) | Err(Errno::INVAL) => {}
            Err(error) => return Err(error).with_context(failed),
        }
    }
    of_bytes(size, &mut |offset, bytes| file.read_exact_at(bytes, offset).with_context(failed))
}

fn of_export(uri: &NbdUri) -> anyhow::Result<Option<&'static str>> {
    let mut client = connect(uri)?;
    let size = client.export().size;
    let found = of_bytes(size, &mut |offset, bytes| Ok(client.read_at(offset, bytes)?));
    client.disconnect()?;
    found
}

fn of_bytes(size: u64, read: Read<'_>) -> anyhow::Result<Option<&'static str>> {
    let length = usize::try_from(size).unwrap_or(usize::MAX).min(signature::LOOK_BYTES);
    let mut head = vec![0; length];
    read(0, &mut head)?;
    if head.iter().any(|byte| *byte != 0) {
        return Ok(Some(signature::name(&head)));
    }
    let block = SAMPLE as u64;
    let last = size.saturating_sub(1) / block * block;
    let mut bytes = [0; SAMPLE];
    for sample in 0..=SAMPLES {
        let offset =
            u64::try_from(u128::from(last) * u128::from(sample) / u128::from(SAMPLES)).unwrap_or(last);
        let offset = offset / block * block;
        let part = usize::try_from(size - offset).unwrap_or(usize::MAX).min(SAMPLE);
        read(offset, &mut bytes[..part])?;
        if bytes[..part].iter().any(|byte| *byte != 0) {
            return Ok(Some("data"));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_file(size: u64, writes: &[(u64, &[u8])]) -> Option<&'static str> {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(size).unwrap();
        for (offset, bytes) in writes {
            file.as_file().write_all_at(bytes, *offset).unwrap();
        }
        look(&Place::Disk(file.path().into())).unwrap()
    }

    #[test]
    fn data_is_found_at_both_ends_and_between() {
        assert_eq!(of_file(64 << 20, &[]), None);
        assert_eq!(of_file(64 << 20, &[(0, &[0; 8192])]), None, "zeroes are no data");
        assert_eq!(of_file(64 << 20, &[(1080, b"\x53\xef")]), Some("an ext2, ext3 or ext4 file system"));
        assert_eq!(of_file(64 << 20, &[((64 << 20) - 1, b"x")]), Some("data"));
        let spread: Vec<u8> = vec![7; 1 << 20];
        assert_eq!(of_file(64 << 20, &[(30 << 20, &spread)]), Some("data"));
        assert_eq!(of_file(600, &[(599, b"x")]), Some("data"));
    }
}
