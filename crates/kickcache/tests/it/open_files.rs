//! The limit of open files.

use std::fs;
use std::process::Command;

use crate::client::Client;
use crate::daemon::{Daemon, Spec, VOLUME};
use crate::need_kickcache;
use crate::scratch::{MIB, Scratch};

/// The command, run by a shell that limits open files.
fn limited(spec: &Spec, soft: u32, hard: u32) -> Command {
    let serve = spec.command();
    let mut command = Command::new("sh");
    let script = format!("ulimit -Sn {soft} && ulimit -Hn {hard} && exec \"$@\"");
    command.args(["-c", &script, "sh"]).arg(serve.get_program()).args(serve.get_args());
    command.envs(serve.get_envs().filter_map(|(key, value)| Some((key, value?))));
    command
}

fn start(scratch: &Scratch, soft: u32, hard: u32) -> Daemon {
    let origin = scratch.sparse("origin", 16 * MIB);
    let spec = Spec::new(scratch, &origin, "write-through", "16M");
    Daemon::start(limited(&spec, soft, hard), spec.clone(), &[spec.socket()])
}

#[test]
fn the_soft_limit_of_open_files_is_raised() {
    need_kickcache!();
    let scratch = Scratch::new();
    let daemon = start(&scratch, 200, 900);
    let limits = fs::read_to_string(format!("/proc/{}/limits", daemon.pid())).unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let numbers: Vec<&str> = line.split_whitespace().filter(|word| word.parse::<u32>().is_ok()).collect();
    assert_eq!(numbers, ["900", "900"], "{line}");
    daemon.stop();
}

#[test]
fn clients_leave_open_files_to_control_and_devices() {
    need_kickcache!();
    let scratch = Scratch::new();
    let daemon = start(&scratch, 100, 100);
    let mut clients = Vec::new();
    let refused = loop {
        match Client::connect(&daemon.spec.socket(), VOLUME) {
            Ok(client) => clients.push(client),
            Err(error) => break error,
        }
        assert!(clients.len() < 100, "more clients than open files");
    };
    assert!(clients.len() > 20, "{refused}");
    // The log may be written after the refusal.
    daemon.wait_for_log(&["75 of 100 open files are in use"]);
    daemon.status();
    let with = scratch.dir().join("new");
    daemon.control(&["replace", "--with", with.to_str().unwrap(), "--dry-run"]);
    clients[0].read(0, 4096);
    drop(clients);
    while Client::connect(&daemon.spec.socket(), VOLUME).is_err() {}
    daemon.stop();
}
