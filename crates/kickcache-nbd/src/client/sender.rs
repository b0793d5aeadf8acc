//! The half of a client that sends requests.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use super::error::ClientError;
use super::fua::Fua;
use super::pending::{InFlight, Pending, ReceivedChunks};
use super::socket::Wait;
use super::stream::Stream;
use super::zeroes::Zeroes;
use crate::wire::{MAGIC_REQUEST, PAYLOAD_MAX, Put, cmd};

/// Sends requests: `queue_*` only records them, [`Sender::send`] and [`Sender::try_send`] write the recorded
/// requests, and `send_*` does both. The caller chooses the cookies, unique among the requests in flight.
#[derive(Debug)]
pub struct Sender {
    stream: Arc<Stream>,
    pending: Arc<Pending>,
    queue: Vec<u8>,
    sent: usize,
}

#[derive(Clone, Copy)]
struct Header {
    flags: u16,
    kind: u16,
    cookie: u64,
    offset: u64,
    length: u64,
}

impl Sender {
    pub(super) fn new(stream: Arc<Stream>, pending: Arc<Pending>) -> Sender {
        Sender { stream, pending, queue: Vec::new(), sent: 0 }
    }

    /// Requests that wait for the end of their reply, among them those only queued.
    pub fn in_flight(&self) -> usize {
        self.pending.len()
    }

    pub fn queued(&self) -> usize {
        self.queue.len() - self.sent
    }

    /// Writes the whole queue; each write may wait as long as the time-out of the socket.
    ///
    /// # Errors
    /// If the connection fails, or a write takes longer than that.
    pub fn send(&mut self) -> Result<(), ClientError> {
        self.stream.send_all(&self.queue[self.sent..])?;
        self.forget_sent();
        Ok(())
    }

    /// Writes as much of the queue as is possible without waiting; returns whether the queue is
    /// empty.
    ///
    /// # Errors
    /// If the connection fails.
    pub fn try_send(&mut self) -> Result<bool, ClientError> {
        while self.queued() > 0 {
            let count = self.stream.send_some(&self.queue[self.sent..], Wait::No)?;
            if count == 0 {
                return Ok(false);
            }
            self.sent += count;
        }
        self.forget_sent();
        Ok(true)
    }

    /// Queues a read of at most 32 MiB.
    ///
    /// # Errors
    /// If the request is too long or the cookie is in use.
    pub fn queue_read(&mut self, cookie: u64, offset: u64, length: u64) -> Result<(), ClientError> {
        check_length(length, PAYLOAD_MAX)?;
        self.queue(Header { flags: 0, kind: cmd::READ, cookie, offset, length })
    }

    /// Queues a write of at most 32 MiB; the data is copied.
    ///
    /// # Errors
    /// As [`Sender::queue_read`].
    pub fn queue_write(
        &mut self,
        cookie: u64,
        offset: u64,
        data: &[u8],
        fua: Fua,
    ) -> Result<(), ClientError> {
        let length = data.len() as u64;
        check_length(length, PAYLOAD_MAX)?;
        self.queue(Header { flags: fua.flag(), kind: cmd::WRITE, cookie, offset, length })?;
        self.queue.put(data);
        Ok(())
    }

    /// Queues a flush; it covers the writes whose replies have been received.
    ///
    /// # Errors
    /// If the cookie is in use.
    pub fn queue_flush(&mut self, cookie: u64) -> Result<(), ClientError> {
        self.queue(Header { flags: 0, kind: cmd::FLUSH, cookie, offset: 0, length: 0 })
    }

    /// Queues a trim of at most 4 GiB - 1.
    ///
    /// # Errors
    /// As [`Sender::queue_read`].
    pub fn queue_trim(&mut self, cookie: u64, offset: u64, length: u64, fua: Fua) -> Result<(), ClientError> {
        self.queue(Header { flags: fua.flag(), kind: cmd::TRIM, cookie, offset, length })
    }

    /// Queues a write of zeroes of at most 4 GiB - 1.
    ///
    /// # Errors
    /// As [`Sender::queue_read`].
    pub fn queue_write_zeroes(
        &mut self,
        cookie: u64,
        offset: u64,
        length: u64,
        zeroes: Zeroes,
    ) -> Result<(), ClientError> {
        self.queue(Header { flags: zeroes.flags(), kind: cmd::WRITE_ZEROES, cookie, offset, length })
    }

