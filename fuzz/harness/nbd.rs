//! Shared by the NBD fuzz targets and the replay of their corpus. The includer brings `nbd` into scope.

use std::sync::Arc;

use super::nbd::{
    Access, CommandKind, Decoded, DecodedPrefix, ExportInfo, NbdErrno, PAYLOAD_MAX, ReplyHead, Session,
    StatusExtent, TlsPolicy,
};

/// Longest stream that is tried: longer ones find no more, and are slow byte by byte.
const STREAM_MAX: usize = 64 << 10;
/// Most bytes of output for one byte of input, and without input.
const OUTPUT_PER_BYTE: usize = 16;
const OUTPUT_BASE: usize = 1024;

/// Feeds a client's stream from the first byte of the handshake on.
pub(super) fn handshake(bytes: &[u8]) {
    compare(|| Session::new(exports()), bytes);
    secured(bytes);
}

/// The same with an assumed TLS session: options sent before it must have no effect, and bytes behind STARTTLS end it.
fn secured(bytes: &[u8]) {
    for policy in [TlsPolicy::On, TlsPolicy::Require] {
        let mut session = Session::with_tls(exports(), policy);
        let mut output = Vec::new();
        let clear = [&3_u32.to_be_bytes()[..], b"IHAVEOPT", &5_u32.to_be_bytes(), &[0; 4]].concat();
        let asked = session.decode(&clear);
        assert_eq!(asked, DecodedPrefix { consumed: clear.len(), meaning: Decoded::StartTls });
        session.take_output(&mut output);
        session.secure(&[Access::Denied]);
        let rest = bytes.get(4..).unwrap_or_default();
        let outcome = run(session, &rest[..rest.len().min(STREAM_MAX)], 1);
        assert!(outcome.events.iter().all(|event| *event != Decoded::StartTls), "TLS within TLS");
        let named = outcome.events.iter().all(|event| match event {
            Decoded::Command(command) => command.export == 1,
            _ => true,
        });
        assert!(named, "a command for an export that was denied");
    }
}

/// Feeds a client's stream from the first request on; the first byte chooses the result of the handshake.
pub(super) fn transmission(bytes: &[u8]) {
    if let Some((&choice, stream)) = bytes.split_first() {
        compare(|| agreed(choice), stream);
    }
}

/// Panics if the stream has another result when it arrives byte by byte.
fn compare(start: impl Fn() -> Session, stream: &[u8]) {
    let stream = &stream[..stream.len().min(STREAM_MAX)];
    let whole = run(start(), stream, stream.len().max(1));
    let bytewise = run(start(), stream, 1);
    assert!(whole == bytewise, "the stream has another result when it arrives byte by byte");
    let limit = OUTPUT_BASE + stream.len() * OUTPUT_PER_BYTE;
    assert!(
        whole.output.len() <= limit,
        "{} bytes of output for {} of input",
        whole.output.len(),
        stream.len()
    );
}

#[derive(PartialEq)]
struct Outcome {
    output: Vec<u8>,
    events: Vec<Decoded>,
}

fn run(mut session: Session, stream: &[u8], piece: usize) -> Outcome {
    let mut outcome = Outcome { output: Vec::new(), events: Vec::new() };
    let (mut start, mut end) = (0, 0);
    while start < stream.len() {
        end = (end + piece).max(start).min(stream.len());
        loop {
            let DecodedPrefix { consumed, meaning: decoded } = session.decode(&stream[start..end]);
            start += consumed;
            assert!(start <= end, "more consumed than there was");
            session.take_output(&mut outcome.output);
            if decoded == Decoded::NeedMore {
                break;
            }
            outcome.events.push(decoded);
            match decoded {
                Decoded::Close(_) => return outcome,
                Decoded::SkipPayload(length) => start += usize::try_from(length).unwrap(),
                Decoded::Command(command) => start += check(&session, &command),
                Decoded::StartTls => return outcome,
                Decoded::NeedMore => unreachable!(),
            }
            end = end.max(start).min(stream.len());
            if start >= stream.len() {
                return outcome;
            }
        }
        if end == stream.len() {
            return outcome;
        }
    }
    outcome
}

/// Checks the guarantees of the session for a command and encodes every reply to it; returns the length of its data.
fn check(session: &Session, command: &super::nbd::Command) -> usize {
    let export = &exports()[command.export];
    assert!(command.offset.checked_add(command.length).is_some_and(|end| end <= export.size));
    let (mut head, mut bytes) = (ReplyHead::new(), Vec::new());
    session.encode_error(command, NbdErrno::Io, &mut bytes);
    let mut data = 0;
    match command.kind {
        CommandKind::Read { .. } => {
            assert!((1..=PAYLOAD_MAX).contains(&command.length));
            session.encode_read_header(command, &mut head);
        }
        CommandKind::Write { .. } => {
            assert!((1..=PAYLOAD_MAX).contains(&command.length) && !export.read_only);
            session.encode_done(command, &mut head);
            data = usize::try_from(command.length).unwrap();
        }
        CommandKind::BlockStatus { .. } => {
            let extents = [StatusExtent { length: u64::MAX, hole: true, zero: false }; 3];
            session.encode_block_status(command, &extents, &mut bytes);
            session.encode_block_status(command, &[], &mut bytes);
        }
        CommandKind::Trim { .. } | CommandKind::WriteZeroes { .. } => {
            assert!(!export.read_only && command.length > 0);
            session.encode_done(command, &mut head);
        }
        CommandKind::Flush | CommandKind::Cache => session.encode_done(command, &mut head),
    }
    data
}

fn exports() -> Arc<[ExportInfo]> {
    let disk = ExportInfo {
        name: "disk".to_owned(),
        description: "a disk".to_owned(),
        size: 8 << 30,
        read_only: false,
        rotational: false,
        is_default: true,
    };
    let archive = ExportInfo {
        name: "archive".to_owned(),
        is_default: false,
        read_only: true,
        rotational: true,
        ..disk.clone()
    };
    Arc::new([disk, archive])
}

/// A session in the transmission phase: bits 0 and 1 choose the form of headers, bit 2 the export.
fn agreed(choice: u8) -> Session {
    let name: &[u8] = if choice & 4 == 0 { b"disk" } else { b"archive" };
    let mut counted_name = u32::try_from(name.len()).unwrap().to_be_bytes().to_vec();
    counted_name.extend_from_slice(name);
    let mut stream = 3_u32.to_be_bytes().to_vec();
    match choice & 3 {
        0 => {}
        1 => put_option(&mut stream, 8, &[]),
        _ => put_option(&mut stream, 11, &[]),
    }
    if choice & 3 != 0 {
        let query =
            [&counted_name[..], &1_u32.to_be_bytes(), &15_u32.to_be_bytes(), b"base:allocation"].concat();
        put_option(&mut stream, 10, &query);
    }
    put_option(&mut stream, 7, &[&counted_name[..], &[0, 0]].concat());
    let mut session = Session::new(exports());
    assert_eq!(session.decode(&stream), DecodedPrefix { consumed: stream.len(), meaning: Decoded::NeedMore });
    assert!(session.is_transmission());
    session.take_output(&mut Vec::new());
    session
}

fn put_option(stream: &mut Vec<u8>, option: u32, data: &[u8]) {
    stream.extend_from_slice(b"IHAVEOPT");
    stream.extend_from_slice(&option.to_be_bytes());
    stream.extend_from_slice(&u32::try_from(data.len()).unwrap().to_be_bytes());
    stream.extend_from_slice(data);
}
