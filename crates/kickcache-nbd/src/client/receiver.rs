//! The half of a client that receives replies.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use super::error::ClientError;
use super::pending::{InFlight, Pending, ReceivedChunks};
use super::remote_export::RemoteExport;
use super::server_text::server_text;
use super::socket::Wait;
use super::stream::Stream;
use crate::reply::{NbdErrno, StatusExtent};
use crate::wire::{
    EXTENT_COUNT_MAX, MAGIC_SIMPLE_REPLY, MAGIC_STRUCTURED_REPLY, PAYLOAD_MAX, Reader, STATE_HOLE,
    STATE_ZERO, chunk,
};

const BUFFER_BYTES: usize = 256 << 10;
const CHUNK_MAX: u64 = PAYLOAD_MAX + 4096;

#[derive(Debug)]
pub struct Reply<'a> {
    pub cookie: u64,
    pub result: Result<(), NbdErrno>,
    /// The server's explanation of a failure; empty if there is none.
    pub message: String,
    /// The data of a successful read; empty for other requests, and after a failure.
    pub data: &'a [u8],
    /// The stretches of the block status chunks in the reply; empty without such chunks.
    pub extents: Vec<StatusExtent>,
}

/// Receives replies in the order in which the server completes them, which may differ from the order of the requests.
#[derive(Debug)]
pub struct Receiver {
    stream: Arc<Stream>,
    pending: Arc<Pending>,
    export: RemoteExport,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// The data of the last reply, if it is not in the buffer.
    gathered: Vec<u8>,
}

/// A simple reply, or a chunk of a reply, at the front of the buffer.
#[derive(Clone, Copy)]
struct Frame {
    cookie: u64,
    kind: FrameKind,
    /// Bytes in front of the payload, and of the payload.
    head: usize,
    payload: usize,
}

#[derive(Clone, Copy)]
enum FrameKind {
    Simple { error: u32 },
    Chunk { done: bool, kind: u16 },
}

enum Place {
    Buffer { start: usize, length: usize },
    Gathered,
}

struct Finished {
    cookie: u64,
    gathered: ReceivedChunks,
    place: Place,
}

impl Receiver {
    pub(super) fn new(stream: Arc<Stream>, pending: Arc<Pending>, export: RemoteExport) -> Receiver {
        let buffer = vec![0; BUFFER_BYTES];
        Receiver { stream, pending, export, buffer, start: 0, end: 0, gathered: Vec::new() }
    }

