//! The connection of a client.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use kickcache_engine::request::{Errno, RequestId};
use kickcache_engine::time::Instant;
use kickcache_nbd::{Access, Command, CommandKind, Decoded, DecodedPrefix, NbdErrno, ReplyHead, Session};
use kickcache_tls::explain;
use kickcache_tls::names::PeerNames;
use kickcache_tls::rustls::server::UnbufferedServerConnection;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::driver::budget::Grant;
use crate::driver::buffers::Buffers;
use crate::serve::config::Limits;
use crate::serve::frontend::nbd::block_status::EXTENT_COUNT_MAX;
use crate::serve::frontend::nbd::input::{Arrival, Input, Received};
use crate::serve::frontend::nbd::outbox::{Message, Outbox};
use crate::serve::frontend::nbd::pace::{Pace, Watch};
use crate::serve::frontend::nbd::payload::{is_write, payload_length};
use crate::serve::frontend::nbd::peer::peer;
use crate::serve::frontend::nbd::send_progress::SendProgress;
use crate::serve::frontend::nbd::stall::Stall;
use crate::serve::frontend::nbd::tls_stream::TlsStream;

/// If this many replies wait to be sent, no further command is decoded.
const OUTBOX_MAX: usize = 1024;
/// If waiting replies of the handshake, to block status and with errors have this many bytes, no further command is decoded.
const OUTBOX_BYTES_MAX: usize = 128 << 10;
/// Bytes of the extents in the largest reply to a block status; a pending block status counts as much.
const STATUS_BYTES: usize = EXTENT_COUNT_MAX * 16;
/// From this many bytes on, a write is long.
const LONG: u64 = 128 << 10;

pub(crate) struct Connection {
    socket: OwnedFd,
    session: Session,
    input: Input,
    stage: ConnectionPhase,
    outbox: Outbox,
    tls: Option<Box<TlsStream>>,
    requests: u32,
    bytes: u64,
    pub(crate) handshaking: bool,
    pub(crate) deadline: Instant,
    /// The index of the listener that accepted the connection.
    pub(crate) listener: usize,
    /// The volumes that the listener exported when it accepted the connection, in the order of the exports.
    pub(crate) volumes: Arc<[usize]>,
    pub(crate) watching_input: bool,
    pub(crate) watching_output: bool,
    /// Whether the connection is in the list of connections with pending work.
    pub(crate) touched: bool,
    /// The reason of a stall of the connection.
    pub(crate) stall: Option<Stall>,
    pub(super) granted: Option<Grant>,
    questions: usize,
    pace: Pace,
    /// Whether the volume is being removed: commands are refused.
    pub(crate) is_leaving: bool,
}

enum ConnectionPhase {
    /// The bytes are negotiation or a command.
    Decode,
    /// A decoded command that was not admitted yet.
    Waiting(Command),
    /// The data of a write.
    Payload { id: RequestId, command: Command, filled: usize },
    /// Bytes of a refused write that are still to be skipped.
    Skip(u64),
    /// TLS is being agreed on.
    Securing,
    /// No more bytes are read.
    Closed,
}

pub(crate) enum Step {
    NeedInput,
    Admit(Command),
    Write(Command, RequestId),
    StartTls,
    /// Too much is in flight, or waits to be sent.
    Stalled,
    Closed,
}

impl Connection {
    pub(crate) fn new(
        socket: OwnedFd,
        session: Session,
        deadline: Instant,
        listener: usize,
        volumes: Arc<[usize]>,
    ) -> Connection {
        Connection {
            socket,
            session,
            input: Input::new(),
            stage: ConnectionPhase::Decode,
            outbox: Outbox::default(),
            tls: None,
            requests: 0,
            bytes: 0,
            handshaking: true,
            deadline,
            listener,
            volumes,
            watching_input: false,
            watching_output: false,
            touched: false,
            stall: None,
            granted: None,
            questions: 0,
            pace: Pace::default(),
            is_leaving: false,
        }
    }

    pub(super) fn volume(&self) -> Option<usize> {
        self.volumes.get(self.session.export()?).copied()
    }

    pub(crate) fn receive(&mut self, buffers: &mut Buffers) -> Received {
        if self.tls.is_some() {
            return self.receive_encrypted(buffers);
        }
        let ConnectionPhase::Payload { id, filled, .. } = &mut self.stage else {
            return self.input.receive(&self.socket, &mut []).received;
        };
        let Arrival { taken, received } =
            self.input.receive(&self.socket, &mut buffers.payload_mut(*id)[*filled..]);
        *filled += taken;
        self.pace.add_received(taken);
        received
    }

