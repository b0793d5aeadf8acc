//! Clients that break the protocol or behave badly.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use crate::client::{
    self, Client, EINVAL, ENOSPC, EPERM, FLUSH, FUA, READ, REQUEST_MAGIC, Request, TRIM, WRITE, WRITE_ZEROES,
    greet, option, option_reply,
};
use crate::daemon::{Daemon, Spec, VOLUME, is_stand_in};
use crate::need_kickcache;
use crate::scratch::{MIB, Scratch};

const VOLUME_BYTES: u64 = 64 * MIB;

const EXPORT_NAME: u32 = 1;
const ABORT: u32 = 2;
const LIST: u32 = 3;
const STARTTLS: u32 = 5;
const INFO: u32 = 6;
const GO: u32 = 7;
const STRUCTURED_REPLY: u32 = 8;
const LIST_META_CONTEXT: u32 = 9;
const SET_META_CONTEXT: u32 = 10;

const ACK: u32 = 1;
const ERR_UNSUP: u32 = 0x8000_0001;
const ERR_POLICY: u32 = 0x8000_0002;
const ERR_INVALID: u32 = 0x8000_0003;
const ERR_UNKNOWN: u32 = 0x8000_0006;
const ERR_TOO_BIG: u32 = 0x8000_0009;

/// A daemon, and a client that connected before the bad one.
struct Witness {
    daemon: Daemon,
    client: Client,
    _scratch: Scratch,
}

impl Witness {
    fn new() -> Witness {
        let scratch = Scratch::new();
        let origin = scratch.sparse("origin", VOLUME_BYTES);
        let daemon = Spec::new(&scratch, &origin, "write-back", "16M").start();
        let mut client = daemon.connect();
        client.write(0, &[0x11; 4096]);
        Witness { daemon, client, _scratch: scratch }
    }

    fn check(&mut self, after: &str) {
        assert!(self.daemon.is_alive(), "the daemon died after {after}:\n{}", self.daemon.log());
        for data in [self.client.read(0, 4096), self.daemon.connect().read(0, 4096)] {
            assert_eq!(data, vec![0x11; 4096], "after {after}");
        }
    }

    /// A connection after the greeting and the client's flags.
    fn raw(&self, flags: u32) -> UnixStream {
        let mut stream = greet(&self.daemon.spec.socket()).unwrap();
        stream.write_all(&flags.to_be_bytes()).unwrap();
        stream
    }

    fn finish(self) {
        drop(self.client);
        self.daemon.stop();
    }
}

/// Returns the type of the last reply.
fn negotiate(stream: &mut UnixStream, number: u32, data: &[u8]) -> io::Result<u32> {
    stream.write_all(&option(number, data))?;
    loop {
        let (kind, _) = option_reply(stream)?;
        if kind == ACK || kind >= 0x8000_0000 {
            return Ok(kind);
        }
    }
}

fn go(name: &str) -> Vec<u8> {
    let mut data = u32::try_from(name.len()).unwrap().to_be_bytes().to_vec();
    data.extend(name.as_bytes());
    data.extend([0, 0]);
    data
}

fn expect_close(stream: &mut UnixStream, within: Duration, after: &str) {
    let start = Instant::now();
    stream.set_read_timeout(Some(within)).unwrap();
    let mut buffer = [0; 4096];
    while start.elapsed() < within {
        match stream.read(&mut buffer) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return,
            Err(error) => panic!("after {after}: {error}"),
        }
    }
    panic!("after {after} the server keeps the connection");
}

