//! Origins that are exports of an NBD server.

use std::fs::{self, File};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::bad_input::refused;
use crate::cells;
use crate::client::{Client, FUA, NO_HOLE, READ, Request, WRITE, WRITE_ZEROES};
use crate::daemon::{Daemon, KICKCACHE, Spec, VOLUME, guarded};
use crate::nbd_server::Server;
use crate::rng::Rng;
use crate::scratch::{MIB, Scratch};
use crate::{need_kickcache, need_tools};

const BLOCKS: u64 = 2_048;
const BLOCK: usize = 4_096;
const BLOCK_LENGTH: u32 = 4_096;
const BLOCK_BYTES: u64 = 4_096;
/// `NBD_CMD_FLAG_FAST_ZERO`
const FAST_ZERO: u16 = 1 << 4;
const ENOTSUP: u32 = 95;

fn serve(scratch: &Scratch, server: &Server, mode: &'static str, extra: &[&str]) -> Daemon {
    let mut spec = Spec::new(scratch, &server.uri(), mode, "16M");
    spec.extra = extra.iter().map(Into::into).collect();
    spec.start()
}

fn cell(block: u64, version: u64) -> Vec<u8> {
    let mut bytes = vec![0; BLOCK];
    cells::fill(&mut bytes, block, version);
    bytes
}

/// Each read must return the client's last write. Returns the version of each block.
fn work(mut client: Client, stop: &AtomicBool, seed: u64) -> Vec<u64> {
    let mut rng = Rng::new(seed);
    let mut versions = vec![0; usize::try_from(BLOCKS).unwrap()];
    let mut version = 0;
    while !stop.load(Ordering::Relaxed) {
        let block = rng.below(BLOCKS);
        let (offset, known) = (block * BLOCK_BYTES, &mut versions[usize::try_from(block).unwrap()]);
        match rng.below(100) {
            0 => client.flush(),
            1..4 => {
                client.zero(offset, BLOCK_LENGTH, 0);
                *known = 0;
            }
            4..30 => assert!(client.read(offset, BLOCK_LENGTH) == cell(block, *known), "block {block}"),
            _ => {
                version += 1;
                client.write(offset, &cell(block, version));
                *known = version;
            }
        }
    }
    versions
}

fn check_disk(disk: &Path, versions: &[u64]) {
    let file = File::open(disk).unwrap();
    for (block, version) in (0..).zip(versions) {
        let mut found = vec![0; BLOCK];
        file.read_exact_at(&mut found, block * BLOCK_BYTES).unwrap();
        assert_eq!(cells::version(&found, block), Ok(*version), "block {block} of the origin");
    }
}

