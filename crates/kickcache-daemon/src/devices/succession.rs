//! Which device is the cache after a takeover.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use kickcache_engine::format::succession::{Succession, succession};
use kickcache_engine::format::superblock::Superblock;
use kickcache_engine::format::takeover::Takeover;

use crate::devices::cache_device::store_superblock;
use crate::devices::missed_device::{any_superblock_at, try_superblock_at};
use crate::devices::older_copy::{elsewhere, record_of};
use crate::devices::state::CacheRecord;
use crate::driver::device::{AccessMode, BlockFile, Emptiness};
use crate::plan::cache_spec::{CacheService, CacheSpec};
use crate::serve::config::StatePlace;
use crate::serve::error::ServeError;

/// Longest chain of devices that took over from one another.
const LENGTH_MAX: usize = 64;

/// The devices that the name of a cache device leads to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceChain {
    pub device: PathBuf,
    /// The device that is to take over from the cache device, if a takeover has begun.
    pub successor: Option<PathBuf>,
    /// The devices that have taken over, the earliest first.
    links: Vec<Link>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Link {
    old: DeviceSuperblock,
    new: DeviceSuperblock,
    /// Whether the superblock of the new device does not record the takeover yet.
    is_to_complete: bool,
}

/// A device and its superblock, as it is or as a takeover will write it.
#[derive(Clone, PartialEq, Eq, Debug)]
struct DeviceSuperblock {
    path: PathBuf,
    superblock: Superblock,
}

/// Finds the device that is the cache, without a change. If the superblocks contradict each other, the result
/// is the last device that was reached.
pub fn follow(named: &Path) -> DeviceChain {
    let mut followed = DeviceChain { device: named.into(), successor: None, links: Vec::new() };
    while followed.links.len() < LENGTH_MAX {
        let Some(superblock) = any_superblock_at(&followed.device) else { break };
        let Some(other) = superblock.takeover.other() else { break };
        let path = PathBuf::from(&other.path);
        if matches!(superblock.takeover, Takeover::Begun(_)) {
            followed.successor = Some(path);
            break;
        }
        let Some(at_other) = any_superblock_at(&path) else { break };
        let other = DeviceSuperblock { path, superblock: at_other };
        let this = DeviceSuperblock { path: followed.device.clone(), superblock };
        let takeover = this.superblock.takeover.clone();
        match takeover {
            Takeover::Incomplete(_) => {
                match succession(&other.superblock, &this.superblock) {
                    Succession::Old => {
                        followed.successor = Some(std::mem::replace(&mut followed.device, other.path));
                    }
                    Succession::New | Succession::NewToComplete => {
                        followed.links.extend(Link::between(other, this));
                    }
                    Succession::Unrelated => {}
                }
                break;
            }
            Takeover::Replaced(_) => {
                let is_incomplete = matches!(other.superblock.takeover, Takeover::Incomplete(_));
                let Some(link) = Link::between(this, other) else { break };
                followed.device.clone_from(&link.new.path);
                followed.links.push(link);
                if is_incomplete {
                    break;
                }
            }
            Takeover::Begun(_) | Takeover::None => break,
        }
    }
    followed
}

/// Refuses to continue a takeover if the recorded future successor is missing, has changed, or cannot be
/// examined.
///
/// # Errors
/// A sentence with the reason.
pub(crate) fn check_awaited(device: &Path, with: &Path) -> Result<(), ServeError> {
    let (old, new) = (any_superblock_at(device), try_superblock_at(with));
    let is_awaited = |old: Superblock, new: &Superblock| succession(&old, new) == Succession::Old;
    let found = match new {
        Ok(Some(new)) if old.is_none_or(|old| is_awaited(old, &new)) => return Ok(()),
        Ok(_) => "it is another device now".to_owned(),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            "it is not there any more".to_owned()
        }
        Err(error) => format!("it cannot be examined: {error}"),
    };
    let what = format!(
        "it was to take over from {}, and {found}; restore it before the next start, or begin again (`kickcache replace`)",
        device.display()
    );
    Err(ServeError::Cache { path: with.into(), what })
}

