use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Command;

use kickcache_engine::format::mark::{MARK_OFFSETS, ServiceMark};
use kickcache_engine::format::superblock::SUPERBLOCK_OFFSETS;
use kickcache_engine::units::VolumeSet;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

use super::*;
use crate::devices::cache_device::examination::shorten_again;
use crate::driver::device::identity::{OlderIdentity, Strength};
use crate::driver::device::{AccessMode, BlockFile, Emptiness};
use crate::log::logged::logged;
use crate::plan::origin_claims::OriginClaims;

fn path(directory: &tempfile::TempDir) -> PathBuf {
    directory.path().join("cache")
}

fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in("/var/tmp").unwrap()
}

fn origin<'a>(name: &'a str, size: u64, identity: &'a str) -> OriginFacts<'a> {
    OriginFacts {
        name,
        size,
        identity,
        older: &[],
        claims: OriginClaims::default(),
        state: &StatePlace::NotKept,
    }
}

fn refusal(result: Result<CacheDevice, ServeError>) -> String {
    result.err().expect("this must be refused").to_string()
}

const SIZE: Option<u64> = Some(16 << 20);

#[test]
fn a_new_file_is_formatted_and_known_again() {
    let directory = directory();
    let made = CacheDevice::open(&path(&directory), SIZE).unwrap();
    assert!(made.is_new);
    let superblock = made.superblock.clone();
    drop(made);
    let again = CacheDevice::open(&path(&directory), SIZE).unwrap();
    assert!(!again.is_new);
    assert_eq!(again.superblock, superblock);
    drop(again);
    assert_eq!(CacheDevice::existing(&path(&directory)).unwrap().superblock, superblock);
}

#[test]
fn a_new_file_needs_a_sensible_size() {
    let directory = directory();
    assert!(refusal(CacheDevice::open(&path(&directory), None)).contains("--size"));
    assert!(refusal(CacheDevice::open(&path(&directory), Some(4096))).contains("4096"));
    assert!(refusal(CacheDevice::open(&path(&directory), Some(u64::MAX))).contains("needs"));
    assert!(!path(&directory).exists(), "a refused file is not left behind");
}

#[test]
fn the_backing_file_of_a_loop_device_is_never_formatted() {
    let directory = directory();
    let path = path(&directory);
    std::fs::write(&path, vec![0; 16 << 20]).unwrap();
    let made = Command::new("losetup").args(["--show", "-f"]).arg(&path).output();
    let Some(made) = made.ok().filter(|made| made.status.success()) else {
        return eprintln!("skipped: loop devices cannot be made here (not root?)");
    };
    let device = PathBuf::from(String::from_utf8(made.stdout).unwrap().trim());
    let said = [
        refusal(CacheDevice::open(&path, None)),
        refusal(CacheDevice::format(&path, None, Overwrite::Refuse)),
        refusal(CacheDevice::format(&path, None, Overwrite::Allow)),
    ];
    let detached = Command::new("losetup").arg("-d").arg(&device).status();
    assert!(detached.unwrap().success());
    let wanted = format!("the device {} is on top of it; detach that first", device.display());
    assert!(said.iter().all(|said| said.contains(&wanted)), "{said:?}");
    assert!(std::fs::read(&path).unwrap().iter().all(|byte| *byte == 0), "nothing was written");
}

#[test]
fn foreign_data_is_never_formatted() {
    let directory = directory();
    for place in [0_u64, 1024, 700_000, (16 << 20) - 512] {
        let file = File::create(path(&directory)).unwrap();
        file.set_len(16 << 20).unwrap();
        file.write_all_at(b"precious", place).unwrap();
        drop(file);
        let before = std::fs::read(path(&directory)).unwrap();
        let refused = refusal(CacheDevice::open(&path(&directory), SIZE));
        assert!(refused.contains("not a kickcache cache"), "{place}: {refused}");
        let forced = CacheDevice::format(&path(&directory), SIZE, Overwrite::Refuse);
        assert!(refusal(forced).contains("it holds "), "{place}");
        assert!(std::fs::read(path(&directory)).unwrap() == before, "{place}");
    }
}

#[test]
fn a_file_that_cannot_be_shortened_again_is_reported() {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = File::from(memfd_create("cache", flags).unwrap());
    file.set_len(2 << 20).unwrap();
    let opened = BlockFile::open(
        &PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd())),
        AccessMode::ReadWrite,
        Emptiness::Refused,
    )
    .unwrap();
    assert_eq!(logged(|| shorten_again(&opened, 1 << 20)), "");
    assert_eq!(file.metadata().unwrap().len(), 1 << 20);
    fcntl_add_seals(&file, SealFlags::SHRINK).unwrap();
    let said = logged(|| shorten_again(&opened, 1 << 19));
    assert!(said.contains("cannot be shortened to its 524288 bytes again"), "{said}");
}

#[test]
fn an_interrupted_format_of_a_file_can_be_repeated() {
    for count in [1, 2] {
        let directory = directory();
        let file = File::create(path(&directory)).unwrap();
        file.set_len(16 << 20).unwrap();
        let mark = ServiceMark::InService.encode([7; 16]);
        for offset in &MARK_OFFSETS[..count] {
            file.write_all_at(&mark, *offset).unwrap();
        }
        assert!(CacheDevice::open(&path(&directory), SIZE).unwrap().is_new);
        // Remains of a device that went out of service.
        let out = ServiceMark::OutOfService { incomplete: VolumeSet::default() }.encode([7; 16]);
        file.write_all_at(&vec![0; 1 << 20], 0).unwrap();
        file.write_all_at(&out, MARK_OFFSETS[0]).unwrap();
        let refused = refusal(CacheDevice::open(&path(&directory), SIZE));
        assert!(refused.contains("not a kickcache cache"), "{refused}");
    }
}