/// `KICKCACHE_IT_ROUNDS` sets another number.
fn rounds() -> u64 {
    std::env::var("KICKCACHE_IT_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(3)
}

/// The server loses its unflushed data at each kill.
fn outlive_servers(mode: &'static str) {
    need_kickcache!();
    need_tools!("nbdkit");
    let scratch = Scratch::new();
    let disk = scratch.sparse("disk", 64 * MIB);
    let mut server = Server::forgetful(&scratch, &disk);
    let daemon = serve(&scratch, &server, mode, &[]);
    let stop = AtomicBool::new(false);
    let versions = thread::scope(|scope| {
        let client = daemon.connect();
        let worker = scope.spawn(|| work(client, &stop, 1));
        let mut rng = Rng::new(2);
        for _ in 0..rounds() {
            thread::sleep(Duration::from_millis(300 + rng.below(700)));
            server.kill();
            thread::sleep(Duration::from_millis(rng.below(300)));
            server = Server::forgetful(&scratch, &disk);
        }
        thread::sleep(Duration::from_millis(300));
        stop.store(true, Ordering::Relaxed);
        worker.join().unwrap()
    });
    let count = |what: &str| daemon.log().lines().filter(|line| line.contains(what)).count() as u64;
    // The log has at most five lines of a kind a minute.
    let told = (count("is lost"), count("is back after"));
    assert_eq!(told.0.min(5), rounds().min(5), "{}", daemon.log());
    assert_eq!(told.1.min(5), rounds().min(5), "{}", daemon.log());
    daemon.drain();
    daemon.stop();
    drop(server);
    check_disk(&disk, &versions);
}

#[test]
fn write_back_survives_servers_that_lose_unflushed_writes() {
    outlive_servers("write-back");
}

#[test]
fn write_through_survives_servers_that_lose_unflushed_writes() {
    outlive_servers("write-through");
}

#[test]
fn write_around_survives_servers_that_lose_unflushed_writes() {
    outlive_servers("write-around");
}

fn read(client: &mut Client, block: u64) -> Result<Vec<u8>, u32> {
    let request = Request { command: READ, flags: 0, offset: block * BLOCK_BYTES, length: BLOCK_LENGTH };
    let reply = client.call(request, &[]).unwrap();
    if reply.errno == 0 { Ok(reply.data) } else { Err(reply.errno) }
}

#[test]
fn a_long_outage_fails_only_requests_that_need_the_origin() {
    need_kickcache!();
    need_tools!("nbdkit");
    let scratch = Scratch::new();
    let disk = scratch.sparse("disk", 64 * MIB);
    let server = Server::forgetful(&scratch, &disk);
    let daemon = serve(&scratch, &server, "write-back", &["--origin-timeout", "4s"]);
    let (mut client, mut beside) = (daemon.connect(), daemon.connect());
    client.write(0, &cell(0, 1));
    drop(server);
    let waiting = thread::spawn(move || {
        let start = Instant::now();
        (read(&mut client, 5_000), start.elapsed(), client)
    });
    let mut version = 1;
    while !waiting.is_finished() {
        assert!(beside.read(0, BLOCK_LENGTH) == cell(0, version));
        version += 1;
        beside.write(0, &cell(0, version));
        beside.flush();
    }
    assert!(version > 2, "a write that the log takes waited for the origin");
    let (result, waited, mut client) = waiting.join().unwrap();
    assert_eq!(result, Err(5));
    assert!(waited >= Duration::from_secs(3), "{waited:?}");
    daemon.wait_for_log(&["fail until it returns"]);
    assert_eq!(read(&mut client, 6_000), Err(5));
    // No client's flush depends on the flushes of writeback.
    for version in 0..8 {
        beside.write(2 * BLOCK_BYTES, &cell(2, version));
        beside.flush();
        thread::sleep(Duration::from_millis(300));
    }
    let told = daemon.status()["caches"][0]["volumes"][0].clone();
    assert!(told["origin_away_seconds"].as_f64().is_some_and(|seconds| seconds >= 1.0), "{told}");
    assert_eq!(told["origin_last_error"]["name"], "EIO", "{told}");

    let _server = Server::forgetful(&scratch, &disk);
    daemon.wait_for_log(&["is back after"]);
    beside.flush();
    assert!(daemon.status()["caches"][0]["volumes"][0]["origin_away_seconds"].is_null());
    assert_eq!(read(&mut client, 5_000), Ok(vec![0; BLOCK]));
    daemon.drain();
    daemon.stop();
}

#[test]
fn a_slow_server_is_not_lost() {
    need_kickcache!();
    need_tools!("nbdkit");
    let scratch = Scratch::new();
    let disk = scratch.sparse("disk", 64 * MIB);
    let server = Server::start(&scratch, &disk, &[], &[]);
    let daemon = serve(&scratch, &server, "write-back", &["--origin-timeout", "1s"]);
    let mut client = daemon.connect();
    server.freeze();
    let waiting = thread::spawn(move || read(&mut client, 5_000));
    thread::sleep(Duration::from_millis(2_500));
    assert!(!waiting.is_finished());
    server.signal(Signal::CONT);
    assert_eq!(waiting.join().unwrap(), Ok(vec![0; BLOCK]));
    assert!(!daemon.log().contains("is lost"), "{}", daemon.log());
    daemon.stop();
}

#[test]
fn a_server_that_returns_with_another_disk_is_not_used() {
    need_kickcache!();
    need_tools!("nbdkit");
    let scratch = Scratch::new();
    let (disk, other) = (scratch.random("disk", 64 * MIB, 1), scratch.sparse("other", 32 * MIB));
    let server = Server::start(&scratch, &disk, &[], &[]);
    let daemon = serve(&scratch, &server, "write-through", &[]);
    let mut client = daemon.connect();
    drop(server);
    let server = Server::start(&scratch, &other, &[], &[]);
    let waiting = thread::spawn(move || (client.write(0, &[7; BLOCK]), read(&mut client, 5_000)));
    daemon.wait_for_log(&["it has 33554432 bytes now, and had 67108864"]);
    assert!(!waiting.is_finished());
    drop(server);
    let _server = Server::start(&scratch, &disk, &[], &[]);
    let mut expected = vec![0; BLOCK];
    File::open(&disk).unwrap().read_exact_at(&mut expected, 5_000 * BLOCK_BYTES).unwrap();
    assert_eq!(waiting.join().unwrap().1, Ok(expected));
    daemon.stop();
    assert!(fs::read(&other).unwrap().iter().all(|byte| *byte == 0), "the other disk was written to");
}

#[test]
fn a_server_that_can_do_little_is_enough() {
    need_kickcache!();
    need_tools!("nbdkit");
    let scratch = Scratch::new();
    let disk = scratch.random("disk", 64 * MIB, 3);
    let filters = ["--filter=blocksize-policy", "--filter=nozero", "--filter=fua"];
    let limits = [
        "blocksize-minimum=512",
        "blocksize-preferred=4096",
        "blocksize-maximum=65536",
        "blocksize-error-policy=error",
    ];
    let server = Server::start(&scratch, &disk, &filters, &limits);
    let daemon = serve(&scratch, &server, "write-around", &[]);
    let mut client = daemon.connect();
    let mut expected = fs::read(&disk).unwrap();
    let megabyte = Rng::new(9).bytes(1 << 20);
    let request = Request { command: WRITE, flags: FUA, offset: 1 << 20, length: 1 << 20 };
    assert_eq!(client.call(request, &megabyte).unwrap().errno, 0);
    expected[1 << 20..2 << 20].copy_from_slice(&megabyte);
    client.zero(4 << 20, 3 << 20, 0);
    expected[4 << 20..7 << 20].fill(0);
    client.write((10 << 20) + 512, &[5; 1024]);
    expected[(10 << 20) + 512..(10 << 20) + 1536].fill(5);
    client.flush();
    assert!(client.read(0, 8 << 20) == expected[..8 << 20], "a long read");
    daemon.stop();
    assert!(fs::read(&disk).unwrap() == expected);
}

#[test]
fn no_hole_zeroes_are_passed_on_and_fast_ones_refused() {
    need_kickcache!();
    need_tools!("nbdkit");
    let scratch = Scratch::new();
    let disk = scratch.random("disk", 64 * MIB, 3);
    let log = scratch.path("zeroes.log");
    let server = Server::start(&scratch, &disk, &["--filter=log"], &[&format!("logfile={}", log.display())]);
    let daemon = serve(&scratch, &server, "write-back", &[]);
    let mut client = daemon.connect();
    let zero = |flags, offset| Request { command: WRITE_ZEROES, flags, offset, length: BLOCK_LENGTH };
    let before = client.read(0, BLOCK_LENGTH);
    assert_eq!(client.call(zero(FAST_ZERO, 0), &[]).unwrap().errno, ENOTSUP);
    assert!(client.read(0, BLOCK_LENGTH) == before);
    let asked =
        |part: &str| fs::read_to_string(&log).unwrap().lines().filter(|line| line.contains(part)).count();
    assert_eq!(asked(" Zero "), 0);
    for (flags, offset, trim) in [(0, 8 << 20, "trim=1 fua="), (NO_HOLE, 16 << 20, "trim=0 fua=")] {
        assert_eq!(client.call(zero(flags, offset), &[]).unwrap().errno, 0);
        assert!(client.read(offset, BLOCK_LENGTH) == [0; BLOCK]);
        assert_eq!(asked(trim), 1, "{}", fs::read_to_string(&log).unwrap());
    }
    daemon.stop();
}

fn refusal(scratch: &Scratch, origin: &str) -> String {
    let spec = Spec::new(scratch, Path::new(origin), "write-back", "16M");
    let said = refused(origin, &spec.arguments());
    assert!(!spec.cache.exists(), "a refused start leaves a cache device behind");
    said
}

#[test]
fn an_unsuitable_origin_is_refused_with_a_sentence() {
    need_kickcache!();
    need_tools!("nbdkit");
    let scratch = Scratch::new();
    let (disk, odd) = (scratch.sparse("disk", MIB), scratch.sparse("odd", 5_000));
    let uri = format!("nbd+unix:///?socket={}", scratch.path("origin.sock").display());
    let expect = |origin: &str, part: &str| {
        let told = refusal(&scratch, origin);
        assert!(told.contains(part) && told.contains(origin), "{told}");
    };
    expect(&uri, "No such file or directory (os error 2); start its server");
    expect("nbds://localhost/a?tls=1", "tls-certificates=DIR");
    expect("nbd+unix:///?socket=o.sock", "a path from the root");
    expect("http://localhost/a", "is no origin");
    expect("nbd://localhost:port/a", "write nbd://HOST:PORT/EXPORT");
    {
        let _server = Server::start(&scratch, &disk, &["-r"], &[]);
        expect(&uri, "exports it read-only");
    }
    {
        let _server = Server::start(&scratch, &odd, &[], &[]);
        expect(&uri, "extend it to 8192 bytes");
    }
}

#[test]
fn an_export_is_served_once_under_any_name() {
    need_kickcache!();
    need_tools!("nbdkit");
    let (scratch, another) = (Scratch::new(), Scratch::new());
    let disk = scratch.sparse("disk", MIB);
    let server = Server::start(&scratch, &disk, &[], &[]);
    let daemon = serve(&scratch, &server, "write-through", &[]);
    let link = another.path("link.sock");
    std::os::unix::fs::symlink(scratch.path("origin.sock"), &link).unwrap();
    for uri in [server.uri().display().to_string(), format!("nbd+unix:///?socket={}", link.display())] {
        let told = refusal(&another, &uri);
        assert!(told.contains("is served by another kickcache"), "{told}");
    }
    daemon.kill().start().stop();
}

#[test]
fn an_export_is_served_once_under_any_host_name() {
    need_kickcache!();
    need_tools!("nbdkit");
    let (scratch, another) = (Scratch::new(), Scratch::new());
    let disk = scratch.sparse("disk", MIB);
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let arguments =
        ["-f", "-i", "127.0.0.1", "-p", &port.to_string(), "-e", "x", "file", disk.to_str().unwrap()];
    let mut server = guarded("nbdkit", arguments.map(Into::into).to_vec()).spawn().unwrap();
    let start = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(start.elapsed() < Duration::from_secs(20), "nbdkit does not start");
        thread::sleep(Duration::from_millis(5));
    }
    let uris = ["127.0.0.1", "localhost"].map(|host| format!("nbd://{host}:{port}/x"));
    for (served, refused) in [(&uris[0], &uris[1]), (&uris[1], &uris[0])] {
        let mut spec = Spec::new(&scratch, Path::new(served), "write-through", "16M");
        spec.extra.push("--origin-moved".into());
        let daemon = spec.start();
        let told = refusal(&another, refused);
        assert!(told.contains("is served by another kickcache") && told.contains(refused), "{told}");
        daemon.stop();
    }
    server.kill().unwrap();
    server.wait().unwrap();
}

