//! The results of decoding: commands, and the reasons for closing a connection.

use kickcache_engine::request::Durability;
use thiserror::Error;

use super::wire::DRAIN_MAX;

/// The meaning of the bytes at the front of the stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decoded {
    /// More bytes are needed for a decision; some bytes may have been consumed already.
    NeedMore,
    /// A valid command. The data of a write, [`Command::length`] bytes, follows in the stream behind the
    /// consumed bytes. The caller reads that data; it must not feed it to the session, which continues behind
    /// it.
    Command(Command),
    /// The command was refused (the reply is queued) and this many bytes of its data follow in the stream: the
    /// caller throws them away and does not feed them to the session.
    SkipPayload(u64),
    /// The client has requested TLS and the policy permits it. The queued output is the last that is sent in
    /// the clear; behind it the stream goes through TLS both ways. The session decodes no further bytes until
    /// the owner calls [`super::Session::secure`].
    StartTls,
    /// The connection must be closed once the commands in flight are answered and the queued output is sent.
    Close(CloseReason),
}

/// A command that has passed every check that needs no I/O: its range is within the export, the export is writable if
/// the command writes or trims, and the length is not 0 unless it is a flush.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Command {
    /// The client's number for the command; not necessarily unique.
    pub cookie: u64,
    pub kind: CommandKind,
    /// First byte on the export; 0 for a flush.
    pub offset: u64,
    /// Number of bytes; 0 for a flush, at most [`super::PAYLOAD_MAX`] for reads and writes.
    pub length: u64,
    /// Index of the export among those the session was made with.
    pub export: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CommandKind {
    Read {
        /// The client requests a single reply chunk; replies always are one chunk, so the flag has
        /// no effect.
        dont_fragment: bool,
    },
    /// Store the data that follows in the stream.
    Write {
        /// Durable before the reply.
        fua: bool,
    },
    /// Make all acknowledged writes durable, on every connection.
    Flush,
    /// The data is no longer needed.
    Trim {
        fua: bool,
    },
    WriteZeroes {
        fua: bool,
        /// The space must stay allocated.
        no_hole: bool,
        /// If the operation is no faster than a write, fail at once with [`super::NbdErrno::NotSupported`]
        /// and change no data.
        fast: bool,
    },
    Cache,
    BlockStatus {
        /// Reply with the first extent only.
        one: bool,
    },
}

impl CommandKind {
    /// The durability that the command's writes must have before the reply.
    pub fn durability(self) -> Durability {
        match self {
            CommandKind::Write { fua: true }
            | CommandKind::Trim { fua: true }
            | CommandKind::WriteZeroes { fua: true, .. } => Durability::Durable,
            CommandKind::Read { .. }
            | CommandKind::Write { .. }
            | CommandKind::Flush
            | CommandKind::Trim { .. }
            | CommandKind::WriteZeroes { .. }
            | CommandKind::Cache
            | CommandKind::BlockStatus { .. } => Durability::Volatile,
        }
    }
}

/// Why a session ends its connection; for the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum CloseReason {
    #[error("the client disconnected")]
    Disconnect,
    #[error("the client ended the handshake")]
    Abort,
    #[error(
        "the client answered the greeting with flags {0:#010x}, known are 0x1 and 0x2: not an NBD client?"
    )]
    ClientFlags(u32),
    #[error("the client sent {0:#018x} where an option starts with 0x49484156454f5054")]
    OptionMagic(u64),
    #[error("the client sent option {option} with {length} bytes of data, at most 65536 are accepted")]
    OptionLength {
        option: u32,
        /// The bytes that the option announced.
        length: u32,
    },
    #[error("the client sent more than 1000 options")]
    OptionCount,
    #[error("the client sent option {0} without having agreed to the fixed newstyle handshake")]
    NotFixedNewstyle(u32),
    /// EXPORT_NAME for an export that does not exist, or with an invalid name: the protocol has no other answer than to
    /// close the connection.
    #[error("the client requested an export by EXPORT_NAME that does not exist")]
    UnknownExport,
    /// EXPORT_NAME is forbidden once extended headers were agreed on.
    #[error("the client sent EXPORT_NAME after it had negotiated extended headers")]
    ExportNameAfterExtendedHeaders,
    #[error("the client sent EXPORT_NAME without TLS, which this server requires")]
    ExportNameWithoutTls,
    #[error("the client requested an export by EXPORT_NAME that it is not allowed to use")]
    DeniedExport,
    #[error("the client sent bytes behind STARTTLS before it had the answer")]
    BytesBehindStartTls,
    #[error("the client sent {0:#010x} where a request starts: the stream is out of step")]
    RequestMagic(u32),
    #[error("the client announced {0} bytes of data for one command, at most {DRAIN_MAX} are accepted")]
    PayloadLength(u64),
    /// More than 1 MiB of the session's own replies waits to be sent.
    #[error("the client has more than 1 MiB of replies waiting for refused commands or options")]
    OutputFlood,
}

impl CloseReason {
    /// Whether the client ended the connection as the protocol provides.
    pub fn is_orderly(self) -> bool {
        matches!(self, CloseReason::Disconnect | CloseReason::Abort)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fua_makes_all_changes_durable() {
        let changes = |fua| {
            let zeroes = |no_hole, fast| CommandKind::WriteZeroes { fua, no_hole, fast };
            let zeroes =
                [(false, false), (false, true), (true, false), (true, true)].map(|(a, b)| zeroes(a, b));
            [CommandKind::Write { fua }, CommandKind::Trim { fua }].into_iter().chain(zeroes)
        };
        assert!(changes(true).all(|kind| kind.durability() == Durability::Durable));
        assert!(changes(false).all(|kind| kind.durability() == Durability::Volatile));
        let others = [
            CommandKind::Read { dont_fragment: true },
            CommandKind::Flush,
            CommandKind::Cache,
            CommandKind::BlockStatus { one: true },
        ];
        assert!(others.iter().all(|kind| kind.durability() == Durability::Volatile));
    }
}
