//! Replies of the transmission phase, in the three forms of the protocol.

use kickcache_engine::request::Errno;

use super::command::{Command, CommandKind};
use super::wire::{
    CONTEXT_ALLOCATION_ID, EXTENT_COUNT_MAX, MAGIC_EXTENDED_REPLY, MAGIC_SIMPLE_REPLY,
    MAGIC_STRUCTURED_REPLY, Put, STATE_HOLE, STATE_ZERO, chunk, length_u32,
};

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum NbdErrno {
    /// EPERM: a write, a write of zeroes or a trim on a read-only export.
    NotPermitted,
    Io,
    /// ENOMEM: never sent by this server.
    NoMemory,
    Invalid,
    /// ENOSPC: no space left, or a write or a write of zeroes past the end.
    NoSpace,
    /// EOVERFLOW: never sent by this server.
    Overflow,
    NotSupported,
    Shutdown,
}

impl NbdErrno {
    pub const fn value(self) -> u32 {
        match self {
            NbdErrno::NotPermitted => 1,
            NbdErrno::Io => 5,
            NbdErrno::NoMemory => 12,
            NbdErrno::Invalid => 22,
            NbdErrno::NoSpace => 28,
            NbdErrno::Overflow => 75,
            NbdErrno::NotSupported => 95,
            NbdErrno::Shutdown => 108,
        }
    }

    /// The error for a number other than 0; unknown numbers are [`NbdErrno::Invalid`], as the protocol
    /// requires.
    pub const fn from_value(value: u32) -> NbdErrno {
        match value {
            1 => NbdErrno::NotPermitted,
            5 => NbdErrno::Io,
            12 => NbdErrno::NoMemory,
            28 => NbdErrno::NoSpace,
            75 => NbdErrno::Overflow,
            95 => NbdErrno::NotSupported,
            108 => NbdErrno::Shutdown,
            _ => NbdErrno::Invalid,
        }
    }

    pub const fn text(self) -> &'static str {
        match self {
            NbdErrno::NotPermitted => "the export is read-only",
            NbdErrno::Io => "the device failed, or its data is damaged; see the server's log",
            NbdErrno::NoMemory => "the server is out of memory",
            NbdErrno::Invalid => "the server cannot carry out such a request",
            NbdErrno::NoSpace => "no space left",
            NbdErrno::Overflow => "the request is too long",
            NbdErrno::NotSupported => "the server does not support this here",
            NbdErrno::Shutdown => "the server is shutting down",
        }
    }
}

impl From<Errno> for NbdErrno {
    fn from(errno: Errno) -> NbdErrno {
        match errno {
            Errno::Io => NbdErrno::Io,
            Errno::Invalid => NbdErrno::Invalid,
            Errno::NoSpace => NbdErrno::NoSpace,
            Errno::NotSupported => NbdErrno::NotSupported,
            Errno::NotPermitted => NbdErrno::NotPermitted,
            Errno::Shutdown => NbdErrno::Shutdown,
        }
    }
}

const REPLY_HEAD_BYTES: usize = 64;

/// The bytes of one reply in front of its payload, without an allocation.
#[derive(Clone, Copy, Debug)]
pub struct ReplyHead {
    bytes: [u8; REPLY_HEAD_BYTES],
    length: usize,
}

impl ReplyHead {
    pub const fn new() -> ReplyHead {
        ReplyHead { bytes: [0; REPLY_HEAD_BYTES], length: 0 }
    }

    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    pub fn clear(&mut self) {
        self.length = 0;
    }
}

impl Default for ReplyHead {
    fn default() -> ReplyHead {
        ReplyHead::new()
    }
}

impl Put for ReplyHead {
    fn put(&mut self, bytes: &[u8]) {
        let end = self.length + bytes.len();
        assert!(end <= REPLY_HEAD_BYTES, "a reply head takes one reply: clear it in between");
        self.bytes[self.length..end].copy_from_slice(bytes);
        self.length = end;
    }
}

/// A stretch of an export for a block status reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StatusExtent {
    /// Bytes of the stretch; a reply leaves out stretches of length 0.
    pub length: u64,
    /// Whether the stretch is not allocated.
    pub hole: bool,
    pub zero: bool,
}

impl StatusExtent {
    fn flags(self) -> u32 {
        (if self.hole { STATE_HOLE } else { 0 }) | (if self.zero { STATE_ZERO } else { 0 })
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum HeaderForm {
    Simple,
    Structured,
    Extended,
}

/// The destination of a reply: the fields of its request that it repeats.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReplyTo {
    pub(super) form: HeaderForm,
    pub(super) cookie: u64,
    pub(super) offset: u64,
}

impl ReplyTo {
    pub(super) fn new(form: HeaderForm, command: &Command) -> ReplyTo {
        ReplyTo { form, cookie: command.cookie, offset: command.offset }
    }
}

/// The content of a successful reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Answers {
    /// A read or block status: once structured replies are agreed on, always answered by chunks.
    Data,
    Nothing,
}

