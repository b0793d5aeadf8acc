//! The loop: completions in, bytes of clients in; submissions and replies out; then one wait for all.
//!
//! Over 500 lines because one thread owns engine, driver, listeners and connections, and this is its loop.

mod clients;
mod complaints;
mod controls;
mod dirty_notes;
mod ending;
mod guests;
mod loss;
mod resize;
mod troubles;
mod watched;

use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use kickcache_engine::format::superblock::Superblock;
use kickcache_engine::request::{Durability, Operation, Reply, Request, RequestId, Unmap};
use kickcache_engine::time::{Duration, Instant, earlier};
use kickcache_engine::units::{BLOCK_BYTES, BlockIndex, ByteExtent, Checksum, VolumeId};

pub(crate) use self::clients::Clients;
use self::complaints::Complaint;
pub(crate) use self::complaints::Complaints;
pub(crate) use self::dirty_notes::WhileServed;
pub(crate) use self::loss::OutOfService;
use kickcache_nbd::{Command, CommandKind, ExportInfo, NbdErrno, Session};

use self::watched::Watched;
use crate::driver::Interest;
use crate::driver::buffers::Bound;
use crate::driver::checksum::checksum;
use crate::driver::clock::Clock;
use crate::driver::device::ZeroSpeed;
use crate::driver::executor::Driver;
use crate::serve::block_status::block_status;
use crate::serve::cache_engine::CacheEngine;
use crate::serve::config::Limits;
use crate::serve::connection::{Connection, Step, payload_length};
use crate::serve::control::{Control, VolumeInfo};
use crate::serve::error::ServeError;
use crate::serve::guests::Guests;
use crate::serve::input::Received;
use crate::serve::listener::Listener;
use crate::serve::notes::Notes;
use crate::serve::outbox::Sent;
use crate::serve::requests::{ConnectionId, InFlight, Requests, Then};
use crate::serve::times::{Class, Times};
use crate::serve::troubles::Troubles;
use crate::wakeup::Wakeup;

/// Receives of one connection before the others get their turn.
const RECEIVES_MAX: usize = 4;
/// Completions of guests' requests are taken in turns, each a share of what is in flight: answers leave, requests come and
/// devices get work while the rest is handled. At least so many are a turn. To sockets, which cost a system call, all is
/// sent at once.
const TURNS: usize = 8;
const TURN_LEAST: usize = 2;
/// Connections accepted at once.
const ACCEPTS_MAX: usize = 16;
/// How long no connection is accepted after the process ran out of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// Everything that serving needs, on one thread.
pub(crate) struct EventLoop<E> {
    pub(crate) clock: Clock,
    pub(crate) engine: E,
    pub(crate) driver: Driver,
    pub(crate) cache: PathBuf,
    /// What stands on the cache device, or would.
    pub(crate) superblock: Superblock,
    pub(crate) out_of_service: OutOfService,
    /// The damaged blocks that the log was told of, or that were written anew since.
    pub(crate) damaged: Vec<(VolumeId, BlockIndex)>,
    pub(crate) volumes: Vec<Volume>,
    pub(crate) listeners: Vec<ServedListener>,
    pub(crate) limits: Limits,
    pub(crate) control: Receiver<Control>,
    pub(crate) wakeup: Arc<Wakeup>,
    pub(crate) clients: Clients,
    pub(crate) guests: Guests,
    pub(crate) requests: Requests,
    pub(crate) stage: Stage,
    pub(crate) checksums: Vec<Checksum>,
    pub(crate) accept_again: Option<Instant>,
    pub(crate) complaints: Complaints,
    pub(crate) troubles: Troubles,
    /// When the log says what a stop waits for.
    pub(crate) notes: Option<Arc<Notes>>,
    pub(crate) tell_wait: Option<Instant>,
    pub(crate) times: Times,
}

/// A volume that is served.
pub(crate) struct Volume {
    pub(crate) info: VolumeInfo,
    pub(crate) zeroes: ZeroSpeed,
}

/// A listener and what it offers.
pub(crate) struct ServedListener {
    pub(crate) listener: Listener,
    pub(crate) exports: Arc<[ExportInfo]>,
    /// Index into the volumes for each export.
    pub(crate) volumes: Arc<[usize]>,
    pub(crate) watched: bool,
}

/// What follows when everything was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum After {
    GoOn,
    Sleep,
}

