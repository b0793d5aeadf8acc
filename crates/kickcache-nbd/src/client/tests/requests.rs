use std::collections::BTreeMap;
use std::io::{self, Write};
use std::thread;
use std::time::Duration;

use super::server::{BAD_OFFSET, SIZE};
use super::*;
use crate::wire::{MAGIC_OPTION_REPLY, MAGIC_SIMPLE_REPLY, MAGIC_STRUCTURED_REPLY, Put, chunk, opt, rep};

fn connect(structured: bool, order: Order) -> Client {
    Client::from_unix(ToyServer::pair(order), &options(structured)).unwrap()
}

fn pattern(length: usize, seed: u8) -> Vec<u8> {
    (0..length).map(|at| u8::try_from(at % 251).unwrap().wrapping_add(seed)).collect()
}

#[test]
fn the_handshake_reports_the_export() {
    for structured in [false, true] {
        let client = connect(structured, Order::Arrival);
        let export = client.export();
        assert_eq!((export.size, export.structured), (SIZE, structured));
        assert_eq!(export.block_sizes, Some([1, 4096, 32 << 20]));
        assert_eq!(export.allocation.is_some(), structured);
        assert!(export.has_flush() && export.has_trim() && export.has_multi_conn() && !export.is_read_only());
        client.disconnect().unwrap();
    }
}

#[test]
fn written_data_is_read_back() {
    for structured in [false, true] {
        let mut client = connect(structured, Order::Arrival);
        let data = pattern(6 << 20, 1);
        client.write_at(3, &data).unwrap();
        client.flush().unwrap();
        let mut found = vec![0; data.len() + 2];
        client.read_at(2, &mut found).unwrap();
        assert!(found == [&[0], &data[..], &[0]].concat());
    }
}

#[test]
fn trimmed_and_zeroed_stretches_are_holes_in_the_block_status() {
    let mut client = connect(true, Order::Arrival);
    client.write_at(0, &pattern(64 << 10, 1)).unwrap();
    client.trim(4096, 8192).unwrap();
    client.write_zeroes(32768, 4096).unwrap();
    let extents = client.block_status(0, 64 << 10).unwrap();
    let lengths: Vec<(u64, bool)> = extents.iter().map(|extent| (extent.length, extent.hole)).collect();
    assert_eq!(lengths, [(4096, false), (8192, true), (20480, false), (4096, true), (28672, false)]);
}

#[test]
fn a_failed_request_leaves_the_connection_usable() {
    for structured in [false, true] {
        let mut client = connect(structured, Order::Arrival);
        let mut buffer = [0; 4096];
        let error = client.read_at(BAD_OFFSET, &mut buffer).unwrap_err();
        assert!(matches!(error, ClientError::Request(NbdErrno::Io)), "{error}");
        let error = client.write_at(SIZE - 1, &[0; 2]).unwrap_err();
        assert!(matches!(error, ClientError::Request(NbdErrno::NoSpace)), "{error}");
        let error = client.block_status(SIZE, 1).unwrap_err();
        assert!(matches!(error, ClientError::Request(NbdErrno::Invalid)), "{error}");
        client.read_at(0, &mut buffer).unwrap();
        client.read_at(0, &mut []).unwrap();
    }
}

#[test]
fn structured_failures_have_a_message() {
    let Halves { mut sender, mut receiver } = connect(true, Order::Arrival).split();
    sender.send_read(1, SIZE, 1).unwrap();
    let reply = receiver.receive().unwrap();
    assert_eq!((reply.cookie, reply.result), (1, Err(NbdErrno::Invalid)));
    assert_eq!(reply.message, "the request exceeds the end of the export");
}

#[test]
fn an_unknown_export_is_refused_with_the_servers_words() {
    let options = ConnectOptions { export: "no".to_owned(), ..options(true) };
    let error = Client::from_unix(ToyServer::pair(Order::Arrival), &options).unwrap_err();
    assert!(error.to_string().contains("the server has no export of this name"), "{error}");
}

