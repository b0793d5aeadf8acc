//! A cache device that was put out of service.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Output;

use rustix::process::Signal;

use crate::bad_input::{Loop, refused, unchanged};
use crate::client::{Client, READ, Request, WRITE};
use crate::daemon::{Daemon, KICKCACHE, Spec, VOLUME, guarded};
use crate::rng::Rng;
use crate::scratch::{MIB, Scratch};
use crate::{faulty_disks, need_kickcache, need_tools, skip, tools};

const ORIGIN_BYTES: u64 = 64 * MIB;
/// Longer writes may go around a cache device that is slow.
const UNIT: u64 = 32 << 10;

/// A file system that is too small for its files.
pub(crate) struct Mount {
    place: PathBuf,
    _device: Option<Loop>,
}

impl Mount {
    pub(crate) fn tmpfs(scratch: &Scratch) -> Result<Mount, String> {
        let place = scratch.path("mount");
        fs::create_dir(&place).unwrap();
        let output =
            tools::output("mount", ["-t", "tmpfs", "-o", "size=6M", "tmpfs", place.to_str().unwrap()]);
        Mount::of(&output, place, None)
    }

    fn ext4(scratch: &Scratch) -> Result<Mount, String> {
        let place = scratch.path("mount");
        fs::create_dir(&place).unwrap();
        let image = scratch.sparse("image", 7 * MIB);
        tools::run("mkfs.ext4", ["-F", "-q", image.to_str().unwrap()]);
        let device = Loop::new(&image)?;
        let output = tools::output("mount", [device.path().as_os_str(), place.as_os_str()]);
        Mount::of(&output, place, Some(device))
    }

    fn of(output: &Output, place: PathBuf, device: Option<Loop>) -> Result<Mount, String> {
        match output.status.success() {
            true => Ok(Mount { place, _device: device }),
            false => Err(format!("cannot mount: {}", String::from_utf8_lossy(&output.stderr).trim())),
        }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        tools::output("umount", ["-l".as_ref(), self.place.as_os_str()]);
    }
}

/// A sparse cache file on a file system without space for its blocks, as a thin volume that runs full.
pub(crate) fn thin_cache(scratch: &Scratch, mount: &Mount) -> PathBuf {
    let (whole, thin) = (scratch.path("whole"), mount.place.join("cache"));
    tools::run(KICKCACHE, ["format", whole.to_str().unwrap(), "--size", "48M"]);
    tools::run("cp", ["--sparse=always", whole.to_str().unwrap(), thin.to_str().unwrap()]);
    fs::remove_file(whole).unwrap();
    thin
}

fn content(unit: u64, version: u64) -> Vec<u8> {
    Rng::new(unit << 32 | version).bytes(usize::try_from(UNIT).unwrap())
}

/// The allowed versions of each unit of the volume: several after an error.
struct Model(Vec<Vec<u64>>);

impl Model {
    fn new() -> Model {
        Model(vec![vec![0]; usize::try_from(ORIGIN_BYTES / UNIT).unwrap()])
    }

    fn write(&mut self, client: &mut Client, unit: u64, version: u64) {
        let allowed = &mut self.0[usize::try_from(unit).unwrap()];
        let request =
            Request { command: WRITE, flags: 0, offset: unit * UNIT, length: u32::try_from(UNIT).unwrap() };
        match client.call(request, &content(unit, version)).unwrap().errno {
            0 => *allowed = vec![version],
            _ => allowed.push(version),
        }
    }

    /// Sectors with forbidden content.
    fn stale(&self, read: &mut dyn FnMut(u64) -> Option<Vec<u8>>) -> usize {
        let mut stale = 0;
        for (unit, allowed) in (0_u64..).zip(&self.0) {
            let Some(found) = read(unit) else { continue };
            let versions: Vec<Vec<u8>> = allowed
                .iter()
                .map(|version| if *version == 0 { vec![0; found.len()] } else { content(unit, *version) })
                .collect();
            let sectors = (0..found.len()).step_by(512);
            stale += sectors
                .filter(|at| versions.iter().all(|version| version[*at..at + 512] != found[*at..at + 512]))
                .count();
        }
        stale
    }

    fn stale_served(&self, daemon: &Daemon) -> usize {
        let mut client = daemon.connect();
        self.stale(&mut |unit| {
            let length = u32::try_from(UNIT).unwrap();
            let reply =
                client.call(Request { command: READ, flags: 0, offset: unit * UNIT, length }, &[]).unwrap();
            (reply.errno == 0).then_some(reply.data)
        })
    }

