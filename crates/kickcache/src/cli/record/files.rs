//! The files of a recording.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use kickcache_command::exit::Failure;
use kickcache_model::trace_file::RecordingHeader;

use crate::cli::record::end::End;

/// The bytes that must be free on the disk: a twentieth of the disk, at most this. Origins and cache files
/// may need them.
const FREE_BYTES: u64 = 1 << 30;
const FREE_PART: u64 = 20;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Bounds {
    /// Bytes of a file.
    pub(crate) size_max: u64,
    /// From 1.
    pub(crate) file_count: u32,
}

#[derive(Debug)]
pub(crate) struct RecordingFiles {
    path: PathBuf,
    bounds: Bounds,
    header: RecordingHeader,
    file: File,
    /// Bytes of the newest file.
    file_bytes: u64,
    bytes: u64,
}

impl RecordingFiles {
    pub(crate) fn refuse_existing(path: &Path, bounds: Bounds) -> Result<(), Failure> {
        let is_there = |name: &PathBuf| name.symlink_metadata().is_ok();
        match (0..bounds.file_count).map(|age| name(path, age)).find(is_there) {
            None => Ok(()),
            Some(found) => Err(taken(&found)),
        }
    }

    pub(crate) fn create(
        path: &Path,
        bounds: Bounds,
        header: RecordingHeader,
    ) -> Result<RecordingFiles, Failure> {
        let file = create(path)?;
        let mut files = RecordingFiles { path: path.into(), bounds, header, file, file_bytes: 0, bytes: 0 };
        files.begin().map_err(|error| {
            // An empty file would make the next try fail.
            let _ = fs::remove_file(path);
            files.failure(error)
        })?;
        Ok(files)
    }

    /// Writes a block, to the next file if this one is full.
    ///
    /// # Errors
    /// The reason for the end of the recording.
    pub(crate) fn write(&mut self, block: &[u8]) -> Result<(), End> {
        let is_full = self.file_bytes + block.len() as u64 > self.bounds.size_max;
        if is_full && self.bounds.file_count == 1 {
            return Err(End::Full);
        }
        if let Some(free) = self.too_little_free() {
            return Err(End::DiskFull { free });
        }
        if is_full {
            self.rotate()?;
        }
        self.append(block).map_err(|error| self.end(error))
    }

    /// Removed files included.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// From now on writes fail as on a full disk.
    #[cfg(test)]
    pub(crate) fn fill_disk(&mut self) {
        self.file = OpenOptions::new().write(true).open("/dev/full").expect("Linux has it");
    }

    fn begin(&mut self) -> io::Result<()> {
        self.file_bytes = 0;
        let header = self.header.to_bytes();
        self.append(&header)
    }

    /// A partial write is cut off again.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        if let Err(error) = self.file.write_all(bytes) {
            // A reader detects the torn block at the end.
            let _ = self.file.set_len(self.file_bytes);
            return Err(error);
        }
        self.file_bytes += bytes.len() as u64;
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    fn rotate(&mut self) -> Result<(), End> {
        // Files of a lower age are of this recording.
        let oldest = name(&self.path, self.header.part + 1);
        if self.header.part + 1 < self.bounds.file_count && oldest.symlink_metadata().is_ok() {
            return Err(End::Failed(taken(&oldest)));
        }
        for age in (1..self.bounds.file_count).rev() {
            let (from, to) = (name(&self.path, age - 1), name(&self.path, age));
            if from.exists() {
                fs::rename(from, to).map_err(|error| self.end(error))?;
            }
        }
        self.file = create(&self.path).map_err(End::Failed)?;
        self.header.part += 1;
        self.begin().map_err(|error| self.end(error))
    }

    /// Free bytes, if they are too few.
    fn too_little_free(&self) -> Option<u64> {
        let found = rustix::fs::fstatvfs(&self.file).ok()?;
        let free = found.f_bavail.saturating_mul(found.f_frsize);
        let whole = found.f_blocks.saturating_mul(found.f_frsize);
        (free < (whole / FREE_PART).min(FREE_BYTES)).then_some(free)
    }

    fn end(&self, error: io::Error) -> End {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => End::DiskFull { free: 0 },
            _ => End::Failed(self.failure(error)),
        }
    }

    fn failure(&self, error: io::Error) -> Failure {
        anyhow::Error::from(error)
            .context(format!("the recording {} cannot be written", self.path.display()))
            .into()
    }
}

