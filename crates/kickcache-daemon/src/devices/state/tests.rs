use std::time::Duration;

use kickcache_engine::format::geometry::DEVICE_SIZE_MIN;
use kickcache_engine::format::superblock::Superblock;
use kickcache_engine::stats::{WearHistory, WearSlot};
use kickcache_engine::time::Duration as EngineDuration;
use rustix::fs::{CWD, FileType, Mode};

use super::*;
use crate::driver::device::AccessMode;
use crate::extents::Extent;

fn store() -> (tempfile::TempDir, StateStore) {
    let folder = tempfile::tempdir().unwrap();
    let store = StateStore::new(&folder.path().join("a/b"));
    (folder, store)
}

fn cache() -> CacheRecord {
    CacheRecord::new(&Superblock::new([0xa5; 16], DEVICE_SIZE_MIN).unwrap(), "/c".into())
}

#[test]
fn records_read_back_as_written() {
    let (_folder, store) = store();
    assert_eq!(store.origins().unwrap().records, []);
    let record = OriginRecord::new("file:/srv/v m/1.raw", "vm1", &cache(), Completeness::MayBeDirty);
    let other = OriginRecord::new("file:/other/v m/1.raw", "vm1", &cache(), Completeness::Complete);
    store.keep_origin(&record).unwrap();
    store.keep_origin(&other).unwrap();
    assert_eq!(store.origin("file:/srv/v m/1.raw").unwrap(), Some(record.clone()));
    assert_eq!(store.origins().unwrap().records.len(), 2);
    let extents = vec![Extent { start: 4096, length: 8192 }];
    let newest = vec![NewestBlocks { volume: "vm1".into(), extents }];
    let out = OutOfService { since: 1, incomplete: vec!["vm1".into()], newest };
    let marked = CacheRecord { out_of_service: Some(out), ..cache() };
    store.keep_cache(&marked).unwrap();
    assert_eq!(store.cache(&cache().uuid).unwrap(), Some(marked));
    store.forget_cache(&cache().uuid).unwrap();
    let gone = CacheRecord { starts: cache().starts + 1, ..cache() };
    assert_eq!(store.cache(&cache().uuid).unwrap(), Some(gone), "a copy of it is older");
    let clean = OriginRecord { may_be_dirty: false, ..record };
    assert_eq!(store.origin("file:/srv/v m/1.raw").unwrap(), Some(clean), "who had the origin is known on");
}

#[test]
fn records_of_unserved_volumes_stay_unchanged() {
    let blocks = |volume: &str, start| NewestBlocks {
        volume: volume.into(),
        extents: vec![Extent { start, length: 4096 }],
    };
    let out = OutOfService { since: 1, incomplete: vec![], newest: vec![blocks("vm1", 0), blocks("vm2", 0)] };
    let out = out.with_newest(vec![blocks("vm2", 8192)]);
    assert_eq!(out.newest, [blocks("vm1", 0), blocks("vm2", 8192)]);
}

#[test]
fn a_damaged_note_hides_no_other() {
    let (_folder, store) = store();
    for name in ["one", "two"] {
        store
            .keep_origin(&OriginRecord::new(
                &format!("file:/{name}"),
                name,
                &cache(),
                Completeness::MayBeDirty,
            ))
            .unwrap();
    }
    let path = |name: &str| {
        let mut found = std::fs::read_dir(store.directory()).unwrap().map(|entry| entry.unwrap().path());
        found.find(|path| path.to_str().unwrap().contains(name)).unwrap()
    };
    let two = std::fs::read(path("origin-two")).unwrap();
    for content in [&b""[..], b"{", b"\0\0\0\0", &two] {
        std::fs::write(path("origin-one"), content).unwrap();
        let origins = store.origins().unwrap();
        assert!(origins.records.iter().any(|record| record.volume == "two"));
        let error = store.origin("file:/one").unwrap_err().to_string();
        assert!(error.contains("origin-one") && error.contains("damaged"), "{error}");
    }
}