    fn stale_on_origin(&self, origin: &Path) -> usize {
        let file = File::open(origin).unwrap();
        self.stale(&mut |unit| {
            let mut bytes = vec![0; usize::try_from(UNIT).unwrap()];
            file.read_exact_at(&mut bytes, unit * UNIT).unwrap();
            Some(bytes)
        })
    }
}

fn go_out_of_service(daemon: &Daemon, model: &mut Model) {
    let mut client = daemon.connect();
    let mut rng = Rng::new(5);
    let units = ORIGIN_BYTES / UNIT;
    for version in 1..=3000 {
        model.write(&mut client, rng.below(units), version);
        if version % 50 == 0 && is_out(daemon) {
            (0..units / 2).for_each(|unit| model.write(&mut client, unit, 10_000 + unit));
            client.flush();
            return;
        }
    }
    // In modes that do not write to the cache device, fills do.
    for read in 0..4 * units {
        // A long stream is not cached.
        client.read(read * 389 % units * UNIT, u32::try_from(UNIT).unwrap());
        if read % 50 == 0 && is_out(daemon) {
            break;
        }
    }
    (0..units / 2).for_each(|unit| model.write(&mut client, unit, 20_000 + unit));
    client.flush();
}

pub(crate) fn is_out(daemon: &Daemon) -> bool {
    daemon.status()["caches"][0]["health"] == "out-of-service"
}

/// Two lives on the same device.
fn nothing_stale(mode: &'static str, mount: impl Fn(&Scratch) -> Result<Mount, String>) {
    for ends_in_order in [true, false] {
        let scratch = Scratch::new();
        let mounted = match mount(&scratch) {
            Ok(mounted) => mounted,
            Err(why) => skip!("{why}"),
        };
        let origin = scratch.sparse("origin", ORIGIN_BYTES);
        let cache = thin_cache(&scratch, &mounted);
        let extra = ["--admission", "always"].map(Into::into).to_vec();
        let spec = Spec { cache, extra, ..Spec::new(&scratch, &origin, mode, "48M") };
        let (mut model, daemon) = (Model::new(), spec.start());
        go_out_of_service(&daemon, &mut model);
        let was_out = is_out(&daemon);
        assert!(was_out || mode == "bypass", "the cache device is still in service: {}", daemon.status());
        assert_eq!(model.stale_served(&daemon), 0, "in the same life");
        if ends_in_order {
            daemon.drain();
            assert_eq!(model.stale_served(&daemon), 0, "after a drain");
            daemon.stop();
        } else {
            daemon.kill();
        }
        restart(&spec, &model, was_out);
    }
}

fn restart(spec: &Spec, model: &Model, was_out: bool) {
    let before = fs::read_to_string(spec.dir.join("daemon.log")).unwrap().len();
    match spec.try_start() {
        Some(daemon) => {
            assert_eq!(is_out(&daemon), was_out);
            assert_eq!(model.stale_served(&daemon), 0, "after a restart");
            daemon.connect().flush();
            daemon.stop();
            assert_eq!(model.stale_on_origin(&spec.origin), 0, "on the origin");
        }
        None => {
            let said = fs::read_to_string(spec.dir.join("daemon.log")).unwrap();
            assert!(said.contains("--accept-older") && said.contains("--lose-dirty"), "{before}: {said}");
            let mut lost = spec.clone();
            lost.extra.push("--lose-dirty".into());
            lost.start().stop();
            spec.start().stop();
        }
    }
    if was_out {
        again_in_service(spec);
    }
}

/// No data is on the old device only.
fn again_in_service(spec: &Spec) {
    let check = tools::output(KICKCACHE, ["check".as_ref(), spec.cache.as_os_str()]);
    assert_eq!(check.status.code(), Some(7), "{}", String::from_utf8_lossy(&check.stderr));
    fs::remove_file(&spec.cache).unwrap();
    let another = Spec { cache: spec.dir.join("another"), cache_size: "8M", ..spec.clone() };
    let daemon = another.start();
    assert!(!is_out(&daemon));
    daemon.stop();
}

macro_rules! reproduction {
    ($($name:ident $mode:literal $mount:ident),* $(,)?) => {
        $(
            #[test]
            fn $name() {
                need_kickcache!();
                need_tools!("mount", "cp", "mkfs.ext4");
                nothing_stale($mode, Mount::$mount);
            }
        )*
    };
}

reproduction! {
    write_back_on_ext4 "write-back" ext4,
    write_through_on_ext4 "write-through" ext4,
    write_around_on_ext4 "write-around" ext4,
    bypass_on_ext4 "bypass" ext4,
    write_back_on_tmpfs "write-back" tmpfs,
    write_through_on_tmpfs "write-through" tmpfs,
    write_around_on_tmpfs "write-around" tmpfs,
    bypass_on_tmpfs "bypass" tmpfs,
}

