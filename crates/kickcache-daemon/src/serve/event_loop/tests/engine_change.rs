//! Replacing the serving engine by another one.

use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration as Span, Instant};

use kickcache_engine::config::{EngineSettings, Service};

use super::{ToySetup, request};
use crate::driver::executor::Medium;
use crate::driver::null_device::NullDevice;
use crate::operations::standby_engine::StandbyParts;
use crate::plan::removal::DirtyFate;
use crate::serve::config::Limits;
use crate::serve::control::Control;
use crate::serve::engine_change::{CurrentEngine, EngineOrder, NewEngine, NewEngineKind, OldDevices};
use crate::serve::error::ServeError;

fn ask<T>(served: &ToySetup, order: impl FnOnce(Sender<T>) -> EngineOrder) -> T {
    let (answer, answered) = channel();
    served.toy.control.send(Control::Engine(order(answer))).unwrap();
    served.toy.wakeup.ring();
    answered.recv().unwrap()
}

fn give_way(served: &ToySetup) -> Result<OldDevices, ServeError> {
    let behind: CurrentEngine = ask(served, EngineOrder::Begin)?;
    let aside = StandbyParts {
        clock: behind.clock,
        io_engine: behind.io_engine,
        settings: EngineSettings { service: Service::Out, pool_pages: 16, ..EngineSettings::default() },
        superblock: &behind.superblock,
        volumes: &[],
        path: "cache".as_ref(),
    };
    let engine = aside.recover(Medium::Queued(Box::new(NullDevice::default())))?.engine;
    let kind = NewEngineKind::WithoutCache(DirtyFate::Abandoned);
    let other = NewEngine { engine, superblock: behind.superblock.clone(), kind };
    ask(served, |answer| EngineOrder::Change(Box::new(other), answer))
}

/// The placeholder for an engine has no timers: a request that is dropped here waits for ever.
#[test]
fn requests_during_an_engine_change_are_answered_promptly() {
    let served = ToySetup::new(Limits::default());
    let mut socket = served.raw_transmission();
    let (is_done, count) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut reply = [0; 16 + 4096];
            for cookie in 0.. {
                socket.write_all(&request(0, cookie, 0, 4096)).unwrap();
                socket.read_exact(&mut reply).unwrap();
                assert_eq!(reply[4..8], [0; 4]);
                count.store(cookie, Ordering::Relaxed);
                if is_done.load(Ordering::Relaxed) {
                    return;
                }
            }
        });
        for _ in 0..40 {
            give_way(&served).map_err(|error| error.to_string()).unwrap();
            let (seen, start) = (count.load(Ordering::Relaxed), Instant::now());
            while count.load(Ordering::Relaxed) < seen + 2 {
                assert!(start.elapsed() < Span::from_secs(60), "a request was forgotten");
                std::thread::sleep(Span::from_millis(1));
            }
        }
        is_done.store(true, Ordering::Relaxed);
        reader.join().unwrap();
    });
    drop(socket);
    served.stop();
}
