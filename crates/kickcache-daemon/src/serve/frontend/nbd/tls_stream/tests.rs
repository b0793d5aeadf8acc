use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use kickcache_random::Random;
use kickcache_tls::rustls::pki_types::CertificateDer;
use kickcache_tls::rustls::pki_types::pem::PemObject;
use kickcache_tls::rustls::version::{TLS12, TLS13};
use kickcache_tls::rustls::{
    AlertDescription, ClientConfig, ClientConnection, Error, RootCertStore, SupportedProtocolVersion,
};
use kickcache_tls::server::{PeerCheck, ServerCertificates};

use super::*;

#[test]
fn a_handshake_may_come_byte_by_byte() {
    for version in [&TLS12, &TLS13] {
        let mut peers = Peers::new(version);
        while peers.client.is_handshaking() || peers.stream.is_handshaking() {
            for byte in peers.client_bytes() {
                peers.say(&[byte]);
                let arrival = peers.receive(&mut []);
                assert_ne!(arrival.received, Received::End);
            }
            peers.flush();
        }
        peers.client.writer().write_all(b"hello").unwrap();
        let bytes = peers.client_bytes();
        peers.say(&bytes);
        peers.receive(&mut []);
        assert_eq!(peers.input.unread(), b"hello");
    }
}

#[test]
fn record_boundaries_do_not_change_the_plaintext() {
    for version in [&TLS12, &TLS13] {
        let mut peers = Peers::connected(version);
        let said: Vec<u8> = (0..318).map(|index| u8::try_from(index % 251).unwrap()).collect();
        let mut cut = 0;
        loop {
            let mut bytes = Vec::new();
            for record in [&said[..1], &said[1..301], &said[301..]] {
                peers.client.writer().write_all(record).unwrap();
                bytes.extend(peers.client_bytes());
            }
            let mut first = vec![0; cut % 330];
            let mut taken = 0;
            for part in [&bytes[..cut], &bytes[cut..]] {
                peers.say(part);
                let arrival = peers.receive(&mut first[taken..]);
                assert_eq!(arrival.received, Received::Drained);
                taken += arrival.taken;
            }
            assert_eq!(taken, first.len().min(said.len()), "{cut}");
            assert_eq!([&first[..taken], peers.input.unread()].concat(), said, "{cut}");
            assert_eq!(peers.stream.held, 0, "{cut}");
            peers.input.consume(said.len() - taken);
            if cut == bytes.len() {
                break;
            }
            cut += 1;
        }
    }
}

#[test]
fn many_records_arrive_in_parts_across_key_updates() {
    let mut random = Random::new(20);
    for version in [&TLS12, &TLS13] {
        let mut peers = Peers::connected(version);
        let mut said = Vec::new();
        let mut bytes = Vec::new();
        for round in 0..60 {
            let longest = if random.chance(500) { RECORD } else { 100 };
            let record: Vec<u8> =
                (0..=random.index(longest)).map(|_| random.next_u64().to_le_bytes()[0]).collect();
            peers.client.writer().write_all(&record).unwrap();
            said.extend(record);
            if round % 20 == 10 && *version == TLS13 {
                peers.client.refresh_traffic_keys().unwrap();
            }
            bytes.extend(peers.client_bytes());
        }
        let mut heard = Vec::new();
        let mut left = &bytes[..];
        while !left.is_empty() {
            let (part, rest) = left.split_at(random.index(RECEIVE).min(left.len()));
            left = rest;
            peers.say(part);
            loop {
                let mut first = vec![0; if random.chance(500) { 0 } else { random.index(40_000) }];
                let arrival = peers.receive(&mut first);
                heard.extend_from_slice(&first[..arrival.taken]);
                heard.extend_from_slice(peers.input.unread());
                peers.input.consume(peers.input.unread().len());
                if arrival.received == Received::Drained {
                    break;
                }
                assert_eq!(arrival.received, Received::More);
            }
        }
        assert!(heard == said, "{} bytes, {} said", heard.len(), said.len());
    }
}

#[test]
fn a_client_gets_gathered_output_and_may_hold_its_batch() {
    let mut random = Random::new(21);
    for version in [&TLS12, &TLS13] {
        let mut peers = Peers::connected(version);
        let lengths = [16, 4096, 16, 1 << 20, 16, RECORD, 0, RECORD - 16, 1, 3 * RECORD + 5, 16];
        let said: Vec<Vec<u8>> =
            lengths.map(|length| (0..length).map(|_| random.next_u64().to_le_bytes()[0]).collect()).into();
        let all = said.concat();
        let mut sent = 0;
        while peers.heard.len() < all.len() {
            if !peers.stream.owes() {
                let mut slices = stretches(&said, sent);
                let count = peers.stream.encrypt(&mut slices);
                assert!(count <= BATCH && (count > 0 || sent == all.len()));
                sent += count;
            }
            assert_ne!(peers.stream.flush(&peers.far), SendProgress::Broken);
            assert_eq!(peers.hear(), None);
            if sent < all.len() && *version == TLS13 {
                peers.client.refresh_traffic_keys().unwrap();
                let bytes = peers.client_bytes();
                peers.say(&bytes);
                peers.receive(&mut []);
            }
        }
        assert!(peers.heard == all);
    }
}

