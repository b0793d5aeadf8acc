//! A file that has its name when it is whole, and not before.

use std::fs::{File, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, Mode, OFlags, access, linkat, openat};
use tempfile::{NamedTempFile, TempPath};

/// Before the umask.
const MODE: u32 = 0o666;

/// Writes a file, so that its path has either the whole content or the previous one; a pipe or a device is
/// written directly.
///
/// # Errors
/// If the file cannot be written; the previous content of a file then remains.
pub fn write(path: &Path, content: impl AsRef<[u8]>) -> io::Result<()> {
    if path.metadata().is_ok_and(|found| !found.is_file()) {
        return std::fs::write(path, content);
    }
    let mut file = WholeFile::for_path(path)?;
    io::Write::write_all(&mut file, content.as_ref())?;
    file.finish(path)
}

/// A file without a name until it is complete; on a file system without such files, it has a temporary name,
/// which a killed process leaves behind.
pub struct WholeFile {
    folder: PathBuf,
    file: File,
    name: Option<TempPath>,
}

impl WholeFile {
    /// A file for a path.
    ///
    /// # Errors
    /// If a file cannot be created in the folder.
    pub fn for_path(path: &Path) -> io::Result<WholeFile> {
        let folder =
            path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
        // A later error would name the temporary file, which the user does not know.
        access(folder, Access::WRITE_OK | Access::EXEC_OK)?;
        let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
        let (file, name) = match openat(CWD, folder, flags, Mode::from_raw_mode(MODE)) {
            Ok(file) => (File::from(file), None),
            Err(_) => {
                let (file, name) = named().tempfile_in(folder)?.into_parts();
                (file, Some(name))
            }
        };
        Ok(WholeFile { folder: folder.into(), file, name })
    }

    /// Gives the file its name, and replaces the previous file.
    ///
    /// # Errors
    /// If the file system refuses.
    pub fn finish(self, path: &Path) -> io::Result<()> {
        let name = match self.name {
            Some(name) => name,
            None => link(&self.file, &self.folder)?,
        };
        Ok(name.persist(path)?)
    }
}

impl io::Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn named() -> tempfile::Builder<'static, 'static> {
    let mut made = tempfile::Builder::new();
    made.permissions(Permissions::from_mode(MODE));
    made
}

/// A first name for a file without one: `linkat` does not replace a file.
fn link(file: &File, folder: &Path) -> io::Result<TempPath> {
    let unnamed = format!("/proc/self/fd/{}", file.as_raw_fd());
    let link = |name: &Path| Ok(linkat(CWD, &unnamed, CWD, name, AtFlags::SYMLINK_FOLLOW)?);
    named().make_in(folder, link).map(NamedTempFile::into_temp_path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_previous_file_stays_if_there_is_no_space() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("page");
        write(&path, "old").unwrap();
        let full = WholeFile {
            folder: folder.path().into(),
            file: File::options().write(true).open("/dev/full").unwrap(),
            name: None,
        };
        assert!(io::Write::write_all(&mut { full }, b"new").is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "old");
        write(&path, "new").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no other file is left");
        write(Path::new("/dev/null"), "anything").unwrap();
        assert!(!Path::new("/dev/null").metadata().unwrap().is_file());
    }
}
