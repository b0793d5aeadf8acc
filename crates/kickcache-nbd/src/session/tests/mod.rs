use proptest::prelude::*;

use super::*;
use crate::command::CommandKind;
use crate::decoded_prefix::DecodedPrefix;
use crate::wire::*;

mod corpus;
mod handshake;
mod tls;
mod transmission;

const SIZE: u64 = 1 << 30;

fn exports() -> Arc<[ExportInfo]> {
    let disk = ExportInfo {
        name: "disk".to_owned(),
        is_default: true,
        description: "a disk".to_owned(),
        size: SIZE,
        read_only: false,
        rotational: false,
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

#[derive(Clone, Default)]
struct Stream(Vec<u8>);

impl Stream {
    fn flags(flags: u32) -> Stream {
        Stream(flags.to_be_bytes().to_vec())
    }

    fn option(mut self, option: u32, data: &[u8]) -> Stream {
        self.0.put_u64(MAGIC_OPTION);
        self.0.put_u32(option);
        self.0.put_u32(length_u32(data.len()));
        self.0.put(data);
        self
    }

    fn request(mut self, kind: u16, flags: u16, offset: u64, length: u32) -> Stream {
        self.0.put_u32(MAGIC_REQUEST);
        self.0.put_u16(flags);
        self.0.put_u16(kind);
        self.0.put_u64(COOKIE);
        self.0.put_u64(offset);
        self.0.put_u32(length);
        self
    }

    fn extended(mut self, kind: u16, flags: u16, offset: u64, length: u64) -> Stream {
        self.0.put_u32(MAGIC_REQUEST_EXTENDED);
        self.0.put_u16(flags);
        self.0.put_u16(kind);
        self.0.put_u64(COOKIE);
        self.0.put_u64(offset);
        self.0.put_u64(length);
        self
    }
}

const COOKIE: u64 = 0xc00c_1e00_c00c_1e00;

fn string(text: &str) -> Vec<u8> {
    let mut bytes = length_u32(text.len()).to_be_bytes().to_vec();
    bytes.put(text.as_bytes());
    bytes
}

fn go_data(name: &str, items: &[u16]) -> Vec<u8> {
    let mut data = string(name);
    data.put_u16(u16::try_from(items.len()).unwrap());
    items.iter().for_each(|&item| data.put_u16(item));
    data
}

fn context_data(name: &str, queries: &[&str]) -> Vec<u8> {
    let mut data = string(name);
    data.put_u32(length_u32(queries.len()));
    queries.iter().for_each(|query| data.put(&string(query)));
    data
}

#[derive(PartialEq, Debug)]
struct Outcome {
    output: Vec<u8>,
    events: Vec<Decoded>,
}

/// Feeds the stream in pieces; takes out data of writes and skipped data as the serve loop does.
fn feed(session: &mut Session, stream: &[u8], piece: usize) -> Outcome {
    let mut outcome = Outcome { output: Vec::new(), events: Vec::new() };
    let (mut unread, mut skip) = (Vec::new(), 0);
    for bytes in stream.chunks(piece) {
        unread.extend_from_slice(bytes);
        loop {
            let skipped = skip.min(unread.len());
            unread.drain(..skipped);
            skip -= skipped;
            if skip > 0 {
                break;
            }
            let DecodedPrefix { consumed, meaning: decoded } = session.decode(&unread);
            unread.drain(..consumed);
            session.take_output(&mut outcome.output);
            if decoded == Decoded::NeedMore {
                break;
            }
            outcome.events.push(decoded);
            match decoded {
                Decoded::Close(_) => return outcome,
                Decoded::SkipPayload(length) => skip = usize::try_from(length).unwrap(),
                Decoded::Command(Command { kind: CommandKind::Write { .. }, length, .. }) => {
                    skip = usize::try_from(length).unwrap();
                }
                Decoded::StartTls => return outcome,
                Decoded::Command(_) | Decoded::NeedMore => {}
            }
        }
    }
    outcome
}

/// Feeds a new session, whole and byte by byte, and expects the same; the greeting is cut off the output.
fn run(stream: &Stream) -> (Session, Outcome) {
    let mut session = Session::new(exports());
    let mut whole = feed(&mut session, &stream.0, stream.0.len());
    let bytewise = feed(&mut Session::new(exports()), &stream.0, 1);
    assert_eq!(whole, bytewise, "the same bytes mean the same in any pieces");
    assert_eq!(whole.output.drain(..18).as_slice(), b"NBDMAGICIHAVEOPT\0\x03");
    (session, whole)
}
