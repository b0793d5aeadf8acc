//! Replies that wait to be sent: many leave in one call.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::os::fd::AsFd;

use kickcache_engine::request::RequestId;
use kickcache_nbd::ReplyHead;
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags};

use crate::driver::buffers::Buffers;
use crate::serve::frontend::nbd::sent::Sent;
use crate::serve::frontend::nbd::tls_stream::TlsStream;

/// Stretches that one call sends.
const STRETCHES_MAX: usize = 128;

/// A queue of replies.
#[derive(Default)]
pub(crate) struct Outbox {
    queue: VecDeque<Message>,
    /// Bytes of the first message that are sent.
    sent: usize,
}

/// A reply.
pub(crate) enum Message {
    /// A head, and the payload of the request.
    Data(ReplyHead, RequestId),
    /// A head alone.
    Head(ReplyHead),
    /// Anything longer.
    Bytes(Vec<u8>),
}

impl Outbox {
    pub(crate) fn push(&mut self, message: Message) {
        self.queue.push_back(message);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Sends without blocking; `done` gets each request whose payload is sent.
    pub(crate) fn send(
        &mut self,
        socket: impl AsFd,
        buffers: &mut Buffers,
        mut done: impl FnMut(&mut Buffers, RequestId),
    ) -> Sent {
        while !self.queue.is_empty() {
            match self.send_some(&socket, buffers) {
                Ok(count) => self.advance(count, buffers, &mut done),
                Err(Errno::AGAIN) => return Sent::Blocked,
                Err(Errno::INTR) => {}
                Err(_) => return Sent::Broken,
            }
        }
        Sent::All
    }

    /// Has the beginning of it encrypted; `done` gets each request whose payload that was. Gives how many bytes.
    pub(crate) fn encrypt(
        &mut self,
        tls: &mut TlsStream,
        buffers: &mut Buffers,
        mut done: impl FnMut(&mut Buffers, RequestId),
    ) -> usize {
        let count = {
            let mut slices = [IoSlice::new(&[]); STRETCHES_MAX];
            let filled = self.gather(&mut slices, buffers);
            tls.encrypt(&mut slices[..filled])
        };
        self.advance(count, buffers, &mut done);
        count
    }

    /// Forgets everything; `done` gets each request whose payload was to be sent.
    pub(crate) fn clear(&mut self, buffers: &mut Buffers, mut done: impl FnMut(&mut Buffers, RequestId)) {
        for message in self.queue.drain(..) {
            if let Message::Data(_, id) = message {
                done(buffers, id);
            }
        }
        self.sent = 0;
    }

    fn send_some(&self, socket: impl AsFd, buffers: &Buffers) -> Result<usize, Errno> {
        let mut slices = [IoSlice::new(&[]); STRETCHES_MAX];
        let count = self.gather(&mut slices, buffers);
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        if count == 1 {
            return rustix::net::send(socket, &slices[0], flags);
        }
        rustix::net::sendmsg(socket, &slices[..count], &mut SendAncillaryBuffer::default(), flags)
    }

    /// What is to be sent next; gives how many stretches that are.
    fn gather<'a>(&'a self, slices: &mut [IoSlice<'a>; STRETCHES_MAX], buffers: &'a Buffers) -> usize {
        let (mut count, mut skip) = (0, self.sent);
        for message in &self.queue {
            if count + 2 > STRETCHES_MAX {
                break;
            }
            for part in message.parts(buffers) {
                let skipped = skip.min(part.len());
                skip -= skipped;
                if skipped < part.len() {
                    slices[count] = IoSlice::new(&part[skipped..]);
                    count += 1;
                }
            }
        }
        count
    }

    fn advance(
        &mut self,
        count: usize,
        buffers: &mut Buffers,
        done: &mut impl FnMut(&mut Buffers, RequestId),
    ) {
        self.sent += count;
        while let Some(first) = self.queue.front() {
            let length: usize = first.parts(buffers).iter().map(|part| part.len()).sum();
            if self.sent < length {
                return;
            }
            self.sent -= length;
            if let Some(Message::Data(_, id)) = self.queue.pop_front() {
                done(buffers, id);
            }
        }
    }
}

impl Message {
    fn parts<'a>(&'a self, buffers: &'a Buffers) -> [&'a [u8]; 2] {
        match self {
            Message::Data(head, id) => [head.as_slice(), buffers.payload(*id)],
            Message::Head(head) => [head.as_slice(), &[]],
            Message::Bytes(bytes) => [bytes, &[]],
        }
    }
}
