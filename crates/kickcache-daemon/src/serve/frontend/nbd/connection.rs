//! One client: its socket, its session, what it sent and what it is owed.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use kickcache_engine::request::{Errno, RequestId};
use kickcache_engine::time::Instant;
use kickcache_nbd::{Command, CommandKind, Decoded, NbdErrno, ReplyHead, Session, Taken};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::driver::buffers::Buffers;
use crate::serve::config::Limits;
use crate::serve::frontend::nbd::input::{Arrival, Input, Received};
use crate::serve::frontend::nbd::outbox::{Message, Outbox, Sent};

/// Replies that may wait to be sent before nothing more is read.
const OUTBOX_MAX: usize = 1024;

/// A connection. The event loop moves its commands to the engine and the replies back.
pub(crate) struct Connection {
    socket: OwnedFd,
    session: Session,
    input: Input,
    stage: ConnectionPhase,
    outbox: Outbox,
    requests: u32,
    bytes: u64,
    /// Whether the handshake still goes on.
    pub(crate) handshaking: bool,
    /// When the handshake must be over.
    pub(crate) deadline: Instant,
    /// Volumes behind the exports of its listener.
    pub(crate) volumes: Arc<[usize]>,
    pub(crate) watching_input: bool,
    pub(crate) watching_output: bool,
    /// Whether it is in the loop's list of connections to send from.
    pub(crate) touched: bool,
    /// Whether it waits for memory or for its own replies to leave.
    pub(crate) stalled: bool,
    /// Its volume goes: commands are refused, and it ends when it has its replies.
    pub(crate) is_leaving: bool,
}

/// What the next bytes of the stream are.
enum ConnectionPhase {
    /// Something for the session.
    Decode,
    /// A command waits for memory.
    Waiting(Command),
    /// The data of a write.
    Payload { id: RequestId, command: Command, filled: usize },
    /// Data of a refused write.
    Skip(u64),
    /// Nothing is read any more.
    Closed,
}

/// What the loop must do for a connection.
pub(crate) enum Step {
    /// Wait for bytes.
    NeedInput,
    /// Find memory for a command; see [`Connection::admit`].
    Admit(Command),
    /// Hand a write to the engine, its payload being there.
    Write(Command, RequestId),
    /// Too much in flight: go on after a reply left.
    Stalled,
    /// Nothing more comes.
    Closed,
}

impl Connection {
    pub(crate) fn new(
        socket: OwnedFd,
        session: Session,
        deadline: Instant,
        volumes: Arc<[usize]>,
    ) -> Connection {
        Connection {
            socket,
            session,
            input: Input::new(),
            stage: ConnectionPhase::Decode,
            outbox: Outbox::default(),
            requests: 0,
            bytes: 0,
            handshaking: true,
            deadline,
            volumes,
            watching_input: false,
            watching_output: false,
            touched: false,
            stalled: false,
            is_leaving: false,
        }
    }

    /// The index of the volume that the client has chosen.
    pub(super) fn volume(&self) -> Option<usize> {
        self.volumes.get(self.session.export()?).copied()
    }

    /// Takes what the socket has, not blocking.
    pub(crate) fn receive(&mut self, buffers: &mut Buffers) -> Received {
        let ConnectionPhase::Payload { id, filled, .. } = &mut self.stage else {
            return self.input.receive(&self.socket, &mut []).received;
        };
        let Arrival { taken, received } =
            self.input.receive(&self.socket, &mut buffers.payload_mut(*id)[*filled..]);
        *filled += taken;
        received
    }

