//! Detects an export that this process serves: a client requests an export with a random name from the server of that export.
//!
//! If the request arrives at a listener of this process, the server is this process, even behind relays and under other
//! host names.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::devices::cache_device::random_uuid;
use crate::devices::state::uuid_text;
use crate::serve::error::ServeError;

/// The state of each probe, by its random name.
static PROBES: Mutex<BTreeMap<String, Arrival>> = Mutex::new(BTreeMap::new());

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Arrival {
    Awaited,
    Seen,
}

pub(crate) struct Probe {
    name: String,
}

impl Probe {
    /// # Errors
    /// If the system gives no random bytes.
    pub(crate) fn begin() -> Result<Probe, ServeError> {
        let name = format!("kickcache-probe-{}", uuid_text(random_uuid()?));
        probes().insert(name.clone(), Arrival::Awaited);
        Ok(Probe { name })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Whether a listener of this process received the request.
    pub(crate) fn has_arrived(&self) -> bool {
        probes().get(&self.name) == Some(&Arrival::Seen)
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        probes().remove(&self.name);
    }
}

pub(crate) fn take_unknown(name: &str) {
    if let Some(arrival) = probes().get_mut(name) {
        *arrival = Arrival::Seen;
    }
}

fn probes() -> MutexGuard<'static, BTreeMap<String, Arrival>> {
    PROBES.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_arrives_by_its_own_name_alone() {
        let (first, second) = (Probe::begin().unwrap(), Probe::begin().unwrap());
        take_unknown("kickcache-probe-");
        take_unknown(second.name());
        assert!(!first.has_arrived() && second.has_arrived());
        let name = second.name().to_owned();
        drop(second);
        take_unknown(&name);
        assert!(!probes().contains_key(&name));
    }
}