impl Link {
    fn between(old: DeviceSuperblock, new: DeviceSuperblock) -> Option<Link> {
        let found = succession(&old.superblock, &new.superblock);
        let superblock = match found {
            Succession::New => new.superblock,
            Succession::NewToComplete => old.superblock.succeeded(),
            Succession::Old | Succession::Unrelated => return None,
        };
        let is_to_complete = found == Succession::NewToComplete;
        Some(Link { old, new: DeviceSuperblock { superblock, ..new }, is_to_complete })
    }

    /// Refuses a new device without a mark of its takeover, although the takeover is on record: the true
    /// successor was complete before the record, so this device is an earlier copy.
    fn check_no_copy(&self, place: &StatePlace) -> Result<(), ServeError> {
        let Link { old, new, is_to_complete } = self;
        if !is_to_complete {
            return Ok(());
        }
        let has_taken_over = |record: &CacheRecord| record.starts >= new.superblock.starts;
        let Some(record) = record_of(place, &new.superblock).filter(has_taken_over) else { return Ok(()) };
        let right = match elsewhere(record, &new.path) {
            None => "restore the previous device".to_owned(),
            Some(right) => format!("name {}, which did, or bring it back", right.display()),
        };
        let what = format!(
            "this is a copy of the device that took over from {}, made before the takeover: later writes are not on it; {right}",
            old.path.display()
        );
        Err(ServeError::Cache { path: new.path.clone(), what })
    }

    /// The writes of a killed process may not be durable: both superblocks are written again, durably, the
    /// old one first.
    fn make_durable(&self) -> Result<(), ServeError> {
        for DeviceSuperblock { path, superblock } in [&self.old, &self.new] {
            let file = BlockFile::open(path, AccessMode::ReadWrite, Emptiness::Refused)?;
            store_superblock(&file, &mut superblock.clone())?;
        }
        Ok(())
    }
}