/// The newest file has the given name, the others have a number appended.
fn name(path: &Path, age: u32) -> PathBuf {
    if age == 0 {
        return path.into();
    }
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{age}"));
    name.into()
}

fn taken(path: &Path) -> Failure {
    let path = path.display();
    Failure::usage(format!(
        "{path} exists, and a recording never overwrites a file; name another file, or remove it"
    ))
}

/// Only the owner of the file may read it: it reveals the places and times of a disk's accesses.
fn create(path: &Path) -> Result<File, Failure> {
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    Ok(made.with_context(|| format!("the recording {} cannot be made", path.display()))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(folder: &Path, file_count: u32) -> RecordingFiles {
        let bounds = Bounds { size_max: 100, file_count };
        RecordingFiles::create(&folder.join("r"), bounds, RecordingHeader::default()).unwrap()
    }

    fn sizes(folder: &Path) -> Vec<u64> {
        (0..5).filter_map(|age| Some(fs::metadata(name(&folder.join("r"), age)).ok()?.len())).collect()
    }

    #[test]
    fn a_full_file_is_rotated_and_the_oldest_removed() {
        let folder = tempfile::tempdir().unwrap();
        let mut files = files(folder.path(), 3);
        let header = RecordingHeader::default().to_bytes().len() as u64;
        for _ in 0..2 {
            files.write(&[0; 30]).unwrap();
        }
        assert_eq!(sizes(folder.path()), [header + 60]);
        (0..4).for_each(|_| files.write(&[1; 50]).unwrap());
        assert_eq!(sizes(folder.path()), [header + 50; 3]);
        assert_eq!(files.bytes(), 5 * header + 260);
        let oldest = fs::read(folder.path().join("r.2")).unwrap();
        assert_eq!(u32::from_le_bytes(oldest[32..36].try_into().unwrap()), 2, "the part");
    }

    #[test]
    fn an_obstructing_file_ends_the_recording_and_stays() {
        let folder = tempfile::tempdir().unwrap();
        let mut files = files(folder.path(), 3);
        (0..2).for_each(|_| files.write(&[1; 50]).unwrap());
        fs::write(folder.path().join("r.2"), "precious").unwrap();
        let Err(End::Failed(failure)) = files.write(&[1; 50]) else { panic!("it continues") };
        assert!(failure.sentence().contains("r.2 exists, and a recording never overwrites a file"));
        assert_eq!(fs::read_to_string(folder.path().join("r.2")).unwrap(), "precious");
        let header = RecordingHeader::default().to_bytes().len() as u64;
        assert_eq!(sizes(folder.path())[..2], [header + 50; 2]);
    }

    #[test]
    fn a_single_file_ends_when_full_without_overwriting() {
        let folder = tempfile::tempdir().unwrap();
        let mut one = files(folder.path(), 1);
        one.write(&[0; 60]).unwrap();
        assert!(matches!(one.write(&[0; 60]), Err(End::Full)));
        let bounds = Bounds { size_max: 100, file_count: 1 };
        let refused = RecordingFiles::refuse_existing(&folder.path().join("r"), bounds).unwrap_err();
        assert!(refused.sentence().contains("a recording never overwrites a file"));
        fs::rename(folder.path().join("r"), folder.path().join("s.1")).unwrap();
        let more = Bounds { file_count: 2, ..bounds };
        assert!(RecordingFiles::refuse_existing(&folder.path().join("s"), more).is_err());
        assert!(RecordingFiles::refuse_existing(&folder.path().join("s"), bounds).is_ok());
    }

    #[test]
    fn a_partial_block_is_removed_after_a_failed_write() {
        let folder = tempfile::tempdir().unwrap();
        let mut files = files(folder.path(), 1);
        files.file = File::open(folder.path().join("r")).unwrap();
        assert!(matches!(files.write(&[0; 10]), Err(End::Failed(_))));
        assert_eq!(files.bytes(), RecordingHeader::default().to_bytes().len() as u64);
        files.fill_disk();
        assert!(matches!(
            files.append(&[0; 10]).map_err(|error| files.end(error)),
            Err(End::DiskFull { .. })
        ));
    }
}
