//! The allowed losses and the obstacles of a removal, a leave-out or a stop.

use std::path::Path;

use kickcache_units::{are, counted};

use crate::plan::frontends::Sessions;

/// The treatment of the clients of a volume that is being removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Clients {
    /// The removal is refused while NBD clients or virtual machines are connected.
    Respected,
    /// The clients are disconnected.
    Disconnected,
}

/// The treatment of the dirty blocks of a volume that is being removed, or of a cache device that is being left
/// out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DirtyFate {
    /// The dirty blocks are written back before, or the volume or device stays.
    WrittenBack,
    /// The dirty blocks may be lost.
    Abandoned,
}

/// Whether a daemon may be stopped although data in removed files would end with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UnlinkedFate {
    /// The stop is refused, so that the data stays.
    Kept,
    /// The data in removed files is lost.
    Lost,
}

/// The reason why the only volume of a cache device cannot be removed.
pub fn only_volume(cache: &Path) -> String {
    let cache = cache.display();
    format!("it is the only volume of {cache}, which is served as long as its daemon runs; stop that instead")
}

/// Why a volume with these sessions is not removed; `None` if the sessions are no obstacle.
pub fn in_use(volume: &str, sessions: Sessions, clients: Clients) -> Option<String> {
    let connected = sessions.nbd + sessions.vhost_user;
    let is_in_the_way = connected > 0 && clients == Clients::Respected;
    is_in_the_way.then(|| {
        format!(
            "{} {} connected; disconnect that, or use `kickcache remove {volume} --disconnect`",
            counted(connected, "client"),
            are(connected)
        )
    })
}