#[test]
fn a_forced_format_wins_over_the_old_superblock() {
    let directory = directory();
    let mut old = CacheDevice::open(&path(&directory), SIZE).unwrap();
    old.attach(origin("a", 4096, "file:/a")).unwrap();
    old.store().unwrap();
    drop(old);
    let refused = CacheDevice::format(&path(&directory), None, Overwrite::Refuse);
    assert!(refusal(refused).contains("already"));
    let new = CacheDevice::format(&path(&directory), None, Overwrite::Allow).unwrap().superblock;
    let found = CacheDevice::open(&path(&directory), None).unwrap().superblock;
    assert_eq!(found, new);
    assert!(found.volumes.is_empty());
}

#[test]
fn origins_are_recognised() {
    let directory = directory();
    let mut device = CacheDevice::open(&path(&directory), SIZE).unwrap();
    let id = device.attach(origin("a", 8192, "file:/a")).unwrap();
    device.store().unwrap();
    drop(device);
    let mut device = CacheDevice::open(&path(&directory), SIZE).unwrap();
    assert_eq!(device.attach(origin("a", 8192, "file:/a")).unwrap(), id);
    let state = StatePlace::Directory("/srv/notes".into());
    let shrunk = device.attach(OriginFacts { state: &state, ..origin("a", 4096, "file:/a") });
    let shrunk = shrunk.unwrap_err().to_string();
    assert!(shrunk.contains("4096") && shrunk.contains("8192"), "{shrunk}");
    assert!(shrunk.contains(" a --state /srv/notes, then serve"), "{shrunk}");
    let moved = device.attach(origin("a", 8192, "file:/b")).unwrap_err().to_string();
    assert!(moved.contains("file:/a") && moved.contains("--origin-moved"), "{moved}");
    let renamed = device.attach(origin("b", 8192, "file:/a")).unwrap_err().to_string();
    assert!(renamed.contains("belongs to the volume a"), "{renamed}");
    let told = OriginFacts {
        claims: OriginClaims { moved: true, ..OriginClaims::default() },
        ..origin("a", 8192, "file:/b")
    };
    assert_eq!(device.attach(told).unwrap(), id);
    device.store().unwrap();
    assert_eq!(device.superblock.volume("a").unwrap().origin_identity, "file:/b");
    let long = format!("file:/{}", "x".repeat(511));
    let long = OriginFacts { identity: &long, ..told };
    assert!(device.attach(long).unwrap_err().to_string().contains("longer than 511 bytes"));
}

#[test]
fn an_extended_origin_is_taken_with_its_claim() {
    let directory = directory();
    let mut device = CacheDevice::open(&path(&directory), SIZE).unwrap();
    device.attach(origin("a", 8192, "file:/a")).unwrap();
    let larger = origin("a", 16_384, "file:/a");
    let refused = device.attach(larger).unwrap_err().to_string();
    assert!(refused.contains("16384 bytes, and had 8192") && refused.contains("--origin-grown"), "{refused}");
    assert_eq!(device.superblock.volume("a").unwrap().origin_size, 8192);
    let claims = OriginClaims { grown: true, ..OriginClaims::default() };
    device.attach(OriginFacts { claims, ..larger }).unwrap();
    assert_eq!(device.superblock.volume("a").unwrap().origin_size, 16_384);
    let smaller = OriginFacts { claims, ..origin("a", 8192, "file:/a") };
    let refused = device.attach(smaller).unwrap_err().to_string();
    assert!(refused.contains("restore its size"), "{refused}");
    // The claim of another extent does not extend it.
    device.attach(OriginFacts { claims, ..larger }).unwrap();
    assert_eq!(device.superblock.volume("a").unwrap().origin_size, 16_384);
}

#[test]
fn origins_are_recognised_by_identities_of_older_versions() {
    let directory = directory();
    let mut device = CacheDevice::open(&path(&directory), SIZE).unwrap();
    let id = device.attach(origin("a", 8192, "block:/dev/sdb")).unwrap();
    let older = [OlderIdentity { identity: "block:/dev/sdb".into(), strength: Strength::Weak }];
    let present = OriginFacts { older: &older, ..origin("a", 8192, "disk:serial:1") };
    let other = device.attach(OriginFacts { name: "b", ..present }).unwrap_err().to_string();
    assert!(other.contains("belongs to the volume a"), "{other}");
    let claims = OriginClaims { moved: true, ..OriginClaims::default() };
    let confirmed = device.attach(OriginFacts { name: "b", claims, ..present }).unwrap();
    assert_ne!(confirmed, id, "the kernel's name was another disk's");
    device.superblock.volumes.retain(|record| record.id == id);
    assert_eq!(device.attach(present).unwrap(), id);
    assert_eq!(device.superblock.volume("a").unwrap().origin_identity, "disk:serial:1");
}

#[test]
fn one_damaged_copy_does_no_harm() {
    let directory = directory();
    for copy in SUPERBLOCK_OFFSETS {
        let mut device = CacheDevice::format(&path(&directory), SIZE, Overwrite::Allow).unwrap();
        device.attach(origin("a", 8192, "file:/a")).unwrap();
        device.store().unwrap();
        let expected = device.superblock.clone();
        drop(device);
        let file = OpenOptions::new().write(true).open(path(&directory)).unwrap();
        file.write_all_at(&[0xff; 100], copy + 40).unwrap();
        drop(file);
        assert_eq!(CacheDevice::open(&path(&directory), SIZE).unwrap().superblock, expected);
    }
}
