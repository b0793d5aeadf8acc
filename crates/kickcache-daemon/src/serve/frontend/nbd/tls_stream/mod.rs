//! A client's TLS: what came from the socket becomes what the client said, and what it is owed becomes what goes to the socket.
//!
//! Invariants:
//! - T-1: nothing that was decrypted stays here: it is with the caller when [`TlsStream::receive`] returns. What stays is at most
//!   the beginning of a record or of a message of a handshake.
//! - T-2: more is encrypted when what was encrypted before is with the kernel, so that a client which does not read holds
//!   [`BATCH`] bytes at most.

use std::io::IoSlice;
use std::os::fd::AsFd;

use kickcache_tls::names::PeerNames;
use kickcache_tls::rustls;
use kickcache_tls::rustls::server::UnbufferedServerConnection;
use kickcache_tls::rustls::unbuffered::{ConnectionState, UnbufferedStatus};
use rustix::io::Errno;
use rustix::net::RecvFlags;

use crate::serve::frontend::nbd::input::{Arrival, Input, Received};
use crate::serve::frontend::nbd::outgoing::Outgoing;
use crate::serve::frontend::nbd::sent::Sent;

#[cfg(test)]
mod tests;

/// Bytes of the socket that are here at once.
const RECEIVE: usize = 128 << 10;
/// Bytes encrypted at once.
const BATCH: usize = 256 << 10;
/// Bytes of the client's that one record holds at most.
const RECORD: usize = 16 << 10;
/// More than what a record is longer than that.
const RECORD_OVERHEAD: usize = 64;

const _: () = assert!(BATCH.is_multiple_of(RECORD));

/// A client's TLS.
pub(crate) struct TlsStream {
    connection: UnbufferedServerConnection,
    /// What came from the socket; decrypted in place.
    incoming: Vec<u8>,
    /// Bytes of it that need more to be understood.
    held: usize,
    outgoing: Outgoing,
    /// A record's worth of short stretches.
    gathered: Vec<u8>,
    end: End,
}

/// Whether the client says more.
#[derive(Clone, PartialEq, Debug)]
enum End {
    Open,
    /// It said that it does not.
    Closed,
    Failed(rustls::Error),
}

impl TlsStream {
    pub(crate) fn new(connection: UnbufferedServerConnection) -> TlsStream {
        TlsStream {
            connection,
            incoming: vec![0; RECEIVE],
            held: 0,
            outgoing: Outgoing::default(),
            gathered: Vec::new(),
            end: End::Open,
        }
    }

    /// Whether keys are still being agreed on.
    pub(crate) fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// The names in the client's certificate, which was verified, if it has one.
    pub(crate) fn names(&self) -> PeerNames {
        let certificates = self.connection.peer_certificates().unwrap_or_default();
        certificates.first().map(PeerNames::of).unwrap_or_default()
    }

    /// Why it failed, if it did.
    pub(crate) fn failure(&self) -> Option<&rustls::Error> {
        match &self.end {
            End::Failed(error) => Some(error),
            End::Open | End::Closed => None,
        }
    }

    /// Whether the socket has not taken everything yet.
    pub(crate) fn owes(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Receives without blocking; what the client said goes to `first`, and the rest to `into`.
    pub(crate) fn receive(&mut self, socket: impl AsFd, first: &mut [u8], into: &mut Input) -> Arrival {
        if self.end != End::Open {
            return Arrival { taken: 0, received: Received::End };
        }
        // What is decrypted is never longer.
        let most = RECEIVE.min(first.len() + into.room());
        let wanted = most.saturating_sub(self.held);
        if wanted == 0 {
            // Records are shorter; it is a message of a handshake.
            self.end = End::Failed(rustls::Error::General("a message is too long".into()));
            return Arrival { taken: 0, received: Received::End };
        }
        let count = match rustix::net::recv(socket, &mut self.incoming[self.held..most], RecvFlags::DONTWAIT)
        {
            Ok((0, _)) => return Arrival { taken: 0, received: Received::End },
            Ok((count, _)) => count,
            Err(Errno::AGAIN) => return Arrival { taken: 0, received: Received::Drained },
            Err(Errno::INTR) => return Arrival { taken: 0, received: Received::More },
            Err(_) => return Arrival { taken: 0, received: Received::End },
        };
        self.held += count;
        let taken = self.decrypt(first, into);
        let received = match self.end {
            // What it said before is looked at first.
            End::Closed => Received::More,
            End::Failed(_) => Received::End,
            End::Open if count < wanted => Received::Drained,
            End::Open => Received::More,
        };
        Arrival { taken, received }
    }

    /// Gives how many bytes went to `first`.
    fn decrypt(&mut self, first: &mut [u8], into: &mut Input) -> usize {
        let mut start = 0;
        let mut taken = 0;
        let mut goes_on = true;
        while goes_on && self.end == End::Open {
            let incoming = &mut self.incoming[start..self.held];
            let UnbufferedStatus { mut discard, state } = self.connection.process_tls_records(incoming);
            match state {
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while let Some(record) = traffic.next_record() {
                        match record {
                            Ok(record) => {
                                taken += deliver(record.payload, &mut first[taken..], into);
                                discard += record.discard;
                            }
                            Err(error) => self.end = End::Failed(error),
                        }
                    }
                }
                Ok(ConnectionState::EncodeTlsData(mut message)) => {
                    self.outgoing.append(|room| message.encode(room));
                }
                // It is in its place among what goes to the socket.
                Ok(ConnectionState::TransmitTlsData(messages)) => messages.done(),
                Ok(ConnectionState::BlockedHandshake | ConnectionState::WriteTraffic(_)) => goes_on = false,
                Ok(ConnectionState::PeerClosed | ConnectionState::Closed) => self.end = End::Closed,
                Ok(_) => self.end = End::Failed(rustls::Error::General("early data".into())),
                Err(error) => self.end = End::Failed(error),
            }
            start += discard;
        }
        self.incoming.copy_within(start..self.held, 0);
        self.held -= start;
        self.encode_alerts();
        taken
    }