    /// Looks at the bytes received, up to the next thing that the loop must do.
    pub(crate) fn step(&mut self, buffers: &mut Buffers, limits: &Limits) -> Step {
        loop {
            match &mut self.stage {
                ConnectionPhase::Closed => return Step::Closed,
                ConnectionPhase::Waiting(command) => return Step::Admit(*command),
                ConnectionPhase::Skip(left) => {
                    let count = usize::try_from(*left).unwrap_or(usize::MAX).min(self.input.unread().len());
                    self.input.consume(count);
                    *left -= u64::try_from(count).expect("usize has at most 64 bits");
                    if *left > 0 {
                        return Step::NeedInput;
                    }
                    self.stage = ConnectionPhase::Decode;
                }
                ConnectionPhase::Payload { id, command, filled } => {
                    let rest = &mut buffers.payload_mut(*id)[*filled..];
                    let count = rest.len().min(self.input.unread().len());
                    rest[..count].copy_from_slice(&self.input.unread()[..count]);
                    self.input.consume(count);
                    *filled += count;
                    if count < rest.len() {
                        return Step::NeedInput;
                    }
                    let step = Step::Write(*command, *id);
                    self.stage = ConnectionPhase::Decode;
                    return step;
                }
                ConnectionPhase::Decode => {
                    if self.requests >= limits.requests_max || self.outbox.len() >= OUTBOX_MAX {
                        return Step::Stalled;
                    }
                    if let Some(step) = self.decode() {
                        return step;
                    }
                }
            }
        }
    }

    fn decode(&mut self) -> Option<Step> {
        let Taken { consumed, meaning: decoded } = self.session.decode(self.input.unread());
        self.input.consume(consumed);
        if self.session.has_output() {
            let mut bytes = Vec::new();
            self.session.take_output(&mut bytes);
            self.outbox.push(Message::Bytes(bytes));
        }
        match decoded {
            Decoded::NeedMore => Some(Step::NeedInput),
            Decoded::Command(command) => {
                self.stage = ConnectionPhase::Waiting(command);
                None
            }
            Decoded::SkipPayload(count) => {
                self.stage = ConnectionPhase::Skip(count);
                None
            }
            Decoded::StartTls => unreachable!("the session was made without TLS"),
            Decoded::Close(reason) => {
                tracing::debug!(event = "client_gone", "a connection ends: {reason}");
                self.stage = ConnectionPhase::Closed;
                None
            }
        }
    }

    /// Whether a payload of this length fits into the connection's share.
    pub(crate) fn has_room(&self, length: u64, limits: &Limits) -> bool {
        self.bytes == 0 || self.bytes + length <= limits.connection_bytes_max
    }

    /// Whether nothing of it is in flight, so that it may pass the bound of all connections.
    pub(crate) fn is_idle(&self) -> bool {
        self.bytes == 0
    }

    /// Counts a command that was admitted, with the memory for its payload.
    pub(crate) fn admit(&mut self, command: Command, id: RequestId) {
        self.requests += 1;
        self.bytes += payload_length(&command);
        self.stage = if is_write(&command) {
            ConnectionPhase::Payload { id, command, filled: 0 }
        } else {
            ConnectionPhase::Decode
        };
    }

    /// Refuses a command that was not admitted.
    pub(crate) fn refuse(&mut self, command: Command, errno: NbdErrno) {
        self.push_error(&command, errno);
        self.stage =
            if is_write(&command) { ConnectionPhase::Skip(command.length) } else { ConnectionPhase::Decode };
    }

    /// Answers a block status command that was not admitted.
    pub(crate) fn answer_status(&mut self, command: Command, extents: &[kickcache_nbd::StatusExtent]) {
        let mut bytes = Vec::new();
        self.session.encode_block_status(&command, extents, &mut bytes);
        self.outbox.push(Message::Bytes(bytes));
        self.stage = ConnectionPhase::Decode;
    }

    /// Counts a block status command that is answered later.
    pub(crate) fn begin_status(&mut self) {
        self.requests += 1;
        self.stage = ConnectionPhase::Decode;
    }

    /// Answers one that was counted.
    pub(crate) fn end_status(&mut self, command: &Command, extents: &[kickcache_nbd::StatusExtent]) {
        let mut bytes = Vec::new();
        self.session.encode_block_status(command, extents, &mut bytes);
        self.outbox.push(Message::Bytes(bytes));
        self.requests -= 1;
    }