#[test]
fn a_changed_record_ends_the_connection_with_an_alert() {
    let mut peers = Peers::connected(&TLS13);
    peers.client.writer().write_all(b"good").unwrap();
    let mut bytes = peers.client_bytes();
    peers.client.writer().write_all(b"bad").unwrap();
    let more = peers.client_bytes();
    bytes.extend(&more);
    *bytes.last_mut().unwrap() ^= 1;
    peers.say(&bytes);
    assert_eq!(peers.receive(&mut []).received, Received::End);
    assert_eq!(peers.stream.failure(), Some(&Error::DecryptError));
    assert_eq!(peers.input.unread(), b"good");
    assert_eq!(peers.receive(&mut []).received, Received::End);
    peers.stream.say_goodbye(&peers.far);
    assert_eq!(peers.hear(), Some(Error::AlertReceived(AlertDescription::BadRecordMac)));
}

#[test]
fn data_before_a_close_notify_is_delivered() {
    for version in [&TLS12, &TLS13] {
        let mut peers = Peers::connected(version);
        peers.client.writer().write_all(b"the last").unwrap();
        peers.client.send_close_notify();
        let mut bytes = peers.client_bytes();
        bytes.extend(b"ignored");
        peers.say(&bytes);
        assert_eq!(peers.receive(&mut []).received, Received::More);
        assert_eq!(peers.input.unread(), b"the last");
        assert_eq!(peers.receive(&mut []).received, Received::End);
        assert_eq!(peers.stream.failure(), None);
        assert_eq!(peers.stream.encrypt(&mut [IoSlice::new(b"answer")]), 6);
        peers.stream.say_goodbye(&peers.far);
        assert_eq!(peers.hear(), None);
        assert_eq!(peers.heard, b"answer");
        assert!(peers.is_told_of_the_end);
    }
}

#[test]
fn a_message_without_an_end_is_refused() {
    let mut peers = Peers::new(&TLS13);
    // A ClientHello of 60,000 bytes in tiny records.
    let mut bytes = vec![22, 3, 1, 0, 4, 1, 0, 0xea, 0x60];
    (0..RECEIVE).for_each(|_| bytes.extend([22, 3, 1, 0, 1, 0]));
    let received = bytes.chunks(RECEIVE / 2).map(|part| {
        peers.say(part);
        peers.receive(&mut []).received
    });
    assert_eq!(received.take(4).collect::<Vec<_>>().last(), Some(&Received::End));
    assert_eq!(peers.stream.failure(), Some(&Error::General("a message is too long".into())));
    assert!(peers.input.unread().is_empty());
}

struct Peers {
    client: ClientConnection,
    near: UnixStream,
    far: UnixStream,
    stream: TlsStream,
    input: Input,
    heard: Vec<u8>,
    is_told_of_the_end: bool,
}

impl Peers {
    fn new(version: &'static SupportedProtocolVersion) -> Peers {
        let folder = tempfile::tempdir().unwrap();
        certify(folder.path());
        let certificates = ServerCertificates::open(folder.path(), PeerCheck::Off).unwrap();
        let connection = UnbufferedServerConnection::new(certificates.config()).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(folder.path().join("server-cert.pem")).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config =
            ClientConfig::builder_with_provider(provider).with_protocol_versions(&[version]).unwrap();
        let config = config.with_root_certificates(roots).with_no_client_auth();
        let client = ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap();
        let (near, far) = UnixStream::pair().unwrap();
        near.set_nonblocking(true).unwrap();
        let (stream, input) = (TlsStream::new(connection), Input::new());
        Peers { client, near, far, stream, input, heard: Vec::new(), is_told_of_the_end: false }
    }

    fn connected(version: &'static SupportedProtocolVersion) -> Peers {
        let mut peers = Peers::new(version);
        while peers.client.is_handshaking() || peers.stream.is_handshaking() {
            let bytes = peers.client_bytes();
            peers.say(&bytes);
            peers.receive(&mut []);
            peers.flush();
        }
        peers
    }

    fn client_bytes(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        while self.client.wants_write() {
            self.client.write_tls(&mut bytes).unwrap();
        }
        bytes
    }

    fn say(&mut self, bytes: &[u8]) {
        self.near.write_all(bytes).unwrap();
    }

    fn receive(&mut self, first: &mut [u8]) -> Arrival {
        self.stream.receive(&self.far, first, &mut self.input)
    }

    fn flush(&mut self) {
        assert_eq!(self.stream.flush(&self.far), SendProgress::All);
        assert_eq!(self.hear(), None);
    }

    /// Makes the client read the socket; returns its error, if any.
    fn hear(&mut self) -> Option<Error> {
        let mut bytes = vec![0; 2 * BATCH];
        let count = self.near.read(&mut bytes).unwrap_or(0);
        let mut rest = &bytes[..count];
        while !rest.is_empty() {
            self.client.read_tls(&mut rest).unwrap();
            if let Err(error) = self.client.process_new_packets() {
                return Some(error);
            }
            match self.client.reader().read_to_end(&mut self.heard) {
                Ok(_) => self.is_told_of_the_end = true,
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
        }
        None
    }
}

fn certify(folder: &Path) {
    let words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -keyout server-key.pem -out server-cert.pem \
                 -subj /CN=localhost -addext subjectAltName=DNS:localhost -addext basicConstraints=critical,CA:FALSE";
    let output = Command::new("openssl").args(words.split_whitespace()).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn stretches(said: &[Vec<u8>], mut sent: usize) -> Vec<IoSlice<'_>> {
    let mut slices = Vec::new();
    for part in said {
        let skipped = sent.min(part.len());
        sent -= skipped;
        slices.push(IoSlice::new(&part[skipped..]));
    }
    slices
}