/// Sets the cache device of a plan to the device that is the cache, and the successor of an unfinished
/// takeover.
///
/// # Errors
/// If that cannot be made durable, or the device is a copy from before its takeover.
pub fn find_cache(cache: &mut CacheSpec, state: &StatePlace) -> Result<(), ServeError> {
    if cache.service != CacheService::InService {
        return Ok(());
    }
    let DeviceChain { device, successor, links } = follow(&cache.device);
    links.iter().try_for_each(|link| link.check_no_copy(state))?;
    links.iter().try_for_each(Link::make_durable)?;
    if device != cache.device {
        tracing::info!(
            event = "cache_successor",
            "{} is the cache device, and not {}, according to their superblocks",
            device.display(),
            cache.device.display()
        );
    }
    (cache.device, cache.successor) = (device, successor);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::os::unix::fs::FileExt;

    use kickcache_engine::format::superblock::SUPERBLOCK_OFFSETS;
    use kickcache_engine::format::takeover::OtherDevice;

    use super::*;
    use crate::devices::state::StateStore;

    const SIZE: u64 = 8 << 20;

    struct DevicePair {
        _directory: tempfile::TempDir,
        old: PathBuf,
        new: PathBuf,
    }

    impl DevicePair {
        fn new() -> DevicePair {
            let directory = tempfile::tempdir_in("/var/tmp").unwrap();
            let (old, new) = (directory.path().join("old"), directory.path().join("new"));
            DevicePair { _directory: directory, old, new }
        }

        fn other(path: &Path) -> OtherDevice {
            OtherDevice { uuid: [3; 16], path: path.to_str().unwrap().into() }
        }

        fn write(path: &Path, superblock: &Superblock) {
            let file = OpenOptions::new().create(true).truncate(false).write(true).open(path).unwrap();
            file.set_len(SIZE).unwrap();
            for offset in SUPERBLOCK_OFFSETS {
                file.write_all_at(&superblock.encode(), offset).unwrap();
            }
        }
    }

    fn superblock() -> Superblock {
        Superblock::new([1; 16], SIZE).unwrap()
    }

    #[test]
    fn the_old_device_stays_the_cache_until_its_replacement_mark() {
        let two = DevicePair::new();
        DevicePair::write(
            &two.old,
            &superblock().with_takeover(Takeover::Begun(DevicePair::other(&two.new))),
        );
        DevicePair::write(
            &two.new,
            &superblock().with_takeover(Takeover::Incomplete(DevicePair::other(&two.old))),
        );
        for named in [&two.old, &two.new] {
            let followed = follow(named);
            assert_eq!((followed.device, followed.successor), (two.old.clone(), Some(two.new.clone())));
        }
        assert!(check_awaited(&two.old, &two.new).is_ok());
        let refused = || check_awaited(&two.old, &two.new).unwrap_err().to_string();
        std::fs::write(&two.new, b"something else").unwrap();
        assert!(refused().contains("it is another device now"), "{}", refused());
        std::fs::remove_file(&two.new).unwrap();
        assert!(refused().contains("it is not there any more"), "{}", refused());
        std::os::unix::fs::symlink(&two.new, &two.new).unwrap();
        assert!(refused().contains("it cannot be examined: "), "{}", refused());
        assert_eq!(follow(&two.old).successor, Some(two.new.clone()), "which is reported");
    }

    #[test]
    fn a_replaced_device_leads_to_its_complete_successor() {
        let two = DevicePair::new();
        let replaced = superblock().with_takeover(Takeover::Replaced(DevicePair::other(&two.new)));
        let incomplete = superblock().with_takeover(Takeover::Incomplete(DevicePair::other(&two.old)));
        for named in [&two.old, &two.new] {
            DevicePair::write(&two.old, &replaced);
            DevicePair::write(&two.new, &incomplete);
            let mut cache = CacheSpec::new(named, Vec::new());
            find_cache(&mut cache, &StatePlace::NotKept).unwrap();
            assert_eq!((&cache.device, &cache.successor), (&two.new, &None));
            let found = any_superblock_at(&two.new).unwrap();
            assert_eq!((found.takeover, found.starts), (Takeover::None, 2));
            assert!(any_superblock_at(&two.old).unwrap().takeover.is_barred());
            assert_eq!(follow(named).device, two.new, "again");
        }
        DevicePair::write(&two.new, &Superblock::new([2; 16], SIZE).unwrap());
        assert_eq!(follow(&two.old).device, two.old);
    }

    #[test]
    fn an_early_copy_of_the_successor_is_refused() {
        let two = DevicePair::new();
        let state = two.old.with_file_name("state");
        let (store, place) = (StateStore::new(&state), StatePlace::Directory(state));
        DevicePair::write(
            &two.old,
            &superblock().with_takeover(Takeover::Replaced(DevicePair::other(&two.new))),
        );
        DevicePair::write(
            &two.new,
            &superblock().with_takeover(Takeover::Incomplete(DevicePair::other(&two.old))),
        );
        store.keep_cache(&CacheRecord::new(&superblock().succeeded(), "/right".into())).unwrap();
        for named in [&two.old, &two.new] {
            let refused = find_cache(&mut CacheSpec::new(named, Vec::new()), &place).unwrap_err().to_string();
            assert!(refused.contains("is a copy of the device that took over from"), "{refused}");
            assert!(refused.ends_with("name /right, which did, or bring it back"), "{refused}");
        }
        let found = any_superblock_at(&two.new).unwrap();
        assert!(matches!(found.takeover, Takeover::Incomplete(_)), "the mark is unchanged");
        store.keep_cache(&CacheRecord::new(&superblock(), two.old.clone())).unwrap();
        find_cache(&mut CacheSpec::new(&two.old, Vec::new()), &place).unwrap();
        assert_eq!(any_superblock_at(&two.new).unwrap().takeover, Takeover::None);
    }

    #[test]
    fn a_chain_of_devices_is_followed_to_its_end() {
        let two = DevicePair::new();
        let last = two.old.with_file_name("last");
        DevicePair::write(
            &two.old,
            &superblock().with_takeover(Takeover::Replaced(DevicePair::other(&two.new))),
        );
        let second = superblock().succeeded();
        DevicePair::write(&two.new, &second.with_takeover(Takeover::Replaced(DevicePair::other(&last))));
        DevicePair::write(&last, &second.succeeded());
        assert_eq!(follow(&two.old).device, last);
        assert_eq!(follow(&last), DeviceChain { device: last, successor: None, links: Vec::new() });
    }
}
