//! One connection's server side: bytes in, commands and replies out; no sockets, no clock.
//!
//! Invariants:
//! - N-1: a command reaches the caller only after every check that needs no I/O.
//! - N-2: every request that was not handed out is answered in the queued output, or ends the connection.
//! - N-3: a valid command and its successful reply cost no allocation in the session, except for block status.
//! - N-4: once TLS is in use, agreements of options that were sent in the clear are void.

use std::sync::Arc;

use super::command::{CloseReason, Command, Decoded};
use super::export::ExportInfo;
use super::handshake::{Handshake, Progress};
use super::reply::{
    Answers, NbdErrno, ReplyHead, ReplyTo, StatusExtent, put_block_status, put_done, put_error,
    put_read_header,
};
use super::tls::{Access, TlsPolicy};
use super::transmission::Transmission;
use super::wire::STRING_MAX;
use crate::decoded_prefix::DecodedPrefix;

#[derive(Debug)]
enum Phase {
    Handshake(Handshake),
    Transmission(Transmission),
    Closed(CloseReason, Option<Transmission>),
}

#[derive(Debug)]
pub struct Session {
    phase: Phase,
    output: Vec<u8>,
    denied: Option<usize>,
    unknown: Option<String>,
}

impl Session {
    /// Starts a connection in the clear: the greeting is queued as output.
    ///
    /// # Panics
    /// If a name is longer than 4096 bytes.
    pub fn new(exports: Arc<[ExportInfo]>) -> Session {
        Session::with_tls(exports, TlsPolicy::Off)
    }

    /// A new session like [`Session::new`], for clients that may or must use TLS.
    ///
    /// # Panics
    /// As [`Session::new`].
    pub fn with_tls(exports: Arc<[ExportInfo]>, policy: TlsPolicy) -> Session {
        assert!(
            exports.iter().all(|export| export.name.len() <= STRING_MAX),
            "checked with the configuration"
        );
        let mut output = Vec::new();
        let phase = Phase::Handshake(Handshake::new(exports, policy, &mut output));
        Session { phase, output, denied: None, unknown: None }
    }

    /// Decodes unread bytes of the stream and returns their meaning; the call may queue output.
    pub fn decode(&mut self, input: &[u8]) -> DecodedPrefix<Decoded> {
        let mut consumed = 0;
        loop {
            let rest = input.get(consumed..).unwrap_or_default();
            let step = self.step(rest);
            consumed += step.consumed;
            if let Some(meaning) = step.meaning {
                return DecodedPrefix { consumed, meaning };
            }
        }
    }

    /// TLS is in use. The client may use the exports as listed in `access`, in their order; exports without
    /// an entry are allowed.
    ///
    /// # Panics
    /// If the session is not at the point where [`Session::decode`] returns [`Decoded::StartTls`].
    pub fn secure(&mut self, access: &[Access]) {
        match &mut self.phase {
            Phase::Handshake(handshake) => handshake.secure(access),
            Phase::Transmission(_) | Phase::Closed(..) => panic!("TLS begins within the handshake"),
        }
    }

    /// The index of the export that was denied last since the last call, for the log.
    pub fn take_denied(&mut self) -> Option<usize> {
        self.denied.take()
    }

    /// The unknown export that the client requested last, other than by EXPORT_NAME, since the last call.
    pub fn take_unknown(&mut self) -> Option<String> {
        self.unknown.take()
    }

    pub fn take_output(&mut self, into: &mut Vec<u8>) {
        into.append(&mut self.output);
    }

    pub fn has_output(&self) -> bool {
        !self.output.is_empty()
    }

    pub fn is_transmission(&self) -> bool {
        matches!(self.phase, Phase::Transmission(_))
    }

    /// Index of the export the client has chosen, also after the end of the connection; `None` before the choice.
    pub fn export(&self) -> Option<usize> {
        self.agreed().map(|transmission| transmission.export)
    }

    /// Appends the bytes that precede the [`Command::length`] bytes of a successful read; the reply is complete with
    /// the data.
    ///
    /// # Panics
    /// If `into` has no room because it still holds another reply, or the session never entered the transmission phase.
    pub fn encode_read_header(&self, command: &Command, into: &mut ReplyHead) {
        put_read_header(self.reply_to(command), command.length, into);
    }

    /// Appends the success of a command without payload.
    ///
    /// # Panics
    /// As [`Session::encode_read_header`].
    pub fn encode_done(&self, command: &Command, into: &mut ReplyHead) {
        put_done(self.reply_to(command), Answers::of(command.kind), into);
    }

    /// Appends the failure of a command, with a text if structured replies or extended headers were agreed on.
    ///
    /// # Panics
    /// If the session never entered the transmission phase.
    pub fn encode_error(&self, command: &Command, errno: NbdErrno, into: &mut Vec<u8>) {
        put_error(self.reply_to(command), errno, errno.text(), into);
    }

    /// Appends the answer to a block status command: `extents` from the command's offset on. They may cover less than
    /// the requested range; a part beyond the range is cut off, and an empty list means that the whole range is data.
    ///
    /// # Panics
    /// If the session never entered the transmission phase.
    pub fn encode_block_status(&self, command: &Command, extents: &[StatusExtent], into: &mut Vec<u8>) {
        put_block_status(self.reply_to(command).form, command, extents, into);
    }

    fn step(&mut self, input: &[u8]) -> DecodedPrefix<Option<Decoded>> {
        let step = match &mut self.phase {
            Phase::Transmission(transmission) => transmission.decode(input, &mut self.output),
            Phase::Handshake(handshake) => {
                let DecodedPrefix { consumed, meaning } = handshake.decode(input, &mut self.output);
                self.denied = handshake.take_denied().or(self.denied);
                self.unknown = handshake.take_unknown().or_else(|| self.unknown.take());
                DecodedPrefix::new(consumed, self.on_progress(&meaning))
            }
            Phase::Closed(reason, _) => DecodedPrefix::new(0, Some(Decoded::Close(*reason))),
        };
        if let Some(Decoded::Close(reason)) = step.meaning {
            self.phase = Phase::Closed(reason, self.agreed().copied());
        }
        step
    }

    fn on_progress(&mut self, progress: &Progress) -> Option<Decoded> {
        match *progress {
            Progress::NeedMore => Some(Decoded::NeedMore),
            Progress::Continue => None,
            Progress::Enter(transmission) => {
                self.phase = Phase::Transmission(transmission);
                None
            }
            Progress::StartTls => Some(Decoded::StartTls),
            Progress::Close(reason) => Some(Decoded::Close(reason)),
        }
    }

    fn agreed(&self) -> Option<&Transmission> {
        match &self.phase {
            Phase::Handshake(_) => None,
            Phase::Transmission(transmission) => Some(transmission),
            Phase::Closed(_, transmission) => transmission.as_ref(),
        }
    }

    fn reply_to(&self, command: &Command) -> ReplyTo {
        let agreed = self.agreed().expect("only the transmission phase hands out commands");
        ReplyTo::new(agreed.form, command)
    }
}

#[cfg(test)]
mod tests;