#[test]
fn options_are_answered_or_refused_without_losing_step() {
    let mut witness = Witness::new();
    let mut stream = witness.raw(3);
    let mut overlong = go(VOLUME);
    overlong[..4].copy_from_slice(&1000_u32.to_be_bytes());
    let mut requests_missing = go(VOLUME);
    let end = requests_missing.len();
    requests_missing[end - 2..].copy_from_slice(&9_u16.to_be_bytes());
    let cases: [(&str, u32, &[u8], &[u32]); 15] = [
        ("an unknown option", 0x7777, b"some data", &[ERR_UNSUP]),
        ("an unknown option without data", 4, b"", &[ERR_UNSUP]),
        ("STARTTLS", STARTTLS, b"", &[ERR_POLICY, ERR_UNSUP]),
        ("LIST with data", LIST, b"x", &[ERR_INVALID]),
        ("STRUCTURED_REPLY with data", STRUCTURED_REPLY, b"x", &[ERR_INVALID]),
        (
            "SET_META_CONTEXT before structured replies",
            SET_META_CONTEXT,
            &meta("base:allocation"),
            &[ERR_INVALID],
        ),
        ("GO without data", GO, b"", &[ERR_INVALID]),
        ("GO with two bytes", GO, b"ab", &[ERR_INVALID]),
        ("GO with a name longer than its data", GO, &overlong, &[ERR_INVALID]),
        ("INFO with fewer requests than announced", INFO, &requests_missing, &[ERR_INVALID]),
        ("GO to a name that is not there", GO, &go("nobody"), &[ERR_UNKNOWN]),
        (
            "INFO of a name that is no UTF-8",
            INFO,
            &[0, 0, 0, 2, 0xff, 0xfe, 0, 0],
            &[ERR_UNKNOWN, ERR_INVALID],
        ),
        ("LIST", LIST, b"", &[ACK]),
        ("INFO", INFO, &go(VOLUME), &[ACK]),
        ("GO", GO, &go(VOLUME), &[ACK]),
    ];
    for (what, number, data, expected) in cases {
        let kind = negotiate(&mut stream, number, data).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(expected.contains(&kind), "{what} was answered with {kind:#x}");
    }
    witness.check("odd options");
    witness.finish();
}

fn meta(query: &str) -> Vec<u8> {
    let mut data = go(VOLUME);
    data.truncate(data.len() - 2);
    data.extend(1_u32.to_be_bytes());
    data.extend(u32::try_from(query.len()).unwrap().to_be_bytes());
    data.extend(query.as_bytes());
    data
}

#[test]
fn meta_context_options_are_bounded() {
    let mut witness = Witness::new();
    let mut stream = witness.raw(3);
    assert_eq!(negotiate(&mut stream, STRUCTURED_REPLY, b"").unwrap(), ACK);
    let mut many = meta("base:allocation");
    let count_at = 4 + VOLUME.len();
    many[count_at..count_at + 4].copy_from_slice(&u32::MAX.to_be_bytes());
    let refused = [ERR_INVALID, ERR_TOO_BIG];
    assert!(refused.contains(&negotiate(&mut stream, SET_META_CONTEXT, &many).unwrap()));
    let mut long = meta("base:allocation");
    long[count_at + 4..count_at + 8].copy_from_slice(&0xffff_0000_u32.to_be_bytes());
    assert!(refused.contains(&negotiate(&mut stream, SET_META_CONTEXT, &long).unwrap()));
    assert_eq!(negotiate(&mut stream, LIST_META_CONTEXT, &meta("base:")).unwrap(), ACK);
    assert_eq!(negotiate(&mut stream, SET_META_CONTEXT, &meta("nobody:nothing")).unwrap(), ACK);
    assert_eq!(negotiate(&mut stream, SET_META_CONTEXT, &meta("base:allocation")).unwrap(), ACK);
    witness.check("meta contexts");
    witness.finish();
}

#[test]
fn broken_handshakes_are_dropped() {
    let mut witness = Witness::new();
    let mut huge = option(0x1234, b"");
    huge[12..16].copy_from_slice(&0x8000_0000_u32.to_be_bytes());
    let mut wrong_magic = option(LIST, b"");
    wrong_magic[0] ^= 1;
    let cases: [(&str, u32, &[u8]); 6] = [
        ("client flags all ones", u32::MAX, b""),
        ("an unknown client flag", 0x13, b""),
        ("an option of 2 GiB", 3, &huge),
        ("a wrong option magic", 3, &wrong_magic),
        ("ABORT", 3, &option(ABORT, b"")),
        ("EXPORT_NAME of a name that is not there", 3, &option(EXPORT_NAME, b"nobody")),
    ];
    for (what, flags, bytes) in cases {
        let mut stream = witness.raw(flags);
        let _ = stream.write_all(bytes);
        expect_close(&mut stream, Duration::from_secs(5), what);
        witness.check(what);
    }
    witness.finish();
}

