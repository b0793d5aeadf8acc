//! Copies of a cache device, such as a restored snapshot.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::bad_input::{refused, unchanged};
use crate::daemon::{KICKCACHE, Spec, VOLUME};
use crate::damaged_notes::note;
use crate::out_of_service::crc32c;
use crate::pair::{NAMES, Pair};
use crate::scratch::{MIB, Scratch};
use crate::{faulty_disks, need_kickcache, tools};

const BLOCK: usize = 4096;

fn spec(scratch: &Scratch) -> Spec {
    let extra = ["--admission", "always"].map(Into::into).to_vec();
    Spec { extra, ..Spec::new(scratch, &scratch.sparse("origin", 16 * MIB), "write-back", "8M") }
}

fn write(spec: &Spec, byte: u8) {
    let daemon = spec.start();
    daemon.connect().write(0, &[byte; 16 * BLOCK]);
    daemon.stop();
}

fn reads(spec: &Spec, byte: u8) {
    let daemon = spec.start();
    assert_eq!(daemon.connect().read(0, 65536), [byte; 65536]);
    daemon.stop();
}

/// A cache device with dirty blocks of ones was copied, and has blocks of twos since, on the origin as well
/// if they were drained.
fn copied(scratch: &Scratch, is_drained: bool) -> (Spec, PathBuf) {
    let spec = spec(scratch);
    write(&spec, 1);
    let copy = scratch.path("copy");
    fs::copy(&spec.cache, &copy).unwrap();
    write(&spec, 2);
    if is_drained {
        tools::run(KICKCACHE, ["drain", "--cache", spec.cache.to_str().unwrap()]);
    }
    (spec, copy)
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn and(spec: &Spec, more: &[&str]) -> Vec<OsString> {
    let mut arguments = spec.arguments();
    arguments.extend(more.iter().map(Into::into));
    arguments
}

/// Start numbers of both copies of the superblock.
fn starts(cache: &Path) -> [u64; 2] {
    [0, 512 << 10].map(|at| {
        let mut bytes = [0; 8];
        File::open(cache).unwrap().read_exact_at(&mut bytes, at + 72).unwrap();
        u64::from_le_bytes(bytes)
    })
}

fn set_starts(cache: &Path, starts: u64) {
    let file = File::options().read(true).write(true).open(cache).unwrap();
    for at in [0, 512 << 10] {
        let mut bytes = vec![0; 16_384];
        file.read_exact_at(&mut bytes, at).unwrap();
        bytes[72..80].copy_from_slice(&starts.to_le_bytes());
        bytes[8..12].fill(0);
        let sum = crc32c(&bytes);
        bytes[8..12].copy_from_slice(&sum.to_le_bytes());
        file.write_all_at(&bytes, at).unwrap();
    }
}

fn noted() -> u64 {
    let record: Value = serde_json::from_slice(&fs::read(note("cache-")).unwrap()).unwrap();
    record["starts"].as_u64().unwrap()
}

/// Commands that only read the device report that it is an older copy.
fn is_told(cache: &Path, (found, noted): (u64, u64)) {
    let run = |arguments: &[&str]| {
        let output = tools::output(KICKCACHE, [arguments, &[text(cache)]].concat());
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    for (command, wanted) in [("check", 7), ("inspect", 7)] {
        let (code, said) = run(&[command]);
        assert!(code == Some(wanted) && said.contains("older copy"), "{command}: {code:?}: {said}");
        let (code, said) = run(&[command, "--json"]);
        let told: Value = serde_json::from_str(&said).unwrap();
        assert_eq!((code, &told["older_copy"]["found"]), (Some(wanted), &found.into()), "{said}");
        assert_eq!(told["older_copy"]["noted"], noted, "{said}");
    }
}

#[test]
fn an_older_copy_is_refused_and_the_newer_one_continues() {
    need_kickcache!();
    for is_drained in [true, false] {
        let scratch = Scratch::new();
        let (spec, copy) = copied(&scratch, is_drained);
        let newer = scratch.path("newer");
        fs::rename(&spec.cache, &newer).unwrap();
        fs::rename(&copy, &spec.cache).unwrap();
        let (old, new) = (starts(&spec.cache)[0], noted());
        assert!(old < new && starts(&newer) == [new; 2], "{old} {new}");
        let numbers = format!("its last start has number {old}, and number {new} is recorded");
        let drain: Vec<OsString> = ["drain", VOLUME, "--cache", text(&spec.cache)].map(Into::into).to_vec();
        let cases = [
            spec.arguments(),
            and(&spec, &["--new-cache"]),
            and(&spec, &["--lose-dirty"]),
            and(&spec, &["--without-cache"]),
            drain,
        ];
        for arguments in cases {
            let said = unchanged("an older copy", &[&spec.cache, &spec.origin, &note("origin-")], || {
                refused("an older copy", &arguments)
            });
            for part in [&numbers, "older copy", "--accept-older", "format --force", text(&note("cache-"))] {
                assert!(said.contains(part), "{arguments:?}: no `{part}`: {said}");
            }
        }
        is_told(&spec.cache, (old, new));
        let detach = ["detach", text(&spec.cache), VOLUME].map(OsString::from);
        let said = refused("a detach", &detach);
        assert!(said.contains("16 blocks of v are dirty") && said.contains("older copy"), "{said}");
        let said = tools::run(KICKCACHE, ["detach", text(&spec.cache), VOLUME, "--lose-dirty"]);
        assert!(said.contains("older copy"), "{said}");
        assert!(refused("an older copy", &spec.arguments()).contains("older copy"));
        fs::rename(&newer, &spec.cache).unwrap();
        reads(&spec, 2);
    }
}

#[test]
fn an_older_copy_is_drained_by_order_and_formatted() {
    need_kickcache!();
    let scratch = Scratch::new();
    let (spec, copy) = copied(&scratch, true);
    assert_eq!(fs::read(&spec.origin).unwrap()[..16 * BLOCK], [2; 16 * BLOCK]);
    fs::copy(&copy, &spec.cache).unwrap();
    tools::run(KICKCACHE, ["drain", "--cache", text(&spec.cache), "--accept-older"]);
    assert_eq!(fs::read(&spec.origin).unwrap()[..16 * BLOCK], [1; 16 * BLOCK]);
    assert!(refused("an older copy", &spec.arguments()).contains("older copy"));
    tools::run(KICKCACHE, ["format", text(&spec.cache), "--force"]);
    reads(&spec, 1);
}

#[test]
fn a_copy_of_a_device_formatted_since_is_refused() {
    need_kickcache!();
    let scratch = Scratch::new();
    let spec = spec(&scratch);
    write(&spec, 1);
    let copy = scratch.path("copy");
    fs::copy(&spec.cache, &copy).unwrap();
    tools::run(KICKCACHE, ["drain", "--cache", text(&spec.cache)]);
    tools::run(KICKCACHE, ["format", text(&spec.cache), "--force"]);
    fs::rename(&copy, &spec.cache).unwrap();
    assert!(refused("a copy", &spec.arguments()).contains("older copy"));
}

#[test]
fn formatting_an_older_copy_leaves_the_newer_one_noted() {
    need_kickcache!();
    let scratch = Scratch::new();
    let (spec, copy) = copied(&scratch, false);
    tools::run(KICKCACHE, ["format", text(&copy), "--force"]);
    let other = Spec { cache: copy, ..spec.clone() };
    let said = refused("a new cache", &other.arguments());
    assert!(said.contains("--new-cache") && said.contains(text(&spec.cache)), "{said}");
    reads(&spec, 2);
}

/// The number on the device is raised first, so that a crash before the record causes no refusal.
#[test]
fn a_device_with_a_higher_number_or_none_is_taken() {
    need_kickcache!();
    let scratch = Scratch::new();
    let spec = spec(&scratch);
    write(&spec, 1);
    let before = fs::read(note("cache-")).unwrap();
    reads(&spec, 1);
    fs::write(note("cache-"), before).unwrap();
    assert!(starts(&spec.cache)[0] > noted());
    reads(&spec, 1);
    fs::remove_file(note("cache-")).unwrap();
    reads(&spec, 1);
    let live = std::os::unix::net::UnixListener::bind(spec.socket()).unwrap();
    refused("a live socket", &spec.arguments());
    drop(live);
    reads(&spec, 1);
    let last = noted();
    assert_eq!(starts(&spec.cache), [last; 2]);
    // An earlier program leaves no number of starts in a superblock that it changes.
    let copy = scratch.path("copy");
    fs::copy(&spec.cache, &copy).unwrap();
    set_starts(&spec.cache, 0);
    reads(&spec, 1);
    assert_eq!((starts(&spec.cache), noted()), ([last + 1; 2], last + 1));
    fs::rename(&copy, &spec.cache).unwrap();
    assert!(refused("an older copy", &spec.arguments()).contains("older copy"));
}

#[test]
fn an_older_copy_does_not_stop_other_cache_devices() {
    need_kickcache!();
    let scratch = Scratch::new();
    let pair = Pair::new(&scratch, "write-back");
    let devices = NAMES.map(|name| scratch.path(&format!("cache of {name}")));
    let caches = [0, 1].map(|at: usize| {
        let volume = pair.volume(NAMES[at]);
        format!("[[cache]]\ndevice = \"{}\"\nsize = \"8M\"\n{volume}", devices[at].display())
    });
    pair.configure(&caches.concat());
    pair.start(&[], &NAMES).stop();
    let copy = scratch.path("copy");
    fs::copy(&devices[0], &copy).unwrap();
    pair.start(&[], &NAMES).stop();
    fs::rename(&copy, &devices[0]).unwrap();
    let daemon = pair.start(&[], &["two"]);
    assert!(daemon.log().contains("volume one is not served: "), "{}", daemon.log());
    daemon.stop();
}

#[test]
fn a_device_that_takes_no_writes_is_drained_and_served() {
    need_kickcache!();
    for command in ["drain", "serve"] {
        let scratch = Scratch::new();
        let disks = faulty_disks!(&scratch, 8 * MIB, 16 * MIB);
        let spec = disks.spec(&scratch, "write-back");
        disks.tell("fault origin write eio");
        write(&spec, 1);
        let counted = noted();
        disks.tell("clear");
        disks.tell("fault cache write eio");
        if command == "drain" {
            tools::run(KICKCACHE, ["drain", "--cache", text(&spec.cache)]);
        } else {
            let daemon = spec.start();
            assert!(daemon.log().contains("its number cannot be written"), "{}", daemon.log());
            assert_eq!(daemon.connect().read(0, 65536), [1; 65536]);
            daemon.drain();
            daemon.stop();
        }
        assert_eq!(fs::read(&spec.origin).unwrap()[..65536], [1; 65536]);
        assert_eq!(noted(), counted);
        disks.tell("clear");
        reads(&spec, 1);
    }
}

/// The arguments of a daemon for a cache device and another path of one, each with a volume.
fn with_another(scratch: &Scratch, spec: &Spec, path: &Path) -> [OsString; 3] {
    let other = scratch.sparse("other", 16 * MIB);
    let mut text = format!("control = \"{}\"\n", spec.control().display());
    for (cache, name, origin) in [(spec.cache.as_path(), VOLUME, &spec.origin), (path, "w", &other)] {
        let volume = format!(
            "[[cache.volume]]\nname = \"{name}\"\nidle-after = \"24h\"\norigin = \"{}\"\n",
            origin.display()
        );
        let nbd = format!("nbd = [\"unix:{}\"]\n", scratch.path(name).display());
        text += &format!("[[cache]]\ndevice = \"{}\"\n{volume}{nbd}", cache.display());
    }
    let file = scratch.path("both.toml");
    fs::write(&file, text).unwrap();
    ["serve".into(), "--config".into(), file.into()]
}

#[test]
fn two_equal_copies_are_not_served_side_by_side() {
    need_kickcache!();
    let scratch = Scratch::new();
    let spec = spec(&scratch).start().stop();
    let copy = scratch.path("copy");
    fs::copy(&spec.cache, &copy).unwrap();
    let arguments = with_another(&scratch, &spec, &copy);
    let said = unchanged("a copy", &[&spec.cache, &copy], || refused("a copy", &arguments));
    assert!(said.contains("is a copy of the cache device") && !said.contains("older"), "{said}");
    spec.start().stop();
}

#[test]
fn one_cache_device_under_two_names_is_refused_at_once() {
    need_kickcache!();
    let scratch = Scratch::new();
    let spec = spec(&scratch).start().stop();
    let link = scratch.path("link");
    std::os::unix::fs::symlink(&spec.cache, &link).unwrap();
    let arguments = with_another(&scratch, &spec, &link);
    let said = unchanged("twice", &[&spec.cache], || refused("twice", &arguments));
    for part in ["is named twice", spec.cache.to_str().unwrap(), link.to_str().unwrap()] {
        assert!(said.contains(part) && !said.contains("another process"), "{said}");
    }
}