#[test]
fn replies_find_their_requests_out_of_order() {
    for structured in [false, true] {
        let Halves { mut sender, mut receiver } = connect(structured, Order::Reverse).split();
        for cookie in 0..16 {
            let data = pattern(4096, u8::try_from(cookie).unwrap());
            sender.queue_write(cookie, cookie * 4096, &data, Fua::Yes).unwrap();
        }
        sender.queue_flush(16).unwrap();
        sender.queue_cache(17, 0, 4096).unwrap();
        sender.send().unwrap();
        (0..18).for_each(|_| assert_eq!(receiver.receive().unwrap().result, Ok(())));
        (0..16).for_each(|cookie| sender.queue_read(cookie, cookie * 4096, 4096).unwrap());
        sender.send().unwrap();
        let mut order = Vec::new();
        for _ in 0..16 {
            let reply = receiver.receive().unwrap();
            assert!(reply.data == pattern(4096, u8::try_from(reply.cookie).unwrap()));
            order.push(reply.cookie);
        }
        assert_ne!(order, (0..16).collect::<Vec<_>>(), "the server answers in reverse");
        assert_eq!(sender.in_flight(), 0);
    }
}

#[test]
fn a_cookie_in_flight_is_not_taken_twice() {
    let Halves { mut sender, mut receiver } = connect(false, Order::Arrival).split();
    sender.queue_flush(5).unwrap();
    assert!(matches!(sender.queue_flush(5), Err(ClientError::CookieInFlight(5))));
    sender.send().unwrap();
    receiver.receive().unwrap();
    sender.queue_flush(5).unwrap();
}

#[test]
fn requests_that_the_wire_cannot_carry_are_turned_down() {
    let Halves { mut sender, receiver: _receiver } = connect(false, Order::Arrival).split();
    assert!(matches!(sender.queue_read(1, 0, PAYLOAD_MAX + 1), Err(ClientError::TooLong(_))));
    assert!(matches!(sender.queue_trim(1, 0, 1 << 32, Fua::No), Err(ClientError::TooLong(_))));
    assert_eq!((sender.in_flight(), sender.queued()), (0, 0));
}

#[test]
fn two_threads_drive_the_halves() {
    let Halves { mut sender, mut receiver } = connect(false, Order::Arrival).split();
    let writer = thread::spawn(move || {
        for cookie in 0..2000_u64 {
            let offset = cookie % 2000 * 4096;
            if cookie % 2 == 0 {
                sender.send_write(cookie, offset, &pattern(4096, 9), Fua::No).unwrap();
            } else {
                sender.send_read(cookie, offset, 4096).unwrap();
            }
        }
        sender
    });
    for _ in 0..2000 {
        let reply = receiver.receive().unwrap();
        assert_eq!(reply.result, Ok(()));
        assert_eq!(reply.data.len(), if reply.cookie % 2 == 0 { 0 } else { 4096 });
    }
    assert_eq!(writer.join().unwrap().in_flight(), 0);
}

#[test]
fn one_loop_drives_the_halves_without_waiting() {
    let Halves { mut sender, mut receiver } = connect(true, Order::Arrival).split();
    let mut seen = BTreeMap::new();
    let mut next = 0;
    while seen.len() < 500 {
        while next < 500 && sender.in_flight() < 64 {
            sender.queue_write(next, next * 4096, &pattern(4096, 1), Fua::No).unwrap();
            next += 1;
        }
        sender.try_send().unwrap();
        while let Some(reply) = receiver.try_receive().unwrap() {
            assert_eq!(seen.insert(reply.cookie, reply.result), None);
        }
        thread::yield_now();
    }
    assert!(seen.values().all(Result::is_ok));
}

