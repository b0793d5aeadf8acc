//! Volumes that are added and removed while others are served.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::client::{Client, Request};
use crate::daemon::{Daemon, KICKCACHE};
use crate::guest::{Guest, READ, WRITE};
use crate::ledger::Ledger;
use crate::nbd_server::Server;
use crate::reload::{Reloadable, volume_of};
use crate::rng::Rng;
use crate::scratch::{MIB, state_dir};
use crate::{need_kickcache, need_tools, tools};

/// Dirty blocks of an idle volume stay dirty.
const LAZY: &str = "mode = \"write-back\"\nidle-after = \"24h\"";

fn add<'a>(reloadable: &'a Reloadable, name: &'a str, more: &[&'a str]) -> Vec<String> {
    let origin = reloadable.scratch.path(name);
    if !origin.exists() {
        reloadable.scratch.sparse(name, 24 * MIB);
    }
    let nbd = format!("unix:{}", reloadable.socket(name).display());
    let cache = reloadable.spec.cache.display().to_string();
    let own = ["add", "--cache", &cache, "--origin", origin.to_str().unwrap(), "--nbd", &nbd];
    own.iter().chain(more).map(|word| (*word).to_owned()).collect()
}

fn done(daemon: &Daemon, arguments: &[String]) -> String {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    daemon.control(&arguments)
}

fn refusal(reloadable: &Reloadable, arguments: &[String], code: i32) -> String {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    reloadable.refusal(&arguments, code)
}

fn bytes_at(path: &Path, offset: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    fs::File::open(path).unwrap().read_exact_at(&mut bytes, offset).unwrap();
    bytes
}

#[test]
fn a_volume_is_added_served_and_there_after_a_kill() {
    need_kickcache!();
    let reloadable = Reloadable::new(&[("one", "")]);
    let daemon = reloadable.start(&["one"]);
    let flags = ["--mode", "write-back", "--dirty-limit", "50%", "--idle-after", "24h"];
    let said = done(&daemon, &add(&reloadable, "two", &flags));
    assert!(said.starts_with("two: added\nnbd+unix:///two?socket="), "{said}");
    let two = volume_of(&daemon, "two").unwrap();
    assert_eq!((&two["mode"], &two["name"]), (&Value::from("write-back"), &Value::from("two")));
    let mut client = reloadable.connect("two");
    client.write(8192, &[7; 8192]);
    client.flush();
    assert_eq!(reloadable.connect("one").read(0, 4096), vec![0; 4096]);
    // A reload keeps a volume that a command added.
    let said = daemon.control(&["reload"]);
    assert!(said.contains("two: added by a command, not in the file; it stays"), "{said}");
    daemon.kill();
    reloadable.write(&[("one", ""), ("two", LAZY)]);
    let daemon = reloadable.start(&["one", "two"]);
    assert_eq!(reloadable.connect("two").read(8192, 8192), vec![7; 8192]);
    assert_eq!(bytes_at(&reloadable.scratch.path("two"), 8192, 4096), vec![0; 4096], "it was dirty");
    daemon.control(&["drain", "two", "--wait"]);
    assert_eq!(bytes_at(&reloadable.scratch.path("two"), 8192, 8192), vec![7; 8192]);
    daemon.stop();
}

#[test]
fn a_volume_missing_in_the_file_has_a_hint() {
    need_kickcache!();
    let reloadable = Reloadable::new(&[("one", "")]);
    let daemon = reloadable.start(&["one"]);
    let hint = |name| {
        let arguments = add(&reloadable, name, &[]);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let added = reloadable.try_control(&arguments);
        assert!(added.status.success(), "{added:?}");
        String::from_utf8(added.stderr).unwrap()
    };
    let file = reloadable.scratch.path("config.toml").display().to_string();
    assert_eq!(
        hint("two"),
        format!("two is not in {file}: the next start serves it only if it is added there\n")
    );
    reloadable.write(&[("one", ""), ("two", ""), ("three", "")]);
    assert_eq!(hint("three"), "");
    daemon.stop();
}

