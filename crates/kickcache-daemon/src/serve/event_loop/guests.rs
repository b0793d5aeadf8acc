//! Guests in the loop: their sockets and kicks, their requests to the engine, and its replies to them.

use std::os::fd::AsFd;

use kickcache_engine::request::{Durability, Errno, Operation, Reply, Request, RequestId, Unmap};
use kickcache_engine::time::Instant;
use kickcache_engine::units::Checksum;
use kickcache_vhost_user::{
    Answer, GuestRequest, KickChange, Notice, Outcome, Packet, ProtocolError, QUEUE_COUNT_MAX, Received,
    RequestKind, Socket,
};

use super::complaints::Complaint;
use super::watched::Watched;
use super::{ACCEPT_PAUSE, EventLoop, Stage};
use crate::driver::Interest;
use crate::driver::buffers::Bound;
use crate::serve::cache_engine::CacheEngine;
use crate::serve::error::ServeError;
use crate::serve::guests::{GuestKey, Part, Pending};
use crate::serve::times::Class;

/// Requests taken from a guest before the others get their turn.
const TAKES_MAX: usize = 256;
/// Messages of a front end before the others get their turn.
const MESSAGES_MAX: usize = 64;

impl<E: CacheEngine> EventLoop<E> {
    pub(super) fn watch_guests(&mut self) {
        (0..self.guests.ports.len()).for_each(|port| self.listen_to_guest(port));
    }

    /// Waits for a front end, unless there is one, or requests of the last one are still in flight: written late,
    /// they would undo what the next one writes. Nor while connections cannot be accepted.
    fn listen_to_guest(&mut self, index: usize) {
        let port = &mut self.guests.ports[index];
        if port.listening
            || port.socket.is_some()
            || port.device.outstanding() > 0
            || self.accept_again.is_some()
        {
            return;
        }
        let Some(listener) = &port.listener else { return };
        port.listening = true;
        let key = Watched::Guest(guest_key(index, Part::Listener, 0)).key();
        self.driver.watch(listener.as_fd(), key, Interest::Readable);
    }

    pub(super) fn stop_listening_to_guests(&mut self) {
        self.guests.closed = true;
        for (index, port) in self.guests.ports.iter_mut().enumerate() {
            let Some(listener) = port.listener.take() else { continue };
            let key = Watched::Guest(guest_key(index, Part::Listener, 0)).key();
            self.driver.unwatch(listener.as_fd(), key);
        }
    }

    pub(super) fn guest_ready(&mut self, key: GuestKey, interest: Interest) {
        let index = usize::from(key.port);
        let Some(port) = self.guests.ports.get_mut(index) else { return };
        match key.part {
            Part::Listener => self.accept_guest(index),
            Part::Socket if port.socket.is_some() && key.generation == port.generation_of_socket => {
                self.receive_from_guest(index);
            }
            Part::Kick(queue) if *port.kick_mut(queue.into()) == key.generation => {
                port.device.kicked(queue.into());
                if interest != Interest::Signalled {
                    port.device.clear_kick(queue.into());
                    self.watch_kick(index, queue.into());
                }
            }
            Part::Socket | Part::Kick(_) => {}
        }
    }

    fn accept_guest(&mut self, index: usize) {
        let port = &mut self.guests.ports[index];
        port.listening = false;
        let Some(listener) = &port.listener else { return };
        match listener.accept() {
            Ok(Some(socket)) => {
                if listener.is_connection() {
                    port.listener = None;
                }
                let (now, name) = (self.clock.now(), &self.volumes[port.volume].info.name);
                let line = format_args!("a virtual machine connected to {name}");
                self.complaints.say(now, Complaint::GuestConnected(port.volume), line);
                port.socket = Some(Socket::new(socket));
                port.generation_of_socket = port.next_generation();
                self.receive_from_guest(index);
            }
            Ok(None) => self.listen_to_guest(index),
            Err(error) => {
                let now = self.clock.now();
                let line = format_args!("a virtual machine's connection could not be accepted: {error}");
                self.complaints.say(now, Complaint::GuestNotAccepted(port.volume), line);
                self.accept_again = Some(now.plus(ACCEPT_PAUSE));
            }
        }
    }

    /// Handles the messages that came. While one waits for requests in flight, none behind it is read.
    fn receive_from_guest(&mut self, index: usize) {
        for _ in 0..MESSAGES_MAX {
            let port = &mut self.guests.ports[index];
            let Some(socket) = port.socket.as_mut().filter(|_| port.waiting.is_none()) else { return };
            match socket.receive() {
                Ok(Received::Packet(packet)) => self.handle_packet(index, packet),
                Ok(Received::Nothing) => break,
                Ok(Received::End) => return self.disconnect_guest(index, None),
                Err(error) => return self.disconnect_guest(index, Some(&error)),
            }
        }
        self.watch_guest(index);
    }

    fn watch_guest(&mut self, index: usize) {
        let port = &self.guests.ports[index];
        let Some(socket) = port.socket.as_ref().filter(|_| port.waiting.is_none()) else { return };
        let key = Watched::Guest(guest_key(index, Part::Socket, port.generation_of_socket)).key();
        self.driver.watch(socket.as_fd(), key, Interest::Readable);
    }

