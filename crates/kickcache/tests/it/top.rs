//! `kickcache top` in a terminal.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;

use crate::daemon::{KICKCACHE, Spec, guarded};
use crate::scratch::{MIB, Scratch};
use crate::{need_kickcache, need_tools};

fn read_until(terminal: &mut impl Read, wanted: &str) -> String {
    let (mut seen, mut bytes) = (String::new(), [0; 4096]);
    while !seen.contains(wanted) {
        let count = terminal.read(&mut bytes).unwrap();
        assert!(count > 0, "it ended before `{wanted}` came: {seen}");
        seen += &String::from_utf8_lossy(&bytes[..count]);
    }
    seen
}

/// In a terminal of 80 columns that another program makes.
fn in_terminal(control: &Path) -> Command {
    let top = format!("stty rows 24 cols 80; exec {KICKCACHE} top --every 1 --control {}", control.display());
    let arguments = ["-qfec", &top, "/dev/null"].map(Into::into).to_vec();
    let mut command = guarded("script", arguments);
    command.env("TERM", "xterm").env("SHELL", "/bin/sh").stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

#[test]
fn top_shows_a_volume_and_restores_the_terminal() {
    need_kickcache!();
    need_tools!("script", "stty");
    let scratch = Scratch::new();
    let daemon = Spec::new(&scratch, &scratch.sparse("origin", 16 * MIB), "write-back", "16M").start();
    let mut script = in_terminal(&daemon.spec.control()).spawn().unwrap();
    let (mut keys, mut terminal) = (script.stdin.take().unwrap(), script.stdout.take().unwrap());
    let first = read_until(&mut terminal, "TREND");
    assert!(first.contains("\x1b[?1049h") && first.contains("VOLUME^"), "{first}");
    keys.write_all(b"\r").unwrap();
    read_until(&mut terminal, "p99");
    keys.write_all(b"s").unwrap();
    read_until(&mut terminal, "REQ/Sv");
    keys.write_all(b"q").unwrap();
    read_until(&mut terminal, "\x1b[?1049l");
    assert!(script.wait().unwrap().success());
}

#[test]
fn a_signal_restores_the_terminal_even_if_the_daemon_hangs() {
    need_kickcache!();
    need_tools!("script", "stty", "pkill");
    let scratch = Scratch::new();
    let daemon = Spec::new(&scratch, &scratch.sparse("origin", 16 * MIB), "write-back", "16M").start();
    for (hangs, ending) in [(false, Some("TERM")), (true, Some("HUP")), (true, None)] {
        let mut script = in_terminal(&daemon.spec.control()).spawn().unwrap();
        let (mut keys, mut terminal) = (script.stdin.take().unwrap(), script.stdout.take().unwrap());
        read_until(&mut terminal, "TREND");
        if hangs {
            daemon.signal(Signal::STOP);
            thread::sleep(Duration::from_millis(1_500));
        }
        match ending {
            Some(signal) => {
                let words = [
                    "-x",
                    &format!("--signal={signal}"),
                    "-f",
                    &format!("{KICKCACHE} top --every 1 --control {}", daemon.spec.control().display()),
                ];
                assert!(guarded("pkill", words.map(Into::into).to_vec()).status().unwrap().success());
            }
            None => keys.write_all(b"q").unwrap(),
        }
        read_until(&mut terminal, "\x1b[?1049l");
        // A daemon that is stopped answers only from here on.
        daemon.signal(Signal::CONT);
        assert_eq!(script.wait().unwrap().code(), Some(if ending.is_some() { 130 } else { 0 }));
    }
}

#[test]
fn without_a_terminal_an_alternative_is_named() {
    need_kickcache!();
    let output = guarded(KICKCACHE, vec!["top".into()]).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && error.contains("kickcache status --watch"), "{error}");
}
