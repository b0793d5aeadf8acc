//! Clients that hold memory while other requests wait for it.

use kickcache_engine::cache_engine::CacheEngine;
use tracing::Level;

use crate::serve::complaints::Complaint;
use crate::serve::core::{Core, engine_span};
use crate::serve::frontend::nbd::Nbd;
use crate::serve::frontend::nbd::pace::{LOOK, Watch};

const SLOW_CLIENT: Complaint =
    Complaint::new("client_slow", Level::WARN, "clients of {} that took no replies were disconnected");

impl Nbd {
    /// Disconnects clients that hold memory for too long while requests wait for it.
    pub(in crate::serve::frontend) fn end_slow<E: CacheEngine>(&mut self, core: &mut Core<E>) {
        if !core.driver.buffers().budget.has_waiting() {
            self.slow_clients.looked_at = None;
            return;
        }
        let watch = match self.slow_clients.looked_at {
            None => Watch::Begin,
            Some(at) if core.now < at.plus(LOOK) => return,
            Some(_) => Watch::GoOn(engine_span(core.limits.reply_max)),
        };
        self.slow_clients.looked_at = Some(core.now);
        for index in self.clients.indices() {
            let Some(connection) = self.clients.at(index) else { continue };
            let Some(volume) = connection.volume() else { continue };
            let is_wanted = core.driver.buffers().budget.is_wanted(volume);
            if connection.is_slow(core.now, if is_wanted { watch } else { Watch::Begin }) {
                let (peer, name) = (connection.peer(), core.volumes.name(volume));
                let line = format_args!(
                    "{peer} was disconnected from {name}: for {} s it took no reply and sent no write to its end, while others waited for \
                     the memory",
                    core.limits.reply_max.as_secs()
                );
                core.complaints.say(core.now, SLOW_CLIENT.about(volume), line);
                self.close(core, index);
            }
        }
    }
}
