//! Servers of remote origins that die of a request, or hang in the handshake: requests end in time all the same.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::client::{Client, READ, Request};
use crate::daemon::{Daemon, Spec};
use crate::evil_server::{EvilServer, POISON};
use crate::nbd_server::wait_for;
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
fn a_request_that_its_server_dies_of_fails_in_time_and_nobody_storms_the_server() {
    need_kickcache!();
    let scratch = Scratch::new();
    let server = EvilServer::start(&scratch, "evil.sock", 64 * MIB);
    let daemon = serve(&scratch, &server, "3s");
    let (mut client, mut beside) = (daemon.connect(), daemon.connect());
    let before = server.accepted();
    let victim = thread::spawn(move || read(&mut client, POISON));
    let stop = AtomicBool::new(false);
    let start = Instant::now();
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
        while !victim.is_finished() && start.elapsed() < Duration::from_secs(15) {
            thread::sleep(Duration::from_millis(20));
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(victim.is_finished(), "it still waits: {}", daemon.log());
    assert_eq!(victim.join().unwrap(), EIO);
    // 0, 50, 100, ... ms after each loss: 7 of them take 3.5 s; without pauses there are 50.
    let connections = server.accepted() - before;
    assert!((2..=16).contains(&connections), "{connections} connections: {}", daemon.log());
    let lines = daemon.log().lines().filter(|line| line.contains("is lost")).count();
    assert!(lines <= 5, "{}", daemon.log());
    wait_for(&daemon, "1 request that it was lost with again and again");
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
    wait_for(&daemon, "fails until it is back");
    for block in 0..4 {
        let start = Instant::now();
        assert_eq!(read(&mut client, 20 * MIB + block * 8192), EIO);
        assert!(start.elapsed() < Duration::from_secs(1), "it waited for the handshake: {}", daemon.log());
        thread::sleep(Duration::from_millis(300));
    }
    daemon.stop();
}
