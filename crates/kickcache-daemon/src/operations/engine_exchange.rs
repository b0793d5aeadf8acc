//! Replaces the engine behind the front ends by a prepared one.

use std::thread;
use std::time::Duration;

use crate::serve::error::ServeError;
use crate::serve::server::ServerHandle;
use crate::serve::verbs::exchange::{Exchanged, NewEngine, NewEngineKind, OldDevices, StepState};

/// Time between two attempts of a step.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// Replaces the engine; the caller has the lease of the superblock. New requests are held back for 5 s at
/// most until no request is in flight. If the new engine has no cache, it is recorded before that the cache
/// device is left out.
///
/// # Errors
/// Requests in flight do not end, the record cannot be written, or the server is stopping. The present engine
/// stays.
pub(crate) fn exchange(server: &ServerHandle, other: NewEngine) -> Result<OldDevices, ServeError> {
    server.in_turn(|verbs, now| verbs.hold_requests(now))?;
    if let NewEngineKind::WithoutCache(fate) = other.kind {
        until_done(|| server.in_turn(move |verbs, now| verbs.leave_out_if_quiet(now, fate))?)?;
        until_done(|| server.in_turn(|verbs, _| verbs.check_left_out())?)?;
    }
    let mut other = Box::new(other);
    loop {
        match server.in_turn(move |verbs, now| verbs.exchange_if_idle(now, other))?? {
            Exchanged::Done(old) => return Ok(old),
            Exchanged::NotYet(same) => other = same,
        }
        thread::sleep(LOOK_EVERY);
    }
}

fn until_done(step: impl Fn() -> Result<StepState, ServeError>) -> Result<(), ServeError> {
    while step()? == StepState::Waiting {
        thread::sleep(LOOK_EVERY);
    }
    Ok(())
}