#[test]
fn a_refused_add_changes_no_state() {
    need_kickcache!();
    let reloadable = Reloadable::new(&[("one", "")]);
    let daemon = reloadable.start(&["one"]);
    let twice = add(&reloadable, "one", &["--name", "two"]);
    assert!(refusal(&reloadable, &twice, 1).contains("is that of volume one, which is served here"));
    let again = add(&reloadable, "three", &["--name", "one", "--nbd", "unix:/tmp/kickcache-it-none.sock"]);
    assert!(refusal(&reloadable, &again, 2).contains("two volumes have the name"));
    let mut swapped = add(&reloadable, "two", &[]);
    swapped[4] = reloadable.spec.cache.display().to_string();
    assert!(refusal(&reloadable, &swapped, 1).contains("is the cache device"));
    let mut missing = add(&reloadable, "two", &[]);
    missing[4] = reloadable.scratch.path("nothing").display().to_string();
    assert!(refusal(&reloadable, &missing, 1).contains("nothing"));
    let mut elsewhere = add(&reloadable, "two", &[]);
    elsewhere[2] = "/dev/other".into();
    assert!(refusal(&reloadable, &elsewhere, 1).contains("is not served here; there is"));
    // With a driver, `scripts/test-ublk live` tests this.
    if !Path::new("/dev/ublk-control").exists() {
        let ublk = add(&reloadable, "two", &["--ublk"]);
        assert!(refusal(&reloadable, &ublk, 1).contains("this kernel has no ublk driver loaded"));
    }
    assert!(volume_of(&daemon, "two").is_none());
    assert!(!reloadable.socket("two").exists());
    done(&daemon, &add(&reloadable, "two", &[]));
    let spec = daemon.stop();
    let text = tools::run(KICKCACHE, ["inspect", spec.cache.to_str().unwrap()]);
    assert!(text.contains("two"), "{text}");
}

#[test]
fn an_address_is_shared_by_volumes_that_come_and_go() {
    need_kickcache!();
    let reloadable = Reloadable::new(&[("one", "")]);
    let daemon = reloadable.start(&["one"]);
    let mut words = add(&reloadable, "two", &[]);
    words[6] = format!("unix:{}", reloadable.socket("one").display());
    done(&daemon, &words);
    Client::connect(&reloadable.socket("one"), "two").unwrap().write(0, &[2; 4096]);
    reloadable.connect("one").write(0, &[1; 4096]);
    daemon.control(&["remove", "two", "--disconnect"]);
    assert!(Client::connect(&reloadable.socket("one"), "two").is_err(), "it is offered no more");
    assert_eq!(reloadable.connect("one").read(0, 4096), vec![1; 4096]);
    done(&daemon, &words);
    assert_eq!(Client::connect(&reloadable.socket("one"), "two").unwrap().read(0, 4096), vec![2; 4096]);
    assert_eq!(reloadable.unnamed("one").unwrap().read(0, 4096), vec![1; 4096]);
    daemon.control(&["remove", "one", "--disconnect"]);
    assert!(reloadable.unnamed("one").is_err(), "it would write into another volume");
    daemon.stop();
}

