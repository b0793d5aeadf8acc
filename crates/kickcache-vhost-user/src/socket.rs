//! The front end's socket: whole messages with their descriptors, never waiting for a peer that stops in the middle.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};
use vhost::vhost_user::message::MAX_ATTACHED_FD_ENTRIES;

use super::message::{HEADER_BYTES, Header, Packet, ProtocolError, Reply};

#[derive(Debug)]
pub struct Socket {
    socket: OwnedFd,
    header: [u8; HEADER_BYTES],
    payload: Vec<u8>,
    /// Bytes of header and payload received so far.
    filled: usize,
    fds: Vec<OwnedFd>,
}

#[derive(Debug)]
pub enum Received {
    Packet(Packet),
    /// No whole message; wait until the socket is readable.
    Nothing,
    /// The front end closed the connection, the socket failed, or the front end sent too many descriptors.
    End,
}

impl Socket {
    /// Takes a connected socket; it must not block.
    pub fn new(socket: OwnedFd) -> Socket {
        Socket { socket, header: [0; HEADER_BYTES], payload: Vec::new(), filled: 0, fds: Vec::new() }
    }

    /// Receives without waiting.
    ///
    /// # Errors
    /// If the received bytes are not a message.
    pub fn receive(&mut self) -> Result<Received, ProtocolError> {
        loop {
            if self.filled >= HEADER_BYTES {
                let header = Header::decode(self.header)?;
                let length = header.length;
                self.payload.resize(length, 0);
                if self.filled == HEADER_BYTES + length {
                    return Ok(Received::Packet(self.take(header)));
                }
            }
            match self.receive_some() {
                Ok(0) => return Ok(Received::End),
                Ok(count) => self.filled += count,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(Received::Nothing),
                Err(_) => return Ok(Received::End),
            }
        }
    }

    fn take(&mut self, header: Header) -> Packet {
        self.filled = 0;
        let (payload, fds) = (std::mem::take(&mut self.payload), std::mem::take(&mut self.fds));
        Packet { request: header.request, need_reply: header.need_reply, payload, fds }
    }

    /// Receives at most to the end of header or payload, so that descriptors belong to the message that is read.
    fn receive_some(&mut self) -> Result<usize, Errno> {
        let target = match self.filled.checked_sub(HEADER_BYTES) {
            None => &mut self.header[self.filled..],
            Some(filled) => &mut self.payload[filled..],
        };
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_ATTACHED_FD_ENTRIES))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let received =
            rustix::net::recvmsg(&self.socket, &mut [IoSliceMut::new(target)], &mut ancillary, flags)?;
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(fds) = message {
                self.fds.extend(fds);
            }
        }
        if self.fds.len() > MAX_ATTACHED_FD_ENTRIES {
            return Err(Errno::PROTO);
        }
        Ok(received.bytes)
    }

    /// Sends a reply. Replies are short: if the socket has no room for one, the front end does not read its
    /// replies.
    ///
    /// # Errors
    /// If the whole reply could not be sent.
    pub fn send(&self, reply: &Reply) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let fds = [reply.fd.as_ref().map_or_else(|| self.socket.as_fd(), AsFd::as_fd)];
        if reply.fd.is_some() {
            ancillary.push(SendAncillaryMessage::ScmRights(&fds));
        }
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let sent = rustix::net::sendmsg(&self.socket, &[IoSlice::new(&reply.bytes)], &mut ancillary, flags)?;
        if sent == reply.bytes.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
    }
}

/// Sends a few bytes without waiting.
///
/// # Errors
/// If not all bytes could be sent.
pub(super) fn send_short(socket: &OwnedFd, bytes: &[u8]) -> io::Result<()> {
    let sent = rustix::net::send(socket, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?;
    if sent == bytes.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
