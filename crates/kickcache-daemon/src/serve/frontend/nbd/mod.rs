//! NBD: listeners, connections, and their commands.
//!
//! The protocol itself is in the crate `kickcache_nbd`.

mod access_rights;
mod block_status;
mod certificates;
mod clients;
mod commands;
mod connection;
mod input;
pub(crate) mod key;
pub(super) mod membership;
mod outbox;
mod pace;
mod payload;
mod peer;
pub(crate) mod request;
mod send_progress;
mod served_listener;
pub(crate) mod settings;
mod slow_clients;
mod stall;
mod status_questions;
mod tls_output;
mod tls_start;
mod tls_stream;

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use kickcache_engine::cache_engine::CacheEngine;
use kickcache_engine::time::{Duration, Instant, earlier};
use kickcache_nbd::{Session, StatusExtent};
use tracing::Level;

use crate::driver::{Interest, open_files};
use crate::serve::complaints::Complaint;
use crate::serve::core::{Core, engine_span};
use crate::serve::error::ServeError;
use crate::serve::frontend::kinds::{Pending, WatchKey};
use crate::serve::frontend::listener::VolumePlace;
use crate::serve::frontend::loop_step::LoopStep;
use crate::serve::frontend::nbd::access_rights::AccessRights;
use crate::serve::frontend::nbd::block_status::data;
use crate::serve::frontend::nbd::clients::Clients;
use crate::serve::frontend::nbd::connection::Connection;
use crate::serve::frontend::nbd::input::Received;
use crate::serve::frontend::nbd::key::{ConnectionId, NbdKey};
use crate::serve::frontend::nbd::pace::SlowClients;
use crate::serve::frontend::nbd::send_progress::SendProgress;
use crate::serve::frontend::nbd::served_listener::{ServedListener, open_listeners};
use crate::serve::frontend::nbd::settings::NbdSettings;
use crate::serve::frontend::nbd::stall::Stall;
use crate::serve::frontend::nbd::status_questions::{Question, StatusQuestions};
use crate::serve::served_volumes::ServedVolumes;

/// The most receives of one connection in one turn.
const RECEIVES_MAX: usize = 4;
/// The most connections with an enlarged send buffer.
const ENLARGED_MAX: usize = 4;
/// The most connections that are accepted from one listener in one turn.
const ACCEPTS_MAX: usize = 16;
/// The least time between two checks whether stalled clients have disconnected.
const LOOK_FOR_GONE: Duration = Duration::from_millis(1_000);

const TURNED_AWAY: Complaint = Complaint::new("client_turned_away", Level::WARN, "clients were turned away");
const NOT_ACCEPTED: Complaint =
    Complaint::new("client_not_accepted", Level::WARN, "connections could not be accepted");
const LATE_HANDSHAKE: Complaint =
    Complaint::new("client_late", Level::INFO, "clients did not finish their handshake in time");

#[derive(Default)]
pub(crate) struct Nbd {
    /// Removed listeners leave an empty slot: the indices are in the keys of watches.
    listeners: Vec<Option<ServedListener>>,
    clients: Clients,
    questions: StatusQuestions,
    security: AccessRights,
    gone_looked_at: Instant,
    slow_clients: SlowClients,
    receives_long_write: bool,
}

impl Nbd {
    pub(crate) fn open(
        addresses: Vec<VolumePlace>,
        volumes: &ServedVolumes,
        settings: NbdSettings,
    ) -> Result<Nbd, ServeError> {
        let opened = open_listeners(addresses, volumes, settings.exposure)?;
        let listeners = opened.into_iter().map(Some).collect();
        Ok(Nbd { listeners, security: AccessRights::of(settings), ..Nbd::default() })
    }

    pub(super) fn uris_of(&self, volume: usize, name: &str) -> Vec<String> {
        let served = self.listeners.iter().flatten().filter(|served| served.serves(volume));
        served.map(|served| served.uri(name)).collect()
    }

    pub(crate) fn tls_failure(&self) -> Option<String> {
        self.security.failure()
    }

    pub(crate) fn connection_count(&self) -> usize {
        self.clients.count
    }

    pub(super) fn session_count(&self, volume: usize) -> u64 {
        let chosen = self.clients.iter().filter(|connection| connection.volume() == Some(volume));
        chosen.count() as u64
    }

    pub(super) fn watch<E>(&mut self, core: &mut Core<E>) {
        (0..self.listeners.len()).for_each(|index| self.watch_listener(core, index));
    }

    fn watch_listener<E>(&mut self, core: &mut Core<E>, index: usize) {
        let Some(Some(served)) = self.listeners.get_mut(index) else { return };
        if !std::mem::replace(&mut served.watched, true) {
            core.driver.watch(served.listener.as_fd(), listener_key(index), Interest::Readable);
        }
    }

    pub(super) fn on_ready<E: CacheEngine>(&mut self, core: &mut Core<E>, key: NbdKey, interest: Interest) {
        match key {
            NbdKey::Listener(index) => self.accept(core, usize::from(index)),
            NbdKey::Client(id) => self.client_ready(core, id, interest),
        }
    }