#[test]
fn a_verified_neighbour_is_undisturbed_by_membership_changes() {
    need_kickcache!();
    need_tools!("fio");
    let reloadable = Reloadable::new(&[("one", "mode = \"write-back\"")]);
    let daemon = reloadable.start(&["one"]);
    let uri = format!("nbd+unix:///one?socket={}", reloadable.socket("one").display());
    let is_over = AtomicBool::new(false);
    let mut rounds = 0;
    let text = thread::scope(|scope| {
        let fio = scope.spawn(|| {
            let uri = format!("--uri={uri}");
            let output = tools::output(
                "fio",
                [
                    "--name=verify",
                    "--ioengine=nbd",
                    "--rw=randwrite",
                    "--bssplit=512/10:4k/50:64k/40",
                    "--iodepth=16",
                    "--fsync=48",
                    "--verify=crc32c",
                    "--verify_interval=512",
                    "--verify_fatal=1",
                    "--verify_state_save=0",
                    "--serialize_overlap=1",
                    "--size=20M",
                    "--loops=6",
                    &uri,
                ],
            );
            is_over.store(true, Ordering::Relaxed);
            output
        });
        while !is_over.load(Ordering::Relaxed) || rounds == 0 {
            done(&daemon, &add(&reloadable, "two", &["--mode", "write-back"]));
            let mut client = reloadable.connect("two");
            client.write(rounds % 16 * 4096, &[u8::try_from(rounds % 250).unwrap() + 1; 65536]);
            drop(client);
            daemon.control(&["remove", "two", "--disconnect"]);
            rounds += 1;
        }
        fio.join().unwrap()
    });
    let said = String::from_utf8_lossy(&text.stdout);
    assert!(
        text.status.success() && said.contains("err= 0"),
        "{said} {}",
        String::from_utf8_lossy(&text.stderr)
    );
    assert!(rounds > 2, "{rounds} rounds");
    daemon.stop();
}

#[test]
fn a_removal_writes_back_and_leaves_no_stale_blocks() {
    need_kickcache!();
    let reloadable = Reloadable::new(&[("one", ""), ("two", LAZY)]);
    let daemon = reloadable.start(&["one", "two"]);
    let mut client = reloadable.connect("two");
    for block in 0..512 {
        client.write(block * 4096, &[9; 4096]);
    }
    client.read(8 * MIB, 1 << 20);
    let said = reloadable.refusal(&["remove", "two"], 1);
    assert!(said.contains("volume two: 1 client is connected"), "{said}");
    drop(client);
    wait_for_no_client(&daemon, "two");
    assert!(volume_of(&daemon, "two").unwrap()["dirty_bytes"].as_u64().unwrap() > 0);
    assert_eq!(daemon.control(&["remove", "two"]), "two: removed; its origin has all data\n");
    let origin = reloadable.scratch.path("two");
    assert!(bytes_at(&origin, 0, 512 * 4096).iter().all(|byte| *byte == 9));
    assert!(volume_of(&daemon, "two").is_none() && !reloadable.socket("two").exists());
    assert!(
        reloadable.refusal(&["remove", "two"], 1).contains("there is no volume `two` here; there is one")
    );
    // Other programs may write to the origin while it is not served.
    fs::File::options().write(true).open(&origin).unwrap().write_all_at(&[5; 8192], 4096).unwrap();
    done(&daemon, &add(&reloadable, "two", &["--mode", "write-back"]));
    assert_eq!(volume_of(&daemon, "two").unwrap()["cached_bytes"], 0);
    assert_eq!(
        reloadable.connect("two").read(0, 16384),
        [[9; 4096], [5; 4096], [5; 4096], [9; 4096]].concat()
    );
    // The number of `two` is reused for another volume.
    wait_for_no_client(&daemon, "two");
    daemon.control(&["remove", "two"]);
    done(&daemon, &add(&reloadable, "three", &["--mode", "write-back"]));
    let mut three = reloadable.connect("three");
    three.write(4096, &[3; 4096]);
    three.flush();
    daemon.kill();
    reloadable.write(&[("one", ""), ("two", ""), ("three", "mode = \"write-back\"")]);
    let daemon = reloadable.start(&["one", "two", "three"]);
    assert_eq!(reloadable.connect("three").read(0, 12288), [[0; 4096], [3; 4096], [0; 4096]].concat());
    assert_eq!(reloadable.connect("two").read(4096, 4096), vec![5; 4096]);
    daemon.stop();
}

fn record_of(volume: &str) -> Value {
    let files = fs::read_dir(state_dir()).unwrap().map(|file| file.unwrap().path());
    let records = files.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("origin-"));
    let mut records = records.map(|path| serde_json::from_slice::<Value>(&fs::read(path).unwrap()).unwrap());
    records.find(|record| record["volume"] == volume).unwrap()
}