/// The marks cannot be written, and declare the device in service: only the record shows the truth.
#[test]
fn a_device_without_a_mark_is_identified_by_its_record() {
    need_kickcache!();
    let scratch = Scratch::new();
    let disks = faulty_disks!(&scratch, 8 * MIB, 16 * MIB);
    let spec = disks.spec(&scratch, "write-through");
    let daemon = spec.start();
    let mut client = daemon.connect();
    client.write(0, &[1; 4096]);
    // Without the drain, the block may still be on record as dirty when the device fails.
    daemon.drain();
    disks.tell("fault cache write eio");
    (1..64).for_each(|block| client.write(block * 131_072, &[1; 4096]));
    assert!(is_out(&daemon));
    client.write(0, &[2; 4096]);
    client.flush();
    drop(client);
    let spec = daemon.kill();
    disks.tell("clear");
    let daemon = spec.start();
    assert!(is_out(&daemon));
    assert_eq!(daemon.connect().read(0, 4096), [2; 4096]);
    daemon.stop();
}

#[test]
fn a_drain_after_the_stop_keeps_newer_writes() {
    need_kickcache!();
    let scratch = Scratch::new();
    let disks = faulty_disks!(&scratch, 8 * MIB, 16 * MIB);
    let spec = disks.spec(&scratch, "write-back");
    let mut daemon = spec.start();
    let mut client = daemon.connect();
    client.write(0, &[1; 8192]);
    client.write(MIB, &[1; 4096]);
    client.flush();
    disks.tell("fault cache read eio");
    disks.tell("fault cache write eio");
    (1..64).for_each(|block| client.write(2 * MIB + block * 131_072, &[3; 4096]));
    assert!(is_out(&daemon));
    client.write(0, &[2; 4096]);
    drop(client);
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.wait().code(), Some(8), "{}", daemon.log());
    let log = daemon.log();
    assert!(log.contains("2 blocks of v (`kickcache drain v --cache"), "{log}");
    assert!(!log.contains("all acknowledged writes are on"), "{log}");
    disks.tell("clear");
    assert!(spec.try_start().is_none());
    let (code, said) = run(&["drain", VOLUME, "--cache", spec.cache.to_str().unwrap(), "--accept-older"]);
    assert!(code == 0 && said.contains("4 KiB left alone"), "{code}: {said}");
    let origin = fs::read(&spec.origin).unwrap();
    assert!(origin[..4096] == [2; 4096], "an older block was written over a newer one");
    assert!(origin[4096..8192] == [1; 4096] && origin[1 << 20..][..4096] == [1; 4096]);
}

const MARKS: [u64; 2] = [16_384, 540_672];

/// A stopped write-back cache with ten dirty blocks and one destroyed mark: it counts as out of service.
fn marked(scratch: &Scratch) -> Spec {
    let spec = Spec::new(scratch, &scratch.sparse("origin", 8 * MIB), "write-back", "8M");
    let daemon = spec.start();
    let mut client = daemon.connect();
    client.write(0, &[1; 65536]);
    client.flush();
    daemon.drain();
    client.write(MIB, &[2; 10 * 4096]);
    client.flush();
    drop(client);
    let spec = daemon.stop();
    let file = File::options().write(true).open(&spec.cache).unwrap();
    file.write_all_at(&[0x5a; 100], MARKS[1] + 20).unwrap();
    spec
}

fn run(arguments: &[&str]) -> (i32, String) {
    let output = tools::output(KICKCACHE, arguments);
    let said = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap(), String::from_utf8_lossy(&said).into_owned())
}

