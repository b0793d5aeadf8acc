//! A server of a few MiB of memory on top of [`Session`]: a thread a connection, blocking.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use tempfile::TempDir;

use crate::{
    Command, CommandKind, Decoded, DecodedPrefix, ExportInfo, NbdErrno, ReplyHead, Session, StatusExtent,
};

pub(super) const SIZE: u64 = 8 << 20;
/// A read that starts here fails.
pub(super) const BAD_OFFSET: u64 = SIZE - 4096;

/// The order in which commands that arrived together are answered.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Arrival,
    Reverse,
}

pub(super) struct ToyServer {
    folder: TempDir,
    disk: Arc<Disk>,
}

struct Disk {
    memory: Mutex<Vec<u8>>,
    /// Whether a client ever sent a request with an extended header.
    extended: AtomicBool,
}

impl Disk {
    fn new() -> Disk {
        let memory = Mutex::new(vec![0; usize::try_from(SIZE).unwrap()]);
        Disk { memory, extended: AtomicBool::new(false) }
    }
}

impl ToyServer {
    pub(super) fn start() -> ToyServer {
        let folder = TempDir::new_in("/var/tmp").unwrap();
        let listener = UnixListener::bind(folder.path().join("socket")).unwrap();
        let disk = Arc::new(Disk::new());
        let server = ToyServer { folder, disk: Arc::clone(&disk) };
        thread::spawn(move || {
            for socket in listener.incoming() {
                let (disk, socket) = (Arc::clone(&disk), socket.unwrap());
                thread::spawn(move || serve(socket, &disk, Order::Arrival));
            }
        });
        server
    }

    pub(super) fn pair(order: Order) -> UnixStream {
        let (ours, theirs) = UnixStream::pair().unwrap();
        thread::spawn(move || serve(ours, &Disk::new(), order));
        theirs
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(super) fn saw_extended_headers(&self) -> bool {
        self.disk.extended.load(Ordering::Relaxed)
    }

    pub(super) fn uri(&self, export: &str) -> String {
        format!("nbd+unix:///{export}?socket={}", self.socket().display())
    }
}

impl Drop for ToyServer {
    fn drop(&mut self) {
        _ = fs::remove_file(self.socket());
    }
}

fn exports() -> Arc<[ExportInfo]> {
    let ram = ExportInfo {
        name: "ram".to_owned(),
        is_default: true,
        description: "a few MiB of memory".to_owned(),
        size: SIZE,
        read_only: false,
        rotational: false,
    };
    Arc::new([ram.clone(), ExportInfo { name: "rom".to_owned(), is_default: false, read_only: true, ..ram }])
}

struct Connection<'a> {
    socket: UnixStream,
    session: Session,
    unread: Vec<u8>,
    waiting: Vec<Command>,
    disk: &'a Disk,
    order: Order,
}

fn serve(socket: UnixStream, disk: &Disk, order: Order) {
    let session = Session::new(exports());
    let mut connection = Connection { socket, session, unread: Vec::new(), waiting: Vec::new(), disk, order };
    _ = connection.run();
}

impl Connection<'_> {
    fn run(&mut self) -> io::Result<()> {
        loop {
            let extended = self.session.is_transmission() && self.unread.starts_with(b"\x21\xe4\x1c\x71");
            self.disk.extended.fetch_or(extended, Ordering::Relaxed);
            let DecodedPrefix { consumed, meaning: decoded } = self.session.decode(&self.unread);
            self.unread.drain(..consumed);
            self.send_output()?;
            match decoded {
                Decoded::NeedMore => {
                    self.answer()?;
                    self.receive()?;
                }
                Decoded::Command(command) => self.on_command(command)?,
                Decoded::SkipPayload(length) => _ = self.take(length)?,
                Decoded::StartTls => unreachable!("it has no TLS"),
                Decoded::Close(_) => return self.answer(),
            }
        }
    }

    fn send_output(&mut self) -> io::Result<()> {
        let mut output = Vec::new();
        self.session.take_output(&mut output);
        self.socket.write_all(&output)
    }

    fn receive(&mut self) -> io::Result<()> {
        let mut buffer = [0; 4096];
        match self.socket.read(&mut buffer)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            count => {
                self.unread.extend_from_slice(&buffer[..count]);
                Ok(())
            }
        }
    }

    fn take(&mut self, length: u64) -> io::Result<Vec<u8>> {
        let length = usize::try_from(length).unwrap();
        while self.unread.len() < length {
            self.receive()?;
        }
        Ok(self.unread.drain(..length).collect())
    }

    fn on_command(&mut self, command: Command) -> io::Result<()> {
        if let CommandKind::Write { .. } = command.kind {
            let data = self.take(command.length)?;
            self.disk.memory.lock().unwrap()[range(&command)].copy_from_slice(&data);
        }
        self.waiting.push(command);
        Ok(())
    }

    fn answer(&mut self) -> io::Result<()> {
        let mut waiting = std::mem::take(&mut self.waiting);
        if self.order == Order::Reverse {
            waiting.reverse();
        }
        waiting.iter().try_for_each(|command| self.reply(command))
    }

    fn reply(&mut self, command: &Command) -> io::Result<()> {
        let mut head = ReplyHead::new();
        let mut bytes = Vec::new();
        let mut memory = self.disk.memory.lock().unwrap();
        match command.kind {
            CommandKind::Read { .. } if command.offset == BAD_OFFSET => {
                self.session.encode_error(command, NbdErrno::Io, &mut bytes);
            }
            CommandKind::Read { .. } => {
                self.session.encode_read_header(command, &mut head);
                bytes.extend_from_slice(&memory[range(command)]);
            }
            CommandKind::BlockStatus { .. } => {
                self.session.encode_block_status(command, &extents(&memory[range(command)]), &mut bytes);
            }
            CommandKind::WriteZeroes { fast: true, .. } => {
                self.session.encode_error(command, NbdErrno::NotSupported, &mut bytes);
            }
            CommandKind::Trim { .. } | CommandKind::WriteZeroes { .. } => {
                memory[range(command)].fill(0);
                self.session.encode_done(command, &mut head);
            }
            CommandKind::Write { .. } | CommandKind::Flush | CommandKind::Cache => {
                self.session.encode_done(command, &mut head);
            }
        }
        drop(memory);
        self.socket.write_all(head.as_slice())?;
        self.socket.write_all(&bytes)
    }
}

fn range(command: &Command) -> std::ops::Range<usize> {
    let start = usize::try_from(command.offset).unwrap();
    start..start + usize::try_from(command.length).unwrap()
}

fn extents(bytes: &[u8]) -> Vec<StatusExtent> {
    let zero = |piece: &[u8]| piece.iter().all(|&byte| byte == 0);
    let extent =
        |piece: &[u8]| StatusExtent { length: piece.len() as u64, hole: zero(piece), zero: zero(piece) };
    bytes.chunks(4096).map(extent).collect()
}
