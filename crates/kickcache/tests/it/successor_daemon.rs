//! A daemon that ends during a command, and the next one on its control socket.

use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::daemon::{Daemon, KICKCACHE, Spec, VOLUME};
use crate::scratch::{MIB, Scratch};
use crate::{faulty_disks, need_kickcache};

fn begin(spec: &Spec, words: &[&str]) -> Child {
    let mut command = Command::new(KICKCACHE);
    command.args(words).arg("--control").arg(spec.control());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn wait_for_drain(daemon: &Daemon) {
    let start = Instant::now();
    while daemon.status()["caches"][0]["volumes"][0]["draining"] != true {
        assert!(start.elapsed() < Duration::from_secs(60), "{}", daemon.log());
    }
}

#[test]
fn a_drain_does_not_continue_with_the_next_daemon() {
    need_kickcache!();
    for words in [&["stop", "--drain"][..], &["drain", VOLUME, "--wait"]] {
        let scratch = Scratch::new();
        let disks = faulty_disks!(&scratch, 8 * MIB, 8 * MIB);
        let mut spec = disks.spec(&scratch, "write-back");
        spec.extra.extend(["--idle-after", "1h"].map(Into::into));
        let daemon = spec.start();
        daemon.connect().write(0, &[1; 4096]);
        disks.tell("fault origin write eio");
        let command = begin(&spec, words);
        wait_for_drain(&daemon);
        // The stopped command sees the next daemon, and not the moment without a daemon.
        kill_process(Pid::from_child(&command), Signal::STOP).unwrap();
        let spec = daemon.kill();
        disks.tell("clear");
        let mut daemon = spec.start();
        kill_process(Pid::from_child(&command), Signal::CONT).unwrap();
        let output: Output = command.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{words:?}: {output:?}");
        assert!(said.contains("ended"), "{said}");
        assert!(daemon.is_alive());
        let status = daemon.status();
        let volume = &status["caches"][0]["volumes"][0];
        assert_eq!(
            (&volume["mode"], &volume["draining"]),
            (&"write-back".into(), &false.into()),
            "{words:?}"
        );
        assert_eq!(volume["dirty_bytes"], 4096);
        daemon.stop();
    }
}
