//! Holes of remote origins, as clients see them.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use kickcache_nbd::client::{Client as AskingClient, ConnectOptions, StatusExtent};
use rustix::process::Signal;

use crate::daemon::{Daemon, Spec, VOLUME};
use crate::nbd_server::Server;
use crate::scratch::{MIB, Scratch, difference};
use crate::tools::run;
use crate::{need_kickcache, need_tools};

const SIZE: u64 = 64 * MIB;

/// A sparse file with three stretches of data.
fn holey(scratch: &Scratch) -> PathBuf {
    let path = scratch.sparse("disk", SIZE);
    let file = File::options().write(true).open(&path).unwrap();
    for (offset, length) in [(0, 64 << 10), (5 * MIB, 128 << 10), (40 * MIB, MIB)] {
        let bytes = vec![5; usize::try_from(length).unwrap()];
        file.write_all_at(&bytes, offset).unwrap();
    }
    file.sync_all().unwrap();
    path
}

fn serve(scratch: &Scratch, server: &Server) -> Daemon {
    Spec::new(scratch, &server.uri(), "write-back", "16M").start()
}

/// Start, length and type of each extent, as nbdinfo prints them.
fn map(uri: &str) -> Vec<[u64; 3]> {
    let text = run("nbdinfo", ["--map", uri]);
    let numbers = |line: &str| {
        let mut words = line.split_whitespace().map(|word| word.parse().unwrap_or(0));
        [(); 3].map(|()| words.next().unwrap_or_default())
    };
    text.lines().map(numbers).collect()
}

fn server_map(server: &Server) -> Vec<[u64; 3]> {
    map(server.uri().to_str().unwrap())
}

fn asking(daemon: &Daemon) -> AskingClient {
    let options = ConnectOptions { export: VOLUME.into(), allocation: true, ..ConnectOptions::default() };
    AskingClient::connect_unix(daemon.spec.socket(), &options).unwrap()
}

#[test]
fn holes_of_a_remote_origin_are_reported_if_uncached() {
    need_kickcache!();
    need_tools!("nbdkit", "nbdinfo", "nbdcopy", "qemu-img");
    let scratch = Scratch::new();
    let disk = holey(&scratch);
    let server = Server::start(&scratch, &disk, &[], &[]);
    let daemon = serve(&scratch, &server);
    let before = server_map(&server);
    assert!(before.iter().filter(|extent| extent[2] == 3).count() >= 3, "{before:?}");
    assert_eq!(map(&daemon.uri()), before);

    let mut client = daemon.connect();
    client.write(20 * MIB, &[7; 8_192]);
    let expected = [[5 * MIB + (128 << 10), 15 * MIB - (128 << 10), 3], [20 * MIB, 8_192, 0]];
    let found = map(&daemon.uri());
    assert!(expected.iter().all(|extent| found.contains(extent)), "{found:?}");
    assert_eq!(server_map(&server), before, "the origin has not got it yet");
    let data: u64 = found.iter().filter(|extent| extent[2] == 0).map(|extent| extent[1]).sum();
    assert_eq!(qemu_data(&daemon), data);

    let copy = scratch.sparse("copy", SIZE);
    run("nbdcopy", [daemon.uri().as_str(), copy.to_str().unwrap()]);
    daemon.drain();
    daemon.stop();
    assert_eq!(difference(&copy, &disk), None);
}

/// Bytes that `qemu-img map` reports as data.
fn qemu_data(daemon: &Daemon) -> u64 {
    let text = run("qemu-img", ["map", "--output=json", &daemon.uri()]);
    let extents: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
    let data = extents.iter().filter(|extent| extent["data"] == true);
    data.map(|extent| extent["length"].as_u64().unwrap()).sum()
}

