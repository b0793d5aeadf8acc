//! Ways to set up volumes and to connect clients.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::bad_input::Loop;
use crate::client::Client;
use crate::daemon::{Daemon, KICKCACHE, Spec, guarded};
use crate::ledger::Ledger;
use crate::scratch::{MIB, Scratch, difference};
use crate::{need_kickcache, need_tools, skip, tools};

struct Pair {
    scratch: Scratch,
    spec: Spec,
}

impl Pair {
    fn new(modes: [&str; 2]) -> Pair {
        let scratch = Scratch::new();
        let origins = ["one", "two"].map(|name| scratch.sparse(name, 24 * MIB));
        let spec = Spec::new(&scratch, &origins[0], "write-back", "16M");
        let mut config = format!(
            "control = \"{}\"\n[[cache]]\ndevice = \"{}\"\nsize = \"16M\"\n",
            spec.control().display(),
            spec.cache.display()
        );
        for (origin, mode) in origins.iter().zip(modes) {
            let name = origin.file_name().unwrap().to_str().unwrap();
            let socket = scratch.path(&format!("{name}.sock"));
            config += &format!("[[cache.volume]]\nname = \"{name}\"\norigin = \"{}\"\n", origin.display());
            config += &format!("mode = \"{mode}\"\nnbd = [\"unix:{}\"]\n", socket.display());
        }
        fs::write(scratch.path("config.toml"), config).unwrap();
        Pair { scratch, spec }
    }

    fn sockets(&self) -> [PathBuf; 2] {
        ["one.sock", "two.sock"].map(|name| self.scratch.path(name))
    }

    fn start(&self) -> Daemon {
        let arguments: Vec<OsString> =
            vec!["serve".into(), "--config".into(), self.scratch.path("config.toml").into()];
        Daemon::start(guarded(KICKCACHE, arguments), self.spec.clone(), &self.sockets())
    }

    fn connect(&self, at: usize) -> Client {
        Client::connect(&self.sockets()[at], ["one", "two"][at]).unwrap()
    }
}

#[test]
fn two_volumes_share_a_cache_and_keep_their_data_apart() {
    need_kickcache!();
    for modes in
        [["write-back", "write-back"], ["write-back", "write-through"], ["write-around", "write-back"]]
    {
        let pair = Pair::new(modes);
        let mut ledgers = [Ledger::new(0..6000, 4096), Ledger::new(0..6000, 4096)];
        for life in 0..3 {
            let daemon = pair.start();
            check(&pair, &mut ledgers, &format!("{modes:?}, life {life}"));
            write(&pair, &mut ledgers, Duration::from_millis(500));
            check(&pair, &mut ledgers, &format!("{modes:?}, life {life}, after the writes"));
            if life == 1 {
                daemon.kill()
            } else {
                daemon.stop()
            };
        }
        let daemon = pair.start();
        check(&pair, &mut ledgers, &format!("{modes:?}, at the end"));
        compare_origins(&pair, &daemon);
        daemon.stop();
    }
}

fn write(pair: &Pair, ledgers: &mut [Ledger; 2], time: Duration) {
    let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let (stop_ref, done_ref) = (&stop, &done);
    thread::scope(|scope| {
        for (at, ledger) in ledgers.iter_mut().enumerate() {
            let client = pair.connect(at);
            scope.spawn(move || ledger.write_until(client, stop_ref, done_ref).unwrap());
        }
        thread::sleep(time);
        stop.store(true, Ordering::Relaxed);
    });
}

fn check(pair: &Pair, ledgers: &mut [Ledger; 2], when: &str) {
    for (at, ledger) in ledgers.iter_mut().enumerate() {
        ledger.check(&mut pair.connect(at)).unwrap_or_else(|what| panic!("{when}: volume {at}: {what}"));
    }
}

