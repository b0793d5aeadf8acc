//! Whole-disk copies by nbdcopy and qemu-img, and the properties that they see.

use std::path::Path;

use serde_json::Value;

use crate::client::{Client, NO_HOLE};
use crate::daemon::{Daemon, Spec, VOLUME};
use crate::need_tools;
use crate::scratch::{KIB, MIB, Scratch, difference};
use crate::tools;

const MODES: [&str; 4] = ["write-back", "write-through", "write-around", "bypass"];

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn nbdcopy_reads_back_its_data() {
    need_tools!("nbdcopy");
    for mode in MODES {
        let scratch = Scratch::new();
        let source = scratch.random("source", 40 * MIB, 5);
        let origin = scratch.sparse("origin", 40 * MIB);
        let daemon = Spec::new(&scratch, &origin, mode, "16M").start();
        tools::run("nbdcopy", [text(&source), &daemon.uri()]);
        for flags in [&[] as &[&str], &["--no-extents"], &["--connections=1", "--requests=1"]] {
            let copy = scratch.path("copy");
            let mut arguments = flags.to_vec();
            let uri = daemon.uri();
            arguments.extend([uri.as_str(), text(&copy)]);
            tools::run("nbdcopy", arguments);
            assert_eq!(difference(&copy, &source), None, "{mode} {flags:?}");
        }
        let daemon = daemon.stop().start();
        let copy = scratch.path("copy after a restart");
        tools::run("nbdcopy", [&daemon.uri(), text(&copy)]);
        assert_eq!(difference(&copy, &source), None, "{mode} after a restart");
    }
}

#[test]
fn qemu_img_converts_and_compares() {
    need_tools!("qemu-img");
    for mode in MODES {
        let scratch = Scratch::new();
        let source = scratch.random("source", 24 * MIB, 6);
        let origin = scratch.sparse("origin", 24 * MIB);
        let daemon = Spec::new(&scratch, &origin, mode, "16M").start();
        let uri = daemon.uri();
        let compare = ["compare", "-f", "raw", "-F", "raw", text(&source), &uri];
        tools::run("qemu-img", ["convert", "-n", "-f", "raw", "-O", "raw", text(&source), &uri]);
        tools::run("qemu-img", compare);
        let copy = scratch.path("copy.qcow2");
        tools::run("qemu-img", ["convert", "-f", "raw", "-O", "qcow2", &uri, text(&copy)]);
        tools::run("qemu-img", ["compare", text(&source), text(&copy)]);
        daemon.connect().write(5 * MIB + 3 * KIB, b"one other byte");
        assert!(!tools::output("qemu-img", compare).status.success(), "the comparison noticed nothing");
    }
}

#[test]
fn qemu_io_reads_back_its_data() {
    need_tools!("qemu-io");
    let scratch = Scratch::new();
    let origin = scratch.sparse("origin", 16 * MIB);
    let daemon = Spec::new(&scratch, &origin, "write-back", "16M").start();
    let mut arguments = vec!["-f".to_owned(), "raw".to_owned()];
    let commands = [
        "write -P 1 0 1M",
        "write -P 2 512 1k",
        "write -f -P 3 1000k 100k",
        "write -z 64k 64k",
        "write -z -u 256k 128k",
        "discard 512k 64k",
        "flush",
        "read -P 1 0 512",
        "read -P 2 512 1k",
        "read -P 1 1536 62k",
        "read -P 0 64k 64k",
        "read -P 0 256k 128k",
        "read -P 3 1000k 100k",
        "aio_write -P 4 2M 64k",
        "aio_write -P 5 3M 64k",
        "aio_flush",
        "read -P 4 2M 64k",
        "read -P 5 3M 64k",
    ];
    arguments.extend(commands.iter().flat_map(|command| ["-c".to_owned(), (*command).to_owned()]));
    arguments.push(daemon.uri());
    let text = tools::run("qemu-io", &arguments);
    assert!(!text.contains("failed"), "{text}");
    assert!(
        tools::output("qemu-io", ["-f", "raw", "-c", "read -P 9 0 512", &daemon.uri()])
            .stdout
            .windows(6)
            .any(|word| word == b"failed")
    );
}

#[test]
fn nbdinfo_sees_a_full_featured_export() {
    need_tools!("nbdinfo");
    let scratch = Scratch::new();
    let origin = scratch.sparse("origin", 16 * MIB + 4096);
    let daemon = Spec::new(&scratch, &origin, "write-back", "16M").start();
    let info: Value = serde_json::from_str(&tools::run("nbdinfo", ["--json", &daemon.uri()])).unwrap();
    let export = &info["exports"][0];
    assert_eq!(info["protocol"], "newstyle-fixed", "{info}");
    assert_eq!(info["structured"], true, "{info}");
    assert_eq!(export["export-size"], 16 * MIB + 4096, "{info}");
    assert_eq!(export["block_size_minimum"], 1, "{info}");
    assert_eq!(export["block_size_preferred"], 4096, "{info}");
    assert_eq!(export["block_size_maximum"], 32 * MIB, "{info}");
    for flag in [
        "can_cache",
        "can_df",
        "can_fast_zero",
        "can_flush",
        "can_fua",
        "can_multi_conn",
        "can_trim",
        "can_zero",
    ] {
        assert_eq!(export[flag], true, "{flag} in {info}");
    }
    assert_eq!(export["is_read_only"], false, "{info}");
    assert_eq!(export["contexts"][0], "base:allocation", "{info}");
    let socket = daemon.spec.socket();
    let list = tools::run("nbdinfo", ["--list", "--json", &format!("nbd+unix:///?socket={}", text(&socket))]);
    let list: Value = serde_json::from_str(&list).unwrap();
    assert_eq!(list["exports"][0]["export-name"], VOLUME, "{list}");
}

