//! Control characters in text from outside.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Output;
use std::thread;

use kickcache_engine::format::superblock::{SUPERBLOCK_OFFSETS, Superblock};
use kickcache_engine::format::takeover::{OtherDevice, Takeover};

use crate::daemon::{KICKCACHE, VOLUME};
use crate::need_kickcache;
use crate::scratch::{MIB, Scratch};
use crate::tools;

/// Sets the title of a terminal, clears it in 7 and in 8 bits, forges a line, and turns the direction of text
/// around.
const HOSTILE: &str = "v\x1b]0;OWNED\x07\x1b[2J\u{9b}2J\nforged: all is well\r\u{202e}";

/// The printed text must have no control characters but line breaks and tabs.
fn run(arguments: &[OsString]) -> Output {
    let output = tools::output(KICKCACHE, arguments);
    let printed = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
    let text = String::from_utf8(printed).expect("text is UTF-8");
    let is_raw = |c: char| c.is_control() && c != '\n' && c != '\t' || c == '\u{202e}';
    assert!(!text.chars().any(is_raw), "{arguments:?}: {text:?}");
    assert!(!text.lines().any(|line| line.starts_with("forged")), "{arguments:?}: {text}");
    assert!(!text.is_empty(), "{arguments:?} printed nothing");
    output
}

fn words(words: &[&str]) -> Vec<OsString> {
    words.iter().map(Into::into).collect()
}

fn cache(path: &Path, change: impl FnOnce(&mut Superblock)) {
    tools::run(KICKCACHE, ["format", "--size", "8M", path.to_str().unwrap()]);
    let bytes = fs::read(path).unwrap();
    let copies = SUPERBLOCK_OFFSETS.map(|at| &bytes[usize::try_from(at).unwrap()..][..16384]);
    let mut superblock = Superblock::decode(copies, 8 * MIB).unwrap();
    change(&mut superblock);
    let file = OpenOptions::new().write(true).open(path).unwrap();
    SUPERBLOCK_OFFSETS.iter().for_each(|at| file.write_all_at(&superblock.encode(), *at).unwrap());
}

#[test]
fn names_on_a_cache_device_control_no_terminal() {
    need_kickcache!();
    let scratch = Scratch::new();
    let origin = scratch.sparse("o", MIB);
    let served = |cache: &Path, name: &str| {
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        let (cache, origin, control) = (text(cache), text(&origin), text(&scratch.path("ctl")));
        words(&["serve", "--cache", &cache, "--origin", &origin, "--name", name, "--control", &control])
    };
    let other = || OtherDevice { uuid: [7; 16], path: format!("/dev/{HOSTILE}") };
    let takeovers = [
        Takeover::None,
        Takeover::Begun(other()),
        Takeover::Incomplete(other()),
        Takeover::Replaced(other()),
    ];
    for (index, takeover) in takeovers.into_iter().enumerate() {
        let path = scratch.path(&format!("c{index}"));
        let barred = takeover.is_barred();
        cache(&path, |superblock| {
            superblock.add_volume(HOSTILE, MIB, &format!("file:/tmp/{HOSTILE}")).unwrap();
            superblock.add_volume(VOLUME, MIB, &format!("nbd://{HOSTILE}/x")).unwrap();
            superblock.takeover = takeover;
        });
        let device = path.to_str().unwrap();
        let commands: [&[&str]; 13] = [
            &["inspect", device],
            &["inspect", device, "--json"],
            &["check", device],
            &["check", device, "--json"],
            &["check", device, "--repair"],
            &["dump", device],
            &["drain", "--cache", device],
            &["drain", "--cache", device, HOSTILE],
            &["drain", "--cache", device, VOLUME],
            &["detach", device, "x"],
            &["detach", device, HOSTILE],
            &["format", device],
            &["no-such-command", HOSTILE],
        ];
        let failed = commands.map(|command| !run(&words(command)).status.success());
        assert!(failed[12] && failed[9] && (!barred || failed[0]), "{failed:?}");
        let refused = run(&served(&path, VOLUME));
        assert!(!refused.status.success());
    }
}

#[test]
fn results_and_traces_control_no_terminal() {
    need_kickcache!();
    let scratch = Scratch::new();
    let (trace, result, page) = (scratch.path("t.log"), scratch.path("r.json"), scratch.path("p.html"));
    fs::write(
        &trace,
        format!("fio version 2 iolog\n/a\x1b[2J add\n/a\x1b[2J \x1b]0;x\x07 0 4096\n{HOSTILE}\n"),
    )
    .unwrap();
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    run(&words(&["trace", "info", &text(&trace)]));
    run(&words(&["trace", "info", "--json", &text(&trace)]));
    run(&words(&["simulate", "trace", &text(&trace)]));
    fs::write(&result, serde_json::json!({"version": HOSTILE, "runs": [{"name": HOSTILE}]}).to_string())
        .unwrap();
    run(&words(&["report", &text(&result), "--output", &text(&page)]));
    run(&words(&["inspect", &text(&scratch.path(HOSTILE))]));
}

/// Each connection gets one reply.
fn control(path: &Path, reply: String) {
    let listener = UnixListener::bind(path).unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut line = String::new();
            // The client may have closed the connection.
            let _ = BufReader::new(&stream).read_line(&mut line);
            let _ = (&stream).write_all(reply.as_bytes());
        }
    });
}

#[test]
fn replies_of_a_daemon_control_no_terminal() {
    need_kickcache!();
    let scratch = Scratch::new();
    let path = scratch.path("ctl");
    control(&path, format!("{}\n", serde_json::json!({"reply": "error", "message": HOSTILE})));
    for command in
        [&["status"] as &[&str], &["drain", "v"], &["mode", "v", "bypass"], &["resize", "v"], &["grow"]]
    {
        let output = run(&words(&[command, &["--control", path.to_str().unwrap()]].concat()));
        assert!(!output.status.success(), "{output:?}");
    }
}
