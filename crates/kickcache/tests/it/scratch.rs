//! A directory for one test.

use std::cell::RefCell;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::rng::Rng;

pub(crate) const KIB: u64 = 1 << 10;
pub(crate) const MIB: u64 = 1 << 20;

/// A directory that is removed with the test.
pub(crate) struct Scratch(TempDir);

thread_local! {
    /// In the first scratch directory of this thread.
    static STATE: RefCell<Option<PathBuf>> = const { RefCell::new(None) };
}

/// The state directory of the programs of this test.
pub(crate) fn state_dir() -> PathBuf {
    let named = STATE.with_borrow(Clone::clone);
    named.unwrap_or_else(|| Path::new(env!("CARGO_TARGET_TMPDIR")).join("state"))
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let is_own =
            |state: &Option<PathBuf>| state.as_ref().is_some_and(|path| path.starts_with(self.dir()));
        if STATE.with_borrow(is_own) {
            STATE.set(None);
        }
    }
}

impl Scratch {
    pub(crate) fn new() -> Scratch {
        let parent = std::env::var_os("KICKCACHE_IT_DIR").unwrap_or_else(|| "/var/tmp".into());
        let scratch = Scratch(tempfile::Builder::new().prefix("kickcache-it-").tempdir_in(parent).unwrap());
        STATE.with_borrow_mut(|state| state.get_or_insert_with(|| scratch.path("state")).clone());
        scratch
    }

    pub(crate) fn dir(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir().join(name)
    }

    pub(crate) fn sparse(&self, name: &str, size: u64) -> PathBuf {
        let path = self.path(name);
        File::create(&path).unwrap().set_len(size).unwrap();
        path
    }

    pub(crate) fn random(&self, name: &str, size: u64, seed: u64) -> PathBuf {
        let path = self.path(name);
        let bytes = Rng::new(seed).bytes(usize::try_from(size).unwrap());
        fs::write(&path, bytes).unwrap();
        path
    }
}

pub(crate) fn difference(left: &Path, right: &Path) -> Option<String> {
    let (mut a, mut b) = (File::open(left).unwrap(), File::open(right).unwrap());
    let (length_a, length_b) = (a.metadata().unwrap().len(), b.metadata().unwrap().len());
    if length_a != length_b {
        return Some(format!("{length_a} bytes against {length_b}"));
    }
    let (mut page_a, mut page_b) = (vec![0; 1 << 20], vec![0; 1 << 20]);
    let mut offset = 0;
    while offset < length_a {
        let count = usize::try_from((length_a - offset).min(1 << 20)).unwrap();
        a.read_exact(&mut page_a[..count]).unwrap();
        b.read_exact(&mut page_b[..count]).unwrap();
        if let Some(at) = (0..count).find(|&at| page_a[at] != page_b[at]) {
            let (found, expected) = (page_a[at], page_b[at]);
            let byte = offset + at as u64;
            return Some(format!("byte {byte} (block {}) is {found:#x}, not {expected:#x}", byte / 4096));
        }
        offset += count as u64;
    }
    None
}

pub(crate) fn flip_byte(path: &Path, offset: u64) -> io::Result<()> {
    let file = File::options().read(true).write(true).open(path)?;
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset)?;
    file.write_all_at(&[!byte[0]], offset)
}