    /// Waits for the next request to end.
    ///
    /// # Errors
    /// If the connection fails or the server breaks the protocol; a failed request is no error here.
    pub fn receive(&mut self) -> Result<Reply<'_>, ClientError> {
        loop {
            if let Some(finished) = self.next_finished()? {
                return Ok(self.reply(finished));
            }
            self.fill(Wait::Yes)?;
        }
    }

    /// The next request that has ended, if its whole reply has arrived; never waits.
    ///
    /// # Errors
    /// As [`Receiver::receive`].
    pub fn try_receive(&mut self) -> Result<Option<Reply<'_>>, ClientError> {
        loop {
            if let Some(finished) = self.next_finished()? {
                return Ok(Some(self.reply(finished)));
            }
            if !self.fill(Wait::No)? {
                return Ok(None);
            }
        }
    }

    /// The reply to the only request in flight; a failed request is an error here.
    pub(super) fn expect(&mut self, cookie: u64) -> Result<Reply<'_>, ClientError> {
        let reply = self.receive()?;
        if reply.cookie != cookie {
            return Err(protocol("it answered another request than the only one in flight"));
        }
        match reply.result {
            Ok(()) => Ok(reply),
            Err(errno) => Err(ClientError::Request(errno)),
        }
    }

    fn reply(&mut self, finished: Finished) -> Reply<'_> {
        let Finished { cookie, gathered, place } = finished;
        let ReceivedChunks { data, extents, error, .. } = gathered;
        self.gathered = data;
        let data = match place {
            Place::Buffer { start, length } => &self.buffer[start..start + length],
            Place::Gathered => self.gathered.as_slice(),
        };
        match error {
            None => Reply { cookie, result: Ok(()), message: String::new(), data, extents },
            Some((errno, message)) => Reply { cookie, result: Err(errno), message, data: &[], extents },
        }
    }

    fn next_finished(&mut self) -> Result<Option<Finished>, ClientError> {
        while let Some(frame) = self.frame()? {
            let payload = self.start + frame.head;
            self.start = payload + frame.payload;
            if let Some(finished) = self.on_frame(frame, payload)? {
                return Ok(Some(finished));
            }
        }
        Ok(None)
    }

    /// The frame at the front of the buffer, once it has arrived completely.
    fn frame(&mut self) -> Result<Option<Frame>, ClientError> {
        let mut reader = Reader::new(&self.buffer[self.start..self.end]);
        let frame = match reader.u32() {
            None => None,
            Some(MAGIC_SIMPLE_REPLY) => self.simple_frame(reader)?,
            Some(MAGIC_STRUCTURED_REPLY) if self.export.structured => chunk_frame(reader)?,
            Some(magic) => return Err(protocol(&format!("{magic:#010x} does not start a reply"))),
        };
        let Some(frame) = frame else { return Ok(None) };
        let whole = frame.head + frame.payload;
        if self.end - self.start < whole {
            self.make_room(whole);
            return Ok(None);
        }
        Ok(Some(frame))
    }

    fn simple_frame(&self, mut reader: Reader<'_>) -> Result<Option<Frame>, ClientError> {
        let (Some(error), Some(cookie)) = (reader.u32(), reader.u64()) else { return Ok(None) };
        let data_length = self.pending.data_length(cookie).ok_or_else(|| unknown(cookie))?;
        let payload = if error == 0 { data_length } else { 0 };
        if payload > 0 && self.export.structured {
            return Err(protocol("a read was answered by a simple reply"));
        }
        Ok(Some(Frame { cookie, kind: FrameKind::Simple { error }, head: 16, payload }))
    }

    fn on_frame(&mut self, frame: Frame, payload: usize) -> Result<Option<Finished>, ClientError> {
        let cookie = frame.cookie;
        let mut request = self.pending.take(cookie).ok_or_else(|| unknown(cookie))?;
        match frame.kind {
            FrameKind::Simple { error } => {
                if error != 0 {
                    request.gathered.error = Some((NbdErrno::from_value(error), String::new()));
                }
                let place = Place::Buffer { start: payload, length: frame.payload };
                Ok(Some(Finished { cookie, gathered: request.gathered, place }))
            }
            FrameKind::Chunk { done, kind } => {
                let bytes = &self.buffer[payload..payload + frame.payload];
                if done && kind == chunk::OFFSET_DATA && is_all_of(&request, bytes) {
                    let place = Place::Buffer { start: payload + 8, length: request.data_length };
                    return Ok(Some(Finished { cookie, gathered: request.gathered, place }));
                }
                take_chunk(&mut request, kind, bytes, self.export.allocation)?;
                if !done {
                    self.pending.put_back(cookie, request);
                    return Ok(None);
                }
                if request.gathered.error.is_none() && !request.gathered.covered.is_whole(request.data_length)
                {
                    return Err(protocol("a read was answered with too little data"));
                }
                Ok(Some(Finished { cookie, gathered: request.gathered, place: Place::Gathered }))
            }
        }
    }

    fn fill(&mut self, wait: Wait) -> Result<bool, ClientError> {
        self.make_room(0);
        let room = &mut self.buffer[self.end..];
        let Some(count) = self.stream.receive_some(room, wait)? else { return Ok(false) };
        self.end += count;
        Ok(true)
    }

    /// Makes sure that a frame of `whole` bytes fits and that there is room behind the received
    /// bytes.
    fn make_room(&mut self, whole: usize) {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        let full = self.end == self.buffer.len() || self.start + whole > self.buffer.len();
        if full && self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        let needed = whole.max(self.end + 1);
        if needed > self.buffer.len() {
            self.buffer.resize(needed, 0);
        }
    }
}

impl AsFd for Receiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