fn compare_origins(pair: &Pair, daemon: &Daemon) {
    for (at, name) in ["one", "two"].into_iter().enumerate() {
        daemon.control(&["drain", name, "--wait"]);
        let served = pair.scratch.path("served");
        fs::write(&served, pair.connect(at).read(0, 24 << 20)).unwrap();
        assert_eq!(difference(&pair.scratch.path(name), &served), None, "the origin of {name} after drain");
    }
}

#[test]
fn block_devices_serve_as_cache_and_origin() {
    need_kickcache!();
    let scratch = Scratch::new();
    let loops = (
        Loop::new(&scratch.sparse("cache file", 32 * MIB)),
        Loop::new(&scratch.sparse("origin file", 48 * MIB)),
    );
    let (cache, origin) = match loops {
        (Ok(cache), Ok(origin)) => (cache, origin),
        (Err(why), _) | (_, Err(why)) => skip!("{why}"),
    };
    tools::run(KICKCACHE, ["format".as_ref(), cache.path().as_os_str()]);
    let mut spec = Spec::new(&scratch, &origin.path(), "write-back", "32M");
    spec.cache = cache.path();
    let mut ledger = Ledger::new(0..12_000, 4096);
    for life in 0..3 {
        let daemon = spec.start();
        ledger.check(&mut daemon.connect()).unwrap_or_else(|what| panic!("life {life}: {what}"));
        write_a_while(&daemon, &mut ledger);
        spec = if life == 1 { daemon.kill() } else { daemon.stop() };
    }
    let daemon = spec.start();
    let mut client = daemon.connect();
    ledger.check(&mut client).unwrap();
    client.zero(MIB, 1 << 20, 0);
    client.trim(3 * MIB, 1 << 20);
    assert_eq!(client.read(MIB, 1 << 20), vec![0; 1 << 20]);
    let served = scratch.path("served");
    fs::write(&served, [client.read(0, 24 << 20), client.read(24 * MIB, 24 << 20)].concat()).unwrap();
    daemon.drain();
    daemon.stop();
    let file = scratch.path("origin file");
    assert_eq!(difference(&file, &served), None, "the origin after drain");
}