    fn handle_packet(&mut self, index: usize, packet: Packet) {
        let port = &mut self.guests.ports[index];
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
        self.follow_kicks(index);
        if let Err(error) = sent {
            self.disconnect_guest(index, Some(&error));
        }
    }

    fn follow_kicks(&mut self, index: usize) {
        for change in self.guests.ports[index].device.kick_changes() {
            let port = &mut self.guests.ports[index];
            match change {
                KickChange::Watch(queue) => {
                    *port.kick_mut(queue) = port.next_generation();
                    self.watch_kick(index, queue);
                }
                KickChange::Unwatch(queue, fd) => {
                    let part = guest_key(index, kick_part(queue), *port.kick_mut(queue));
                    *port.kick_mut(queue) = 0;
                    self.driver.unwatch(fd.as_fd(), Watched::Guest(part).key());
                }
            }
        }
    }

    fn watch_kick(&mut self, index: usize, queue: u16) {
        let port = &mut self.guests.ports[index];
        let part = guest_key(index, kick_part(queue), *port.kick_mut(queue));
        let Some(kick) = port.device.kick(queue) else { return };
        self.driver.watch(kick, Watched::Guest(part).key(), Interest::Signalled);
    }

    fn disconnect_guest(&mut self, index: usize, error: Option<&ProtocolError>) {
        let port = &mut self.guests.ports[index];
        let Some(socket) = port.socket.take() else { return };
        let name = &self.volumes[port.volume].info.name;
        let now = self.clock.now();
        match error {
            Some(error) => {
                let line = format_args!("the virtual machine of {name} is disconnected: {error}");
                self.complaints.say(now, Complaint::GuestThrownOut(port.volume), line);
            }
            None => {
                let line = format_args!("the virtual machine of {name} disconnected");
                self.complaints.say(now, Complaint::GuestGone(port.volume), line);
            }
        }
        let part = guest_key(index, Part::Socket, port.generation_of_socket);
        self.driver.unwatch(socket.as_fd(), Watched::Guest(part).key());
        port.waiting = None;
        port.device.disconnect();
        // Nobody is told of it any more: a front end that comes back has it done again.
        if let Some(request) = port.held.take() {
            port.device.complete(&request, Outcome::Failed);
        }
        self.follow_kicks(index);
        self.listen_to_guest(index);
    }

    /// Takes what guests made available, until rings, memory or patience are used up. What waited for memory was taken
    /// before: it goes on also when its queue, or the server, takes nothing more.
    pub(super) fn take_from_guests(&mut self, now: Instant) {
        for index in 0..self.guests.ports.len() {
            if let Some(request) = self.guests.ports[index].held.take() {
                self.admit_or_hold(now, index, request);
            }
            if self.stage == Stage::Serving && self.guests.ports[index].device.is_awake() {
                self.take_from_guest(now, index);
            }
        }
    }

    fn take_from_guest(&mut self, now: Instant, index: usize) {
        let mut left = TAKES_MAX;
        let first = self.guests.ports[index].next_turn();
        for turn in 0..QUEUE_COUNT_MAX {
            let queue = (first + turn) % QUEUE_COUNT_MAX;
            while left > 0 && self.guests.ports[index].held.is_none() {
                let Some(request) = self.guests.ports[index].device.next_request(queue) else { break };
                left -= 1;
                self.admit_or_hold(now, index, request);
            }
        }
    }

    fn admit_or_hold(&mut self, now: Instant, index: usize, request: GuestRequest) {
        self.guests.ports[index].held = self.admit_guest_request(now, index, request);
    }

    /// Begins a request, or gives it back if there is no memory for it yet.
    fn admit_guest_request(
        &mut self,
        now: Instant,
        index: usize,
        request: GuestRequest,
    ) -> Option<GuestRequest> {
        let port = &mut self.guests.ports[index];
        let (length, volume) = (request.payload_length(), port.volume);
        let alone = port.bytes == 0;
        if !alone && port.bytes + request.memory_length() > self.limits.connection_bytes_max {
            return Some(request);
        }
        let bound = if alone { Bound::Ignored } else { Bound::Kept };
        let allocated = match length {
            0 => Ok(Some(self.driver.buffers().allocate_empty())),
            _ => self.driver.buffers().allocate(volume, request.extent(), bound),
        };
        match allocated {
            Ok(Some(id)) => {
                port.bytes += request.memory_length();
                self.begin_guest_request(now, id, index, request);
            }
            Ok(None) => return Some(request),
            Err(error) => {
                let line = format_args!("a request of {length} bytes failed: no memory ({error})");
                self.complaints.say(now, Complaint::NoMemory, line);
                port.device.complete(&request, Outcome::Failed);
            }
        }
        None
    }

    fn begin_guest_request(&mut self, now: Instant, id: RequestId, index: usize, request: GuestRequest) {
        if let RequestKind::Write { .. } = request.kind() {
            if request.copy_payload(self.driver.buffers().payload_mut(id)).is_none() {
                return self.answer_guest(id, index, &request, Outcome::Failed);
            }
            self.checksum_payload(id, request.extent().start);
        }
        self.hand_to_engine(now, id, Pending { port: index, request, begun: now });
    }

