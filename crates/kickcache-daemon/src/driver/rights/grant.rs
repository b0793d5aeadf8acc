//! The files that the monitor may open.

use std::fs::{File, Metadata};
use std::path::{Path, PathBuf};

use crate::driver::device::path_below;
use crate::driver::rights::trusted_path::{Identity, ResolvedPath, walk};

/// The most loop devices on top of each other that are followed.
const LAYERS_MAX: usize = 8;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Right {
    Read,
    Write,
    /// The file may be opened for reading and writing, and created if it does not exist.
    Make,
}

/// A named file, and the permitted operations on it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Grant {
    /// The path of the file from the root.
    pub path: PathBuf,
    pub right: Right,
}

impl Grant {
    /// The operations that this grant permits on a file that was found, by any of its names. A file below a
    /// device may be read, because it has the same bytes.
    pub(super) fn right_to(&self, found: &Metadata) -> Option<Right> {
        let wanted = Identity::of(found);
        let mut above = at(&self.path)?;
        if Identity::of(&above) == wanted {
            return Some(self.right);
        }
        for _ in 0..LAYERS_MAX {
            above = at(&path_below(&above)?)?;
            if Identity::of(&above) == wanted {
                return Some(Right::Read);
            }
        }
        None
    }

    /// Whether the grant names a missing file, with this folder and name.
    pub(super) fn is_place(&self, place: &ResolvedPath) -> bool {
        let same = |file: &File, other: &File| {
            let identity = |file: &File| file.metadata().ok().map(|metadata| Identity::of(&metadata));
            identity(file).is_some() && identity(file) == identity(other)
        };
        walk(&self.path).is_ok_and(|named| named.name == place.name && same(&named.folder, &place.folder))
    }
}

/// The file that a path leads to, if only root can change where the path leads.
fn at(path: &Path) -> Option<Metadata> {
    walk(path).ok()?.found?.metadata().ok()
}