    pub fn queue_cache(&mut self, cookie: u64, offset: u64, length: u64) -> Result<(), ClientError> {
        self.queue(Header { flags: 0, kind: cmd::CACHE, cookie, offset, length })
    }

    /// Queues a block status request; base:allocation must have been agreed on.
    ///
    /// # Errors
    /// As [`Sender::queue_read`].
    pub fn queue_block_status(&mut self, cookie: u64, offset: u64, length: u64) -> Result<(), ClientError> {
        self.queue(Header { flags: 0, kind: cmd::BLOCK_STATUS, cookie, offset, length })
    }

    pub fn send_read(&mut self, cookie: u64, offset: u64, length: u64) -> Result<(), ClientError> {
        self.queue_read(cookie, offset, length)?;
        self.send()
    }

    pub fn send_write(&mut self, cookie: u64, offset: u64, data: &[u8], fua: Fua) -> Result<(), ClientError> {
        self.queue_write(cookie, offset, data, fua)?;
        self.send()
    }

    pub fn send_flush(&mut self, cookie: u64) -> Result<(), ClientError> {
        self.queue_flush(cookie)?;
        self.send()
    }

    pub fn send_trim(&mut self, cookie: u64, offset: u64, length: u64, fua: Fua) -> Result<(), ClientError> {
        self.queue_trim(cookie, offset, length, fua)?;
        self.send()
    }

    pub fn send_write_zeroes(
        &mut self,
        cookie: u64,
        offset: u64,
        length: u64,
        zeroes: Zeroes,
    ) -> Result<(), ClientError> {
        self.queue_write_zeroes(cookie, offset, length, zeroes)?;
        self.send()
    }

    pub fn send_cache(&mut self, cookie: u64, offset: u64, length: u64) -> Result<(), ClientError> {
        self.queue_cache(cookie, offset, length)?;
        self.send()
    }

    pub fn send_block_status(&mut self, cookie: u64, offset: u64, length: u64) -> Result<(), ClientError> {
        self.queue_block_status(cookie, offset, length)?;
        self.send()
    }

    /// Sends a disconnect, after which no request may be sent.
    ///
    /// # Errors
    /// If the connection fails.
    pub fn send_disconnect(&mut self) -> Result<(), ClientError> {
        self.put_header(Header { flags: 0, kind: cmd::DISC, cookie: 0, offset: 0, length: 0 });
        self.send()
    }

    /// Queues a disconnect and writes as [`Sender::try_send`].
    ///
    /// # Errors
    /// If the connection fails.
    pub fn try_disconnect(&mut self) -> Result<bool, ClientError> {
        self.put_header(Header { flags: 0, kind: cmd::DISC, cookie: 0, offset: 0, length: 0 });
        self.try_send()
    }

    fn queue(&mut self, header: Header) -> Result<(), ClientError> {
        check_length(header.length, u64::from(u32::MAX))?;
        let data_length = if header.kind == cmd::READ { header.length } else { 0 };
        let data_length = usize::try_from(data_length).expect("a read is at most PAYLOAD_MAX long");
        let request = InFlight { offset: header.offset, data_length, gathered: ReceivedChunks::default() };
        self.pending.insert(header.cookie, request)?;
        self.put_header(header);
        Ok(())
    }

    fn put_header(&mut self, header: Header) {
        self.queue.put_u32(MAGIC_REQUEST);
        self.queue.put_u16(header.flags);
        self.queue.put_u16(header.kind);
        self.queue.put_u64(header.cookie);
        self.queue.put_u64(header.offset);
        self.queue.put_u32(u32::try_from(header.length).expect("checked before it was queued"));
    }

    fn forget_sent(&mut self) {
        self.queue.clear();
        self.sent = 0;
    }
}

impl AsFd for Sender {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

fn check_length(length: u64, limit: u64) -> Result<(), ClientError> {
    if length > limit { Err(ClientError::TooLong(length)) } else { Ok(()) }
}
