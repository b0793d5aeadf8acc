//! Replies that wait to be sent.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::os::fd::AsFd;

use kickcache_engine::request::RequestId;
use kickcache_nbd::ReplyHead;
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags};

use crate::driver::buffers::Buffers;
use crate::serve::frontend::nbd::send_progress::SendProgress;
use crate::serve::frontend::nbd::tls_stream::TlsStream;

/// The most stretches of one system call or encryption.
const STRETCHES_MAX: usize = 128;

#[derive(Default)]
pub(crate) struct Outbox {
    queue: VecDeque<Message>,
    /// The bytes of the first message that are already sent.
    sent: usize,
    /// Bytes of messages, before encryption, that were ever passed to the socket or to TLS.
    sent_total: u64,
    /// Bytes of waiting messages with memory of their own; heads do not count.
    text_bytes: usize,
    payload_count: usize,
}

pub(crate) enum Message {
    Data(ReplyHead, RequestId),
    Head(ReplyHead),
    /// Bytes other than a head or a request's payload.
    Bytes(Vec<u8>),
}

impl Outbox {
    pub(crate) fn push(&mut self, message: Message) {
        self.text_bytes += message.text_length();
        self.payload_count += usize::from(matches!(message, Message::Data(..)));
        self.queue.push_back(message);
    }

    pub(crate) fn text_bytes(&self) -> usize {
        self.text_bytes
    }

    pub(crate) fn has_payload(&self) -> bool {
        self.payload_count > 0
    }

    pub(crate) fn sent_total(&self) -> u64 {
        self.sent_total
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Sends without blocking; `done` gets each request with a sent payload.
    pub(crate) fn send(
        &mut self,
        socket: impl AsFd,
        buffers: &mut Buffers,
        mut done: impl FnMut(&mut Buffers, RequestId),
    ) -> SendProgress {
        while !self.queue.is_empty() {
            match self.send_some(&socket, buffers) {
                Ok(count) => self.advance(count, buffers, &mut done),
                Err(Errno::AGAIN) => return SendProgress::Blocked,
                Err(Errno::INTR) => {}
                Err(_) => return SendProgress::Broken,
            }
        }
        SendProgress::All
    }

    /// Encrypts the beginning of the queue and returns the number of bytes.
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

    /// Drops all output; `done` gets each request with a queued payload.
    pub(crate) fn clear(&mut self, buffers: &mut Buffers, mut done: impl FnMut(&mut Buffers, RequestId)) {
        for message in self.queue.drain(..) {
            if let Message::Data(_, id) = message {
                done(buffers, id);
            }
        }
        (self.sent, self.text_bytes, self.payload_count) = (0, 0, 0);
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
        self.sent_total += count as u64;
        while let Some(first) = self.queue.front() {
            let length: usize = first.parts(buffers).iter().map(|part| part.len()).sum();
            if self.sent < length {
                return;
            }
            self.sent -= length;
            let Some(message) = self.queue.pop_front() else { return };
            self.text_bytes -= message.text_length();
            if let Message::Data(_, id) = message {
                self.payload_count -= 1;
                done(buffers, id);
            }
        }
    }
}

impl Message {
    fn text_length(&self) -> usize {
        match self {
            Message::Data(..) | Message::Head(_) => 0,
            Message::Bytes(bytes) => bytes.len(),
        }
    }

    fn parts<'a>(&'a self, buffers: &'a Buffers) -> [&'a [u8]; 2] {
        match self {
            Message::Data(head, id) => [head.as_slice(), buffers.payload(*id)],
            Message::Head(head) => [head.as_slice(), &[]],
            Message::Bytes(bytes) => [bytes, &[]],
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::driver::budget::Budget;

    #[test]
    fn bytes_that_wait_are_counted_until_they_are_sent() {
        let mut buffers = Buffers::new(Budget::alone(0), 1).unwrap();
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut outbox = Outbox::default();
        [3, 5].into_iter().for_each(|length| outbox.push(Message::Bytes(vec![1; length])));
        assert_eq!((outbox.text_bytes(), outbox.has_payload()), (8, false));
        assert_eq!(outbox.send(&ours, &mut buffers, |_, _| {}), SendProgress::All);
        assert_eq!((outbox.text_bytes(), outbox.sent_total()), (0, 8));
        theirs.read_exact(&mut [0; 8]).unwrap();
        let id = buffers.allocate_empty();
        outbox.push(Message::Data(ReplyHead::new(), id));
        assert!(outbox.has_payload());
        outbox.clear(&mut buffers, |buffers, id| buffers.release(id));
        assert!(!outbox.has_payload());
    }
}
