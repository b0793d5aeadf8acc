//! Replacing the serving engine by another one.

use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration as Span, Instant};

use kickcache_engine::config::{EngineSettings, Service};
use kickcache_engine::time::Instant as Moment;

use super::{ToySetup, request};
use crate::driver::executor::Medium;
use crate::driver::null_device::NullDevice;
use crate::operations::standby_engine::StandbyParts;
use crate::plan::removal::DirtyFate;
use crate::serve::config::Limits;
use crate::serve::error::ServeError;
use crate::serve::verbs::Control;
use crate::serve::verbs::Verbs;
use crate::serve::verbs::exchange::{
    CurrentEngine, Exchanged, NewEngine, NewEngineKind, OldDevices, StepState,
};
use crate::serve::verbs::superblock_lease::SuperblockWriter;

fn in_turn<T: Send + 'static>(
    served: &ToySetup,
    verb: impl FnOnce(&mut dyn Verbs, Moment) -> T + Send + 'static,
) -> T {
    let (answer, answered) = channel();
    let call = Box::new(move |verbs: &mut dyn Verbs, now| answer.send(verb(verbs, now)).unwrap());
    served.toy.control.send(Control::Verbs(call)).unwrap();
    served.toy.wakeup.ring();
    answered.recv().unwrap()
}

fn give_way(served: &ToySetup) -> Result<OldDevices, ServeError> {
    let (answer, answered) = channel();
    let number = in_turn(served, |verbs, _| verbs.wait_for_superblock(SuperblockWriter::Exchange, answer));
    answered.recv().unwrap()?;
    let behind: CurrentEngine = in_turn(served, |verbs, _| verbs.current_engine())?;
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
    let mut other = Box::new(NewEngine { engine, superblock: behind.superblock.clone(), kind });
    in_turn(served, |verbs, now| verbs.hold_requests(now));
    while in_turn(served, |verbs, now| verbs.leave_out_if_quiet(now, DirtyFate::Abandoned))?
        == StepState::Waiting
    {}
    let old = loop {
        match in_turn(served, move |verbs, now| verbs.exchange_if_idle(now, other))? {
            Exchanged::Done(old) => break old,
            Exchanged::NotYet(same) => other = same,
        }
    };
    in_turn(served, move |verbs, _| verbs.end_lease(number));
    Ok(old)
}

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