    fn accept<E: CacheEngine>(&mut self, core: &mut Core<E>, index: usize) {
        for _ in 0..ACCEPTS_MAX {
            let Some(Some(served)) = self.listeners.get_mut(index) else { return };
            served.watched = false;
            match served.listener.accept() {
                Ok(None) => break,
                Ok(Some(socket)) if open_files::is_of_reserve(&socket) => {
                    let line = format_args!("a client was turned away: {}", open_files::refusal());
                    core.complaints.say(core.now, TURNED_AWAY, line);
                }
                Ok(Some(socket)) => {
                    let session = Session::with_tls(Arc::clone(&served.exports), self.security.policy());
                    let deadline = core.now.plus(engine_span(core.limits.handshake_max));
                    let volumes = Arc::clone(&served.volumes);
                    if !self.make_room(core, index) {
                        continue;
                    }
                    if self.clients.count < ENLARGED_MAX {
                        self.enlarge(index, &socket);
                    }
                    let connection = Connection::new(socket, session, deadline, index, volumes);
                    let id = self.clients.insert(connection);
                    self.process(core, id.index);
                }
                Err(error) => {
                    let line = format_args!("a connection could not be accepted: {error}");
                    core.complaints.say(core.now, NOT_ACCEPTED, line);
                    core.pause_accepting();
                    return;
                }
            }
        }
        self.watch_listener(core, index);
    }

    fn enlarge(&self, index: usize, socket: &OwnedFd) {
        let served = self.listeners.get(index).and_then(Option::as_ref);
        served.into_iter().for_each(|served| served.listener.enlarge(socket));
    }

    fn make_room<E: CacheEngine>(&mut self, core: &mut Core<E>, listener: usize) -> bool {
        let count = self.clients.connected(listener);
        if count >= core.limits.connections_max {
            let line = format_args!("a client was turned away: {count} are connected, which is the limit");
            core.complaints.say(core.now, TURNED_AWAY, line);
            return false;
        }
        let most = core.limits.handshakes_max;
        if let Some(oldest) = self.clients.oldest_of(most, listener) {
            let line = format_args!(
                "{most} clients were in their handshake, which is the limit: the client that began first was disconnected"
            );
            core.complaints.say(core.now, LATE_HANDSHAKE, line);
            self.close(core, oldest);
        }
        true
    }

    fn client_ready<E: CacheEngine>(&mut self, core: &mut Core<E>, id: ConnectionId, interest: Interest) {
        let Some(connection) = self.clients.get_mut(id) else { return };
        match interest {
            Interest::Writable => {
                connection.watching_output = false;
                // A client that sends no more bytes is dropped: io_uring would report it repeatedly.
                if connection.has_ended() {
                    return self.close(core, id.index);
                }
                self.clients.touch(id.index);
            }
            Interest::Readable | Interest::Signalled => {
                connection.watching_input = false;
                self.receive(core, id);
            }
        }
    }

    fn receive<E: CacheEngine>(&mut self, core: &mut Core<E>, id: ConnectionId) {
        for round in 1..=RECEIVES_MAX {
            let Some(connection) = self.clients.get_mut(id) else { return };
            let received = connection.receive(core.driver.buffers());
            if received == Received::End {
                self.tell_tls_failure(core, id);
                return self.close(core, id.index);
            }
            self.secure(core, id);
            self.process(core, id.index);
            let Some(connection) = self.clients.get_mut(id) else { return };
            if connection.stall.is_some() {
                return;
            }
            if received == Received::Drained || round == RECEIVES_MAX {
                return self.watch_input(core, id);
            }
        }
    }

    fn watch_input<E>(&mut self, core: &mut Core<E>, id: ConnectionId) {
        let Some(connection) = self.clients.get_mut(id) else { return };
        self.receives_long_write = connection.receives_long_write();
        if !std::mem::replace(&mut connection.watching_input, true) {
            core.driver.watch(connection.as_fd(), client_key(id), Interest::Readable);
        }
    }

    fn watch_output<E>(&mut self, core: &mut Core<E>, index: u16) {
        let id = self.clients.id(index);
        let Some(connection) = self.clients.at(index) else { return };
        if !std::mem::replace(&mut connection.watching_output, true) {
            core.driver.watch(connection.as_fd(), client_key(id), Interest::Writable);
        }
    }

    /// If sent replies let clients continue, the loop must not sleep yet.
    pub(super) fn send<E: CacheEngine>(&mut self, core: &mut Core<E>) -> LoopStep {
        let mut resumed = false;
        while let Some(index) = self.clients.touched.pop() {
            let Some(connection) = self.clients.at(index) else { continue };
            connection.touched = false;
            match connection.send(core.driver.buffers()) {
                SendProgress::Broken => self.close(core, index),
                SendProgress::All if connection.is_finished() => self.close(core, index),
                SendProgress::All => resumed |= self.resume_if_due(core, index),
                SendProgress::Blocked => {
                    self.watch_output(core, index);
                    resumed |= self.resume_if_due(core, index);
                }
            }
        }
        if resumed { LoopStep::GoOn } else { LoopStep::Sleep }
    }