    fn receive_encrypted(&mut self, buffers: &mut Buffers) -> Received {
        let Some(tls) = &mut self.tls else { return Received::End };
        let ConnectionPhase::Payload { id, filled, .. } = &mut self.stage else {
            return tls.receive(&self.socket, &mut [], &mut self.input).received;
        };
        let first = &mut buffers.payload_mut(*id)[*filled..];
        let Arrival { taken, received } = tls.receive(&self.socket, first, &mut self.input);
        *filled += taken;
        self.pace.add_received(taken);
        received
    }

    /// Pending output in the clear must have been sent.
    pub(crate) fn start_tls(&mut self, connection: UnbufferedServerConnection) {
        assert!(self.outbox.is_empty() && self.input.unread().is_empty(), "the clear is behind it");
        self.tls = Some(Box::new(TlsStream::new(connection)));
    }

    /// The names in the client's certificate, when TLS has just been agreed on.
    pub(crate) fn secured(&self) -> Option<PeerNames> {
        let is_waiting = matches!(self.stage, ConnectionPhase::Securing);
        let tls = self.tls.as_deref().filter(|tls| is_waiting && !tls.is_handshaking())?;
        Some(tls.names())
    }

    pub(crate) fn go_on_secured(&mut self, access: &[Access]) {
        self.session.secure(access);
        self.stage = ConnectionPhase::Decode;
    }

    /// The reason of a TLS failure; `None` if TLS has not failed.
    pub(crate) fn tls_failure(&mut self) -> Option<String> {
        let tls = self.tls.as_deref_mut()?;
        let why = explain(tls.failure()?);
        // A failure to send the alert is ignored: the connection ends anyway.
        let _ = tls.flush(&self.socket);
        Some(why)
    }

    /// The volume that the client requested since the last call and is denied, with the names in its
    /// certificate.
    pub(crate) fn take_denied(&mut self) -> Option<Denied> {
        let volume = self.volumes[self.session.take_denied()?];
        Some(Denied { volume, names: self.tls.as_deref().map(TlsStream::names).unwrap_or_default() })
    }

    /// The unknown export that the client requested since the last call.
    pub(crate) fn take_unknown(&mut self) -> Option<String> {
        self.session.take_unknown()
    }

    pub(crate) fn peer(&self) -> String {
        peer(&self.socket)
    }