fn nonsense(bytes: &[u8], structured: bool) -> Client {
    let (client, mut server) = UnixStream::pair().unwrap();
    let mut handshake = b"NBDMAGICIHAVEOPT\0\x03".to_vec();
    let mut reply = |option: u32, kind: u32, data: &[u8]| {
        handshake.put_u64(MAGIC_OPTION_REPLY);
        handshake.put_u32(option);
        handshake.put_u32(kind);
        handshake.put_u32(u32::try_from(data.len()).unwrap());
        handshake.put(data);
    };
    if structured {
        reply(opt::STRUCTURED_REPLY, rep::ACK, &[]);
        reply(opt::SET_META_CONTEXT, rep::META_CONTEXT, &[0, 0, 0, 1]);
        reply(opt::SET_META_CONTEXT, rep::ACK, &[]);
    }
    reply(opt::GO, rep::INFO, &[0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1]);
    reply(opt::GO, rep::ACK, &[]);
    handshake.put(bytes);
    server.write_all(&handshake).unwrap();
    let client = Client::from_unix(client, &options(structured)).unwrap();
    server.shutdown(std::net::Shutdown::Write).unwrap();
    thread::spawn(move || _ = io::copy(&mut server, &mut io::sink()));
    client
}

fn until_error(client: Client) -> ClientError {
    let Halves { mut sender, mut receiver } = client.split();
    sender.send_read(1, 512, 16).unwrap();
    sender.send_block_status(2, 0, 4096).unwrap();
    loop {
        if let Err(error) = receiver.receive() {
            return error;
        }
    }
}

#[test]
fn a_server_that_hangs_up_is_an_error() {
    let error = until_error(nonsense(&[], false));
    assert!(matches!(error, ClientError::Io(_)), "{error}");
}

#[test]
fn chunks_that_cannot_be_are_protocol_errors() {
    let chunk = |done: u16, kind: u16, cookie: u64, data: &[u8]| {
        let mut bytes = Vec::new();
        bytes.put_u32(MAGIC_STRUCTURED_REPLY);
        bytes.put_u16(done);
        bytes.put_u16(kind);
        bytes.put_u64(cookie);
        bytes.put_u32(u32::try_from(data.len()).unwrap());
        bytes.put(data);
        bytes
    };
    let at = |offset: u64, length: usize| [&offset.to_be_bytes()[..], &vec![7; length]].concat();
    let cases = [
        chunk(1, chunk::OFFSET_DATA, 1, &at(512, 15)),
        chunk(1, chunk::OFFSET_DATA, 1, &at(513, 16)),
        chunk(1, chunk::OFFSET_DATA, 1, &at(511, 16)),
        chunk(0, chunk::OFFSET_DATA, 1, &at(u64::MAX, 16)),
        chunk(1, chunk::OFFSET_DATA, 1, b"short"),
        chunk(1, chunk::OFFSET_HOLE, 1, &[0xff; 12]),
        [chunk(0, chunk::OFFSET_DATA, 1, &at(512, 8)), chunk(1, chunk::OFFSET_DATA, 1, &at(512, 8))].concat(),
        [chunk(0, chunk::OFFSET_DATA, 1, &at(512, 16)), chunk(1, chunk::OFFSET_DATA, 1, &at(516, 4))]
            .concat(),
        chunk(1, chunk::NONE, 1, &[]),
        chunk(1, chunk::NONE, 3, &[]),
        chunk(1, chunk::BLOCK_STATUS, 2, &[0, 0, 0, 2]),
        chunk(1, chunk::BLOCK_STATUS, 2, &[0, 0, 0, 1, 9]),
        chunk(1, chunk::ERROR, 2, &[0, 0, 0, 5, 0, 9]),
        chunk(1, 4711, 2, &[]),
        b"\x67\x44\x66\x98\0\0\0\0\0\0\0\0\0\0\0\x01".to_vec(),
        [&b"\x66\x8e\x33\xef\0\x01\0\x01\0\0\0\0\0\0\0\x01"[..], &[0xff; 4]].concat(),
    ];
    for (number, case) in cases.iter().enumerate() {
        let error = until_error(nonsense(case, true));
        assert!(matches!(error, ClientError::Protocol(_)), "case {number}: {error}");
    }
}