#[test]
fn a_server_without_block_status_has_no_holes() {
    need_kickcache!();
    need_tools!("nbdkit", "nbdinfo");
    let scratch = Scratch::new();
    let disk = holey(&scratch);
    for flags in [["--no-sr"].as_slice(), &["--filter=noextents"]] {
        let server = Server::start(&scratch, &disk, flags, &[]);
        let daemon = serve(&scratch, &server);
        assert_eq!(map(&daemon.uri()), [[0, SIZE, 0]], "{flags:?}");
        assert_eq!(daemon.connect().read(5 * MIB, 4_096), [5; 4_096]);
        daemon.stop();
    }
}

#[test]
fn an_unanswered_status_request_waits_alone_until_an_outage() {
    need_kickcache!();
    need_tools!("nbdkit");
    let scratch = Scratch::new();
    let disk = holey(&scratch);
    let mut server = Server::start(&scratch, &disk, &[], &[]);
    let daemon = serve(&scratch, &server);
    let (mut client, mut asker) = (daemon.connect(), asking(&daemon));
    let ask = |asker: &mut AskingClient| {
        let told = asker.block_status(10 * MIB, 4 * MIB).unwrap();
        told.iter().map(|extent| (extent.length, extent.hole)).collect::<Vec<_>>()
    };
    assert_eq!(ask(&mut asker), [(4 * MIB, true)]);
    client.write(0, &[1; 4_096]);
    server.freeze();
    let waiting = thread::spawn(move || (ask(&mut asker), asker));
    for _ in 0..50 {
        assert_eq!(client.read(0, 4_096), [1; 4_096]);
        thread::sleep(Duration::from_millis(2));
    }
    assert!(!waiting.is_finished());
    server.kill();
    let (told, mut asker) = waiting.join().unwrap();
    assert_eq!(told, [(4 * MIB, false)]);
    assert_eq!(ask(&mut asker), [(4 * MIB, false)], "nobody is there to be asked");
    let _server = Server::start(&scratch, &disk, &[], &[]);
    assert_eq!(client.read(5 * MIB, 4_096), [5; 4_096]);
    assert_eq!(ask(&mut asker), [(4 * MIB, true)]);
    daemon.stop();
}

#[test]
fn a_stop_answers_requests_that_the_server_has_not() {
    need_kickcache!();
    need_tools!("nbdkit");
    let scratch = Scratch::new();
    let disk = holey(&scratch);
    let server = Server::start(&scratch, &disk, &[], &[]);
    let mut daemon = serve(&scratch, &server);
    let mut asker = asking(&daemon);
    server.freeze();
    let waiting = thread::spawn(move || asker.block_status(10 * MIB, 4 * MIB));
    thread::sleep(Duration::from_millis(200));
    assert!(!waiting.is_finished());
    daemon.signal(Signal::TERM);
    assert_eq!(
        waiting.join().unwrap().unwrap(),
        [StatusExtent { length: 4 * MIB, hole: false, zero: false }]
    );
    server.signal(Signal::CONT);
    let status = daemon.wait();
    daemon.check_end(status);
}

#[test]
fn written_back_blocks_are_no_holes() {
    need_kickcache!();
    need_tools!("nbdkit", "nbdinfo");
    let scratch = Scratch::new();
    let disk = holey(&scratch);
    let server = Server::start(&scratch, &disk, &[], &[]);
    let daemon = serve(&scratch, &server);
    let mut client = daemon.connect();
    client.write(30 * MIB, &[7; 4_096]);
    daemon.drain();
    let is_told = |found: &[[u64; 3]]| found.contains(&[30 * MIB, 4_096, 0]);
    assert!(is_told(&server_map(&server)) && is_told(&map(&daemon.uri())));
    assert_eq!(file_byte(&disk, 30 * MIB), 7);
    daemon.stop();
}

fn file_byte(path: &Path, offset: u64) -> u8 {
    let mut byte = [0];
    File::open(path).unwrap().read_exact_at(&mut byte, offset).unwrap();
    byte[0]
}