#[test]
fn a_file_that_is_no_record_is_not_read() {
    let (folder, store) = store();
    store.keep_cache(&cache()).unwrap();
    let path = store.directory().join("cache-a5a5a5a5-a5a5-a5a5-a5a5-a5a5a5a5a5a5.json");
    let kept = folder.path().join("kept");
    std::fs::rename(&path, &kept).unwrap();
    let refusal = || {
        let error = store.cache(&cache().uuid).unwrap_err().to_string();
        std::fs::remove_file(&path).unwrap();
        error
    };
    std::os::unix::fs::symlink(&kept, &path).unwrap();
    assert!(refusal().contains("it is a link; remove this file"));
    rustix::fs::mknodat(CWD, &path, FileType::Fifo, Mode::RWXU, 0).unwrap();
    assert!(refusal().contains("it is no file; remove this file"));
    std::fs::write(&path, vec![b' '; (1 << 20) + 1]).unwrap();
    assert!(refusal().contains("it has more than 1048576 bytes; remove this file"));
}

#[test]
fn a_cache_device_is_current_only_with_all_writes() {
    let record = OriginRecord::new("file:/o", "v", &cache(), Completeness::Complete);
    assert!(record.is_current(&cache().uuid) && !record.is_current("another"));
    assert!(!OriginRecord { written_without: true, ..record }.is_current(&cache().uuid));
    assert!(!OriginRecord::without_cache("file:/o", "v").is_current(&cache().uuid));
}

#[test]
fn only_complete_records_are_left_in_the_directory() {
    let (_folder, store) = store();
    (0..3).for_each(|_| store.keep_cache(&cache()).unwrap());
    let names: Vec<_> =
        std::fs::read_dir(store.directory()).unwrap().map(|found| found.unwrap().file_name()).collect();
    assert_eq!(names, ["cache-a5a5a5a5-a5a5-a5a5-a5a5-a5a5a5a5a5a5.json"]);
}

#[test]
fn an_unreadable_record_is_refused_and_not_ignored() {
    let (_folder, store) = store();
    store.keep_cache(&cache()).unwrap();
    let path = store.directory().join("cache-a5a5a5a5-a5a5-a5a5-a5a5-a5a5a5a5a5a5.json");
    let text = std::fs::read_to_string(&path).unwrap();
    for (bad, wanted) in
        [(&text[..20], "damaged"), (&text.replace("\"version\": 1", "\"version\": 2"), "newer kickcache")]
    {
        std::fs::write(&path, bad).unwrap();
        let error = store.cache(&cache().uuid).unwrap_err().to_string();
        assert!(error.contains(wanted), "{error}");
    }
}

#[test]
fn a_directory_that_cannot_be_made_is_named() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), "x").unwrap();
    for path in [folder.path().join("file"), folder.path().join("file/x"), "/proc/state".into()] {
        let error = StateStore::new(&path).keep_cache(&cache()).unwrap_err().to_string();
        assert!(error.contains(path.to_str().unwrap()), "{error}");
        assert_eq!(error.contains("it is no directory"), path.ends_with("file"), "{error}");
    }
}

#[test]
fn recent_writes_are_kept_until_their_device_is_removed() {
    let (_folder, store) = store();
    let slots = vec![WearSlot { written: 4096, wanted: 1 }, WearSlot { written: 0, wanted: 2 }];
    let history = WearHistory { slots, credit: -7, counted: EngineDuration::from_millis(90_000) };
    let record = WearRecord::new(&cache().uuid, &history);
    store.keep_wear(&record).unwrap();
    let found = store.wear(&cache().uuid).unwrap().unwrap();
    assert_eq!((found.history(), found.age() < Duration::from_secs(600)), (history, true));
    let earlier = WearRecord { at: record.at - 7_200, ..record.clone() };
    assert!(earlier.age() >= Duration::from_secs(7_200));
    let later = WearRecord { at: record.at + 7_200, ..record };
    assert_eq!(later.age(), Duration::ZERO, "the clock was set back");
    store.forget_cache(&cache().uuid).unwrap();
    assert_eq!(store.wear(&cache().uuid).unwrap(), None);
}