#[test]
fn an_outage_is_reported_with_reason_and_exit_code() {
    need_kickcache!();
    need_tools!("nbdkit");
    let scratch = Scratch::new();
    let disk = scratch.sparse("disk", 64 * MIB);
    let mut server = Server::start(&scratch, &disk, &[], &[]);
    let daemon = serve(&scratch, &server, "write-back", &[]);
    let check = || {
        let control = daemon.spec.control();
        let arguments = ["status".into(), "--check".into(), "--control".into(), control.into_os_string()];
        let output = guarded(KICKCACHE, arguments.to_vec()).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    assert_eq!(check(), (Some(0), "good: 1 volume is served\n".into()));
    server.kill();
    daemon.wait_for_log(&["cannot be used: Connection refused"]);
    let (code, said) = check();
    let remedy = format!(
        "On the machine of the server nbd+unix:///?socket={}: start the server",
        server.socket.display()
    );
    assert!(said.starts_with("v") && said.contains(": origin away, ") && said.contains(&remedy), "{said}");
    assert!(said.contains(" that need the origin wait. If the server is not back in "), "{said}");
    assert!(said.contains(" waiting: Connection refused (os error 111). "), "{said}");
    assert_eq!((code, said.lines().count()), (Some(9), 1), "{said}");
    let told = daemon.status()["caches"][0]["volumes"][0]["origin_away_why"].clone();
    assert_eq!(told, "Connection refused (os error 111)");
    let _server = Server::start(&scratch, &disk, &[], &[]);
    daemon.wait_for_log(&["is back after"]);
    assert_eq!(check().0, Some(0));
    assert!(daemon.status()["caches"][0]["volumes"][0]["origin_away_why"].is_null());
    daemon.stop();
}

#[test]
fn a_server_that_takes_few_clients_is_enough() {
    need_kickcache!();
    need_tools!("nbdkit");
    let scratch = Scratch::new();
    let disk = scratch.random("disk", MIB, 4);
    let server = Server::start(&scratch, &disk, &["--filter=limit"], &["limit=2"]);
    let daemon = serve(&scratch, &server, "write-through", &[]);
    let mut client = daemon.connect();
    assert!(client.read(0, BLOCK_LENGTH) == fs::read(&disk).unwrap()[..BLOCK]);
    daemon.stop();
}

#[test]
fn a_cache_device_is_drained_to_its_server_offline() {
    need_kickcache!();
    need_tools!("nbdkit");
    let scratch = Scratch::new();
    let disk = scratch.sparse("disk", 64 * MIB);
    let server = Server::start(&scratch, &disk, &[], &[]);
    let daemon = serve(&scratch, &server, "write-back", &[]);
    let mut client = daemon.connect();
    let versions: Vec<u64> = (1..=64).collect();
    (0..)
        .zip(&versions)
        .for_each(|(block, version)| client.write(block * BLOCK_BYTES, &cell(block, *version)));
    client.flush();
    let spec = daemon.kill();
    let arguments = ["drain".into(), VOLUME.into(), "--cache".into(), spec.cache.clone().into_os_string()];
    let output = guarded(KICKCACHE, arguments.to_vec()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    check_disk(&disk, &versions);
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(told.contains(server.uri().to_str().unwrap()), "{told}");
}

#[test]
fn an_offline_drain_can_be_interrupted_and_reports_failures() {
    need_kickcache!();
    need_tools!("nbdkit");
    let scratch = Scratch::new();
    let disk = scratch.sparse("disk", 64 * MIB);
    let server = Server::start(&scratch, &disk, &[], &[]);
    let daemon = serve(&scratch, &server, "write-back", &[]);
    daemon.connect().write(0, &cell(0, 1));
    let spec = daemon.kill();
    let drain = || {
        let arguments = [
            "drain".into(),
            "--cache".into(),
            spec.cache.clone().into_os_string(),
            "--origin-timeout".into(),
            "9s".into(),
        ];
        guarded(KICKCACHE, arguments.to_vec()).stderr(Stdio::piped()).spawn().unwrap()
    };
    drop(server);
    let server = Server::start(&scratch, &disk, &["--filter=delay"], &["wdelay=120"]);
    let child = drain();
    let start = Instant::now();
    while !catches_interrupts(&child) {
        assert!(start.elapsed() < Duration::from_secs(60), "the drain does not begin");
        thread::sleep(Duration::from_millis(20));
    }
    thread::sleep(Duration::from_millis(500));
    let start = Instant::now();
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(!output.status.success() && start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("was interrupted"), "{told}");
    drop(server);
    let _server =
        Server::start(&scratch, &disk, &["--filter=error"], &["error-pwrite=EIO", "error-pwrite-rate=100%"]);
    let output = drain().wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && told.contains("write failed: Input/output error"), "{told}");
}

fn catches_interrupts(child: &Child) -> bool {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
    u64::from_str_radix(mask.trim(), 16).unwrap() & (1 << (Signal::INT.as_raw() - 1)) != 0
}
