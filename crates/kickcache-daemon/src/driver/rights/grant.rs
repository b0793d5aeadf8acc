//! What the monitor may open.

use std::fs::{File, Metadata};
use std::path::{Path, PathBuf};

use crate::driver::device::path_below;
use crate::driver::rights::trusted_path::{Identity, Walked, walk};

/// Loop devices upon loop devices that are looked through.
const LAYERS_MAX: usize = 8;

/// What may be done with a thing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Right {
    /// It may be read.
    Read,
    /// It may be written, too.
    Write,
    /// It may be made, too, if it does not exist.
    Make,
}

/// A thing that is named, and what may be done with it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Grant {
    /// From the root.
    pub path: PathBuf,
    /// What may be done.
    pub right: Right,
}

impl Grant {
    /// What may be done with what was found, by whatever name it was, because of this grant. A file that a device lies on may be
    /// read, as it has the same bytes: it is locked along with the device. Its path is walked like any other one, as others may put
    /// something there when the file is gone.
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

    /// Whether it names a place where nothing is, by this folder and name.
    pub(super) fn is_place(&self, place: &Walked) -> bool {
        let same = |file: &File, other: &File| {
            let identity = |file: &File| file.metadata().ok().map(|metadata| Identity::of(&metadata));
            identity(file).is_some() && identity(file) == identity(other)
        };
        walk(&self.path).is_ok_and(|named| named.name == place.name && same(&named.folder, &place.folder))
    }
}

/// What a path leads to, if root alone decides that.
fn at(path: &Path) -> Option<Metadata> {
    walk(path).ok()?.found?.metadata().ok()
}