#[test]
fn a_device_with_one_mark_keeps_its_dirty_blocks() {
    need_kickcache!();
    let scratch = Scratch::new();
    let spec = marked(&scratch);
    let cache = spec.cache.to_str().unwrap();
    let (code, said) = run(&["check", cache]);
    assert!(code == 7 && said.contains("out of service"), "{code}: {said}");
    let (_, said) = run(&["inspect", cache]);
    assert!(said.contains("out of service") && said.contains("v may have"), "{said}");
    for arguments in [
        spec.arguments(),
        ["drain", VOLUME, "--cache", cache].map(Into::into).to_vec(),
        ["detach", cache, VOLUME, "--lose-dirty"].map(Into::into).to_vec(),
        ["format", cache].map(Into::into).to_vec(),
        ["check", cache, "--repair"].map(Into::into).to_vec(),
    ] {
        let said = unchanged("a device out of service", &[&spec.cache, &spec.origin], || {
            refused("a device out of service", &arguments)
        });
        assert!(said.contains("out of service"), "{arguments:?}: {said}");
    }
    let said = refused("a device out of service", &spec.arguments());
    assert!(said.contains("10 dirty blocks (byte offset + length: 1048576 + 40960)"), "{said}");
    let (code, said) = run(&["drain", VOLUME, "--cache", cache, "--accept-older"]);
    assert_eq!(code, 0, "{said}");
    check_needless(cache);
    let origin = fs::read(&spec.origin).unwrap();
    assert!(origin[..65536] == [1; 65536] && origin[1 << 20..][..40960] == [2; 40960]);
    let daemon = spec.start();
    assert!(is_out(&daemon));
    assert!(daemon.log().contains("kickcache format"), "{}", daemon.log());
    assert_eq!(daemon.status()["caches"][0]["record"], "earlier");
    let page = daemon.control(&["status"]);
    assert!(page.contains("out of service: ") && !page.contains("left out"), "{page}");
    assert!(page.contains("it failed before the start") && page.contains("`kickcache stop"), "{page}");
    daemon.connect().write(MIB, &[3; 4096]);
    daemon.stop();
    let daemon = spec.start();
    assert_eq!(daemon.connect().read(MIB, 4096), [3; 4096]);
    daemon.stop();
    let (code, said) = run(&["format", cache]);
    assert_eq!(code, 0, "{said}");
    let daemon = spec.start();
    assert!(!is_out(&daemon));
    assert_eq!(daemon.connect().read(MIB, 4096), [3; 4096]);
    daemon.stop();
}

#[test]
fn out_of_service_dirty_blocks_are_lost_by_order() {
    need_kickcache!();
    let scratch = Scratch::new();
    let spec = marked(&scratch);
    let mut losing = spec.clone();
    losing.extra.push("--lose-dirty".into());
    let daemon = losing.start();
    assert!(
        daemon.log().contains("10 dirty blocks (byte offset + length: 1048576 + 40960) of v are LOST"),
        "{}",
        daemon.log()
    );
    assert_eq!(daemon.connect().read(MIB, 4096), [0; 4096]);
    daemon.stop();
    check_needless(spec.cache.to_str().unwrap());
    spec.start().stop();
}

fn check_needless(cache: &str) {
    let (code, said) = run(&["inspect", cache]);
    assert!(
        code == 7 && said.contains("40 KiB of v that were dirty were written back since"),
        "{code}: {said}"
    );
    assert!(!said.contains("dirty in v"), "{said}");
    let (_, said) = run(&["inspect", cache, "--json"]);
    assert!(said.contains("\"dirty_bytes\": 0") && said.contains("\"needless_bytes\": 40960"), "{said}");
    let (code, said) = run(&["check", cache]);
    assert!(
        code == 7 && said.contains("40 KiB of v that were dirty were written back since"),
        "{code}: {said}"
    );
    let (_, said) = run(&["check", cache, "--json"]);
    assert!(said.contains("\"dirty_blocks\": 0") && said.contains("\"needless_blocks\": 10"), "{said}");
    let damaged = fs::read(cache).unwrap();
    let at = damaged.windows(4096).position(|block| block == [2; 4096]).unwrap();
    let file = File::options().write(true).open(cache).unwrap();
    file.write_all_at(&[3; 4096], at as u64).unwrap();
    let (code, said) = run(&["check", cache]);
    assert!(code == 7 && !said.contains("LOST: "), "{code}: {said}");
    file.write_all_at(&[2; 4096], at as u64).unwrap();
}

#[test]
fn an_unreadable_out_of_service_device_is_identified_by_origin() {
    need_kickcache!();
    let scratch = Scratch::new();
    let spec = marked(&scratch);
    let mut losing = spec.clone();
    losing.extra.push("--lose-dirty".into());
    losing.start().stop();
    for at in [0, 512 << 10] {
        let file = File::options().write(true).open(&spec.cache).unwrap();
        file.write_all_at(&[0x5a; 8192], at + 100).unwrap();
    }
    let daemon = spec.start();
    assert!(is_out(&daemon));
    daemon.stop();
}

