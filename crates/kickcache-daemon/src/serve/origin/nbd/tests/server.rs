//! A server whose replies a test decides.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::time::Duration;

use rustix::net::RecvFlags;

pub(super) const READ: u16 = 0;
pub(super) const WRITE: u16 = 1;
const DISCONNECT: u16 = 2;
pub(super) const FLUSH: u16 = 3;
pub(super) const TRIM: u16 = 4;
pub(super) const ZEROES: u16 = 6;

/// Flags of an export.
pub(super) const CAN_FLUSH: u16 = 1 << 2;
pub(super) const CAN_FUA: u16 = 1 << 3;
pub(super) const CAN_TRIM: u16 = 1 << 5;
pub(super) const CAN_ZERO: u16 = 1 << 6;
pub(super) const CAN_MULTI_CONN: u16 = 1 << 8;

const OPTION_GO: u32 = 7;
const REPLY_ACK: u32 = 1;
const REPLY_INFO: u32 = 3;
const REPLY_UNSUPPORTED: u32 = 0x8000_0001;

/// The longest wait for a request.
const PATIENCE: Duration = Duration::from_secs(20);

/// The export of a server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offer {
    pub(super) size: u64,
    /// Without `HAS_FLAGS`.
    pub(super) flags: u16,
    /// The most bytes of a request; `None` if the server does not name them.
    pub(super) most: Option<u32>,
}

pub(super) struct FakeServer {
    directory: tempfile::TempDir,
    listener: UnixListener,
}

impl FakeServer {
    pub(super) fn start() -> FakeServer {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let listener = UnixListener::bind(directory.path().join("s")).unwrap();
        FakeServer { directory, listener }
    }

    pub(super) fn uri(&self) -> String {
        format!("nbd+unix:///?socket={}", self.path().display())
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("s")
    }

    /// The next connection, after its handshake.
    pub(super) fn accept(&self, offer: Offer) -> Connection {
        let (stream, _) = self.listener.accept().unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut connection = Connection(stream);
        connection.greet(offer);
        connection
    }

    /// Whether no connection waits to be accepted.
    pub(super) fn is_left_alone(&self) -> bool {
        self.listener.set_nonblocking(true).unwrap();
        let found = self.listener.accept();
        self.listener.set_nonblocking(false).unwrap();
        found.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    }
}

pub(super) struct Connection(UnixStream);

/// A request that the server received.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct ServerRequest {
    pub(super) kind: u16,
    pub(super) flags: u16,
    pub(super) offset: u64,
    pub(super) length: u32,
    cookie: [u8; 8],
    pub(super) data: Vec<u8>,
}

impl Connection {
    /// A connection that has had its handshake.
    pub(super) fn over(stream: UnixStream) -> Connection {
        Connection(stream)
    }

    /// The next request, if one comes within a few milliseconds.
    pub(super) fn take_soon(&mut self) -> Option<ServerRequest> {
        self.0.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
        let is_there = rustix::net::recv(&self.0, &mut [0; 1], RecvFlags::PEEK).is_ok();
        self.0.set_read_timeout(Some(PATIENCE)).unwrap();
        is_there.then(|| self.take()).flatten()
    }

    fn greet(&mut self, offer: Offer) {
        let Connection(stream) = self;
        stream.write_all(b"NBDMAGICIHAVEOPT\0\x03").unwrap();
        stream.read_exact(&mut [0; 4]).unwrap();
        loop {
            let mut option = [0; 16];
            stream.read_exact(&mut option).unwrap();
            let length = u32::from_be_bytes(option[12..].try_into().unwrap());
            stream.read_exact(&mut vec![0; usize::try_from(length).unwrap()]).unwrap();
            let mut reply = |kind: u32, data: &[u8]| {
                let head =
                    [&0x0003_e889_0455_65a9_u64.to_be_bytes()[..], &option[8..12], &kind.to_be_bytes()];
                let length = u32::try_from(data.len()).unwrap().to_be_bytes();
                stream.write_all(&[&head.concat()[..], &length, data].concat()).unwrap();
            };
            if option[8..12] != OPTION_GO.to_be_bytes() {
                reply(REPLY_UNSUPPORTED, &[]);
                continue;
            }
            let flags = (offer.flags | 1).to_be_bytes();
            reply(REPLY_INFO, &[&[0, 0][..], &offer.size.to_be_bytes(), &flags].concat());
            if let Some(most) = offer.most {
                let sizes = [512_u32, 4096, most].map(u32::to_be_bytes).concat();
                reply(REPLY_INFO, &[&[0, 3][..], &sizes].concat());
            }
            return reply(REPLY_ACK, &[]);
        }
    }

    /// The next request; `None` if the client disconnected.
    pub(super) fn take(&mut self) -> Option<ServerRequest> {
        let mut head = [0; 28];
        if let Err(error) = self.0.read_exact(&mut head) {
            assert_ne!(error.kind(), ErrorKind::WouldBlock, "no request comes");
            return None;
        }
        let short = |at: usize| u16::from_be_bytes(head[at..at + 2].try_into().unwrap());
        let (kind, length) = (short(6), u32::from_be_bytes(head[24..].try_into().unwrap()));
        if kind == DISCONNECT {
            return None;
        }
        let mut data = vec![0; if kind == WRITE { usize::try_from(length).unwrap() } else { 0 }];
        self.0.read_exact(&mut data).unwrap();
        let offset = u64::from_be_bytes(head[16..24].try_into().unwrap());
        let cookie = head[8..16].try_into().unwrap();
        Some(ServerRequest { kind, flags: short(4), offset, length, cookie, data })
    }

    pub(super) fn expect(&mut self, kind: u16) -> ServerRequest {
        let asked = self.take().expect("the connection ended");
        assert_eq!(asked.kind, kind, "{asked:?}");
        asked
    }

    /// Answers a request; a read that succeeds has this byte everywhere.
    pub(super) fn answer(&mut self, asked: &ServerRequest, errno: u8, byte: u8) {
        let mut reply = 0x6744_6698_u32.to_be_bytes().to_vec();
        reply.extend([0, 0, 0, errno]);
        reply.extend(asked.cookie);
        if asked.kind == READ && errno == 0 {
            reply.resize(reply.len() + usize::try_from(asked.length).unwrap(), byte);
        }
        self.0.write_all(&reply).unwrap();
    }

    /// Takes a request of this kind, and answers it with success.
    pub(super) fn serve(&mut self, kind: u16) -> ServerRequest {
        let asked = self.expect(kind);
        self.answer(&asked, 0, 0);
        asked
    }
}