/// How far the end is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    /// Serving.
    Serving,
    /// Requests in flight come to their end.
    Finishing,
    /// The engine stops.
    Stopping,
    /// Clients take their last replies, until then.
    Goodbye(Instant),
}

impl<E: CacheEngine> EventLoop<E> {
    /// Runs until the server was stopped and everything acknowledged is safe.
    pub(crate) fn run(&mut self) -> Result<(), ServeError> {
        self.watch_all();
        loop {
            let now = self.clock.now();
            self.take_from_guests(now);
            self.pump(now);
            self.retry_stalled(now);
            self.tell_out_of_service();
            self.tell_troubles(now);
            if self.send_all(now) == After::GoOn {
                continue;
            }
            self.serve_guests()?;
            if self.advance_stage(now) {
                self.tell_last_troubles(now);
                return Ok(());
            }
            let until = self.next_deadline();
            let now = self.clock.now();
            let slept = self.driver.wait_beside(now, until, &mut self.guests);
            self.engine.handle_sleep(slept.map_err(ServeError::system("wait for events"))?);
            self.take_events();
        }
    }

    fn watch_all(&mut self) {
        self.driver.watch(self.wakeup.as_fd(), Watched::Control.key(), Interest::Readable);
        self.watch_listeners();
    }

    /// Watches those that are not watched.
    fn watch_listeners(&mut self) {
        (0..self.listeners.len()).for_each(|index| self.watch_listener(index));
        self.watch_guests();
    }

    fn watch_listener(&mut self, index: usize) {
        let key = Watched::Listener(u16::try_from(index).expect("few listeners")).key();
        let served = &mut self.listeners[index];
        if !std::mem::replace(&mut served.watched, true) {
            self.driver.watch(served.listener.as_fd(), key, Interest::Readable);
        }
    }

    /// Moves submissions and replies until none is left, and a turn's worth of completions.
    pub(crate) fn pump(&mut self, now: Instant) {
        let mut left = match self.guests.is_empty() {
            true => usize::MAX,
            false => (self.driver.in_flight() / TURNS).max(TURN_LEAST),
        };
        let mut moved = true;
        while std::mem::take(&mut moved) {
            while let Some(submission) = self.engine.poll_submission() {
                self.driver.submit(now, submission);
                moved = true;
            }
            while let Some(reply) = self.engine.poll_reply() {
                self.handle_reply(now, reply);
                moved = true;
            }
            while left > 0 {
                let Some(completion) = self.driver.poll_completion(now) else { break };
                self.engine.handle_completion(now, completion);
                left -= 1;
                moved = true;
            }
        }
        if self.driver.has_faults() {
            self.take_faults(now);
        }
    }