#[test]
fn each_file_of_the_directory_is_recognised_by_its_name() {
    let (_folder, store) = store();
    store.keep_cache(&cache()).unwrap();
    let history = WearHistory { slots: vec![WearSlot { written: 1, wanted: 1 }], ..WearHistory::default() };
    store.keep_wear(&WearRecord::new(&cache().uuid, &history)).unwrap();
    store.keep_origin(&OriginRecord::new("nbd:h/v m", "v", &cache(), Completeness::Complete)).unwrap();
    let _lock = store.lock_origin("nbd:h/v m", AccessMode::ReadWrite).unwrap().unwrap();
    let _unfinished = tempfile::Builder::new().prefix(".new-").tempfile_in(store.directory()).unwrap();
    let names = std::fs::read_dir(store.directory()).unwrap().map(|found| found.unwrap().file_name());
    let mut kinds: Vec<StateFile> = names.map(|name| StateFile::of_name(&name).unwrap()).collect();
    kinds.sort_by_key(|kind| StateFile::ALL.iter().position(|known| known == kind));
    assert_eq!(kinds, StateFile::ALL);
    for other in ["letters", "wear-", "origin-a", "shadow.json", "cache-b.json.old"] {
        assert_eq!(StateFile::of_name(other.as_ref()), None, "{other}");
    }
}

/// The system calls of a test of this module, one a line, with the paths of descriptors; `None` with the reason if they
/// cannot be traced.
fn traced(test: &str) -> Result<Vec<String>, String> {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let calls = "trace=write,fsync,fdatasync,rename,renameat,renameat2,unlink";
    let name = format!("devices::state::tests::{test}");
    let output = std::process::Command::new("strace")
        .args(["-f", "-y", "-s", "0", "-e", calls, "-o"])
        .arg(&log)
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", &name, "--test-threads=1"])
        .output()
        .map_err(|error| format!("strace: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("PTRACE") || said.contains("ptrace") {
        return Err(format!("strace: {}", said.trim()));
    }
    assert!(output.status.success(), "{said}");
    Ok(std::fs::read_to_string(log).unwrap().lines().map(str::to_owned).collect())
}

#[test]
fn records_are_durable_before_and_after_their_rename() {
    let calls = match traced("records_read_back_as_written") {
        Ok(calls) => calls,
        Err(why) => return eprintln!("skipped: {why}"),
    };
    let is_sync = |call: &str| call.contains("fsync(") || call.contains("fdatasync(");
    let mut renames = 0;
    for (at, call) in calls.iter().enumerate() {
        let Some(from) = call.split('"').nth(1).filter(|_| call.contains(" rename")) else { continue };
        renames += 1;
        let directory = from.rsplit_once('/').unwrap().0;
        let of_file = format!("<{from}>");
        let last = calls[..at].iter().rfind(|call| call.contains(&of_file)).unwrap();
        assert!(is_sync(last) && last.ends_with("= 0"), "the content is not synced: {last}");
        let of_directory = format!("<{directory}>");
        let next =
            calls[at + 1..].iter().find(|call| call.contains(&of_directory) || call.contains(" rename"));
        let next = next.expect("nothing follows the rename");
        assert!(is_sync(next) && next.contains(&of_directory), "the name is not synced: {next}");
    }
    assert!(renames >= 4, "{calls:#?}");
}

#[test]
fn the_removal_of_a_record_is_durable() {
    let calls = match traced("recent_writes_are_kept_until_their_device_is_removed") {
        Ok(calls) => calls,
        Err(why) => return eprintln!("skipped: {why}"),
    };
    let removed = |call: &&String| call.contains(" unlink(") && call.contains("/wear-");
    let at = calls.iter().position(|call| removed(&call)).expect("no record is removed");
    let path = calls[at].split('"').nth(1).unwrap();
    let directory = format!("<{}>", path.rsplit_once('/').unwrap().0);
    assert!(calls[at + 1..].iter().any(|call| call.contains("sync(") && call.contains(&directory)), "{path}");
}