#[test]
fn a_complete_volume_is_served_next_to_an_incomplete_one() {
    need_kickcache!();
    let scratch = Scratch::new();
    let spec = Spec::new(&scratch, &scratch.sparse("one", 8 * MIB), "write-back", "8M");
    scratch.sparse("two", 8 * MIB);
    let socket = |name: &str| scratch.path(&format!("{name}.sock"));
    let mut config = format!(
        "control = \"{}\"\n[[cache]]\ndevice = \"{}\"\nsize = \"8M\"\n",
        spec.control().display(),
        spec.cache.display()
    );
    for (name, mode) in [("one", "write-back"), ("two", "write-through")] {
        config += &format!("[[cache.volume]]\nname = \"{name}\"\nmode = \"{mode}\"\nidle-after = \"24h\"\n");
        config += &format!("origin = \"{}\"\n", scratch.path(name).display());
        config += &format!("nbd = [\"unix:{}\"]\n", socket(name).display());
    }
    fs::write(scratch.path("config.toml"), config).unwrap();
    let start = |sockets: &[PathBuf]| {
        let arguments = vec!["serve".into(), "--config".into(), scratch.path("config.toml").into()];
        Daemon::start(guarded(KICKCACHE, arguments), spec.clone(), sockets)
    };
    let daemon = start(&[socket("one"), socket("two")]);
    for name in ["one", "two"] {
        let mut client = Client::connect(&socket(name), name).unwrap();
        client.write(MIB, &[5; 65536]);
        client.flush();
    }
    daemon.control(&["drain", "two", "--wait"]);
    daemon.stop();
    let file = File::options().write(true).open(&spec.cache).unwrap();
    file.write_all_at(&[0x5a; 100], MARKS[0] + 20).unwrap();
    let daemon = start(&[socket("two")]);
    assert!(daemon.log().contains("volume one is not served: 16 dirty blocks"), "{}", daemon.log());
    assert!(!socket("one").exists(), "the volume that needs the device is served");
    let mut client = Client::connect(&socket("two"), "two").unwrap();
    assert_eq!(client.read(MIB, 65536), [5; 65536]);
    drop(client);
    daemon.stop();
    tools::run(KICKCACHE, ["drain", "one", "--cache", spec.cache.to_str().unwrap(), "--accept-older"]);
    let daemon = start(&[socket("one"), socket("two")]);
    assert_eq!(Client::connect(&socket("one"), "one").unwrap().read(MIB, 65536), [5; 65536]);
    daemon.stop();
}

/// In both superblock copies.
fn set_version(cache: &Path, version: u32) {
    let file = File::options().read(true).write(true).open(cache).unwrap();
    for at in [0, 512 << 10] {
        let mut bytes = vec![0; 16_384];
        file.read_exact_at(&mut bytes, at).unwrap();
        bytes[12..16].copy_from_slice(&version.to_le_bytes());
        bytes[8..12].fill(0);
        let sum = crc32c(&bytes);
        bytes[8..12].copy_from_slice(&sum.to_le_bytes());
        file.write_all_at(&bytes, at).unwrap();
    }
}

fn version(cache: &Path) -> [u32; 2] {
    [0, 512 << 10].map(|at| {
        let mut bytes = [0; 4];
        File::open(cache).unwrap().read_exact_at(&mut bytes, at + 12).unwrap();
        u32::from_le_bytes(bytes)
    })
}

pub(crate) fn crc32c(bytes: &[u8]) -> u32 {
    let step = |sum: u32, _| (sum >> 1) ^ (0x82f6_3b78 & (sum & 1).wrapping_neg());
    !bytes.iter().fold(!0, |sum, byte| (0..8).fold(sum ^ u32::from(*byte), step))
}

#[test]
fn a_device_of_the_previous_version_keeps_all_its_blocks() {
    need_kickcache!();
    let scratch = Scratch::new();
    let spec = Spec::new(&scratch, &scratch.sparse("origin", 8 * MIB), "write-back", "8M");
    let daemon = spec.start();
    daemon.connect().write(MIB, &[2; 40960]);
    daemon.stop();
    let file = File::options().write(true).open(&spec.cache).unwrap();
    MARKS.iter().for_each(|at| file.write_all_at(&[0; 4096], *at).unwrap());
    set_version(&spec.cache, 1);
    unchanged("looking", &[&spec.cache], || {
        assert_eq!(run(&["check", spec.cache.to_str().unwrap()]).0, 0);
    });
    let daemon = spec.start();
    assert!(!is_out(&daemon));
    assert_eq!(daemon.connect().read(MIB, 40960), [2; 40960]);
    daemon.stop();
    assert_eq!(version(&spec.cache), [2, 2]);
    assert_eq!(run(&["check", spec.cache.to_str().unwrap()]).0, 0, "it has no marks");
    let daemon = spec.start();
    assert!(!is_out(&daemon));
    daemon.stop();
    set_version(&spec.cache, 5);
    let said = unchanged("a later version", &[&spec.cache], || refused("a later version", &spec.arguments()));
    assert!(said.contains("format version 5"), "{said}");
}
