//! Messages between front end and device: bytes to packets and back. Payloads are the structs of the `vhost` crate.

use std::io;
use std::os::fd::OwnedFd;

use vhost::vhost_user::message::{BackendReq, MAX_MSG_SIZE};
use vm_memory::ByteValued;

/// Length of a header: request, flags, payload length.
pub(super) const HEADER_BYTES: usize = 12;

const VERSION: u32 = 1;
const REPLY: u32 = 1 << 2;
const NEED_REPLY: u32 = 1 << 3;

#[derive(Debug)]
pub struct Packet {
    pub request: u32,
    /// Whether an acknowledgement is wanted.
    pub need_reply: bool,
    pub payload: Vec<u8>,
    pub fds: Vec<OwnedFd>,
}

#[derive(Debug)]
pub struct Reply {
    pub bytes: Vec<u8>,
    pub fd: Option<OwnedFd>,
}

#[derive(Debug, thiserror::Error)]
pub enum ProtocolError {
    #[error(
        "a message begins with flags {flags:#x} and length {length}; version 1 and at most {MAX_MSG_SIZE} bytes are possible"
    )]
    Header {
        flags: u32,
        /// Payload length found.
        length: u32,
    },
    #[error("a message of type {request} has {found} bytes, which does not fit its type")]
    Length {
        request: u32,
        /// Bytes found.
        found: usize,
    },
    #[error("a message of type {request} has {found} descriptors, expected {expected}")]
    Descriptors {
        request: u32,
        found: usize,
        /// Descriptors needed.
        expected: usize,
    },
    #[error("the front end sent a message of type {0}, which this device does not offer")]
    Unknown(u32),
    #[error("{what} {found} is not possible here")]
    Value {
        /// The kind of the number.
        what: &'static str,
        found: u64,
    },
    #[error("{what} cannot be used: {why}")]
    Memory {
        /// The memory that cannot be used.
        what: &'static str,
        why: String,
    },
    #[error("{0}")]
    System(#[from] io::Error),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Header {
    pub(super) request: u32,
    pub(super) need_reply: bool,
    pub(super) length: usize,
}

impl Header {
    pub(super) fn decode(bytes: [u8; HEADER_BYTES]) -> Result<Header, ProtocolError> {
        let field = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let (request, flags, length) = (field(0), field(4), field(8));
        let size = usize::try_from(length).unwrap_or(usize::MAX);
        if flags & 0x3 != VERSION || flags & REPLY != 0 || size > MAX_MSG_SIZE {
            return Err(ProtocolError::Header { flags, length });
        }
        Ok(Header { request, need_reply: flags & NEED_REPLY != 0, length: size })
    }
}

/// A payload: the struct that it begins with, and the rest.
pub(super) struct Split<'a, T> {
    pub(super) body: T,
    pub(super) rest: &'a [u8],
}

impl Packet {
    pub(super) fn body<T: ByteValued + Default>(&self) -> Result<T, ProtocolError> {
        let mut body = T::default();
        if self.payload.len() != body.as_slice().len() {
            return Err(self.bad_length());
        }
        body.as_mut_slice().copy_from_slice(&self.payload);
        Ok(body)
    }

    pub(super) fn split<T: ByteValued + Default>(&self) -> Result<Split<'_, T>, ProtocolError> {
        let mut body = T::default();
        let head = self.payload.split_at_checked(body.as_slice().len());
        let (head, rest) = head.ok_or_else(|| self.bad_length())?;
        body.as_mut_slice().copy_from_slice(head);
        Ok(Split { body, rest })
    }

    pub(super) fn only_fd(&mut self) -> Result<OwnedFd, ProtocolError> {
        self.expect_fds(1)?;
        Ok(self.fds.remove(0))
    }

    pub(super) fn expect_fds(&self, expected: usize) -> Result<(), ProtocolError> {
        let found = self.fds.len();
        if found == expected {
            return Ok(());
        }
        Err(ProtocolError::Descriptors { request: self.request, found, expected })
    }

    pub(super) fn bad_length(&self) -> ProtocolError {
        ProtocolError::Length { request: self.request, found: self.payload.len() }
    }

    pub(super) fn reply(&self, payload: &[u8]) -> Reply {
        Reply { bytes: encode(self.request, VERSION | REPLY, payload), fd: None }
    }
}

/// The message that notifies a front end of a changed configuration space; it has no reply.
pub(super) fn config_changed() -> Vec<u8> {
    encode(BackendReq::CONFIG_CHANGE_MSG.into(), VERSION, &[])
}

fn encode(request: u32, flags: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("payloads have at most 4 KiB");
    let mut bytes = Vec::with_capacity(HEADER_BYTES + payload.len());
    for field in [request, flags, length] {
        bytes.extend_from_slice(&field.to_le_bytes());
    }
    bytes.extend_from_slice(payload);
    bytes
}
