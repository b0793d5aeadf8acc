//! Signals to the daemon.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::daemon::Spec;
use crate::ledger::Ledger;
use crate::scratch::{MIB, Scratch};
use crate::{need_kickcache, tools};

#[derive(Clone, Copy, PartialEq)]
enum Signals {
    One,
    Three,
}

#[test]
fn sigterm_keeps_acknowledged_writes_in_write_back() {
    need_kickcache!();
    stop_while_writing("write-back", Signals::One);
}

#[test]
fn sigterm_keeps_acknowledged_writes_in_write_through() {
    need_kickcache!();
    stop_while_writing("write-through", Signals::One);
}

#[test]
fn more_sigterms_make_it_no_worse() {
    need_kickcache!();
    stop_while_writing("write-back", Signals::Three);
}

fn stop_while_writing(mode: &'static str, signals: Signals) {
    let scratch = Scratch::new();
    let origin = scratch.sparse("origin", 32 * MIB);
    let mut spec = Spec::new(&scratch, &origin, mode, "16M");
    let mut ledgers = [Ledger::new(0..4096, 4096), Ledger::new(4096..8192, 4096)];
    for _ in 0..2 {
        let mut daemon = spec.start();
        let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
        thread::scope(|scope| {
            for ledger in &mut ledgers {
                let client = daemon.connect();
                scope.spawn(|| ledger.write_until(client, &stop, &done));
            }
            let begun = Instant::now();
            while done.load(Ordering::Relaxed) <= 100 {
                assert!(begun.elapsed() < Duration::from_secs(60), "too few writes: {}", daemon.log());
                thread::sleep(Duration::from_millis(5));
            }
            daemon.signal(Signal::TERM);
            if signals == Signals::Three {
                for _ in 0..2 {
                    thread::sleep(Duration::from_millis(2));
                    daemon.signal_if_alive(Signal::TERM);
                }
            }
            let status = daemon.wait();
            daemon.check_end(status);
        });
        spec = daemon.spec.clone();
        let daemon = spec.start();
        for ledger in &mut ledgers {
            ledger.check(&mut daemon.connect()).unwrap();
        }
        daemon.stop();
    }
}

#[test]
fn sigint_stops_as_sigterm_does() {
    need_kickcache!();
    stop_by(Signal::INT);
}

#[test]
fn sigquit_stops_as_sigterm_does() {
    need_kickcache!();
    stop_by(Signal::QUIT);
}

#[test]
fn signals_without_a_meaning_have_no_effect() {
    need_kickcache!();
    let scratch = Scratch::new();
    let origin = scratch.sparse("origin", 16 * MIB);
    let daemon = Spec::new(&scratch, &origin, "write-back", "16M").start();
    let mut client = daemon.connect();
    client.write(4096, &[7; 4096]);
    let pid = daemon.status()["pid"].to_string();
    for name in
        ["HUP", "USR1", "USR2", "ALRM", "VTALRM", "PROF", "IO", "STKFLT", "PWR", "XFSZ", "RTMIN", "RTMIN+29"]
    {
        tools::run("bash", ["-c", "kill -s $0 $1", name, &pid]);
        let name = format!("SIG{}", if name == "RTMIN" { "RTMIN+0" } else { name });
        let line = format!("{name} was received and is ignored");
        let began = Instant::now();
        while !daemon.log().contains(&line) {
            assert!(began.elapsed() < Duration::from_secs(10), "nothing about {name}: {}", daemon.log());
            thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(client.read(4096, 4096), vec![7; 4096]);
    }
    tools::run("bash", ["-c", "kill -s PIPE $0", &pid]);
    assert_eq!(client.read(4096, 4096), vec![7; 4096]);
    drop(client);
    daemon.stop();
}

#[test]
fn the_end_of_the_processor_time_stops_as_sigterm_does() {
    need_kickcache!();
    stop_by(Signal::XCPU);
}

fn stop_by(signal: Signal) {
    let scratch = Scratch::new();
    let origin = scratch.sparse("origin", 16 * MIB);
    let mut daemon = Spec::new(&scratch, &origin, "write-back", "16M").start();
    daemon.connect().write(4096, &[7; 4096]);
    daemon.signal(signal);
    let status = daemon.wait();
    daemon.check_end(status);
    assert!(!daemon.spec.socket().exists(), "the socket was left behind");
    let daemon = daemon.spec.clone().start();
    assert_eq!(daemon.connect().read(4096, 4096), vec![7; 4096]);
}
