//! Daemons that are killed while clients write, and checks of the data after that.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::daemon::{Daemon, Spec};
use crate::ledger::Ledger;

/// `KICKCACHE_IT_ROUNDS` sets another number.
pub(crate) fn rounds() -> u64 {
    std::env::var("KICKCACHE_IT_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(4)
}

/// Ledgers of `writers` writers, which share a volume of `volume_bytes` bytes.
pub(crate) fn ledgers(writers: u64, volume_bytes: u64, cell_bytes: usize) -> Vec<Ledger> {
    let cells = volume_bytes / cell_bytes as u64 / writers;
    (0..writers).map(|writer| Ledger::new(writer * cells..(writer + 1) * cells, cell_bytes)).collect()
}

pub(crate) fn check(daemon: &Daemon, ledgers: &mut [Ledger], round: u64) {
    let mut client = daemon.connect();
    for ledger in ledgers {
        ledger.check(&mut client).unwrap_or_else(|what| panic!("after {round} kills: {what}"));
    }
}

/// Right before the kill it calls `last`; `wait` receives the result and waits.
pub(crate) fn kill_under_writes<T>(
    daemon: Daemon,
    ledgers: &mut [Ledger],
    last: impl FnOnce(&Daemon, &AtomicU64) -> T,
    wait: impl FnOnce(T),
) -> Spec {
    let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        let writers: Vec<_> = ledgers
            .iter_mut()
            .map(|ledger| {
                let client = daemon.connect();
                scope.spawn(|| ledger.write_until(client, &stop, &done))
            })
            .collect();
        let begun = last(&daemon, &done);
        let spec = daemon.kill();
        wait(begun);
        for writer in writers {
            assert!(writer.join().expect("a writer saw an error").is_err(), "the daemon survived kill -9");
        }
        spec
    })
}

/// On a busy machine a flush may take long.
pub(crate) fn wait_for_writes(done: &AtomicU64, count: u64) {
    let start = Instant::now();
    while done.load(Ordering::Relaxed) < count {
        assert!(start.elapsed() < Duration::from_secs(20), "the daemon does not acknowledge writes");
        thread::sleep(Duration::from_millis(5));
    }
}
