//! Servers of remote origins that die, hang, or answer late.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::client::{Client, READ, Request, WRITE};
use crate::daemon::{Daemon, KICKCACHE, Spec, VOLUME, guarded};
use crate::evil_server::{EvilServer, POISON, SAMPLED};
use crate::need_kickcache;
use crate::scratch::{MIB, Scratch};

const EIO: u32 = 5;

fn serve(scratch: &Scratch, server: &EvilServer, timeout: &str) -> Daemon {
    let mut spec = Spec::new(scratch, &server.uri(), "write-through", "16M");
    spec.extra = ["--origin-timeout", timeout, "--fill-window-max", "4K"].map(Into::into).to_vec();
    spec.start()
}

fn read(client: &mut Client, offset: u64) -> u32 {
    client.call(Request { command: READ, flags: 0, offset, length: 4096 }, &[]).unwrap().errno
}

#[test]
fn a_request_that_kills_its_server_fails_in_time() {
    need_kickcache!();
    let scratch = Scratch::new();
    let server = EvilServer::start(&scratch, "evil.sock", 64 * MIB);
    let daemon = serve(&scratch, &server, "3s");
    let (mut client, mut beside) = (daemon.connect(), daemon.connect());
    let before = server.accepted();
    let victim = thread::spawn(move || read(&mut client, POISON));
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0_u64.. {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                assert_eq!(read(&mut beside, 16 * MIB + number % 4096 * 8192), 0);
                thread::sleep(Duration::from_millis(5));
            }
        });
        // The client of this test waits for up to half a minute.
        assert_eq!(victim.join().unwrap(), EIO);
        stop.store(true, Ordering::Relaxed);
    });
    // Pauses between the attempts limit the connections.
    let connections = server.accepted() - before;
    assert!((2..=16).contains(&connections), "{connections} connections: {}", daemon.log());
    let lines = daemon.log().lines().filter(|line| line.contains("is lost")).count();
    assert!(lines <= 5, "{}", daemon.log());
    daemon.wait_for_log(&["1 request, each of which repeatedly ended with the loss of the server"]);
    daemon.stop();
}

#[test]
fn requests_outlive_a_server_that_shuts_down() {
    need_kickcache!();
    let scratch = Scratch::new();
    let server = EvilServer::start(&scratch, "evil.sock", 64 * MIB);
    let daemon = serve(&scratch, &server, "30s");
    let mut client = daemon.connect();
    for command in [READ, WRITE] {
        server.shut_down();
        let request = Request { command, flags: 0, offset: 16 * MIB, length: 4096 };
        let payload = vec![0; if command == WRITE { 4096 } else { 0 }];
        assert_eq!(client.call(request, &payload).unwrap().errno, 0);
        assert!(!server.is_shutting_down(), "the request did not reach it");
    }
    daemon.wait_for_log(&["is lost"]);
    daemon.stop();
}

#[test]
fn an_outage_ends_in_time_while_a_handshake_hangs() {
    need_kickcache!();
    let scratch = Scratch::new();
    let server = EvilServer::start(&scratch, "evil.sock", 64 * MIB);
    let daemon = serve(&scratch, &server, "4s");
    let mut client = daemon.connect();
    assert_eq!(read(&mut client, 0), 0);
    server.hang();
    server.crash();
    assert_eq!(read(&mut client, 16 * MIB), EIO);
    daemon.wait_for_log(&["fail until it returns"]);
    // Each handshake hangs for seconds, and the next one follows.
    let (before, reads) = (server.accepted(), 16);
    (0..reads).for_each(|block| assert_eq!(read(&mut client, 20 * MIB + block * 8192), EIO));
    assert!(server.accepted() - before < reads / 2, "reads wait for handshakes: {}", daemon.log());
    daemon.stop();
}

/// Volumes besides `v`, each with its server.
const MUTE: [&str; 5] = ["a", "b", "c", "d", "e"];

/// Two volumes behind a cache device, three and `v` behind another one, each with a server and this timeout.
fn configure(scratch: &Scratch, spec: &Spec, servers: &[EvilServer], timeout: &str) -> Vec<OsString> {
    let file = scratch.path("six.toml");
    let mut text = format!("control = \"{}\"\n", spec.control().display());
    let cache = |path: &Path| format!("[[cache]]\ndevice = \"{}\"\nsize = \"16M\"\n", path.display());
    for (name, server) in MUTE.iter().chain(&[VOLUME]).zip(servers) {
        match *name {
            "a" => text += &cache(&scratch.path("other")),
            "c" => text += &cache(&spec.cache),
            _ => {}
        }
        let socket = if *name == VOLUME { spec.socket() } else { scratch.path(&format!("{name}.nbd")) };
        text += &format!("[[cache.volume]]\nname = \"{name}\"\norigin = \"{}\"\n", server.uri().display());
        text += &format!("origin-timeout = \"{timeout}\"\nnbd = [\"unix:{}\"]\n", socket.display());
    }
    fs::write(&file, text).unwrap();
    vec!["serve".into(), "--config".into(), file.into()]
}