    fn take_events(&mut self) {
        let now = self.clock.now();
        while let Some((key, interest)) = self.driver.poll_ready() {
            match Watched::from_key(key) {
                Watched::Control => self.take_controls(now),
                Watched::Listener(index) => self.accept(now, usize::from(index)),
                Watched::Client(id) => self.client_ready(now, id, interest),
                Watched::Guest(key) => self.guest_ready(key, interest),
            }
        }
        if self.engine.poll_timeout().is_some_and(|due| due <= now) {
            self.engine.handle_timeout(now);
        }
        if self.accept_again.is_some_and(|due| due <= now) {
            self.accept_again = None;
            self.watch_listeners();
        }
        if self.clients.handshakes > 0 {
            self.end_late_handshakes(now);
        }
        self.tell_held_back(now);
        if let Some(awaited) = self.poll_wait(now) {
            tracing::info!("the stop waits for {awaited}");
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        let goodbye = match self.stage {
            Stage::Goodbye(until) => Some(until),
            Stage::Serving | Stage::Finishing | Stage::Stopping => None,
        };
        let handshake = if self.clients.handshakes > 0 { self.clients.first_deadline() } else { None };
        let log = earlier(self.complaints.poll_timeout(), self.tell_wait);
        let trouble = self.troubles.poll_timeout(self.driver.in_flight());
        let others = [goodbye, handshake, self.accept_again, log, trouble];
        self.engine.poll_timeout().into_iter().chain(others.into_iter().flatten()).min()
    }

    fn accept(&mut self, now: Instant, index: usize) {
        for _ in 0..ACCEPTS_MAX {
            let Some(served) = self.listeners.get_mut(index) else { return };
            served.watched = false;
            match served.listener.accept() {
                Ok(None) => break,
                Ok(Some(socket)) => {
                    if self.clients.count >= self.limits.connections_max {
                        let count = self.clients.count;
                        let line = format_args!(
                            "a client was turned away: {count} are connected, which is the limit"
                        );
                        self.complaints.say(now, Complaint::TurnedAway, line);
                        continue;
                    }
                    let session = Session::new(Arc::clone(&served.exports));
                    let deadline = now.plus(engine_span(self.limits.handshake_max));
                    let volumes = Arc::clone(&served.volumes);
                    let id = self.clients.insert(Connection::new(socket, session, deadline, volumes));
                    self.process(now, id.index);
                }
                Err(error) => {
                    let line = format_args!("a connection could not be accepted: {error}");
                    self.complaints.say(now, Complaint::NotAccepted, line);
                    self.accept_again = Some(now.plus(ACCEPT_PAUSE));
                    return;
                }
            }
        }
        self.watch_listener(index);
    }

    fn client_ready(&mut self, now: Instant, id: ConnectionId, interest: Interest) {
        let Some(connection) = self.clients.get_mut(id) else { return };
        match interest {
            Interest::Writable => {
                connection.watching_output = false;
                // Who sends nothing more is gone, as in `receive`; io_uring would report it again and again.
                if connection.has_ended() {
                    return self.close(id.index);
                }
                self.clients.touch(id.index);
            }
            Interest::Readable | Interest::Signalled => {
                connection.watching_input = false;
                self.receive(now, id);
            }
        }
    }

    fn receive(&mut self, now: Instant, id: ConnectionId) {
        for round in 1..=RECEIVES_MAX {
            let Some(connection) = self.clients.get_mut(id) else { return };
            let received = connection.receive(self.driver.buffers());
            if received == Received::End {
                return self.close(id.index);
            }
            self.process(now, id.index);
            let Some(connection) = self.clients.get_mut(id) else { return };
            if connection.stalled {
                return;
            }
            if received == Received::Drained || round == RECEIVES_MAX {
                return self.watch_input(id);
            }
        }
    }

    fn watch_input(&mut self, id: ConnectionId) {
        let Some(connection) = self.clients.get_mut(id) else { return };
        if !connection.watching_input {
            connection.watching_input = true;
            self.driver.watch(connection.as_fd(), Watched::Client(id).key(), Interest::Readable);
        }
    }

    /// Takes the commands that a client's bytes hold, until bytes, memory or patience are used up.
    fn process(&mut self, now: Instant, index: u16) {
        loop {
            let Some(connection) = self.clients.at(index) else { return };
            let step = connection.step(self.driver.buffers(), &self.limits);
            let begins = connection.handshaking && connection.is_transmission();
            connection.handshaking &= !begins;
            let owes = connection.owes();
            if begins {
                self.clients.handshakes -= 1;
            }
            if owes {
                self.clients.touch(index);
            }
            match step {
                Step::NeedInput => return self.go_on(index),
                Step::Closed => return self.clients.touch(index),
                Step::Stalled => return self.clients.stall(index),
                Step::Write(command, id) => self.begin_write(now, index, command, id),
                Step::Admit(command) => {
                    if !self.admit(now, index, command) {
                        return self.clients.stall(index);
                    }
                }
            }
        }
    }

    /// A connection that was stalled is read from again.
    fn go_on(&mut self, index: u16) {
        let id = self.clients.id(index);
        self.watch_input(id);
    }

    /// Admits, answers or refuses a command; `false` if there is no memory for it yet.
    fn admit(&mut self, now: Instant, index: u16, command: Command) -> bool {
        let Some(connection) = self.clients.at(index) else { return true };
        let volume = connection.volumes[command.export];
        if self.stage != Stage::Serving {
            connection.refuse(command, NbdErrno::Shutdown);
            return true;
        }
        let length = payload_length(&command);
        if !connection.has_room(length, &self.limits) {
            return false;
        }
        match command.kind {
            CommandKind::BlockStatus { .. } => {
                let id = self.volumes[volume].info.id;
                let extents = block_status(&self.engine, &self.driver, id, extent(&command));
                connection.answer_status(command, &extents);
                return true;
            }
            CommandKind::WriteZeroes { fast: true, .. } if self.volumes[volume].zeroes == ZeroSpeed::Slow => {
                connection.refuse(command, NbdErrno::NotSupported);
                return true;
            }
            CommandKind::Read { .. }
            | CommandKind::Write { .. }
            | CommandKind::Flush
            | CommandKind::Trim { .. }
            | CommandKind::WriteZeroes { .. }
            | CommandKind::Cache => {}
        }
        let idle = connection.is_idle();
        let id = match allocate(&mut self.driver, volume, &command, idle) {
            Ok(Some(id)) => id,
            Ok(None) => return false,
            Err(error) => {
                let line = format_args!("a request of {length} bytes failed: no memory ({error})");
                self.complaints.say(now, Complaint::NoMemory, line);
                connection.refuse(command, NbdErrno::Io);
                return true;
            }
        };
        connection.admit(command, id);
        if !matches!(command.kind, CommandKind::Write { .. }) {
            self.begin(now, index, command, id);
        }
        true
    }

    fn begin_write(&mut self, now: Instant, index: u16, command: Command, id: RequestId) {
        self.checksum_payload(id, command.offset);
        self.begin(now, index, command, id);
    }

    /// Computes the checksums of the whole blocks of a payload that starts at a byte of its volume.
    fn checksum_payload(&mut self, id: RequestId, offset: u64) {
        self.checksums.clear();
        let payload = self.driver.buffers().payload(id);
        let start = usize::try_from(offset.next_multiple_of(4096) - offset).expect("below 4096");
        let blocks = payload.get(start..).unwrap_or_default().chunks_exact(BLOCK_BYTES);
        self.checksums.extend(blocks.map(checksum));
    }

    fn begin(&mut self, now: Instant, index: u16, command: Command, id: RequestId) {
        let connection = self.clients.id(index);
        let Some(served) = self.clients.at(index) else { return };
        let volume = self.volumes[served.volumes[command.export]].info.id;
        let (operation, then) = operation(command.kind);
        self.requests.insert(id, InFlight { connection, command, volume, then, begun: now });
        let checksums: &[Checksum] = match operation {
            Operation::Write(_) => &self.checksums,
            Operation::Read
            | Operation::Flush
            | Operation::Discard
            | Operation::WriteZeroes { .. }
            | Operation::Promote => &[],
        };
        let request = Request { id, volume, operation, extent: extent(&command), checksums };
        self.engine.handle_request(now, request);
    }

    fn handle_reply(&mut self, now: Instant, reply: Reply) {
        let Reply { id, result, read_from } = reply;
        if let Some(pending) = self.guests.remove(id) {
            return self.end_guest_request(now, pending, reply);
        }
        let request = self.requests.remove(id);
        if request.then == Then::Flush && result.is_ok() {
            self.requests.insert(id, InFlight { then: Then::Reply, ..request });
            let extent = ByteExtent { start: 0, length: 0 };
            let volume = request.volume;
            let flush = Request { id, volume, operation: Operation::Flush, extent, checksums: &[] };
            return self.engine.handle_request(now, flush);
        }
        let class = match request.command.kind {
            CommandKind::Read { .. } => Some(Class::of_read(read_from)),
            CommandKind::Write { .. } => Some(Class::Write),
            CommandKind::Flush
            | CommandKind::Trim { .. }
            | CommandKind::WriteZeroes { .. }
            | CommandKind::Cache
            | CommandKind::BlockStatus { .. } => None,
        };
        if let (Some(class), Ok(())) = (class, result) {
            self.note_time(now, request.volume, class, (request.command.length, request.begun));
        }
        match self.clients.get_mut(request.connection) {
            Some(connection) => {
                connection.reply(self.driver.buffers(), &request.command, id, result);
                self.clients.touch(request.connection.index);
            }
            None => self.driver.buffers().release(id),
        }
    }

    /// Begins to note how long requests take.
    pub(crate) fn begin_times(&mut self) {
        let now = self.clock.now();
        self.volumes.iter().for_each(|volume| self.times.add(now, volume.info.id));
    }

    /// Notes how long a request took that ended well.
    fn note_time(&mut self, now: Instant, volume: VolumeId, class: Class, (bytes, begun): (u64, Instant)) {
        if let Some(times) = self.times.of(volume) {
            times.note(now, class, bytes, now.since(begun));
        }
    }

    /// Sends what is owed. What left may make room for clients that wait: then the loop must go on before it
    /// sleeps.
    fn send_all(&mut self, now: Instant) -> After {
        let before = self.driver.buffers().bytes_in_use();
        let mut resumed = false;
        while let Some(index) = self.clients.touched.pop() {
            let Some(connection) = self.clients.at(index) else { continue };
            connection.touched = false;
            let sent = connection.send(self.driver.buffers());
            let (finished, stalled) = (connection.is_finished(), connection.stalled);
            match sent {
                Sent::Broken => self.close(index),
                Sent::All if finished => self.close(index),
                Sent::All if stalled => {
                    self.process(now, index);
                    resumed = true;
                }
                Sent::All => {}
                Sent::Blocked => self.watch_output(index),
            }
        }
        let freed = self.driver.buffers().bytes_in_use() < before;
        if resumed || freed && !self.clients.stalled.is_empty() { After::GoOn } else { After::Sleep }
    }

    fn watch_output(&mut self, index: u16) {
        let id = self.clients.id(index);
        let Some(connection) = self.clients.at(index) else { return };
        if !connection.watching_output {
            connection.watching_output = true;
            self.driver.watch(connection.as_fd(), Watched::Client(id).key(), Interest::Writable);
        }
    }

    /// Lets connections that wait for memory try again.
    fn retry_stalled(&mut self, now: Instant) {
        for _ in 0..self.clients.stalled.len() {
            let Some(index) = self.clients.stalled.pop_front() else { return };
            let Some(connection) = self.clients.at(index) else { continue };
            if std::mem::take(&mut connection.stalled) {
                self.process(now, index);
            }
        }
        self.pump(now);
    }

    fn end_late_handshakes(&mut self, now: Instant) {
        for index in self.clients.indices() {
            let Some(connection) = self.clients.at(index) else { continue };
            if connection.handshaking && connection.deadline <= now {
                let line = format_args!("a client did not finish its handshake in time and was disconnected");
                self.complaints.say(now, Complaint::LateHandshake, line);
                self.close(index);
            }
        }
    }

    fn close(&mut self, index: u16) {
        let id = self.clients.id(index);
        let Some(mut connection) = self.clients.remove(index) else { return };
        self.driver.unwatch(connection.as_fd(), Watched::Client(id).key());
        connection.abandon(self.driver.buffers());
        let _ = rustix::net::shutdown(connection.as_fd(), rustix::net::Shutdown::Both);
    }
}

fn allocate(
    driver: &mut Driver,
    volume: usize,
    command: &Command,
    idle: bool,
) -> io::Result<Option<RequestId>> {
    match command.kind {
        CommandKind::Read { .. } | CommandKind::Write { .. } => {
            let bound = if idle { Bound::Ignored } else { Bound::Kept };
            driver.buffers().allocate(volume, extent(command), bound)
        }
        CommandKind::Flush
        | CommandKind::Trim { .. }
        | CommandKind::WriteZeroes { .. }
        | CommandKind::Cache
        | CommandKind::BlockStatus { .. } => Ok(Some(driver.buffers().allocate_empty())),
    }
}

fn extent(command: &Command) -> ByteExtent {
    ByteExtent { start: command.offset, length: command.length }
}

fn operation(kind: CommandKind) -> (Operation, Then) {
    let operation = match kind {
        CommandKind::Read { .. } => Operation::Read,
        CommandKind::Write { fua } => Operation::Write(durability(fua)),
        CommandKind::Flush => Operation::Flush,
        CommandKind::Trim { fua: true } => return (Operation::Discard, Then::Flush),
        CommandKind::Trim { fua: false } => Operation::Discard,
        CommandKind::WriteZeroes { fua, no_hole, .. } => {
            let unmap = if no_hole { Unmap::Forbid } else { Unmap::Allow };
            Operation::WriteZeroes { unmap, durability: durability(fua) }
        }
        CommandKind::Cache => Operation::Promote,
        CommandKind::BlockStatus { .. } => unreachable!("answered when it was admitted"),
    };
    (operation, Then::Reply)
}

fn durability(fua: bool) -> Durability {
    if fua { Durability::Durable } else { Durability::Volatile }
}

fn engine_span(span: std::time::Duration) -> Duration {
    Duration::from_nanos(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests;
