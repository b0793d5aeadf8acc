//! A client's TLS.
//!
//! Invariants:
//! - C-1: no plaintext stays here: the caller has it when [`TlsStream::receive`] returns. While the stream is
//!   open, at most the beginning of a record or of a handshake message stays.
//! - C-2: more is encrypted only when the kernel has accepted the earlier bytes, so that a client which does
//!   not read holds [`BATCH`] bytes and one record at most.

use std::io::IoSlice;
use std::os::fd::AsFd;

use kickcache_tls::names::PeerNames;
use kickcache_tls::rustls;
use kickcache_tls::rustls::server::UnbufferedServerConnection;
use kickcache_tls::rustls::unbuffered::{ConnectionState, UnbufferedStatus};
use rustix::io::Errno;
use rustix::net::RecvFlags;

use crate::serve::frontend::nbd::input::{Arrival, Input, Received};
use crate::serve::frontend::nbd::send_progress::SendProgress;
use crate::serve::frontend::nbd::tls_output::TlsOutput;

#[cfg(test)]
mod tests;

/// The most bytes received from the socket that are held at once.
const RECEIVE: usize = 128 << 10;
/// From this many plain bytes on, no further record is encrypted before the socket has accepted
/// all.
const BATCH: usize = 256 << 10;
/// The most payload bytes of one record.
const RECORD: usize = 16 << 10;
/// The most bytes that encryption adds to a record.
const RECORD_OVERHEAD: usize = 64;

const _: () = assert!(BATCH.is_multiple_of(RECORD));

pub(crate) struct TlsStream {
    connection: UnbufferedServerConnection,
    /// Received bytes; decrypted in place.
    incoming: Vec<u8>,
    /// How many bytes of `incoming` are not decoded.
    held: usize,
    outgoing: TlsOutput,
    /// Short stretches of output, gathered into one record.
    gathered: Vec<u8>,
    end: End,
}

#[derive(Clone, PartialEq, Debug)]
enum End {
    Open,
    Closed,
    Failed(rustls::Error),
}

impl TlsStream {
    pub(crate) fn new(connection: UnbufferedServerConnection) -> TlsStream {
        TlsStream {
            connection,
            incoming: vec![0; RECEIVE],
            held: 0,
            outgoing: TlsOutput::default(),
            gathered: Vec::new(),
            end: End::Open,
        }
    }

    pub(crate) fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// The names in the client's verified certificate; none without a certificate.
    pub(crate) fn names(&self) -> PeerNames {
        let certificates = self.connection.peer_certificates().unwrap_or_default();
        certificates.first().map(PeerNames::of).unwrap_or_default()
    }

    pub(crate) fn failure(&self) -> Option<&rustls::Error> {
        match &self.end {
            End::Failed(error) => Some(error),
            End::Open | End::Closed => None,
        }
    }

    pub(crate) fn owes(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Receives without blocking; the plaintext is stored in `first`, and its rest in `into`.
    pub(crate) fn receive(&mut self, socket: impl AsFd, first: &mut [u8], into: &mut Input) -> Arrival {
        if self.end != End::Open {
            return Arrival { taken: 0, received: Received::End };
        }
        // Plaintext is never longer than its records.
        let most = RECEIVE.min(first.len() + into.room());
        let wanted = most.saturating_sub(self.held);
        if wanted == 0 {
            // A record is always shorter, so this is a message of a handshake, and too long.
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
            // Earlier plaintext is handled first.
            End::Closed => Received::More,
            End::Failed(_) => Received::End,
            End::Open if count < wanted => Received::Drained,
            End::Open => Received::More,
        };
        Arrival { taken, received }
    }

    /// Returns the number of bytes stored in `first`.
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

    fn encode_alerts(&mut self) {
        while self.connection.wants_write() {
            let UnbufferedStatus { state, .. } = self.connection.process_tls_records(&mut []);
            let Ok(ConnectionState::EncodeTlsData(mut message)) = state else { return };
            self.outgoing.append(|room| message.encode(room));
        }
    }

    pub(crate) fn flush(&mut self, socket: impl AsFd) -> SendProgress {
        self.outgoing.send(socket)
    }

    /// Encrypts the beginning of the output; returns the number of bytes.
    pub(crate) fn encrypt(&mut self, mut plain: &mut [IoSlice<'_>]) -> usize {
        debug_assert!(!self.connection.is_handshaking() && self.outgoing.is_empty(), "C-2");
        let incoming = &mut self.incoming[..self.held];
        let UnbufferedStatus { discard, state } = self.connection.process_tls_records(incoming);
        debug_assert!(discard == 0, "all complete records were decoded");
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

    /// Sends alerts, and a close_notify if the connection can send data and TLS has not failed, as far as the
    /// socket accepts them.
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

/// Returns the number of bytes stored in `first`.
fn deliver(payload: &[u8], first: &mut [u8], into: &mut Input) -> usize {
    let taken = payload.len().min(first.len());
    let (here, there) = payload.split_at(taken);
    first[..taken].copy_from_slice(here);
    into.append(there);
    taken
}

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