#[test]
fn old_clients_may_use_export_name() {
    let witness = Witness::new();
    for (flags, padding) in [(1_u32, 124), (3, 0)] {
        let mut stream = witness.raw(flags);
        stream.write_all(&option(EXPORT_NAME, VOLUME.as_bytes())).unwrap();
        let mut answer = vec![0; 10 + padding];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(answer[..8], VOLUME_BYTES.to_be_bytes());
        assert!(answer[10..].iter().all(|byte| *byte == 0));
        let request = Request { command: READ, flags: 0, offset: 0, length: 4096 };
        stream.write_all(&request.encode(5)).unwrap();
        let mut reply = vec![0; 16 + 4096];
        stream.read_exact(&mut reply).unwrap();
        assert_eq!(reply[4..8], [0; 4]);
        assert_eq!(reply[16..], [0x11; 4096]);
    }
    witness.finish();
}

#[test]
fn requests_that_make_no_sense_get_an_error_each() {
    let mut witness = Witness::new();
    let end = VOLUME_BYTES;
    let mut bad = witness.daemon.connect();
    let request = |command, flags, offset, length| Request { command, flags, offset, length };
    let cases: [(&str, Request, &[u32]); 17] = [
        ("a read past the end", request(READ, 0, end - 512, 1024), &[EINVAL]),
        ("a read at the end", request(READ, 0, end, 1), &[EINVAL]),
        ("a read that wraps around", request(READ, 0, u64::MAX - 100, 4096), &[EINVAL]),
        ("a read of 64 MiB", request(READ, 0, 0, 64 << 20), &[EINVAL]),
        ("a read of 4 GiB", request(READ, 0, 0, u32::MAX), &[EINVAL]),
        ("a write past the end", request(WRITE, 0, end - 512, 1024), &[ENOSPC, EINVAL]),
        ("a write that wraps around", request(WRITE, 0, u64::MAX - 511, 1024), &[ENOSPC, EINVAL]),
        ("a trim past the end", request(TRIM, 0, end - 512, 1024), &[EINVAL, ENOSPC]),
        ("zeroes past the end", request(WRITE_ZEROES, 0, end - 512, 1024), &[ENOSPC, EINVAL]),
        ("an unknown command", request(77, 0, 0, 4096), &[EINVAL]),
        ("an unknown flag", request(READ, 0x8000, 0, 512), &[EINVAL]),
        ("an unknown flag of a write", request(WRITE, 0x4000, 0, 1024), &[EINVAL]),
        ("block status that was not negotiated", request(7, 0, 0, 4096), &[EINVAL]),
        ("a read of nothing", request(READ, 0, 0, 0), &[0, EINVAL]),
        ("a write of nothing", request(WRITE, 0, 0, 0), &[0, EINVAL]),
        ("FUA on a read", request(READ, FUA, 0, 4096), &[0]),
        ("a read of three bytes", request(READ, 0, 4095, 3), &[0]),
    ];
    for (what, request, expected) in cases {
        let payload = if request.command == WRITE { usize::try_from(request.length).unwrap() } else { 0 };
        let reply = bad.call(request, &vec![0x99; payload]);
        let reply = reply.unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(expected.contains(&reply.errno), "{what} was answered with error {}", reply.errno);
    }
    let flush = bad.call(request(FLUSH, 0, 4096, 4096), &[]).unwrap();
    assert!([0, EINVAL].contains(&flush.errno), "a flush with an offset");
    assert_eq!(bad.read(0, 4096), [0x11; 4096], "a refused write was applied");
    assert_eq!(bad.read(end - 512, 512), [0; 512], "a refused write was applied in part");
    witness.check("bad requests");
    witness.finish();
}

