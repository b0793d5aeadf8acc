//! The processor time of other programs during a run.

use std::collections::BTreeSet;
use std::os::unix::net::UnixStream;

use kickcache_daemon::plan::address::NbdAddress;

use crate::bench::place::Place;
use crate::process_times::{Look, look};

pub(super) struct Busy {
    own: BTreeSet<u32>,
    before: Option<Look>,
}

impl Busy {
    /// This process, the server of a measured unix socket, their descendants and the threads of the kernel do not count
    /// as others.
    pub(super) fn begin(place: &Place) -> Busy {
        let own = std::iter::once(std::process::id()).chain(server(place)).collect();
        let before = look(&own);
        Busy { own, before }
    }

    /// The part of all processors that others took; 0 where /proc cannot be read.
    pub(super) fn others(&self) -> f64 {
        let after = look(&self.own);
        let (Some(before), Some(after)) = (self.before, after) else { return 0.0 };
        after.others_since(&before)
    }
}

/// The process that listens at the unix socket of an export; `None` for other places, and if it accepts no
/// connection.
fn server(place: &Place) -> Option<u32> {
    let Place::Nbd(uri) = place else { return None };
    let NbdAddress::Unix(path) = uri.address() else { return None };
    let socket = UnixStream::connect(path).ok()?;
    let peer = rustix::net::sockopt::socket_peercred(&socket).ok()?;
    u32::try_from(peer.pid.as_raw_nonzero().get()).ok()
}
