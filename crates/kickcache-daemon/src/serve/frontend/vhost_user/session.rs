//! Sessions of virtual machines.

use std::io;
use std::os::fd::AsFd;

use kickcache_engine::cache_engine::CacheEngine;
use kickcache_vhost_user::{Answer, KickChange, Notice, Outcome, Packet, ProtocolError, Received, Socket};
use tracing::Level;

use crate::driver::{Interest, open_files};
use crate::serve::complaints::Complaint;
use crate::serve::core::Core;
use crate::serve::error::ServeError;
use crate::serve::frontend::kinds::WatchKey;
use crate::serve::frontend::vhost_user::VhostUser;
use crate::serve::frontend::vhost_user::key::{Part, PortKey};

/// The most messages that are handled in a row for one virtual machine.
const MESSAGES_MAX: usize = 64;

const CONNECTED: Complaint =
    Complaint::new("guest_connected", Level::INFO, "virtual machines connected to {}");
const DISCONNECTED: Complaint =
    Complaint::new("guest_disconnected", Level::INFO, "virtual machines of {} disconnected");
const CONNECTION_CLOSED: Complaint =
    Complaint::new("guest_connection_closed", Level::WARN, "virtual machines of {} were disconnected");
const NOT_ACCEPTED: Complaint = Complaint::new(
    "guest_not_accepted",
    Level::WARN,
    "connections of virtual machines of {} could not be accepted",
);
const PROTOCOL_VIOLATED: Complaint = Complaint::new(
    "guest_violated_protocol",
    Level::WARN,
    "virtual machines of {} violated the vhost-user protocol",
);
const SIZE_NOT_SENT: Complaint = Complaint::new(
    "guest_size_not_sent",
    Level::WARN,
    "virtual machines of {} could not be notified of its size",
);

impl VhostUser {
    pub(in crate::serve::frontend) fn watch<E>(&mut self, core: &mut Core<E>) {
        (0..self.ports.len()).for_each(|port| self.listen(core, port));
    }

    /// Waits for a front end, unless one is connected, or requests of the last one are still in flight: a
    /// late write of the last front end would overwrite data of the next one. Does not wait while the volume is
    /// hidden, or connections cannot be accepted.
    pub(super) fn listen<E>(&mut self, core: &mut Core<E>, index: usize) {
        let port = &mut self.ports[index];
        if port.listening
            || port.is_hidden
            || port.socket.is_some()
            || port.device.outstanding() > 0
            || core.accept_again.is_some()
        {
            return;
        }
        let Some(listener) = &port.listener else { return };
        port.listening = true;
        core.driver.watch(listener.as_fd(), key(index, Part::Listener, 0), Interest::Readable);
    }

    pub(in crate::serve::frontend) fn stop_listening<E>(&mut self, core: &mut Core<E>) {
        self.closed = true;
        for (index, port) in self.ports.iter_mut().enumerate() {
            let Some(listener) = port.listener.take() else { continue };
            core.driver.unwatch(listener.as_fd(), key(index, Part::Listener, 0));
        }
    }

    pub(crate) fn on_ready<E: CacheEngine>(&mut self, core: &mut Core<E>, key: PortKey, interest: Interest) {
        let index = usize::from(key.port);
        let Some(port) = self.ports.get_mut(index) else { return };
        match key.part {
            Part::Listener => self.accept(core, index),
            Part::Socket if port.socket.is_some() && key.generation == port.generation_of_socket => {
                self.receive(core, index);
            }
            Part::Kick(queue) if *port.kick_mut(queue.into()) == key.generation => {
                port.device.kicked(queue.into());
                if interest != Interest::Signalled {
                    port.device.clear_kick(queue.into());
                    self.watch_kick(core, index, queue.into());
                }
            }
            Part::Socket | Part::Kick(_) => {}
        }
    }