/// The parts that `nbdinfo --map` calls data.
fn data_extents(daemon: &Daemon) -> Vec<(u64, u64)> {
    let map: Value =
        serde_json::from_str(&tools::run("nbdinfo", ["--map", "--json", &daemon.uri()])).unwrap();
    let extents = map.as_array().unwrap();
    let total: u64 = extents.iter().map(|extent| extent["length"].as_u64().unwrap()).sum();
    assert_eq!(total, 32 * MIB, "the map has gaps: {map}");
    let data = extents.iter().filter(|extent| extent["type"] == 0);
    data.map(|extent| (extent["offset"].as_u64().unwrap(), extent["length"].as_u64().unwrap())).collect()
}

/// The parts that do not read as zeroes according to `qemu-img map`.
fn qemu_data_extents(daemon: &Daemon) -> Vec<(u64, u64)> {
    let map = tools::run("qemu-img", ["map", "-f", "raw", "--output=json", &daemon.uri()]);
    let map: Value = serde_json::from_str(&map).unwrap();
    let data = map.as_array().unwrap().iter().filter(|extent| extent["zero"] == false);
    data.map(|extent| (extent["start"].as_u64().unwrap(), extent["length"].as_u64().unwrap())).collect()
}

fn covers(extents: &[(u64, u64)], offset: u64) -> bool {
    extents.iter().any(|(start, length)| (*start..start + length).contains(&offset))
}

#[test]
fn block_status_shows_data_that_was_not_flushed() {
    need_tools!("nbdinfo", "nbdcopy", "qemu-img");
    for mode in MODES {
        let scratch = Scratch::new();
        let origin = scratch.sparse("origin", 32 * MIB);
        let daemon = Spec::new(&scratch, &origin, mode, "16M").start();
        assert_eq!(data_extents(&daemon), [], "{mode}: a hole is no data");
        let mut client = daemon.connect();
        let written = [MIB, 3 * MIB + 4096, 20 * MIB, 32 * MIB - 4096];
        for offset in written {
            client.write(offset, &[0xa5; 4096]);
        }
        client.write(9 * MIB + 700, &[0x5a; 100]);
        for extents in [data_extents(&daemon), qemu_data_extents(&daemon)] {
            assert!(written.iter().all(|offset| covers(&extents, *offset)), "{mode}: {extents:?}");
            assert!(covers(&extents, 9 * MIB + 700), "{mode}: {extents:?}");
            assert!(!covers(&extents, 15 * MIB), "{mode}: a hole is no data: {extents:?}");
        }
        check_copy(&scratch, &daemon, &mut client, mode);
    }
}

fn check_copy(scratch: &Scratch, daemon: &Daemon, client: &mut Client, mode: &str) {
    let (copy, plain) = (scratch.path("copy"), scratch.path("plain"));
    tools::run("nbdcopy", [&daemon.uri(), text(&copy)]);
    std::fs::write(&plain, client.read(0, u32::try_from(32 * MIB).unwrap())).unwrap();
    assert_eq!(difference(&copy, &plain), None, "{mode}: a copy by extents is no copy");
}

#[test]
fn block_status_never_hides_data_after_trims_and_zeroes() {
    need_tools!("nbdinfo");
    let scratch = Scratch::new();
    let origin = scratch.random("origin", 32 * MIB, 8);
    let daemon = Spec::new(&scratch, &origin, "write-back", "16M").start();
    let mut client = daemon.connect();
    client.zero(2 * MIB, 1 << 20, 0);
    client.zero(4 * MIB, 1 << 20, NO_HOLE);
    client.trim(6 * MIB, 1 << 20);
    client.write(2 * MIB + 8192, &[1; 4096]);
    client.write(4 * MIB + 8192, &[1; 4096]);
    client.write(6 * MIB + 8192, &[1; 4096]);
    let extents = data_extents(&daemon);
    for offset in [0, MIB, 2 * MIB + 8192, 4 * MIB + 8192, 6 * MIB + 8192, 7 * MIB, 31 * MIB] {
        assert!(covers(&extents, offset), "{offset} in {extents:?}");
    }
    assert!(client.read(2 * MIB, 8192).iter().all(|byte| *byte == 0));
    assert!(client.read(4 * MIB, 8192).iter().all(|byte| *byte == 0));
    check_copy(&scratch, &daemon, &mut client, "write-back");
}
