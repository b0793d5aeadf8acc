//! The allowed losses and the obstacles of a removal, a leave-out or a stop.

use std::path::Path;

use kickcache_units::{are, counted};

use crate::plan::frontends::Sessions;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Clients {
    /// The removal is refused while NBD clients or virtual machines are connected.
    Respected,
    /// The clients are disconnected.
    Disconnected,
}

/// The treatment of dirty blocks of a volume or cache device that is no longer served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DirtyFate {
    WrittenBack,
    Abandoned,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UnlinkedFate {
    Kept,
    Lost,
}

pub fn only_volume(cache: &Path) -> String {
    let cache = cache.display();
    format!("it is the only volume of {cache}, which is served as long as its daemon runs; stop that instead")
}

/// `None` if the sessions are no obstacle.
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