    fn accept<E: CacheEngine>(&mut self, core: &mut Core<E>, index: usize) {
        let port = &mut self.ports[index];
        port.listening = false;
        let Some(listener) = port.listener.as_ref().filter(|_| !port.is_hidden) else { return };
        match listener.accept() {
            Ok(Some(socket)) if !listener.is_connection() && open_files::is_of_reserve(&socket) => {
                let line = format_args!("a virtual machine was turned away: {}", open_files::refusal());
                core.complaints.say(core.now, NOT_ACCEPTED.about(port.volume), line);
                self.listen(core, index);
            }
            Ok(Some(socket)) => {
                if listener.is_connection() {
                    port.listener = None;
                }
                let name = core.volumes.name(port.volume);
                let line = format_args!("a virtual machine connected to {name}");
                core.complaints.say(core.now, CONNECTED.about(port.volume), line);
                port.socket = Some(Socket::new(socket));
                port.generation_of_socket = port.next_generation();
                self.receive(core, index);
            }
            Ok(None) => self.listen(core, index),
            Err(error) => {
                let line = format_args!("a virtual machine's connection could not be accepted: {error}");
                core.complaints.say(core.now, NOT_ACCEPTED.about(port.volume), line);
                core.pause_accepting();
            }
        }
    }

    /// While a message waits for requests in flight, no later message is read.
    fn receive<E: CacheEngine>(&mut self, core: &mut Core<E>, index: usize) {
        for _ in 0..MESSAGES_MAX {
            let port = &mut self.ports[index];
            let Some(socket) = port.socket.as_mut().filter(|_| port.waiting.is_none()) else { return };
            match socket.receive() {
                Ok(Received::Packet(packet)) => self.handle_packet(core, index, packet),
                Ok(Received::Nothing) => break,
                Ok(Received::End) => return self.disconnect(core, index, None),
                Err(error) => return self.disconnect(core, index, Some(&error)),
            }
        }
        self.watch_socket(core, index);
    }

    fn watch_socket<E>(&mut self, core: &mut Core<E>, index: usize) {
        let port = &self.ports[index];
        let Some(socket) = port.socket.as_ref().filter(|_| port.waiting.is_none()) else { return };
        let key = key(index, Part::Socket, port.generation_of_socket);
        core.driver.watch(socket.as_fd(), key, Interest::Readable);
    }

    fn handle_packet<E: CacheEngine>(&mut self, core: &mut Core<E>, index: usize, packet: Packet) {
        if packet.fds.iter().any(open_files::is_of_reserve) {
            let refused = ProtocolError::from(io::Error::other(open_files::refusal()));
            return self.disconnect(core, index, Some(&refused));
        }
        let port = &mut self.ports[index];
        let answer = port.device.handle(packet);
        let sent = match (answer, &port.socket) {
            (Ok(Answer::Reply(reply)), Some(socket)) => socket.send(&reply).map_err(ProtocolError::from),
            (Ok(Answer::Wait(packet)), _) => {
                port.waiting = Some(packet);
                Ok(())
            }
            (Ok(Answer::Reply(_) | Answer::Nothing), _) => Ok(()),
            (Err(error), _) => Err(error),
        };
        self.follow_kicks(core, index);
        if let Err(error) = sent {
            self.disconnect(core, index, Some(&error));
        }
    }

    fn follow_kicks<E>(&mut self, core: &mut Core<E>, index: usize) {
        for change in self.ports[index].device.kick_changes() {
            let port = &mut self.ports[index];
            match change {
                KickChange::Watch(queue) => {
                    *port.kick_mut(queue) = port.next_generation();
                    self.watch_kick(core, index, queue);
                }
                KickChange::Unwatch(queue, fd) => {
                    let key = key(index, kick_part(queue), *port.kick_mut(queue));
                    *port.kick_mut(queue) = 0;
                    core.driver.unwatch(fd.as_fd(), key);
                }
            }
        }
    }