#[test]
fn a_start_waits_for_silent_servers_in_parallel() {
    need_kickcache!();
    let scratch = Scratch::new();
    let names = MUTE.iter().chain(&[VOLUME]);
    let servers: Vec<_> =
        names.map(|name| EvilServer::start(&scratch, &format!("{name}.sock"), MIB)).collect();
    let spec = Spec::new(&scratch, &servers[5].uri(), "write-through", "16M");
    let start = |timeout: &str, sockets: &[PathBuf]| {
        let arguments = configure(&scratch, &spec, &servers, timeout);
        Daemon::start(guarded(KICKCACHE, arguments), spec.clone(), sockets)
    };
    start("4s", &[spec.socket()]).stop();
    servers[..5].iter().for_each(EvilServer::hang);
    let before: Vec<u64> = servers.iter().map(EvilServer::accepted).collect();
    let mut daemon = start("1h", &[]);
    let began = Instant::now();
    while servers[..5].iter().zip(&before).any(|(server, before)| server.accepted() == *before) {
        assert!(began.elapsed() < Duration::from_secs(60), "they are asked one by one: {}", daemon.log());
        thread::sleep(Duration::from_millis(10));
    }
    daemon.signal(Signal::TERM);
    daemon.wait();
    let daemon = start("4s", &[spec.socket()]);
    assert_eq!(read(&mut daemon.connect(), 0), 0);
    for server in &servers[..5] {
        let line = format!("the server of {}, the origin of", server.uri().display());
        let is_told = |found: &str| found.contains(&line) && found.contains("has not answered for 3 s");
        assert!(daemon.log().lines().any(is_told), "{}", daemon.log());
    }
    let why = "the server did not answer within 4 s; give it more time (--origin-timeout";
    assert!(daemon.log().contains(why), "{}", daemon.log());
    daemon.stop();
}

/// Caches a block that a server must have, and has: zeroes.
fn fill(client: &mut Client) {
    client.write(SAMPLED, &[0; 4096]);
    client.flush();
}

#[test]
fn servers_are_compared_with_the_cache_side_by_side() {
    need_kickcache!();
    let scratch = Scratch::new();
    let names = MUTE.iter().chain(&[VOLUME]);
    let servers: Vec<_> =
        names.clone().map(|name| EvilServer::start(&scratch, &format!("{name}.sock"), MIB)).collect();
    let spec = Spec::new(&scratch, &servers[5].uri(), "write-through", "16M");
    let arguments = configure(&scratch, &spec, &servers, "4s");
    let start = || Daemon::start(guarded(KICKCACHE, arguments.clone()), spec.clone(), &[spec.socket()]);
    let daemon = start();
    for name in MUTE {
        fill(&mut Client::connect(&scratch.path(&format!("{name}.nbd")), name).unwrap());
    }
    fill(&mut daemon.connect());
    daemon.stop();
    // Compared one by one, the first server would wait for ever at the barrier.
    let all = Arc::new(Barrier::new(servers.len()));
    servers.iter().for_each(|server| server.answer_with(&all));
    let daemon = start();
    let status = daemon.status();
    let served = [0, 1].map(|cache| status["caches"][cache]["volumes"].as_array().unwrap().len());
    assert_eq!(served, [2, 4], "{}", daemon.log());
    assert!(servers.iter().all(|server| !server.is_waiting()), "each was asked");
    daemon.stop();
}

#[test]
fn a_signal_ends_a_start_that_waits_for_a_server() {
    need_kickcache!();
    let scratch = Scratch::new();
    let server = EvilServer::start(&scratch, "evil.sock", 64 * MIB);
    server.hang();
    let spec = Spec::new(&scratch, &server.uri(), "write-through", "16M");
    for signal in [Signal::TERM, Signal::INT] {
        let before = server.accepted();
        let mut daemon = Daemon::start(spec.command(), spec.clone(), &[]);
        let start = Instant::now();
        while server.accepted() == before {
            assert!(start.elapsed() < Duration::from_secs(60), "{}", daemon.log());
            thread::sleep(Duration::from_millis(10));
        }
        daemon.signal(signal);
        // Without the signal, the start would wait longer than this test.
        let status = daemon.wait();
        daemon.check_end(status);
        assert!(!spec.cache.exists() && !spec.control().exists(), "it leaves something behind");
    }
}

#[test]
fn a_signal_ends_an_offline_drain_during_its_connect() {
    need_kickcache!();
    let scratch = Scratch::new();
    let server = EvilServer::start(&scratch, "evil.sock", 64 * MIB);
    let daemon = Spec::new(&scratch, &server.uri(), "write-back", "16M").start();
    daemon.connect().write(0, &[1; 4096]);
    let spec = daemon.kill();
    server.hang();
    let before = server.accepted();
    // Shell scripts start background processes with SIGINT ignored.
    let words = ["-c", "trap '' INT; exec \"$@\"", "sh", KICKCACHE, "drain", "--cache"].map(Into::into);
    let arguments = words.into_iter().chain([spec.cache.clone().into()]).collect();
    let mut child = guarded("sh", arguments).stderr(Stdio::null()).spawn().unwrap();
    let start = Instant::now();
    while server.accepted() == before {
        assert!(start.elapsed() < Duration::from_secs(60), "the drain does not begin");
        thread::sleep(Duration::from_millis(10));
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert!(!child.wait().unwrap().success());
    assert_eq!(server.accepted(), before + 1, "it tried again");
}