    /// Continues a client that is within its limits again, or refuses its waiting command.
    fn resume_if_due<E: CacheEngine>(&mut self, core: &mut Core<E>, index: u16) -> bool {
        let id = self.clients.id(index);
        let Some(connection) = self.clients.at(index) else { return false };
        let is_due = match connection.stall {
            None => false,
            Some(Stall::Limit) => connection.may_go_on(&core.limits),
            Some(Stall::Memory) => !core.is_serving() || connection.is_leaving,
        };
        if !is_due {
            return false;
        }
        if connection.stall == Some(Stall::Memory) {
            core.driver.buffers().budget.cancel(client_key(id));
        }
        self.resume(core, index);
        true
    }

    pub(super) fn take_extents<E>(&mut self, core: &mut Core<E>) {
        while let Some(told) = core.driver.poll_extents() {
            if let Some(answered) = self.questions.answer(&told) {
                self.end_question(&answered.question, &answered.extents);
            }
        }
    }

    fn end_question(&mut self, question: &Question, extents: &[StatusExtent]) {
        if let Some(connection) = self.clients.get_mut(question.connection) {
            connection.end_status(&question.command, extents);
            self.clients.touch(question.connection.index);
        }
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let late = if self.clients.handshakes > 0 { self.clients.first_deadline() } else { None };
        let stalled = self.clients.stalled > 0;
        let gone = stalled.then(|| self.gone_looked_at.plus(LOOK_FOR_GONE));
        earlier(earlier(late, gone), self.slow_clients.poll_timeout())
    }

    /// Ends clients that disconnected while they were stalled: no event reports this.
    pub(super) fn end_gone<E: CacheEngine>(&mut self, core: &mut Core<E>) {
        if self.clients.stalled == 0 || core.now < self.gone_looked_at.plus(LOOK_FOR_GONE) {
            return;
        }
        self.gone_looked_at = core.now;
        for index in self.clients.indices() {
            let Some(connection) = self.clients.at(index) else { continue };
            if connection.stall.is_some() && connection.has_ended() {
                self.close(core, index);
            }
        }
    }

    pub(super) fn end_late_handshakes<E: CacheEngine>(&mut self, core: &mut Core<E>) {
        if self.clients.handshakes == 0 {
            return;
        }
        for index in self.clients.indices() {
            let Some(connection) = self.clients.at(index) else { continue };
            if connection.handshaking && connection.deadline <= core.now {
                let line = format_args!("a client did not finish its handshake in time and was disconnected");
                core.complaints.say(core.now, LATE_HANDSHAKE, line);
                self.close(core, index);
            }
        }
    }

    /// Offers the present volumes to clients that connect from now on.
    pub(super) fn resize<E>(&mut self, core: &Core<E>) {
        self.listeners.iter_mut().flatten().for_each(|served| served.offer(&core.volumes));
    }

    pub(super) fn stop_listening<E: CacheEngine>(&mut self, core: &mut Core<E>) {
        for (index, served) in self.listeners.drain(..).enumerate() {
            served
                .iter()
                .for_each(|served| core.driver.unwatch(served.listener.as_fd(), listener_key(index)));
        }
        for question in self.questions.take_all() {
            self.end_question(&question, &[data(question.command.length)]);
        }
        for index in self.clients.indices() {
            let Some(connection) = self.clients.at(index) else { continue };
            if connection.handshaking {
                self.close(core, index);
                continue;
            }
            connection.abandon_input(core.driver.buffers());
            self.clients.touch(index);
        }
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.clients.all_quiet()
    }

    /// Whether the client whose input was watched last is within a long write. The call clears the
    /// flag.
    pub(super) fn take_long_write(&mut self) -> bool {
        std::mem::take(&mut self.receives_long_write)
    }

    pub(super) fn close_all<E: CacheEngine>(&mut self, core: &mut Core<E>) {
        self.clients.indices().for_each(|index| self.close(core, index));
    }

    fn close<E: CacheEngine>(&mut self, core: &mut Core<E>, index: u16) {
        let id = self.clients.id(index);
        let Some(mut connection) = self.clients.remove(index) else { return };
        core.driver.unwatch(connection.as_fd(), client_key(id));
        if connection.stall == Some(Stall::Memory) {
            core.driver.buffers().budget.cancel(client_key(id));
        }
        connection.abandon(core.driver.buffers());
        core.drop_held(|pending| matches!(pending, Pending::Nbd(request) if request.connection == id));
        let _ = rustix::net::shutdown(connection.as_fd(), rustix::net::Shutdown::Both);
    }
}

fn listener_key(index: usize) -> u64 {
    WatchKey::Nbd(NbdKey::Listener(u16::try_from(index).expect("few listeners"))).bits()
}

fn client_key(id: ConnectionId) -> u64 {
    WatchKey::Nbd(NbdKey::Client(id)).bits()
}
