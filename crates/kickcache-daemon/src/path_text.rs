//! Paths as text: identities and records store UTF-8, and two paths must not become one text.

use std::ffi::{OsStr, OsString};
use std::fmt::{self, Write as _};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::whole_path::real_path;

/// A path or an argument that is not UTF-8.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "`{}` is not UTF-8, and kickcache accepts only UTF-8 in paths, as records of volumes are text; rename the file or its folder",
    Escaped(.0)
)]
pub struct NotUtf8(OsString);

/// # Errors
/// [`NotUtf8`].
pub fn path_text(path: &OsStr) -> Result<&str, NotUtf8> {
    path.to_str().ok_or_else(|| NotUtf8(path.into()))
}

/// Refuses a path that is not UTF-8, or becomes such a path by its links or the working folder.
///
/// # Errors
/// [`NotUtf8`].
pub fn check_real_path(path: &Path) -> Result<(), NotUtf8> {
    path_text(path.as_os_str())?;
    path_text(real_path(path).as_os_str()).map(drop)
}

/// Bytes that are not UTF-8 as `\xFC`, and a backslash twice.
struct Escaped<'a>(&'a OsStr);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.as_bytes().utf8_chunks() {
            for character in chunk.valid().chars() {
                match character {
                    '\\' => f.write_str("\\\\")?,
                    control if control.is_control() => write!(f, "{}", control.escape_default())?,
                    plain => f.write_char(plain)?,
                }
            }
            chunk.invalid().iter().try_for_each(|byte| write!(f, "\\x{byte:02X}"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn two_names_that_differ_in_one_byte_look_different() {
        let shown = |bytes: &[u8]| path_text(OsStr::from_bytes(bytes)).unwrap_err().to_string();
        assert!(shown(b"m\xfcller.img").starts_with("`m\\xFCller.img` is not UTF-8"));
        let names: [&[u8]; 4] = [b"m\xfcller", b"m\xf6ller", b"m\\xFCll\xff", b"m\xfcll\xff"];
        for (index, name) in names.iter().enumerate() {
            assert!(names[..index].iter().all(|other| shown(other) != shown(name)), "{name:?}");
        }
        assert!(shown(b"a\x1b[m\xff").starts_with("`a\\u{1b}[m\\xFF`"));
        assert_eq!(path_text(OsStr::new("müller.img")), Ok("müller.img"));
    }

    #[test]
    fn links_to_paths_in_latin1_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let odd = folder.path().join(OsStr::from_bytes(b"m\xfcller"));
        std::fs::create_dir(&odd).unwrap();
        let link = folder.path().join("link");
        symlink(&odd, &link).unwrap();
        for path in [&odd, &link, &link.join("not-there.img")] {
            assert!(check_real_path(path).unwrap_err().to_string().contains("m\\xFCller"), "{path:?}");
        }
        check_real_path(&folder.path().join("not-there.img")).unwrap();
    }
}