#[test]
fn writes_that_are_too_long_do_not_lose_step() {
    need_kickcache!();
    let mut witness = Witness::new();
    for (what, length, sent) in [("33 MiB", 33_u32 << 20, 33_usize << 20), ("4 GiB", u32::MAX, 1 << 20)] {
        let mut bad = witness.daemon.connect();
        let request = Request { command: WRITE, flags: 0, offset: 0, length };
        let _ = bad.send(request, &vec![0x99; sent]);
        if sent == usize::try_from(length).unwrap() {
            match bad.receive() {
                Ok(reply) => assert!([EINVAL, ENOSPC].contains(&reply.errno), "{what}: {}", reply.errno),
                Err(error) => assert!(is_close(&error), "{what}: {error}"),
            }
        } else {
            let mut stream = bad.stream().try_clone().unwrap();
            let _ = stream.shutdown(std::net::Shutdown::Write);
            expect_close(&mut stream, Duration::from_secs(10), what);
        }
        witness.check(what);
    }
    witness.finish();
}

fn is_close(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    [BrokenPipe, ConnectionReset, UnexpectedEof].contains(&error.kind())
}

#[test]
fn a_wrong_request_magic_ends_the_connection() {
    let mut witness = Witness::new();
    let mut stream = witness.daemon.connect().stream().try_clone().unwrap();
    let mut bytes = Request { command: READ, flags: 0, offset: 0, length: 512 }.encode(1);
    bytes[..4].copy_from_slice(&(REQUEST_MAGIC ^ 1).to_be_bytes());
    stream.write_all(&bytes).unwrap();
    if !is_stand_in() {
        expect_close(&mut stream, Duration::from_secs(5), "a wrong magic");
    }
    witness.check("a wrong magic");
    witness.finish();
}

#[test]
fn noise_on_the_socket_is_survived() {
    let mut witness = Witness::new();
    let mut rng = crate::rng::Rng::new(99);
    for round in 0..60 {
        let count = usize::try_from(rng.between(1, 3000)).unwrap();
        let noise = rng.bytes(count);
        let mut stream = match round % 3 {
            0 => UnixStream::connect(witness.daemon.spec.socket()).unwrap(),
            1 => witness.raw(3),
            _ => witness.daemon.connect().stream().try_clone().unwrap(),
        };
        let _ = stream.write_all(&noise);
    }
    witness.check("noise");
    witness.finish();
}

#[test]
fn a_silent_client_is_dropped() {
    let mut witness = Witness::new();
    let mut silent = greet(&witness.daemon.spec.socket()).unwrap();
    let mut halfway = witness.raw(3);
    halfway.write_all(&option(LIST, b"")[..10]).unwrap();
    expect_close(&mut silent, Duration::from_secs(40), "silence in the handshake");
    expect_close(&mut halfway, Duration::from_secs(20), "half an option");
    witness.check("silent clients");
    witness.finish();
}

#[test]
fn two_hundred_half_open_handshakes_do_not_block_others() {
    let mut witness = Witness::new();
    let socket = witness.daemon.spec.socket();
    let before = witness.daemon.resident_bytes();
    let _half_open: Vec<_> = (0..200).filter_map(|_| UnixStream::connect(&socket).ok()).collect();
    thread::sleep(Duration::from_millis(200));
    assert_eq!(witness.client.read(0, 4096), [0x11; 4096], "the old client");
    let start = Instant::now();
    // A limit on connections may make the new client wait for the handshake deadline.
    while !Client::connect(&socket, VOLUME).is_ok_and(|mut client| client.read(0, 4096) == [0x11; 4096]) {
        assert!(start.elapsed() < Duration::from_secs(30), "a new client is shut out");
        thread::sleep(Duration::from_millis(200));
    }
    let grown = witness.daemon.resident_bytes().saturating_sub(before);
    assert!(grown < 64 * MIB, "200 half-open handshakes cost {grown} bytes");
    witness.check("half-open handshakes");
    witness.finish();
}