    /// Encodes what an end left for the client.
    fn encode_alerts(&mut self) {
        // Nothing is decrypted while there is something to encode, so nothing fails twice.
        while self.connection.wants_write() {
            let UnbufferedStatus { state, .. } = self.connection.process_tls_records(&mut []);
            let Ok(ConnectionState::EncodeTlsData(mut message)) = state else { return };
            self.outgoing.append(|room| message.encode(room));
        }
    }

    /// Sends what is encrypted, without blocking.
    pub(crate) fn flush(&mut self, socket: impl AsFd) -> Sent {
        self.outgoing.send(socket)
    }

    /// Encrypts the beginning of what is to be sent; gives how much of it.
    pub(crate) fn encrypt(&mut self, mut plain: &mut [IoSlice<'_>]) -> usize {
        debug_assert!(!self.connection.is_handshaking() && self.outgoing.is_empty(), "T-2");
        let incoming = &mut self.incoming[..self.held];
        let UnbufferedStatus { discard, state } = self.connection.process_tls_records(incoming);
        debug_assert!(discard == 0, "all that can be understood was");
        let Ok(ConnectionState::WriteTraffic(mut traffic)) = state else { return 0 };
        self.outgoing.reserve(BATCH + BATCH / RECORD * RECORD_OVERHEAD);
        let mut taken = 0;
        while let Some(stretch) = plain.first()
            && taken < BATCH
        {
            let bytes = match stretch.len() / RECORD * RECORD {
                0 => gather(plain, &mut self.gathered),
                whole => &stretch[..whole.min(BATCH - taken)],
            };
            if !self.outgoing.append(|room| traffic.encrypt(bytes, room)) {
                break;
            }
            let count = bytes.len();
            taken += count;
            IoSlice::advance_slices(&mut plain, count);
        }
        taken
    }

    /// Says that nothing more comes, as far as the socket takes it.
    pub(crate) fn say_goodbye(&mut self, socket: impl AsFd) {
        if self.failure().is_none() {
            let incoming = &mut self.incoming[..self.held];
            let UnbufferedStatus { state, .. } = self.connection.process_tls_records(incoming);
            if let Ok(ConnectionState::WriteTraffic(mut traffic)) = state {
                self.outgoing.append(|room| traffic.queue_close_notify(room));
            }
        }
        self.encode_alerts();
        let _ = self.flush(socket);
    }
}

/// Gives how many bytes went to `first`.
fn deliver(payload: &[u8], first: &mut [u8], into: &mut Input) -> usize {
    let taken = payload.len().min(first.len());
    let (here, there) = payload.split_at(taken);
    first[..taken].copy_from_slice(here);
    into.append(there);
    taken
}

/// The beginning of some stretches as one, of a record at most.
fn gather<'a>(plain: &[IoSlice<'_>], gathered: &'a mut Vec<u8>) -> &'a [u8] {
    gathered.clear();
    for stretch in plain {
        let count = stretch.len().min(RECORD - gathered.len());
        gathered.extend_from_slice(&stretch[..count]);
        if gathered.len() == RECORD {
            break;
        }
    }
    gathered
}
