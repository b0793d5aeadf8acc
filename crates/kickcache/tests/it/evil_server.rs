//! An NBD server that misbehaves on order of a test.

use std::fs;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::Duration;

use crate::scratch::Scratch;

/// A read at this byte kills the server, if the test requests that.
pub(crate) const POISON: u64 = 8 << 20;
/// A start reads at this byte to check the origin, if the block is cached.
pub(crate) const SAMPLED: u64 = 256 << 10;
/// After a read of [`POISON`].
const DIES_AFTER: Duration = Duration::from_millis(50);

const OPTION_GO: u32 = 7;
const REPLY_ACK: u32 = 1;
const REPLY_INFO: u32 = 3;
const REPLY_UNSUPPORTED: u32 = 0x8000_0001;
const READ: u16 = 0;
const WRITE: u16 = 1;
const DISCONNECT: u16 = 2;
const ESHUTDOWN: u8 = 108;
/// Has flags, has flush.
const EXPORT_FLAGS: u16 = 5;

/// Its disk is zeroes, and it drops writes.
pub(crate) struct EvilServer {
    shared: Arc<Shared>,
    socket: PathBuf,
}

struct Shared {
    size: u64,
    connections: Mutex<Vec<UnixStream>>,
    accepted: AtomicU64,
    is_mute: AtomicBool,
    /// Whether the next request gets the error of a server that shuts down.
    is_shutting_down: AtomicBool,
    /// The barrier at which the server waits for other servers before it answers a read of [`SAMPLED`].
    meeting: Mutex<Option<Arc<Barrier>>>,
}

impl EvilServer {
    pub(crate) fn start(scratch: &Scratch, name: &str, size: u64) -> EvilServer {
        let socket = scratch.path(name);
        let _ = fs::remove_file(&socket);
        let listener = UnixListener::bind(&socket).unwrap();
        let shared = Shared {
            size,
            connections: Mutex::default(),
            accepted: AtomicU64::new(0),
            is_mute: AtomicBool::new(false),
            is_shutting_down: AtomicBool::new(false),
            meeting: Mutex::default(),
        };
        let shared = Arc::new(shared);
        let serving = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let serving = Arc::clone(&serving);
                // The tests cause the end of a connection on purpose.
                thread::spawn(move || drop(serving.serve(stream)));
            }
        });
        EvilServer { shared, socket }
    }

    pub(crate) fn uri(&self) -> PathBuf {
        format!("nbd+unix:///?socket={}", self.socket.display()).into()
    }

    pub(crate) fn accepted(&self) -> u64 {
        self.shared.accepted.load(Ordering::Relaxed)
    }

    /// Answers the next request as a server that shuts down; later connections are served.
    pub(crate) fn shut_down(&self) {
        self.shared.is_shutting_down.store(true, Ordering::Relaxed);
    }

    /// Whether no request has come since [`EvilServer::shut_down`].
    pub(crate) fn is_shutting_down(&self) -> bool {
        self.shared.is_shutting_down.load(Ordering::Relaxed)
    }

    /// From now on the server accepts connections and does not respond.
    pub(crate) fn hang(&self) {
        self.shared.is_mute.store(true, Ordering::Relaxed);
    }

    /// Answers the next read of [`SAMPLED`] when all servers at the barrier have received such a read.
    pub(crate) fn answer_with(&self, others: &Arc<Barrier>) {
        *self.shared.meeting.lock().unwrap() = Some(Arc::clone(others));
    }

    pub(crate) fn is_waiting(&self) -> bool {
        self.shared.meeting.lock().unwrap().is_some()
    }

    pub(crate) fn crash(&self) {
        self.shared.crash();
    }
}

impl Shared {
    fn crash(&self) {
        for stream in self.connections.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    fn serve(self: &Arc<Shared>, mut stream: UnixStream) -> io::Result<()> {
        self.accepted.fetch_add(1, Ordering::Relaxed);
        self.connections.lock().unwrap().push(stream.try_clone()?);
        if self.is_mute.load(Ordering::Relaxed) {
            return stream.read_exact(&mut [0]);
        }
        self.greet(&mut stream)?;
        loop {
            let mut request = [0; 28];
            stream.read_exact(&mut request)?;
            let command = u16::from_be_bytes(request[6..8].try_into().unwrap());
            let offset = u64::from_be_bytes(request[16..24].try_into().unwrap());
            let length = u32::from_be_bytes(request[24..28].try_into().unwrap());
            let mut data = vec![0; if command == READ || command == WRITE { length as usize } else { 0 }];
            let mut errno = 0;
            match command {
                DISCONNECT => return Ok(()),
                WRITE => stream.read_exact(&mut data)?,
                READ if (offset..offset + u64::from(length)).contains(&POISON) => {
                    let dying = Arc::clone(self);
                    thread::spawn(move || {
                        thread::sleep(DIES_AFTER);
                        dying.crash();
                    });
                    continue;
                }
                READ if offset == SAMPLED => {
                    let meeting = self.meeting.lock().unwrap().take();
                    if let Some(others) = meeting {
                        others.wait();
                    }
                }
                _ => {}
            }
            if self.is_shutting_down.swap(false, Ordering::Relaxed) {
                errno = ESHUTDOWN;
            }
            let mut reply = 0x6744_6698_u32.to_be_bytes().to_vec();
            reply.extend([0, 0, 0, errno]);
            reply.extend(&request[8..16]);
            if command == READ && errno == 0 {
                reply.extend(data);
            }
            stream.write_all(&reply)?;
        }
    }

    /// Supports only `NBD_OPT_GO`.
    fn greet(&self, stream: &mut UnixStream) -> io::Result<()> {
        stream.write_all(b"NBDMAGICIHAVEOPT\0\x03")?;
        stream.read_exact(&mut [0; 4])?;
        loop {
            let mut option = [0; 16];
            stream.read_exact(&mut option)?;
            let (number, length) = (&option[8..12], u32::from_be_bytes(option[12..16].try_into().unwrap()));
            stream.read_exact(&mut vec![0; length as usize])?;
            let mut reply = |kind: u32, data: &[u8]| {
                let mut bytes = 0x0003_e889_0455_65a9_u64.to_be_bytes().to_vec();
                bytes.extend(number);
                bytes.extend(kind.to_be_bytes());
                bytes.extend(u32::try_from(data.len()).unwrap().to_be_bytes());
                bytes.extend(data);
                stream.write_all(&bytes)
            };
            if number == OPTION_GO.to_be_bytes() {
                let export = [&[0, 0][..], &self.size.to_be_bytes(), &EXPORT_FLAGS.to_be_bytes()].concat();
                reply(REPLY_INFO, &export)?;
                return reply(REPLY_ACK, &[]);
            }
            reply(REPLY_UNSUPPORTED, &[])?;
        }
    }
}