    /// Queues the reply to a request that ended.
    pub(crate) fn reply(
        &mut self,
        buffers: &mut Buffers,
        command: &Command,
        id: RequestId,
        result: Result<(), Errno>,
    ) {
        let mut head = ReplyHead::new();
        match (result, command.kind) {
            (Ok(()), CommandKind::Read { .. }) => {
                self.session.encode_read_header(command, &mut head);
                return self.outbox.push(Message::Data(head, id));
            }
            (Ok(()), _) => {
                self.session.encode_done(command, &mut head);
                self.outbox.push(Message::Head(head));
            }
            (Err(errno), _) => self.push_error(command, errno.into()),
        }
        self.requests -= 1;
        self.bytes -= payload_length(command);
        buffers.release(id);
    }

    /// Whether the client will send nothing more.
    pub(crate) fn has_ended(&self) -> bool {
        let mut fds = [PollFd::new(&self.socket, PollFlags::RDHUP)];
        let looked = poll(&mut fds, Some(&Timespec::default()));
        looked.is_ok() && fds[0].revents().contains(PollFlags::RDHUP)
    }

    /// Sends what it can.
    pub(crate) fn send(&mut self, buffers: &mut Buffers) -> Sent {
        let (requests, bytes) = (&mut self.requests, &mut self.bytes);
        self.outbox.send(&self.socket, buffers, |buffers, id| {
            *requests -= 1;
            *bytes -= u64::try_from(buffers.payload(id).len()).expect("usize has at most 64 bits");
            buffers.release(id);
        })
    }

    /// Whether it has nothing more to say and nothing to wait for.
    pub(crate) fn is_finished(&self) -> bool {
        matches!(self.stage, ConnectionPhase::Closed) && self.is_quiet()
    }

    /// Whether nothing is in flight and everything is sent.
    pub(crate) fn is_quiet(&self) -> bool {
        self.requests == 0 && self.outbox.is_empty()
    }

    /// Whether the client is past the handshake.
    pub(crate) fn is_transmission(&self) -> bool {
        self.session.is_transmission()
    }

    pub(crate) fn owes(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// Gives the memory back that no request in the engine uses.
    pub(crate) fn abandon(&mut self, buffers: &mut Buffers) {
        if let ConnectionPhase::Payload { id, .. } = self.stage {
            buffers.release(id);
        }
        self.stage = ConnectionPhase::Closed;
        self.outbox.clear(buffers, |buffers, id| buffers.release(id));
    }

    /// Drops a write that is half received: it will not be completed.
    pub(crate) fn abandon_input(&mut self, buffers: &mut Buffers) {
        if let ConnectionPhase::Payload { id, command, filled } = self.stage {
            self.requests -= 1;
            self.bytes -= payload_length(&command);
            buffers.release(id);
            self.push_error(&command, NbdErrno::Shutdown);
            let filled = u64::try_from(filled).expect("usize has at most 64 bits");
            self.stage = ConnectionPhase::Skip(command.length - filled);
        }
    }

    fn push_error(&mut self, command: &Command, errno: NbdErrno) {
        let mut bytes = Vec::new();
        self.session.encode_error(command, errno, &mut bytes);
        self.outbox.push(Message::Bytes(bytes));
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn is_write(command: &Command) -> bool {
    matches!(command.kind, CommandKind::Write { .. })
}

/// Bytes of memory that a command needs.
pub(crate) fn payload_length(command: &Command) -> u64 {
    match command.kind {
        CommandKind::Read { .. } | CommandKind::Write { .. } => command.length,
        CommandKind::Flush
        | CommandKind::Trim { .. }
        | CommandKind::WriteZeroes { .. }
        | CommandKind::Cache
        | CommandKind::BlockStatus { .. } => 0,
    }
}