fn wait_for_no_client(daemon: &Daemon, name: &str) {
    let began = Instant::now();
    while volume_of(daemon, name).unwrap()["sessions"]["nbd"] != 0 {
        assert!(began.elapsed() < Duration::from_secs(10));
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn clients_end_and_dirty_blocks_are_lost_only_by_order() {
    need_kickcache!();
    let reloadable = Reloadable::new(&[("one", ""), ("two", "mode = \"write-back\"")]);
    let daemon = reloadable.start(&["one", "two"]);
    let mut client = reloadable.connect("two");
    client.write(0, &[9; 65536]);
    assert_eq!(record_of("two")["may_be_dirty"], true);
    let said = daemon.control(&["remove", "two", "--disconnect", "--abandon-dirty"]);
    assert!(said.contains("two: removed; ") && said.contains("of dirty blocks LOST"), "{said}");
    assert!(bytes_at(&reloadable.scratch.path("two"), 0, 65536).iter().all(|byte| *byte == 0));
    let ended = client.call(Request { length: 4096, ..Request::default() }, &[]);
    assert!(ended.is_err() || ended.unwrap().errno != 0, "its connection has ended");
    let said = reloadable.refusal(&["remove", "one"], 1);
    assert!(said.contains("it is the only volume of"), "{said}");
    // The record does not have the origin as dirty any more.
    let record = record_of("two");
    assert_eq!((&record["may_be_dirty"], &record["volume"]), (&false.into(), &"two".into()), "{record}");
    daemon.stop();
}

#[test]
fn a_reload_adds_and_removes_volumes_and_places() {
    need_kickcache!();
    let guest_socket = "guest.sock";
    let reloadable = Reloadable::new(&[("one", ""), ("two", "mode = \"write-back\"")]);
    let daemon = reloadable.start(&["one", "two"]);
    let mut client = reloadable.connect("two");
    client.write(0, &[9; 65536]);
    let path = reloadable.scratch.path(guest_socket).display().to_string();
    let lines = format!("vhost-user = \"{path}\"\nmode = \"write-back\"");
    reloadable.write(&[("one", &lines), ("three", "")]);
    let dry = daemon.control(&["reload", "--dry-run"]);
    let expected = format!(
        "two: removed from {cache}\none: mode write-through -> write-back\none: vhost-user {path} added\nthree: added, {three} behind \
         {cache}\n",
        cache = reloadable.spec.cache.display(),
        three = reloadable.scratch.path("three").display()
    );
    assert_eq!(dry, expected);
    let said = reloadable.refusal(&["reload"], 1);
    assert!(said.contains("volume two: 1 client is connected"), "{said}");
    assert!(
        volume_of(&daemon, "three").is_none()
            && volume_of(&daemon, "one").unwrap()["mode"] == "write-through"
    );
    drop(client);
    wait_for_no_client(&daemon, "two");
    assert_eq!(daemon.control(&["reload"]), expected);
    assert_eq!(daemon.control(&["reload"]), "no difference\n");
    assert!(bytes_at(&reloadable.scratch.path("two"), 0, 65536).iter().all(|byte| *byte == 9));
    let mut guest = Guest::connect(&reloadable.scratch.path(guest_socket), 1, 0);
    assert_eq!(guest.run(0, WRITE, 8, &[4; 4096]).0, 0);
    assert_eq!(reloadable.connect("one").read(4096, 4096), vec![4; 4096]);
    reloadable.connect("three").write(0, &[1; 4096]);
    reloadable.write(&[("one", "mode = \"write-back\""), ("three", "")]);
    assert!(reloadable.refusal(&["reload"], 1).contains("a virtual machine is connected"));
    assert_eq!(guest.run(0, READ, 8, &[0; 4096]), (0, vec![4; 4096]));
    drop(guest);
    let began = Instant::now();
    while !reloadable.try_control(&["reload"]).status.success() {
        assert!(began.elapsed() < Duration::from_secs(10), "{}", daemon.log());
        thread::sleep(Duration::from_millis(10));
    }
    assert!(!reloadable.scratch.path(guest_socket).exists());
    daemon.signal(Signal::HUP);
    daemon.wait_for_log(&["no difference"]);
    daemon.kill();
    let daemon = reloadable.start(&["one", "three"]);
    assert_eq!(reloadable.connect("one").read(4096, 4096), vec![4; 4096]);
    assert_eq!(reloadable.connect("three").read(0, 4096), vec![1; 4096]);
    daemon.stop();
}

#[test]
fn a_reload_that_fails_midway_of_its_checks_leaves_everything() {
    need_kickcache!();
    let reloadable = Reloadable::new(&[("one", "")]);
    let daemon = reloadable.start(&["one"]);
    reloadable.write(&[("one", "mode = \"write-back\""), ("two", ""), ("three", "")]);
    fs::remove_file(reloadable.scratch.path("three")).unwrap();
    let said = reloadable.refusal(&["reload"], 1);
    assert!(said.contains("three"), "{said}");
    assert!(volume_of(&daemon, "two").is_none() && !reloadable.socket("two").exists());
    assert_eq!(volume_of(&daemon, "one").unwrap()["mode"], "write-through");
    reloadable.scratch.sparse("three", 24 * MIB);
    daemon.control(&["reload"]);
    assert!(volume_of(&daemon, "two").is_some() && volume_of(&daemon, "three").is_some());
    daemon.stop();
}

#[test]
fn a_waiting_removal_does_not_block_other_volumes() {
    need_kickcache!();
    need_tools!("nbdkit");
    let reloadable = Reloadable::new(&[("one", "")]);
    let daemon = reloadable.start(&["one"]);
    let disk = reloadable.scratch.sparse("disk", 24 * MIB);
    let server = Server::start(&reloadable.scratch, &disk, &[], &[]);
    let uri = server.uri().display().to_string();
    let mut two = add(&reloadable, "two", &["--name", "two", "--mode", "write-back"]);
    two[4] = uri;
    done(&daemon, &two);
    let mut client = reloadable.connect("two");
    client.write(8192, &[7; 8192]);
    client.flush();
    server.freeze();
    thread::scope(|scope| {
        let removal = scope.spawn(|| reloadable.try_control(&["remove", "two", "--disconnect"]));
        while volume_of(&daemon, "two").is_some_and(|volume| volume["draining"] == false) {
            thread::sleep(Duration::from_millis(10));
        }
        done(&daemon, &add(&reloadable, "three", &[]));
        assert!(reloadable.refusal(&["mode", "two", "write-back"], 1).contains("two is being removed"));
        assert!(daemon.control(&["reload", "--dry-run"]).contains("two: it is being removed"));
        assert!(!removal.is_finished(), "it waits for its origin");
        server.signal(Signal::CONT);
        assert!(removal.join().unwrap().status.success());
    });
    assert_eq!(bytes_at(&disk, 8192, 8192), vec![7; 8192]);
    assert!(volume_of(&daemon, "two").is_none() && volume_of(&daemon, "three").is_some());
    daemon.stop();
}

/// The volume was removed from the file while it was dirty, and the daemon was killed before the writeback.
#[test]
fn dirty_blocks_of_an_unserved_volume_are_reported() {
    need_kickcache!();
    let reloadable = Reloadable::new(&[("one", ""), ("two", LAZY)]);
    let daemon = reloadable.start(&["one", "two"]);
    let mut client = reloadable.connect("two");
    client.write(8192, &[7; 8192]);
    client.flush();
    reloadable.write(&[("one", "")]);
    daemon.kill();
    let daemon = reloadable.start(&["one"]);
    let what = format!("{} holds 8 KiB of it that its origin", reloadable.spec.cache.display());
    daemon.wait_for_log(&[&format!("volume two is not served: {what}")]);
    let status = daemon.status();
    let unserved = &status["unserved"][0];
    assert!(unserved["name"] == "two" && unserved["why"].as_str().unwrap().contains(&what), "{unserved}");
    assert!(daemon.control(&["reload"]).contains(&what));
    assert!(reloadable.refusal(&["remove", "two"], 1).contains(&what));
    done(&daemon, &add(&reloadable, "two", &[]));
    daemon.control(&["remove", "two", "--disconnect"]);
    assert_eq!(bytes_at(&reloadable.scratch.path("two"), 8192, 8192), vec![7; 8192]);
    assert_eq!(daemon.status()["unserved"].as_array().map(Vec::len), Some(0));
    daemon.stop();
}

#[test]
fn a_volume_is_removed_with_its_lost_origins_requests() {
    need_kickcache!();
    need_tools!("nbdkit");
    let reloadable = Reloadable::new(&[("one", "")]);
    let daemon = reloadable.start(&["one"]);
    let disk = reloadable.scratch.sparse("disk", 24 * MIB);
    let mut server = Server::start(&reloadable.scratch, &disk, &[], &[]);
    let mut two =
        add(&reloadable, "two", &["--name", "two", "--mode", "write-back", "--origin-timeout", "1h"]);
    two[4] = server.uri().display().to_string();
    done(&daemon, &two);
    let mut client = reloadable.connect("two");
    client.write(8192, &[7; 8192]);
    server.kill();
    client.send(Request { command: crate::client::READ, flags: 0, offset: MIB, length: 4096 }, &[]).unwrap();
    let said = daemon.control(&["remove", "two", "--disconnect", "--abandon-dirty"]);
    assert!(said.contains("8 KiB"), "what is lost: {said}");
    assert!(volume_of(&daemon, "two").is_none());
    daemon.stop();
}

#[test]
fn a_kill_during_membership_changes_is_lossless() {
    need_kickcache!();
    let mode = "mode = \"write-back\"";
    let reloadable = Reloadable::new(&[("one", mode), ("two", mode)]);
    let mut ledger = Ledger::new(0..4096, 4096);
    let mut rng = Rng::new(7);
    for life in 0..6u8 {
        let daemon = reloadable.start(&["one", "two"]);
        ledger.check(&mut reloadable.connect("one")).unwrap_or_else(|what| panic!("life {life}: {what}"));
        let (stop, writes) = (AtomicBool::new(false), AtomicU64::new(0));
        let control = reloadable.spec.control();
        let mut two = reloadable.connect("two");
        let flushed = [life + 1; 65536];
        two.write(0, &flushed);
        two.flush();
        thread::scope(|scope| {
            let client = reloadable.connect("one");
            let (ledger, stop, writes) = (&mut ledger, &stop, &writes);
            scope.spawn(move || ledger.write_until(client, stop, writes));
            scope.spawn(|| {
                let control = ["--control", control.to_str().unwrap()];
                while !stop.load(Ordering::Relaxed) {
                    let _ = tools::output(
                        KICKCACHE,
                        ["remove", "two", "--disconnect"].into_iter().chain(control),
                    );
                    let words = add(&reloadable, "two", &["--mode", "write-back"]);
                    let words = words.iter().map(String::as_str).chain(control);
                    let _ = tools::output(KICKCACHE, words);
                }
            });
            thread::sleep(Duration::from_millis(rng.between(20, 400)));
            daemon.kill();
            stop.store(true, Ordering::Relaxed);
        });
        let daemon = reloadable.start(&["one", "two"]);
        let mut two = Client::connect(&reloadable.socket("two"), "two").unwrap();
        assert_eq!(two.read(0, 65536), flushed, "life {life}");
        daemon.stop();
    }
}

/// The waits of a client that reads cached blocks, one at a time, sorted.
fn waits(socket: &Path, is_over: &AtomicBool) -> Vec<Duration> {
    let mut client = Client::connect(socket, "one").unwrap();
    let mut waits = Vec::new();
    while !is_over.load(Ordering::Relaxed) {
        let begun = Instant::now();
        client.read(u64::try_from(waits.len()).unwrap() % 1024 * 4096, 4096);
        waits.push(begun.elapsed());
    }
    waits.sort_unstable();
    waits
}

/// Alternates between a volume that stays and one that is added, filled, and removed.
#[test]
#[ignore = "measures for a minute; cargo test --release -p kickcache --test it requests_that_wait_during_membership_changes -- --ignored --nocapture"]
fn requests_that_wait_during_membership_changes() {
    need_kickcache!();
    let reloadable = Reloadable::new(&[("one", "mode = \"write-back\""), ("three", "mode = \"write-back\"")]);
    let text = fs::read_to_string(reloadable.scratch.path("config.toml")).unwrap();
    reloadable.write_text(&format!("log-level = \"debug\"\n{}", text.replace("16M", "4G")));
    let daemon = reloadable.start(&["one", "three"]);
    reloadable.connect("one").write(0, &vec![1; 4 << 20]);
    let fill = |name: &str| {
        let mut client = reloadable.connect(name);
        (0..16).for_each(|part| client.write(part << 20, &vec![2; 1 << 20]));
        client.flush();
    };
    for round in 0..6 {
        let (is_over, mut count) = (AtomicBool::new(false), 0);
        let socket = reloadable.socket("one");
        let waits = thread::scope(|scope| {
            let reader = scope.spawn(|| waits(&socket, &is_over));
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_secs(8) {
                if round % 2 == 0 {
                    fill("three");
                    daemon.control(&["status"]);
                    daemon.control(&["drain", "three", "--wait"]);
                } else {
                    done(&daemon, &add(&reloadable, "two", &["--mode", "write-back"]));
                    fill("two");
                    daemon.control(&["remove", "two", "--disconnect"]);
                }
                count += 1;
            }
            is_over.store(true, Ordering::Relaxed);
            reader.join().unwrap()
        });
        let at = |part: usize| waits[(waits.len() - 1) * part / 1_000_000];
        let what = if round % 2 == 0 { "write 16 MiB, drain" } else { "add, write 16 MiB, remove" };
        println!(
            "{what} ({count} times): {} reads, median {:?}, 99.9 % {:?}, 99.99 % {:?}, longest {:?}",
            waits.len(),
            at(500_000),
            at(999_000),
            at(999_900),
            at(1_000_000)
        );
    }
    let log = daemon.log();
    let turns = log.lines().filter_map(|line| {
        let (what, micros) = line.strip_suffix(" us of the loop")?.rsplit_once(" in ")?;
        Some((micros.parse::<u64>().ok()?, what.rsplit_once("two ")?.1.to_owned()))
    });
    for what in ["added", "partly dropped", "removed"] {
        let longest = turns.clone().filter(|turn| turn.1 == what).map(|turn| turn.0).max();
        println!("longest turn of the loop, {what}: {longest:?} us");
    }
    daemon.stop();
}

#[test]
fn reservations_above_the_capacity_are_refused() {
    need_kickcache!();
    let reloadable = Reloadable::new(&[("one", "room-min = \"8M\"")]);
    let daemon = reloadable.start(&["one"]);
    let said = refusal(&reloadable, &add(&reloadable, "two", &["--room-min", "6M"]), 1);
    assert!(said.contains("can be reserved"), "{said}");
    reloadable.write(&[("one", "room-min = \"8M\""), ("two", "room-min = \"6M\"")]);
    let said = reloadable.refusal(&["reload"], 1);
    assert!(said.contains("can be reserved"), "{said}");
    assert!(volume_of(&daemon, "two").is_none());
    reloadable.write(&[("one", "room-min = \"8M\""), ("two", "room-min = \"1M\"")]);
    daemon.control(&["reload"]);
    assert!(volume_of(&daemon, "two").is_some());
    daemon.stop();
}