fn write_a_while(daemon: &Daemon, ledger: &mut Ledger) {
    let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let (stop_ref, done_ref) = (&stop, &done);
    let client = daemon.connect();
    thread::scope(|scope| {
        scope.spawn(move || ledger.write_until(client, stop_ref, done_ref).unwrap());
        thread::sleep(Duration::from_millis(400));
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn modes_change_while_writes_are_running() {
    need_kickcache!();
    let scratch = Scratch::new();
    let origin = scratch.sparse("origin", 32 * MIB);
    let spec = Spec::new(&scratch, &origin, "write-back", "16M");
    let daemon = spec.start();
    let mut ledger = Ledger::new(0..8192, 4096);
    let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let (stop_ref, done_ref, ledger_ref) = (&stop, &done, &mut ledger);
    let client = daemon.connect();
    thread::scope(|scope| {
        scope.spawn(move || ledger_ref.write_until(client, stop_ref, done_ref).unwrap());
        for mode in ["write-through", "write-around", "write-back", "bypass", "write-through", "write-back"] {
            thread::sleep(Duration::from_millis(200));
            daemon.control(&["mode", "v", mode]);
        }
        thread::sleep(Duration::from_millis(200));
        stop.store(true, Ordering::Relaxed);
    });
    ledger.check(&mut daemon.connect()).unwrap();
    daemon.control(&["mode", "v", "write-through"]);
    daemon.drain();
    let mut daemon = daemon.kill().start();
    ledger.check(&mut daemon.connect()).unwrap();
    assert!(daemon.is_alive());
    daemon.stop();
    check_file(&origin, &mut ledger, &spec);
}

/// The origin is served without the old cache device.
fn check_file(origin: &Path, ledger: &mut Ledger, spec: &Spec) {
    let cache = spec.cache.with_extension("new");
    // Blocks that were written through before the kill may be marked dirty again.
    let extra = vec!["--new-cache".into()];
    let daemon = Spec { origin: origin.into(), cache, mode: "bypass", extra, ..spec.clone() }.start();
    ledger.check(&mut daemon.connect()).unwrap();
}

#[test]
fn the_threads_engine_serves_as_io_uring_does() {
    need_kickcache!();
    let scratch = Scratch::new();
    let origin = scratch.sparse("origin", 48 * MIB);
    let mut spec = Spec::new(&scratch, &origin, "write-back", "16M");
    spec.extra = vec!["--io-engine".into(), "threads".into()];
    let mut ledger = Ledger::new(0..12_000, 4096);
    for _ in 0..2 {
        let daemon = spec.start();
        ledger.check(&mut daemon.connect()).unwrap();
        write_a_while(&daemon, &mut ledger);
        daemon.kill();
    }
    let daemon = spec.start();
    ledger.check(&mut daemon.connect()).unwrap();
    daemon.stop();
}

#[test]
fn the_socket_may_come_from_systemd() {
    need_kickcache!();
    need_tools!("systemd-socket-activate");
    let scratch = Scratch::new();
    let origin = scratch.random("origin", 16 * MIB, 2);
    let spec = Spec::new(&scratch, &origin, "write-back", "16M");
    let mut arguments: Vec<OsString> =
        vec!["-l".into(), spec.socket().into(), "-E".into(), runtime_dir(&scratch)];
    // `systemd-socket-activate` passes few variables to the daemon.
    arguments.extend(["-E".into(), "KICKCACHE_STATE".into(), KICKCACHE.into()]);
    arguments.extend(without_nbd(&spec));
    let daemon = Daemon::start(guarded("systemd-socket-activate", arguments), spec.clone(), &[spec.socket()]);
    let mut client = daemon.connect();
    client.write(4096, &[3; 4096]);
    assert_eq!(client.read(4096, 4096), [3; 4096]);
    daemon.stop();
}

#[test]
fn libnbd_may_start_the_server_itself() {
    need_kickcache!();
    need_tools!("nbdinfo");
    let scratch = Scratch::new();
    let origin = scratch.random("origin", 16 * MIB, 2);
    let spec = Spec::new(&scratch, &origin, "write-back", "16M");
    let words = ["20", "nbdinfo", "--size", "--", "[", "env"];
    let mut arguments: Vec<OsString> = words.map(OsString::from).to_vec();
    arguments.extend([runtime_dir(&scratch), KICKCACHE.into()]);
    arguments.extend(without_nbd(&spec));
    arguments.push("]".into());
    assert_eq!(tools::run("timeout", arguments).trim(), (16 * MIB).to_string());
}

/// Sockets without a given name must be in the test's directory too.
fn runtime_dir(scratch: &Scratch) -> OsString {
    let mut variable = OsString::from("XDG_RUNTIME_DIR=");
    variable.push(scratch.dir());
    variable
}

/// The socket is inherited.
fn without_nbd(spec: &Spec) -> Vec<OsString> {
    let mut arguments = spec.arguments();
    let at = arguments.iter().position(|argument| argument == "--nbd").unwrap();
    arguments.drain(at..at + 2);
    arguments
}

#[test]
fn tcp_clients_are_served() {
    need_kickcache!();
    need_tools!("nbdinfo");
    let scratch = Scratch::new();
    let origin = scratch.random("origin", 16 * MIB, 2);
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut spec = Spec::new(&scratch, &origin, "write-back", "16M");
    spec.extra = vec!["--nbd".into(), format!("tcp:127.0.0.1:{port}").into()];
    let daemon = spec.start();
    let uri = format!("nbd://127.0.0.1:{port}/v");
    assert_eq!(tools::run("nbdinfo", ["--size", &uri]).trim(), (16 * MIB).to_string());
    let copy = scratch.path("copy");
    tools::run("nbdcopy", [uri.as_str(), copy.to_str().unwrap()]);
    assert_eq!(difference(&copy, &origin), None);
    daemon.stop();
}