fn chunk_frame(mut reader: Reader<'_>) -> Result<Option<Frame>, ClientError> {
    let (Some(flags), Some(kind), Some(cookie), Some(length)) =
        (reader.u16(), reader.u16(), reader.u64(), reader.u32())
    else {
        return Ok(None);
    };
    if u64::from(length) > CHUNK_MAX {
        return Err(protocol(&format!("a chunk of {length} bytes is longer than any requested")));
    }
    let payload = usize::try_from(length).expect("checked above");
    let kind = FrameKind::Chunk { done: flags & chunk::FLAG_DONE != 0, kind };
    Ok(Some(Frame { cookie, kind, head: 20, payload }))
}

/// Whether a data chunk has all data of its read, and no chunk with data or an error preceded it.
fn is_all_of(request: &InFlight, bytes: &[u8]) -> bool {
    let gathered = &request.gathered;
    request.data_length > 0
        && gathered.covered.is_empty()
        && gathered.error.is_none()
        && bytes.len() == request.data_length + 8
        && Reader::new(bytes).u64() == Some(request.offset)
}

fn take_chunk(
    request: &mut InFlight,
    kind: u16,
    bytes: &[u8],
    allocation: Option<u32>,
) -> Result<(), ClientError> {
    let mut reader = Reader::new(bytes);
    match kind {
        chunk::NONE => Ok(()),
        chunk::OFFSET_DATA => {
            let offset = reader.u64().ok_or_else(short)?;
            let data = reader.rest();
            cover(request, offset, data.len())?.copy_from_slice(data);
            Ok(())
        }
        chunk::OFFSET_HOLE => {
            let (offset, length) = (reader.u64().ok_or_else(short)?, reader.u32().ok_or_else(short)?);
            cover(request, offset, usize::try_from(length).map_err(|_| short())?)?.fill(0);
            Ok(())
        }
        chunk::BLOCK_STATUS => take_extents(request, reader, allocation),
        kind if kind & chunk::ERROR_BIT != 0 => {
            let errno = NbdErrno::from_value(reader.u32().ok_or_else(short)?);
            let length = usize::from(reader.u16().ok_or_else(short)?);
            let text = reader.bytes(length).ok_or_else(short)?;
            request.gathered.error = Some((errno, server_text(text)));
            Ok(())
        }
        kind => Err(protocol(&format!("{kind} is no known type of chunk"))),
    }
}

fn cover(request: &mut InFlight, offset: u64, length: usize) -> Result<&mut [u8], ClientError> {
    let outside = || protocol("a chunk is outside of the read that it answers");
    let gathered = &mut request.gathered;
    gathered.data.resize(request.data_length, 0);
    let start = offset.checked_sub(request.offset).ok_or_else(outside)?;
    let start = usize::try_from(start).map_err(|_| outside())?;
    let end = start.checked_add(length).ok_or_else(outside)?;
    let data = gathered.data.get_mut(start..end).ok_or_else(outside)?;
    if !gathered.covered.add(start, end) {
        return Err(protocol("two chunks of a reply bring the same bytes"));
    }
    Ok(data)
}

fn take_extents(
    request: &mut InFlight,
    mut reader: Reader<'_>,
    allocation: Option<u32>,
) -> Result<(), ClientError> {
    if reader.u32().ok_or_else(short)? != allocation.ok_or_else(short)? {
        return Err(protocol("a block status chunk has a context that was not requested"));
    }
    if request.gathered.extents.len() + reader.rest().len() / 8 > EXTENT_COUNT_MAX {
        return Err(protocol("a block status reply has more than 65536 extents"));
    }
    while !reader.is_empty() {
        let (length, flags) = (reader.u32().ok_or_else(short)?, reader.u32().ok_or_else(short)?);
        let (hole, zero) = (flags & STATE_HOLE != 0, flags & STATE_ZERO != 0);
        request.gathered.extents.push(StatusExtent { length: u64::from(length), hole, zero });
    }
    Ok(())
}

fn short() -> ClientError {
    protocol("a chunk is shorter than its fields")
}

fn unknown(cookie: u64) -> ClientError {
    protocol(&format!("it answered the cookie {cookie}, which is not in flight"))
}

fn protocol(text: &str) -> ClientError {
    ClientError::Protocol(text.to_owned())
}
