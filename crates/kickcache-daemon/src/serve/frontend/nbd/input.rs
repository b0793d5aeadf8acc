//! Received bytes that were not decoded yet.

use std::io::IoSliceMut;
use std::os::fd::AsFd;

use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvFlags};

/// Bytes of a receive buffer.
const ROOM: usize = 64 << 10;
/// If there is less room than this behind the unread bytes, these are moved to the front of the buffer.
const ROOM_MIN: usize = 32 << 10;

pub(crate) struct Input {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Received {
    /// More bytes may be available.
    More,
    /// All available bytes were received.
    Drained,
    /// No more bytes can be received: the client disconnected, the socket failed, or TLS failed.
    End,
}

pub(crate) struct Arrival {
    /// The number of bytes received into the caller's memory.
    pub(crate) taken: usize,
    pub(crate) received: Received,
}

impl Input {
    pub(crate) fn new() -> Input {
        Input { bytes: vec![0; ROOM], start: 0, end: 0 }
    }

    pub(crate) fn unread(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    pub(crate) fn consume(&mut self, count: usize) {
        assert!(count <= self.end - self.start);
        self.start += count;
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
    }

    pub(crate) fn room(&mut self) -> usize {
        self.make_room();
        self.bytes.len() - self.end
    }

    /// Appends bytes; the caller must have checked the room.
    pub(crate) fn append(&mut self, bytes: &[u8]) {
        let end = self.end + bytes.len();
        self.bytes[self.end..end].copy_from_slice(bytes);
        self.end = end;
    }

    /// Receives without blocking: fills `first`, then the buffer.
    pub(crate) fn receive(&mut self, socket: impl AsFd, first: &mut [u8]) -> Arrival {
        self.make_room();
        let wanted = first.len() + self.bytes.len() - self.end;
        let result = if first.is_empty() {
            rustix::net::recv(socket, &mut self.bytes[self.end..], RecvFlags::DONTWAIT)
                .map(|(count, _)| count)
        } else {
            assert!(self.start == self.end, "buffered bytes precede those in flight");
            let mut slices = [IoSliceMut::new(first), IoSliceMut::new(&mut self.bytes[self.end..])];
            let mut ancillary = RecvAncillaryBuffer::default();
            rustix::net::recvmsg(socket, &mut slices, &mut ancillary, RecvFlags::DONTWAIT)
                .map(|message| message.bytes)
        };
        match result {
            Ok(0) => Arrival { taken: 0, received: Received::End },
            Ok(count) => {
                let taken = count.min(first.len());
                self.end += count - taken;
                Arrival { taken, received: if count < wanted { Received::Drained } else { Received::More } }
            }
            Err(Errno::AGAIN) => Arrival { taken: 0, received: Received::Drained },
            Err(Errno::INTR) => Arrival { taken: 0, received: Received::More },
            Err(_) => Arrival { taken: 0, received: Received::End },
        }
    }

    fn make_room(&mut self) {
        if self.bytes.len() - self.end < ROOM_MIN && self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
    }
}