    fn hand_to_engine(&mut self, now: Instant, id: RequestId, pending: Pending) {
        let volume = self.volumes[self.guests.ports[pending.port].volume].info.id;
        let (operation, extent) = (operation(pending.request.kind()), pending.request.extent());
        let checksums: &[Checksum] =
            if matches!(operation, Operation::Write(_)) { &self.checksums } else { &[] };
        self.guests.insert(id, pending);
        self.engine.handle_request(now, Request { id, volume, operation, extent, checksums });
    }

    pub(super) fn end_guest_request(&mut self, now: Instant, mut pending: Pending, reply: Reply) {
        let Reply { id, result, read_from } = reply;
        if result.is_ok() && pending.request.advance() {
            return self.hand_to_engine(now, id, pending);
        }
        let Pending { port, request, begun } = pending;
        let class = match request.kind() {
            RequestKind::Read => Some(Class::of_read(read_from)),
            RequestKind::Write { .. } => Some(Class::Write),
            RequestKind::Flush | RequestKind::Discard | RequestKind::WriteZeroes { .. } => None,
        };
        if let (Some(class), Ok(())) = (class, result) {
            let volume = self.volumes[self.guests.ports[port].volume].info.id;
            self.note_time(now, volume, class, (request.payload_length(), begun));
        }
        let outcome = match result {
            Ok(()) if request.kind() == RequestKind::Read => {
                let delivered = request.deliver(self.driver.buffers().payload(id));
                delivered.map_or(Outcome::Failed, |()| Outcome::Done)
            }
            Ok(()) => Outcome::Done,
            Err(Errno::NotSupported) => Outcome::Unsupported,
            Err(Errno::Io | Errno::Invalid | Errno::NoSpace | Errno::NotPermitted | Errno::Shutdown) => {
                Outcome::Failed
            }
        };
        self.answer_guest(id, port, &request, outcome);
    }

    fn answer_guest(&mut self, id: RequestId, index: usize, request: &GuestRequest, outcome: Outcome) {
        self.driver.buffers().release(id);
        let port = &mut self.guests.ports[index];
        port.bytes -= request.memory_length();
        port.device.complete(request, outcome);
    }

    fn tell_notices(&mut self, index: usize) {
        let port = &mut self.guests.ports[index];
        let (now, volume) = (self.clock.now(), port.volume);
        let name = &self.volumes[volume].info.name;
        for notice in port.device.take_notices() {
            let complaint = Complaint::GuestBrokeRules(volume);
            match notice {
                Notice::QueueStopped(queue, fault) => {
                    let line =
                        format_args!("queue {queue} of the virtual machine of {name} is stopped: {fault}");
                    self.complaints.say(now, complaint, line);
                }
                Notice::MessageRefused(error) => {
                    let line = format_args!("a message for {name} was refused: {error}");
                    self.complaints.say(now, complaint, line);
                }
                Notice::SizeNotTold(error) => {
                    let line = format_args!(
                        "the virtual machine of {name} could not be told of its disk's size: {error}"
                    );
                    self.complaints.say(now, Complaint::SizeNotTold(volume), line);
                }
            }
        }
    }

    /// Answers guests. Devices have their work before, because a guest that wakes may run in this thread's stead.
    pub(super) fn serve_guests(&mut self) -> Result<(), ServeError> {
        if self.driver.has_completions() {
            self.driver.hand_over().map_err(ServeError::system("hand work to devices"))?;
        }
        for index in 0..self.guests.ports.len() {
            self.tell_notices(index);
            if self.guests.ports[index].device.has_lost_memory() {
                self.disconnect_guest(index, Some(&memory_lost()));
            }
            let port = &mut self.guests.ports[index];
            port.device.signal();
            if let Some(packet) = port.waiting.take() {
                self.handle_packet(index, packet);
                self.receive_from_guest(index);
            }
            self.listen_to_guest(index);
        }
        Ok(())
    }
}

fn memory_lost() -> ProtocolError {
    let why = "it was cut short while it was shared".into();
    ProtocolError::Memory { what: "the memory of the virtual machine", why }
}

fn guest_key(port: usize, part: Part, generation: u32) -> GuestKey {
    GuestKey { port: u16::try_from(port).expect("few volumes"), part, generation }
}

fn kick_part(queue: u16) -> Part {
    Part::Kick(u8::try_from(queue).expect("at most 16 queues"))
}

fn operation(kind: RequestKind) -> Operation {
    match kind {
        RequestKind::Read => Operation::Read,
        RequestKind::Write { durable } => Operation::Write(durability(durable)),
        RequestKind::Flush => Operation::Flush,
        RequestKind::Discard => Operation::Discard,
        RequestKind::WriteZeroes { unmap, durable } => {
            let unmap = if unmap { Unmap::Allow } else { Unmap::Forbid };
            Operation::WriteZeroes { unmap, durability: durability(durable) }
        }
    }
}

fn durability(durable: bool) -> Durability {
    if durable { Durability::Durable } else { Durability::Volatile }
}
