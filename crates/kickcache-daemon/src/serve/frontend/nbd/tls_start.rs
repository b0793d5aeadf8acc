//! The start of TLS on a connection, and the access rights by the client's certificate.

use kickcache_engine::cache_engine::CacheEngine;
use tracing::Level;

use crate::serve::complaints::Complaint;
use crate::serve::core::Core;
use crate::serve::frontend::nbd::Nbd;
use crate::serve::frontend::nbd::access_rights::access;
use crate::serve::frontend::nbd::key::ConnectionId;
use crate::serve::frontend::nbd::send_progress::SendProgress;

const TLS_FAILED: Complaint = Complaint::new("tls_failed", Level::WARN, "clients failed at TLS");
const CLIENT_DENIED: Complaint =
    Complaint::new("client_denied", Level::WARN, "clients were denied the volume {}");

impl Nbd {
    /// Begins with TLS; `false` if TLS cannot begin.
    pub(super) fn start_tls<E>(&mut self, core: &mut Core<E>, index: u16) -> bool {
        let Some(connection) = self.clients.at(index) else { return false };
        // The answer is the last output in the clear. A client that does not accept these few bytes at once
        // is dropped.
        if connection.send(core.driver.buffers()) != SendProgress::All {
            return false;
        }
        let Some(tls) = self.security.accept() else { return false };
        connection.start_tls(tls);
        true
    }

    pub(super) fn secure<E>(&mut self, core: &Core<E>, id: ConnectionId) {
        let Some(connection) = self.clients.get_mut(id) else { return };
        if !connection.handshaking {
            return;
        }
        if let Some(names) = connection.secured() {
            let access = access(&names, &connection.volumes, &core.volumes);
            connection.go_on_secured(&access);
        }
    }

    pub(super) fn tell_tls_failure<E: CacheEngine>(&mut self, core: &mut Core<E>, id: ConnectionId) {
        let Some(connection) = self.clients.get_mut(id) else { return };
        let Some(why) = connection.tls_failure() else { return };
        let peer = connection.peer();
        core.complaints.say(core.now, TLS_FAILED, format_args!("TLS with {peer} failed: {why}"));
    }

    pub(super) fn tell_denied<E: CacheEngine>(&mut self, core: &mut Core<E>, index: u16) {
        let Some(connection) = self.clients.at(index) else { return };
        let Some(denied) = connection.take_denied() else { return };
        let (peer, names, name) = (connection.peer(), denied.names, &core.volumes[denied.volume].info.name);
        let line = format_args!(
            "{peer} with the certificate of {names} was denied the volume {name}: allow-client has no such name"
        );
        core.complaints.say(core.now, CLIENT_DENIED.about(denied.volume), line);
    }
}