#[test]
fn a_read_in_pieces_and_holes_is_put_together() {
    let mut bytes = Vec::new();
    for (done, kind, data) in [
        (0, chunk::OFFSET_DATA, &b"\0\0\0\0\0\0\x02\x0csame"[..]),
        (0, chunk::OFFSET_HOLE, &b"\0\0\0\0\0\0\x02\x04\0\0\0\x08"[..]),
        (1, chunk::OFFSET_DATA, &b"\0\0\0\0\0\0\x02\0data"[..]),
    ] {
        bytes.put_u32(MAGIC_STRUCTURED_REPLY);
        bytes.put_u16(done);
        bytes.put_u16(kind);
        bytes.put_u64(1);
        bytes.put_u32(u32::try_from(data.len()).unwrap());
        bytes.put(data);
    }
    let mut buffer = [1; 16];
    nonsense(&bytes, true).read_at(512, &mut buffer).unwrap();
    assert_eq!(&buffer, b"data\0\0\0\0\0\0\0\0same");
}

proptest::proptest! {
    #[test]
    fn random_replies_are_errors_and_no_more(
        mut bytes: Vec<u8>,
        magic in proptest::sample::select(vec![0_u32, MAGIC_SIMPLE_REPLY, MAGIC_STRUCTURED_REPLY]),
        structured: bool,
        cookie in 0_u64..3,
    ) {
        let length = bytes.len();
        if magic != 0 && length >= 20 {
            bytes[..4].copy_from_slice(&magic.to_be_bytes());
            bytes[8..16].copy_from_slice(&cookie.to_be_bytes());
            bytes[4..6].fill(0);
            bytes[16..19].fill(0);
        }
        until_error(nonsense(&bytes, structured));
    }
}

/// The error of a handshake with a server that sends the first bytes once and the others again and again,
/// with a pause after each.
fn endless(first: &'static [u8], again: &'static [u8], pause: Duration) -> ClientError {
    let (client, mut server) = UnixStream::pair().unwrap();
    thread::spawn(move || {
        server.write_all(first)?;
        loop {
            server.write_all(again)?;
            thread::sleep(pause);
        }
        #[expect(unreachable_code, reason = "it tells the type of the error")]
        io::Result::Ok(())
    });
    let options = ConnectOptions { timeout: Some(Duration::from_millis(300)), ..ConnectOptions::default() };
    let (sender, ended) = std::sync::mpsc::channel();
    thread::spawn(move || _ = sender.send(Client::from_unix(client, &options).unwrap_err()));
    ended.recv_timeout(Duration::from_secs(20)).expect("the handshake has no end")
}

#[test]
fn a_handshake_ends_in_time_whatever_the_server_sends() {
    const INFO: &[u8] = b"\0\x03\xe8\x89\x04\x55\x65\xa9\0\0\0\x07\0\0\0\x03\0\0\0\x02\0\x09";
    let greeting = b"NBDMAGICIHAVEOPT\0\x03";
    for error in [
        endless(b"", b"N", Duration::from_secs(3600)),
        endless(greeting, INFO, Duration::ZERO),
        endless(greeting, INFO, Duration::from_millis(50)),
    ] {
        assert!(
            matches!(&error, ClientError::Io(error) if error.kind() == io::ErrorKind::TimedOut),
            "{error:?}"
        );
    }
}

#[test]
fn a_socket_without_a_listener_gives_an_error() {
    let options = ConnectOptions::default();
    assert!(Client::connect_unix("/var/tmp/no such socket", &options).is_err());
    assert!(Client::connect_tcp("127.0.0.1:1", &options).is_err());
}