impl Answers {
    pub(super) fn of(kind: CommandKind) -> Answers {
        match kind {
            CommandKind::Read { .. } | CommandKind::BlockStatus { .. } => Answers::Data,
            CommandKind::Write { .. }
            | CommandKind::Flush
            | CommandKind::Trim { .. }
            | CommandKind::WriteZeroes { .. }
            | CommandKind::Cache => Answers::Nothing,
        }
    }
}

pub(super) fn put_done(to: ReplyTo, answers: Answers, into: &mut impl Put) {
    match (to.form, answers) {
        (HeaderForm::Structured, Answers::Data) | (HeaderForm::Extended, _) => {
            put_last_chunk(to, chunk::NONE, 0, into);
        }
        (HeaderForm::Simple, _) | (HeaderForm::Structured, Answers::Nothing) => {
            put_simple(to.cookie, 0, into);
        }
    }
}

/// Writes the header that precedes the `length` bytes of a read.
pub(super) fn put_read_header(to: ReplyTo, length: u64, into: &mut impl Put) {
    if to.form == HeaderForm::Simple {
        put_simple(to.cookie, 0, into);
    } else {
        let payload = u32::try_from(length + 8).expect("a read is at most PAYLOAD_MAX long");
        put_last_chunk(to, chunk::OFFSET_DATA, payload, into);
        into.put_u64(to.offset);
    }
}

pub(super) fn put_error(to: ReplyTo, errno: NbdErrno, text: &str, into: &mut impl Put) {
    if to.form == HeaderForm::Simple {
        return put_simple(to.cookie, errno.value(), into);
    }
    let length = u16::try_from(text.len()).expect("texts are short constants");
    put_last_chunk(to, chunk::ERROR, 6 + u32::from(length), into);
    into.put_u32(errno.value());
    into.put_u16(length);
    into.put(text.as_bytes());
}

/// The answer to a block status command: the extents, cut to the requested length.
pub(super) fn put_block_status(
    form: HeaderForm,
    command: &Command,
    extents: &[StatusExtent],
    into: &mut Vec<u8>,
) {
    debug_assert!(form != HeaderForm::Simple, "a block status command needs structured replies");
    let to = ReplyTo::new(form, command);
    let extents = answerable(command, extents);
    let count = length_u32(extents.len());
    if form == HeaderForm::Extended {
        put_last_chunk(to, chunk::BLOCK_STATUS_EXT, 8 + 16 * count, into);
        into.put_u32(CONTEXT_ALLOCATION_ID);
        into.put_u32(count);
    } else {
        put_last_chunk(to, chunk::BLOCK_STATUS, 4 + 8 * count, into);
        into.put_u32(CONTEXT_ALLOCATION_ID);
    }
    for extent in extents {
        put_extent(form, extent, into);
    }
}

fn put_extent(form: HeaderForm, extent: StatusExtent, into: &mut Vec<u8>) {
    if form == HeaderForm::Extended {
        into.put_u64(extent.length);
        into.put_u64(u64::from(extent.flags()));
    } else {
        into.put_u32(u32::try_from(extent.length).expect("cut to a request with a 32-bit length"));
        into.put_u32(extent.flags());
    }
}

/// Merges neighbours of the same state, and cuts the list to the request and to [`EXTENT_COUNT_MAX`] extents, or to
/// one. A list without bytes is reported as "allocated, not zero", which is always safe.
fn answerable(command: &Command, extents: &[StatusExtent]) -> Vec<StatusExtent> {
    let only_one = matches!(command.kind, CommandKind::BlockStatus { one: true });
    let limit = if only_one { 1 } else { EXTENT_COUNT_MAX };
    let mut left = command.length;
    let mut answer: Vec<StatusExtent> = Vec::new();
    for extent in extents {
        let length = extent.length.min(left);
        left -= length;
        let room = answer.len() < limit;
        match answer.last_mut() {
            _ if length == 0 => {}
            Some(last) if last.flags() == extent.flags() => last.length += length,
            _ if room => answer.push(StatusExtent { length, ..*extent }),
            _ => break,
        }
    }
    if answer.is_empty() {
        answer.push(StatusExtent { length: command.length, hole: false, zero: false });
    }
    answer
}

fn put_simple(cookie: u64, error: u32, into: &mut impl Put) {
    into.put_u32(MAGIC_SIMPLE_REPLY);
    into.put_u32(error);
    into.put_u64(cookie);
}

fn put_last_chunk(to: ReplyTo, kind: u16, payload: u32, into: &mut impl Put) {
    let extended = to.form == HeaderForm::Extended;
    into.put_u32(if extended { MAGIC_EXTENDED_REPLY } else { MAGIC_STRUCTURED_REPLY });
    into.put_u16(chunk::FLAG_DONE);
    into.put_u16(kind);
    into.put_u64(to.cookie);
    if extended {
        into.put_u64(to.offset);
        into.put_u64(u64::from(payload));
    } else {
        into.put_u32(payload);
    }
}

#[cfg(test)]
mod tests;