    fn watch_kick<E>(&mut self, core: &mut Core<E>, index: usize, queue: u16) {
        let port = &mut self.ports[index];
        let key = key(index, kick_part(queue), *port.kick_mut(queue));
        let Some(kick) = port.device.kick(queue) else { return };
        core.driver.watch(kick, key, Interest::Signalled);
    }

    pub(super) fn disconnect<E>(&mut self, core: &mut Core<E>, index: usize, error: Option<&ProtocolError>) {
        let port = &mut self.ports[index];
        let Some(socket) = port.socket.take() else { return };
        let name = core.volumes.name(port.volume);
        match error {
            Some(error) => {
                let line = format_args!("the virtual machine of {name} is disconnected: {error}");
                core.complaints.say(core.now, CONNECTION_CLOSED.about(port.volume), line);
            }
            None => {
                let line = format_args!("the virtual machine of {name} disconnected");
                core.complaints.say(core.now, DISCONNECTED.about(port.volume), line);
            }
        }
        core.driver.unwatch(socket.as_fd(), key(index, Part::Socket, port.generation_of_socket));
        port.waiting = None;
        port.device.disconnect();
        // The result of the held request is dropped.
        if let Some(request) = port.held.take() {
            port.device.complete(&request, Outcome::Failed);
        }
        if std::mem::take(&mut port.waits_for_memory) {
            let key = WatchKey::VhostUser(port.memory_key(index));
            core.driver.buffers().budget.cancel(key.bits());
        }
        self.follow_kicks(core, index);
        self.listen(core, index);
    }

    /// Answers guests, after devices got their work: a guest that wakes up may take the processor of this thread.
    pub(in crate::serve::frontend) fn send<E: CacheEngine>(
        &mut self,
        core: &mut Core<E>,
    ) -> Result<(), ServeError> {
        if self.ports.is_empty() {
            return Ok(());
        }
        if core.driver.has_completions() {
            core.driver.hand_over().map_err(ServeError::system("hand work to devices"))?;
        }
        for index in 0..self.ports.len() {
            self.tell_notices(core, index);
            if self.ports[index].device.has_lost_memory() {
                self.disconnect(core, index, Some(&memory_lost()));
            }
            let port = &mut self.ports[index];
            port.device.signal();
            if let Some(packet) = port.waiting.take() {
                self.handle_packet(core, index, packet);
                self.receive(core, index);
            }
            self.listen(core, index);
        }
        Ok(())
    }

    fn tell_notices<E>(&mut self, core: &mut Core<E>, index: usize) {
        let port = &mut self.ports[index];
        let volume = port.volume;
        let name = core.volumes.name(volume);
        for notice in port.device.take_notices() {
            match notice {
                Notice::QueueStopped(queue, fault) => {
                    let line =
                        format_args!("queue {queue} of the virtual machine of {name} is stopped: {fault}");
                    core.complaints.say(core.now, PROTOCOL_VIOLATED.about(volume), line);
                }
                Notice::MessageRefused(error) => {
                    let line = format_args!("a message for {name} was refused: {error}");
                    core.complaints.say(core.now, PROTOCOL_VIOLATED.about(volume), line);
                }
                Notice::SizeNotTold(error) => {
                    let line = format_args!(
                        "the virtual machine of {name} could not be notified of its disk's size: {error}"
                    );
                    core.complaints.say(core.now, SIZE_NOT_SENT.about(volume), line);
                }
            }
        }
    }
}

fn memory_lost() -> ProtocolError {
    let why = "it was cut short while it was shared".into();
    ProtocolError::Memory { what: "the memory of the virtual machine", why }
}

pub(super) fn key(port: usize, part: Part, generation: u32) -> u64 {
    let port = u16::try_from(port).expect("few volumes");
    WatchKey::VhostUser(PortKey { port, part, generation }).bits()
}

fn kick_part(queue: u16) -> Part {
    Part::Kick(u8::try_from(queue).expect("at most 16 queues"))
}
