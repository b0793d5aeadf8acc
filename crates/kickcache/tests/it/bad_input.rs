//! Unusable files and superblocks are refused with one sentence.

use std::ffi::OsString;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Output;

use rustix::process::Signal;

use crate::client::{READ, Request};
use crate::daemon::{Daemon, KICKCACHE, Spec, guarded, unix_address};
use crate::rng::Rng;
use crate::scratch::{MIB, Scratch, flip_byte};
use crate::{need_kickcache, skip, tools};

/// Of `timeout`.
const TIMED_OUT: i32 = 124;

fn run(arguments: &[OsString]) -> Output {
    let mut all: Vec<OsString> = ["-k", "1", "100", KICKCACHE].map(OsString::from).to_vec();
    all.extend_from_slice(arguments);
    tools::output("timeout", all)
}

/// The program must refuse with a sentence; returns its standard error.
pub(crate) fn refused(what: &str, arguments: &[OsString]) -> String {
    let output = run(arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_ne!(output.status.code(), Some(TIMED_OUT), "{what} was accepted: {said}");
    assert!(output.status.code().is_some_and(|code| code != 0), "{what}: {}: {said}", output.status);
    assert!(!said.contains("panicked at"), "{what}: {said}");
    assert!(said.trim().len() > 20, "{what} is refused without a sentence: {said:?}");
    said
}

/// The bytes of the files must be the same after `act`.
pub(crate) fn unchanged<T>(what: &str, paths: &[&Path], act: impl FnOnce() -> T) -> T {
    let read = || paths.iter().map(|path| fs::read(path).unwrap()).collect::<Vec<_>>();
    let before = read();
    let result = act();
    assert!(read() == before, "{what}: a file was changed");
    result
}

pub(crate) struct Place {
    pub(crate) scratch: Scratch,
    pub(crate) spec: Spec,
}

impl Place {
    pub(crate) fn new() -> Place {
        let scratch = Scratch::new();
        let origin = scratch.random("origin", 16 * MIB, 1);
        let spec = Spec::new(&scratch, &origin, "write-back", "16M");
        Place { scratch, spec }
    }

    /// A place with a formatted cache that has some clean and some dirty blocks.
    fn used() -> Place {
        let place = Place::new();
        let daemon = place.spec.start();
        let mut client = daemon.connect();
        client.read(MIB, 65536);
        client.write(2 * MIB, &[7; 65536]);
        client.flush();
        daemon.kill();
        // Writes in flight complete before io_uring releases the file and its lock.
        tools::run("flock", ["-w", "20", place.spec.cache.to_str().unwrap(), "true"]);
        place
    }

    fn refused(&self, what: &str) -> String {
        unchanged(what, &[&self.spec.origin], || refused(what, &self.spec.arguments()))
    }

    /// As [`Place::refused`], and the cache stays as it is.
    fn refused_cache(&self, what: &str) -> String {
        unchanged(what, &[&self.spec.cache], || self.refused(what))
    }
}

#[test]
fn files_that_are_no_cache_are_refused_and_kept() {
    need_kickcache!();
    let mut rng = Rng::new(3);
    let random = rng.bytes(16 << 20);
    let cases: [(&str, Vec<u8>); 7] = [
        ("a file of one byte", vec![0]),
        ("a file of 511 bytes", vec![0; 511]),
        ("a file of 512 bytes", vec![0; 512]),
        ("a file of 4095 bytes", vec![0; 4095]),
        ("a file with data between zeroes", between_zeroes()),
        ("a file of ones", vec![0xff; 16 << 20]),
        ("a file of noise", random),
    ];
    for (what, content) in cases {
        let place = Place::new();
        fs::write(&place.spec.cache, content).unwrap();
        place.refused_cache(what);
    }
}

/// As a disk image whose partition starts late.
fn between_zeroes() -> Vec<u8> {
    let mut content = vec![0; 16 << 20];
    content[5 << 20..6 << 20].fill(0x77);
    content
}

#[test]
fn new_and_empty_cache_files_are_formatted() {
    need_kickcache!();
    let place = Place::new();
    place.spec.start().stop();
    fs::remove_file(&place.spec.cache).unwrap();
    File::create(&place.spec.cache).unwrap();
    place.spec.start().stop();
    // Formatting again would lose the cache.
    let mut spec = place.spec.clone();
    let daemon = spec.start();
    daemon.connect().write(0, &[1; 4096]);
    daemon.kill();
    spec.cache_size = "64M";
    let output = run(&spec.arguments());
    if output.status.code() == Some(TIMED_OUT) {
        spec.cache_size = "16M";
        assert_eq!(spec.start().connect().read(0, 4096), [1; 4096]);
    }
}

#[test]
fn damaged_superblocks_are_refused_or_healed_by_the_copy() {
    need_kickcache!();
    let copies = [0, 512 << 10];
    for at in [0, 3, 8, 9, 12, 40, 100, 200] {
        let place = Place::used();
        for copy in copies {
            flip_byte(&place.spec.cache, copy + at).unwrap();
        }
        place.refused_cache(&format!("byte {at} of both superblocks turned over"));
    }
    let place = Place::used();
    flip_byte(&place.spec.cache, 20).unwrap();
    let daemon = place.spec.start();
    assert_eq!(daemon.connect().read(2 * MIB, 65536), [7; 65536], "the second copy was not used");
}

#[test]
fn caches_of_another_size_are_refused() {
    need_kickcache!();
    for size in [0, 4096, MIB, 12 * MIB, 16 * MIB - 4096, 16 * MIB - 1] {
        let place = Place::used();
        File::options().write(true).open(&place.spec.cache).unwrap().set_len(size).unwrap();
        if size == 0 {
            continue;
        }
        place.refused_cache(&format!("a cache cut to {size} bytes"));
    }
}

#[test]
fn origins_of_another_size_are_refused() {
    need_kickcache!();
    for size in [4096, 2 * MIB, 16 * MIB - 4096, 32 * MIB] {
        let place = Place::used();
        File::options().write(true).open(&place.spec.origin).unwrap().set_len(size).unwrap();
        place.refused_cache(&format!("an origin of {size} bytes"));
    }
}

#[test]
fn another_origin_is_refused() {
    need_kickcache!();
    let place = Place::used();
    let mut spec = place.spec.clone();
    spec.origin = place.scratch.random("other", 16 * MIB, 9);
    unchanged("another origin", &[&spec.cache, &spec.origin], || {
        refused("another origin", &spec.arguments())
    });
}

#[test]
fn one_file_cannot_be_cache_and_origin() {
    need_kickcache!();
    let place = Place::new();
    let origin = &place.spec.origin;
    let hard = place.scratch.path("hard link");
    fs::hard_link(origin, &hard).unwrap();
    let soft = place.scratch.path("symbolic link");
    symlink(origin, &soft).unwrap();
    let roundabout = place.scratch.dir().join(".").join("origin");
    for cache in [origin.clone(), hard, soft, roundabout] {
        let mut spec = place.spec.clone();
        spec.cache = cache.clone();
        let what = format!("{} as cache and origin", cache.display());
        unchanged(&what, &[origin], || refused(&what, &spec.arguments()));
    }
    let place = Place::used();
    let mut spec = place.spec.clone();
    spec.origin = place.scratch.path("link to the cache");
    symlink(&spec.cache, &spec.origin).unwrap();
    unchanged("a cache as its origin", &[&spec.cache], || {
        refused("a cache as its origin", &spec.arguments())
    });
}

#[test]
fn a_loop_device_on_the_origin_cannot_be_the_cache() {
    need_kickcache!();
    let place = Place::new();
    let device = match Loop::new(&place.spec.origin) {
        Ok(device) => device,
        Err(why) => skip!("{why}"),
    };
    let mut spec = place.spec.clone();
    spec.cache = device.path();
    unchanged("a loop device", &[&place.spec.origin], || refused("a loop device", &spec.arguments()));
}

pub(crate) struct Loop(String);

impl Loop {
    pub(crate) fn new(file: &Path) -> Result<Loop, String> {
        Loop::with(file, &[])
    }

    pub(crate) fn at(device: &Path, file: &Path) -> Result<Loop, String> {
        Loop::attach(&[device.to_str().unwrap(), file.to_str().unwrap()])?;
        Ok(Loop(device.to_str().unwrap().to_owned()))
    }

    pub(crate) fn with(file: &Path, flags: &[&str]) -> Result<Loop, String> {
        let arguments = [&["-f", "--show", "--direct-io=on"], flags, &[file.to_str().unwrap()]].concat();
        Loop::attach(&arguments).map(Loop)
    }

    fn attach(arguments: &[&str]) -> Result<String, String> {
        if !tools::is_installed("losetup") || !tools::is_root() || !Path::new("/dev/loop-control").exists() {
            return Err("loop devices need losetup, root and /dev/loop-control".into());
        }
        let output = tools::output("losetup", arguments);
        if !output.status.success() {
            return Err(format!("no loop device: {}", String::from_utf8_lossy(&output.stderr).trim()));
        }
        Ok(String::from_utf8(output.stdout).unwrap().trim().to_owned())
    }

    pub(crate) fn path(&self) -> PathBuf {
        PathBuf::from(&self.0)
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        tools::output("losetup", ["-d", &self.0]);
    }
}

#[test]
fn a_path_that_is_no_file_is_refused() {
    need_kickcache!();
    let place = Place::new();
    let directory = place.scratch.path("directory");
    fs::create_dir(&directory).unwrap();
    let fifo = place.scratch.path("fifo");
    tools::run("mkfifo", [&fifo]);
    let socket = place.scratch.path("socket");
    let _listener = UnixListener::bind(&socket).unwrap();
    let looped = place.scratch.path("loop");
    symlink(&looped, &looped).unwrap();
    let inside_file = place.spec.origin.join("x");
    let missing = place.scratch.path("missing").join("x");
    let odd = [
        &directory,
        &fifo,
        &socket,
        &looped,
        &inside_file,
        &missing,
        Path::new("/dev/null"),
        Path::new("/dev/zero"),
        Path::new("/proc/version"),
        Path::new(""),
    ];
    for path in odd.map(Path::to_owned) {
        let as_cache = Spec { cache: path.clone(), ..place.spec.clone() };
        refused(&format!("{} as cache", path.display()), &as_cache.arguments());
        let as_origin = Spec { origin: path.clone(), ..place.spec.clone() };
        refused(&format!("{} as origin", path.display()), &as_origin.arguments());
    }
    let empty = Spec { origin: place.scratch.sparse("empty", 0), ..place.spec.clone() };
    refused("an empty origin", &empty.arguments());
    assert!(fs::read(&place.spec.origin).unwrap() == Rng::new(1).bytes(16 << 20), "the origin was changed");
}

#[test]
fn a_read_only_cache_is_refused() {
    need_kickcache!();
    if tools::is_root() {
        // Root may write to read-only files: only an immutable file stops it.
        let place = Place::used();
        if !tools::output("chattr", ["+i".as_ref(), place.spec.cache.as_os_str()]).status.success() {
            skip!("no immutable files here");
        }
        let said = place.refused_cache("an immutable cache");
        tools::run("chattr", ["-i".as_ref(), place.spec.cache.as_os_str()]);
        assert!(said.contains("cache"), "{said}");
        return;
    }
    let place = Place::used();
    fs::set_permissions(&place.spec.cache, Permissions::from_mode(0o400)).unwrap();
    place.refused_cache("a read-only cache");
}

#[test]
fn only_stale_sockets_are_replaced() {
    need_kickcache!();
    let place = Place::new();
    let socket = place.spec.socket();
    fs::write(&socket, b"precious").unwrap();
    unchanged("a file at the socket path", &[&socket], || place.refused("a file at the socket path"));
    fs::remove_file(&socket).unwrap();
    fs::create_dir(&socket).unwrap();
    place.refused("a directory at the socket path");
    assert!(socket.is_dir());
    fs::remove_dir(&socket).unwrap();
    let live = UnixListener::bind(&socket).unwrap();
    place.refused("a live socket");
    assert!(socket.exists(), "the socket of somebody else was removed");
    drop(live);
    place.spec.start().stop();

    let control = place.spec.control();
    fs::write(&control, b"precious").unwrap();
    unchanged("a file at the control path", &[&control], || place.refused("a file at the control path"));
    fs::remove_file(&control).unwrap();
    drop(UnixListener::bind(&control).unwrap());
    place.spec.start().stop();
}

#[test]
fn a_second_daemon_on_the_same_devices_is_refused() {
    need_kickcache!();
    let place = Place::new();
    let mut daemon = place.spec.start();
    daemon.connect().write(0, &[5; 4096]);
    let other = |name: &str| place.scratch.path(name);
    let second = |spec: &Spec| {
        let mut arguments = spec.arguments();
        let sockets = [place.spec.control().into_os_string(), unix_address(&place.spec.socket())];
        for argument in &mut arguments {
            if sockets.contains(argument) {
                argument.push("2");
            }
        }
        arguments
    };
    let same_cache = Spec { origin: place.scratch.random("other origin", 16 * MIB, 2), ..place.spec.clone() };
    refused("a second daemon on the cache", &second(&same_cache));
    let same_origin = Spec { cache: other("other cache"), ..place.spec.clone() };
    refused("a second daemon on the origin", &second(&same_origin));
    refused("a second daemon on both", &second(&place.spec));
    refused("a second daemon on everything", &place.spec.arguments());
    refused("inspecting a cache in use", &["inspect".into(), place.spec.cache.clone().into()]);
    let format = ["format".into(), place.spec.cache.clone().into(), "--force".into()];
    refused("formatting a cache in use", &format);
    assert!(daemon.is_alive());
    assert_eq!(daemon.connect().read(0, 4096), [5; 4096]);
    daemon.stop();
}

#[test]
fn loop_devices_of_one_file_are_one_device() {
    need_kickcache!();
    let place = Place::new();
    let image = place.scratch.random("image", 16 * MIB, 3);
    let (one, two) = match (Loop::new(&image), Loop::new(&image)) {
        (Ok(one), Ok(two)) => (one, two),
        (Err(why), _) | (_, Err(why)) => skip!("{why}"),
    };
    let link = place.scratch.path("link");
    fs::hard_link(&image, &link).unwrap();
    let names = [image, one.path(), two.path(), link];
    let second = |spec: &Spec| {
        let dir = place.scratch.path("second");
        let _ = fs::create_dir(&dir);
        Spec { dir, ..spec.clone() }.arguments()
    };
    for (held, name) in [(0, 1), (1, 0), (1, 2)] {
        let first = Spec { origin: names[held].clone(), ..place.spec.clone() };
        let mut daemon = first.start();
        let other = place.scratch.path("other");
        // Two loop devices are one origin, which has a cache device already.
        let extra = vec![format!("--new-cache={}", other.display()).into()];
        let origin = Spec { origin: names[name].clone(), cache: other, extra, ..first.clone() };
        let cache = Spec { cache: names[name].clone(), origin: place.spec.origin.clone(), ..first.clone() };
        for wrong in [origin, cache] {
            let said = refused("one file twice", &second(&wrong));
            assert!(said.contains("in use by another process"), "{held}, {name}: {said}");
        }
        assert!(daemon.is_alive());
        daemon.stop();
        fs::remove_file(&first.cache).unwrap();
    }
    for (first, other) in [(0, 1), (0, 3), (1, 2), (1, 3)] {
        let twice = Spec { cache: names[first].clone(), origin: names[other].clone(), ..place.spec.clone() };
        let said = refused("one file as cache and origin", &twice.arguments());
        assert!(said.contains("are the same device"), "{said}");
    }
    format_in_use(&names);
}

fn format_in_use(names: &[PathBuf]) {
    let place = Place::new();
    tools::run(KICKCACHE, ["format".as_ref(), names[1].as_os_str(), "--force".as_ref()]);
    for (held, name) in [(0, 1), (1, 2)] {
        let daemon = Spec { cache: names[held].clone(), ..place.spec.clone() }.start();
        for arguments in [vec!["format", "--force"], vec!["inspect"]] {
            let mut arguments: Vec<OsString> = arguments.into_iter().map(Into::into).collect();
            arguments.push(names[name].clone().into());
            let said = refused("a cache in use", &arguments);
            assert!(said.contains("in use"), "{held}, {name}: {said}");
        }
        daemon.stop();
    }
}

#[test]
fn format_refuses_a_device_with_data() {
    need_kickcache!();
    let place = Place::new();
    let origin = place.spec.origin.clone();
    let format = |extra: &[&str]| {
        let mut arguments: Vec<OsString> = vec!["format".into(), origin.clone().into()];
        arguments.extend(extra.iter().map(OsString::from));
        arguments
    };
    unchanged("formatting data", &[&origin], || refused("formatting data", &format(&[])));
    unchanged("formatting data", &[&origin], || refused("formatting data", &format(&["--size", "16M"])));
    let used = Place::used();
    let again = ["format".into(), used.spec.cache.clone().into()];
    unchanged("formatting a cache", &[&used.spec.cache], || refused("formatting a cache", &again));
    tools::run(KICKCACHE, ["format".as_ref(), used.spec.cache.as_os_str(), "--force".as_ref()]);
    let said = run(&["inspect".into(), used.spec.cache.clone().into()]);
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
}

/// Damages bytes anywhere in a used cache.
#[test]
fn damage_anywhere_on_the_cache_is_never_wrong_data() {
    need_kickcache!();
    let place = Place::used();
    let image = fs::read(&place.spec.cache).unwrap();
    let origin = fs::read(&place.spec.origin).unwrap();
    let mut rng = Rng::new(11);
    for round in 0..24 {
        fs::write(&place.spec.cache, &image).unwrap();
        fs::write(&place.spec.origin, &origin).unwrap();
        damage(&place.spec.cache, &image, &mut rng);
        let probe = run(&["inspect".into(), place.spec.cache.clone().into()]);
        assert!(!String::from_utf8_lossy(&probe.stderr).contains("panicked at"), "round {round}");
        check_damaged(&place.spec, &origin, round);
    }
}

/// Inverts bytes in places where the image is not zero.
fn damage(cache: &Path, image: &[u8], rng: &mut Rng) {
    let file = File::options().write(true).open(cache).unwrap();
    let pages: Vec<usize> = (0..image.len() / 4096)
        .filter(|page| image[page * 4096..(page + 1) * 4096].iter().any(|byte| *byte != 0))
        .collect();
    for _ in 0..rng.between(1, 3) {
        let page = pages[usize::try_from(rng.below(pages.len() as u64)).unwrap()];
        let at = page * 4096 + usize::try_from(rng.below(4096)).unwrap();
        file.write_all_at(&[image[at] ^ 0x5a], at as u64).unwrap();
    }
}

fn check_damaged(spec: &Spec, origin: &[u8], round: u32) {
    let command = guarded(KICKCACHE, spec.arguments());
    let Some(mut daemon) = Daemon::try_start(command, spec.clone()) else { return };
    let mut client = daemon.connect();
    for (block, old) in origin.chunks(4096).enumerate() {
        let offset = block as u64 * 4096;
        let reply = client.call(Request { command: READ, flags: 0, offset, length: 4096 }, &[]).unwrap();
        // A damaged header at the end of the log looks like a write that a power cut tore.
        let written = (2 * MIB..2 * MIB + 65536).contains(&offset) && reply.data == [7; 4096];
        let right = reply.errno != 0 || reply.data == old || written;
        assert!(right, "round {round}: block {block} gives wrong data after damage of the cache");
    }
    drop(client);
    daemon.signal(Signal::TERM);
    assert!(matches!(daemon.wait().code(), Some(0 | 8)), "round {round}: {}", daemon.log());
    assert!(!daemon.log().contains("panicked at"), "round {round}: {}", daemon.log());
}
