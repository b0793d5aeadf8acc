//! The transmission phase: from the bytes of a request to a command, or to its refusal.
#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use super::command::{CloseReason, Command, CommandKind, Decoded};
use super::reply::{Answers, HeaderForm, NbdErrno, ReplyTo, put_done, put_error};
use super::wire::{
    DRAIN_MAX, MAGIC_REQUEST, MAGIC_REQUEST_EXTENDED, OUTPUT_MAX, PAYLOAD_MAX, REQUEST_BYTES,
    REQUEST_EXTENDED_BYTES, Reader, cmd, cmd_flag,
};
use crate::decoded_prefix::DecodedPrefix;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Transmission {
    pub(super) form: HeaderForm,
    pub(super) export: usize,
    pub(super) size: u64,
    pub(super) read_only: bool,
    pub(super) allocation: bool,
}

#[derive(Clone, Copy)]
struct Request {
    flags: u16,
    kind: u16,
    cookie: u64,
    offset: u64,
    length: u64,
}

type Refusal = (NbdErrno, &'static str);

impl Transmission {
    /// Decodes one request: returns the number of consumed bytes and their meaning; `None` if the request was answered
    /// by a queued reply.
    pub(super) fn decode(&self, input: &[u8], output: &mut Vec<u8>) -> DecodedPrefix<Option<Decoded>> {
        let size = match self.form {
            HeaderForm::Simple | HeaderForm::Structured => REQUEST_BYTES,
            HeaderForm::Extended => REQUEST_EXTENDED_BYTES,
        };
        match self.parse(input) {
            None => DecodedPrefix::new(0, Some(Decoded::NeedMore)),
            Some(Err(reason)) => DecodedPrefix::new(size, Some(Decoded::Close(reason))),
            Some(Ok(request)) => DecodedPrefix::new(size, self.on_request(request, output)),
        }
    }

    fn parse(&self, input: &[u8]) -> Option<Result<Request, CloseReason>> {
        let mut reader = Reader::new(input);
        let magic = reader.u32()?;
        let flags = reader.u16()?;
        let kind = reader.u16()?;
        let cookie = reader.u64()?;
        let offset = reader.u64()?;
        let (expected, length) = match self.form {
            HeaderForm::Simple | HeaderForm::Structured => (MAGIC_REQUEST, u64::from(reader.u32()?)),
            HeaderForm::Extended => (MAGIC_REQUEST_EXTENDED, reader.u64()?),
        };
        if magic != expected {
            return Some(Err(CloseReason::RequestMagic(magic)));
        }
        Some(Ok(Request { flags, kind, cookie, offset, length }))
    }

    fn on_request(&self, request: Request, output: &mut Vec<u8>) -> Option<Decoded> {
        if request.kind == cmd::DISC {
            return Some(Decoded::Close(CloseReason::Disconnect));
        }
        match self.check(request) {
            Ok(kind) if request.length > 0 || kind == CommandKind::Flush => {
                Some(Decoded::Command(self.command(request, kind)))
            }
            Ok(kind) => {
                put_done(self.reply_to(request), Answers::of(kind), output);
                check_output(output)
            }
            Err(refusal) => self.refuse(request, refusal, output),
        }
    }

    fn command(&self, request: Request, kind: CommandKind) -> Command {
        let (offset, length) = match kind {
            CommandKind::Flush => (0, 0),
            CommandKind::Read { .. }
            | CommandKind::Write { .. }
            | CommandKind::Trim { .. }
            | CommandKind::WriteZeroes { .. }
            | CommandKind::Cache
            | CommandKind::BlockStatus { .. } => (request.offset, request.length),
        };
        Command { cookie: request.cookie, kind, offset, length, export: self.export }
    }

    fn refuse(&self, request: Request, refusal: Refusal, output: &mut Vec<u8>) -> Option<Decoded> {
        let payload = if self.carries_payload(request) { request.length } else { 0 };
        if payload > DRAIN_MAX {
            return Some(Decoded::Close(CloseReason::PayloadLength(payload)));
        }
        let (errno, text) = refusal;
        put_error(self.reply_to(request), errno, text, output);
        check_output(output).or_else(|| (payload > 0).then_some(Decoded::SkipPayload(payload)))
    }

    /// A write always carries data, even if the client omits the flag of the extended form.
    fn carries_payload(&self, request: Request) -> bool {
        let flagged = self.form == HeaderForm::Extended && request.flags & cmd_flag::PAYLOAD_LEN != 0;
        request.kind == cmd::WRITE || flagged
    }

    fn reply_to(&self, request: Request) -> ReplyTo {
        ReplyTo { form: self.form, cookie: request.cookie, offset: request.offset }
    }

    fn check(&self, request: Request) -> Result<CommandKind, Refusal> {
        let kind = self.kind(request)?;
        self.check_flags(request)?;
        self.check_writable(kind)?;
        check_length(request, kind)?;
        self.check_range(request, kind)?;
        Ok(kind)
    }

    fn kind(&self, request: Request) -> Result<CommandKind, Refusal> {
        let has = |flag| request.flags & flag != 0;
        let fua = has(cmd_flag::FUA);
        Ok(match request.kind {
            cmd::READ => CommandKind::Read { dont_fragment: has(cmd_flag::DF) },
            cmd::WRITE => CommandKind::Write { fua },
            cmd::FLUSH => CommandKind::Flush,
            cmd::TRIM => CommandKind::Trim { fua },
            cmd::CACHE => CommandKind::Cache,
            cmd::WRITE_ZEROES => CommandKind::WriteZeroes {
                fua,
                no_hole: has(cmd_flag::NO_HOLE),
                fast: has(cmd_flag::FAST_ZERO),
            },
            cmd::BLOCK_STATUS if self.allocation => CommandKind::BlockStatus { one: has(cmd_flag::REQ_ONE) },
            cmd::BLOCK_STATUS => {
                return Err((NbdErrno::Invalid, "block status without a metadata context selected"));
            }
            _ => return Err((NbdErrno::Invalid, "the server does not know this command")),
        })
    }

    /// Refuses unknown flags, and flags without a meaning for the command; FUA is accepted with every command.
    fn check_flags(&self, request: Request) -> Result<(), Refusal> {
        let own = match request.kind {
            cmd::READ if self.form != HeaderForm::Simple => cmd_flag::DF,
            cmd::WRITE if self.form == HeaderForm::Extended => cmd_flag::PAYLOAD_LEN,
            cmd::WRITE_ZEROES => cmd_flag::NO_HOLE | cmd_flag::FAST_ZERO,
            cmd::BLOCK_STATUS => cmd_flag::REQ_ONE,
            _ => 0,
        };
        if request.flags & !(own | cmd_flag::FUA) != 0 {
            return Err((NbdErrno::Invalid, "the command has a flag that this server does not support"));
        }
        Ok(())
    }

    fn check_writable(&self, kind: CommandKind) -> Result<(), Refusal> {
        let changes = stores(kind) || matches!(kind, CommandKind::Trim { .. });
        if changes && self.read_only {
            return Err((NbdErrno::NotPermitted, NbdErrno::NotPermitted.text()));
        }
        Ok(())
    }

    /// A range past the end gives "no space" for commands that store data and "invalid" for all
    /// others.
    fn check_range(&self, request: Request, kind: CommandKind) -> Result<(), Refusal> {
        let errno = if stores(kind) { NbdErrno::NoSpace } else { NbdErrno::Invalid };
        match request.offset.checked_add(request.length) {
            _ if kind == CommandKind::Flush => Ok(()),
            Some(end) if end <= self.size => Ok(()),
            _ => Err((errno, "the request exceeds the end of the export")),
        }
    }
}

fn stores(kind: CommandKind) -> bool {
    matches!(kind, CommandKind::Write { .. } | CommandKind::WriteZeroes { .. })
}

fn check_length(request: Request, kind: CommandKind) -> Result<(), Refusal> {
    let carries_data = matches!(kind, CommandKind::Read { .. } | CommandKind::Write { .. });
    if carries_data && request.length > PAYLOAD_MAX {
        return Err((NbdErrno::Invalid, "more than 32 MiB in one request"));
    }
    if matches!(kind, CommandKind::BlockStatus { .. }) && request.length == 0 {
        return Err((NbdErrno::Invalid, "block status of no bytes"));
    }
    Ok(())
}

fn check_output(output: &[u8]) -> Option<Decoded> {
    (output.len() > OUTPUT_MAX).then_some(Decoded::Close(CloseReason::OutputFlood))
}