    pub(crate) fn step(&mut self, buffers: &mut Buffers, limits: &Limits) -> Step {
        loop {
            match &mut self.stage {
                ConnectionPhase::Closed => return Step::Closed,
                ConnectionPhase::Securing => return Step::NeedInput,
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
                    if self.is_full(limits) {
                        return Step::Stalled;
                    }
                    if let Some(step) = self.decode() {
                        return step;
                    }
                }
            }
        }
    }

    fn is_full(&self, limits: &Limits) -> bool {
        let text = self.outbox.text_bytes() + self.questions * STATUS_BYTES;
        self.requests >= limits.requests_max || self.outbox.len() >= OUTBOX_MAX || text >= OUTBOX_BYTES_MAX
    }

    /// Whether a connection that stalled at its own limits can continue.
    pub(crate) fn may_go_on(&self, limits: &Limits) -> bool {
        match &self.stage {
            ConnectionPhase::Waiting(command) => self.has_room(payload_length(command), limits),
            ConnectionPhase::Decode
            | ConnectionPhase::Payload { .. }
            | ConnectionPhase::Skip(_)
            | ConnectionPhase::Securing
            | ConnectionPhase::Closed => !self.is_full(limits),
        }
    }

    /// Whether the client holds memory: a reply with payload is not sent, or its write is not received.
    fn keeps_memory(&self) -> bool {
        matches!(self.stage, ConnectionPhase::Payload { .. }) || self.outbox.has_payload()
    }

    /// Whether the client has held memory for the time of `watch` with too little progress.
    pub(super) fn is_slow(&mut self, now: Instant, watch: Watch) -> bool {
        let keeps = self.keeps_memory();
        self.pace.is_slow(now, self.outbox.sent_total(), if keeps { watch } else { Watch::Begin })
    }

    fn decode(&mut self) -> Option<Step> {
        let DecodedPrefix { consumed, meaning: decoded } = self.session.decode(self.input.unread());
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
            Decoded::StartTls => {
                self.stage = ConnectionPhase::Securing;
                Some(Step::StartTls)
            }
            Decoded::Close(reason) => {
                tracing::debug!(event = "client_disconnected", "a connection ends: {reason}");
                self.stage = ConnectionPhase::Closed;
                None
            }
        }
    }

    /// Whether the payload of a long write is being received. `false` with TLS.
    pub(super) fn receives_long_write(&self) -> bool {
        let is_long =
            matches!(&self.stage, ConnectionPhase::Payload { command, .. } if command.length >= LONG);
        is_long && self.tls.is_none()
    }

    /// Whether a payload of this length fits into the connection's share; it always fits as the only payload.
    pub(crate) fn has_room(&self, length: u64, limits: &Limits) -> bool {
        self.bytes == 0 || self.bytes + length <= limits.connection_bytes_max
    }

    pub(super) fn held_bytes(&self) -> usize {
        usize::try_from(self.bytes).unwrap_or(usize::MAX / 2)
    }

    pub(crate) fn admit(&mut self, command: Command, id: RequestId) {
        self.requests += 1;
        self.bytes += payload_length(&command);
        self.stage = if is_write(&command) {
            ConnectionPhase::Payload { id, command, filled: 0 }
        } else {
            ConnectionPhase::Decode
        };
    }

    pub(crate) fn refuse(&mut self, command: Command, errno: NbdErrno) {
        self.push_error(&command, errno);
        self.stage =
            if is_write(&command) { ConnectionPhase::Skip(command.length) } else { ConnectionPhase::Decode };
    }

    pub(crate) fn answer_status(&mut self, command: Command, extents: &[kickcache_nbd::StatusExtent]) {
        let mut bytes = Vec::new();
        self.session.encode_block_status(&command, extents, &mut bytes);
        self.outbox.push(Message::Bytes(bytes));
        self.stage = ConnectionPhase::Decode;
    }

    /// Counts a block status command that is answered later.
    pub(crate) fn begin_status(&mut self) {
        self.requests += 1;
        self.questions += 1;
        self.stage = ConnectionPhase::Decode;
    }

    pub(crate) fn end_status(&mut self, command: &Command, extents: &[kickcache_nbd::StatusExtent]) {
        let mut bytes = Vec::new();
        self.session.encode_block_status(command, extents, &mut bytes);
        self.outbox.push(Message::Bytes(bytes));
        self.requests -= 1;
        self.questions -= 1;
    }

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

    /// Whether the client will send no more bytes.
    pub(crate) fn has_ended(&self) -> bool {
        let mut fds = [PollFd::new(&self.socket, PollFlags::RDHUP)];
        let looked = poll(&mut fds, Some(&Timespec::default()));
        looked.is_ok() && fds[0].revents().contains(PollFlags::RDHUP)
    }

    pub(crate) fn send(&mut self, buffers: &mut Buffers) -> SendProgress {
        let Connection { requests, bytes, outbox, tls, socket, pace, .. } = self;
        let done = |buffers: &mut Buffers, id| {
            pace.add_reply();
            *requests -= 1;
            *bytes -= u64::try_from(buffers.payload(id).len()).expect("usize has at most 64 bits");
            buffers.release(id);
        };
        match tls {
            None => outbox.send(socket, buffers, done),
            Some(tls) => send_encrypted(outbox, tls, socket, buffers, done),
        }
    }

    pub(crate) fn is_finished(&self) -> bool {
        matches!(self.stage, ConnectionPhase::Closed) && self.is_quiet()
    }

    /// Whether no request is in flight and all output is sent.
    pub(crate) fn is_quiet(&self) -> bool {
        self.requests == 0 && !self.owes()
    }

    pub(crate) fn is_transmission(&self) -> bool {
        self.session.is_transmission()
    }

    pub(crate) fn owes(&self) -> bool {
        !self.outbox.is_empty() || self.tls.as_deref().is_some_and(TlsStream::owes)
    }

    /// Closes the connection and releases the memory that no request in the engine uses.
    pub(crate) fn abandon(&mut self, buffers: &mut Buffers) {
        if let ConnectionPhase::Payload { id, .. } = self.stage {
            buffers.release(id);
        }
        if let Some(grant) = self.granted.take() {
            buffers.budget.release(grant);
        }
        self.stage = ConnectionPhase::Closed;
        if let Some(tls) = &mut self.tls {
            tls.say_goodbye(&self.socket);
        }
        self.outbox.clear(buffers, |buffers, id| buffers.release(id));
    }

    /// Drops a write that has only been received in part, and will not be completed.
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

pub(crate) struct Denied {
    pub(crate) volume: usize,
    pub(crate) names: PeerNames,
}

fn send_encrypted(
    outbox: &mut Outbox,
    tls: &mut TlsStream,
    socket: &OwnedFd,
    buffers: &mut Buffers,
    mut done: impl FnMut(&mut Buffers, RequestId),
) -> SendProgress {
    loop {
        let sent = tls.flush(socket);
        if sent != SendProgress::All || outbox.is_empty() {
            return sent;
        }
        if outbox.encrypt(tls, buffers, &mut done) == 0 {
            return SendProgress::Broken;
        }
    }
}