#[test]
fn a_client_that_never_reads_replies_costs_little() {
    need_kickcache!();
    let mut witness = Witness::new();
    let before = witness.daemon.resident_bytes();
    let deaf: Vec<_> = (0..8).map(|_| deafen(&witness)).collect();
    for _ in 0..20 {
        witness.check("a deaf client");
        thread::sleep(Duration::from_millis(20));
    }
    let grown = witness.daemon.resident_bytes().saturating_sub(before);
    assert!(grown < 400 * MIB, "eight deaf clients cost {grown} bytes");
    drop(deaf);
    witness.check("deaf clients that left");
    witness.finish();
}

fn deafen(witness: &Witness) -> UnixStream {
    let mut stream = witness.daemon.connect().stream().try_clone().unwrap();
    stream.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
    for handle in 0..4000 {
        let request = Request { command: READ, flags: 0, offset: (handle % 60) << 20, length: 1 << 20 };
        if stream.write_all(&request.encode(handle)).is_err() {
            break;
        }
    }
    stream
}

#[test]
fn a_write_of_a_disconnected_client_is_not_applied() {
    let mut witness = Witness::new();
    witness.client.write(MIB, &[0x22; 1 << 20]);
    witness.client.flush();
    for sent in [0, 1, 4096, 10_000, (1 << 20) - 1] {
        let mut leaver = witness.daemon.connect();
        let request = Request { command: WRITE, flags: 0, offset: MIB, length: 1 << 20 };
        leaver.send(request, &vec![0x33; sent]).unwrap();
        thread::sleep(Duration::from_millis(20));
        drop(leaver);
        for _ in 0..5 {
            let data = witness.client.read(MIB, 1 << 20);
            let changed = data.iter().position(|byte| *byte != 0x22);
            assert_eq!(changed, None, "{sent} bytes of a write were applied");
            thread::sleep(Duration::from_millis(10));
        }
    }
    witness.check("writes cut short");
    witness.finish();
}

#[test]
fn clients_that_leave_requests_in_flight_disturb_no_others() {
    let mut witness = Witness::new();
    for round in 0..40 {
        let mut leaver = witness.daemon.connect();
        for number in 0..32 {
            let offset = 2 * MIB + number * MIB;
            // The replies fit into the socket buffer without being read.
            let (command, length, payload) =
                if number % 2 == 0 { (READ, 8192, vec![]) } else { (WRITE, 65536, vec![1; 65536]) };
            leaver.send(Request { command, flags: 0, offset, length }, &payload).unwrap();
        }
        if round % 2 == 0 {
            leaver.send(Request { command: 2, ..Request::default() }, &[]).unwrap();
        }
    }
    witness.check("clients that left in a hurry");
    witness.finish();
}

#[test]
fn writes_to_a_read_only_export_are_refused() {
    need_kickcache!();
    let scratch = Scratch::new();
    let origin = scratch.random("origin", 16 * MIB, 4);
    let before = std::fs::read(&origin).unwrap();
    let mut spec = Spec::new(&scratch, &origin, "write-through", "16M");
    spec.extra = vec!["--read-only".into()];
    let daemon = spec.start();
    let mut client = daemon.connect();
    assert_eq!(client.flags & 2, 2, "the flag READ_ONLY");
    for command in [WRITE, TRIM, WRITE_ZEROES] {
        let payload = vec![9; if command == WRITE { 4096 } else { 0 }];
        let reply = client.call(Request { command, flags: 0, offset: 0, length: 4096 }, &payload).unwrap();
        assert_eq!(reply.errno, EPERM, "command {command}");
    }
    client.flush();
    assert!(client.read(0, 1 << 20) == before[..1 << 20]);
    let again =
        client.call(Request { command: client::CACHE, flags: 0, offset: 0, length: 4096 }, &[]).unwrap();
    assert_eq!(again.errno, 0, "promotion is no write");
    daemon.stop();
    assert!(std::fs::read(&origin).unwrap() == before, "the origin changed");
}
