//! The connections to the server of a remote origin.

use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use kickcache_engine::request::Durability;
use kickcache_engine::units::BLOCK_SIZE;
use kickcache_nbd::PAYLOAD_MAX;
use kickcache_nbd::client::{
    Client, ClientError, ConnectOptions, Fua, Halves, Receiver, RemoteExport, Sender, Zeroes, too_late,
};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};

use super::facts::minimum_block;
use super::job::{OriginJob, Work};
use crate::driver::minimum_block::MinimumBlock;
use crate::plan::address::NbdAddress;
use crate::plan::nbd_uri::NbdUri;
use crate::serve::error::ServeError;
use crate::serve::own_export::Probe;

/// The most connections to a server that allows several.
const LINKS_MAX: usize = 4;
/// The longest wait for each answer of the handshake on a further connection.
const FURTHER_PATIENCE: Duration = Duration::from_secs(1);
/// A TCP connection is closed when the other machine has not responded for about half a minute.
const KEEPALIVE: (Duration, Duration, u32) = (Duration::from_secs(15), Duration::from_secs(5), 3);

pub(super) struct Link {
    pub(super) sender: Sender,
    pub(super) receiver: Receiver,
}

pub(super) struct Links {
    pub(super) links: Vec<Link>,
    pub(super) export: RemoteExport,
    /// The index of the connection of the job that was queued last.
    next: usize,
}

/// One request of a job in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) job: u64,
    /// The offset of the request's bytes within the job.
    pub(super) start: u64,
}

impl Links {
    /// Connects, and waits for at most `patience` for each answer of the handshake.
    pub(super) fn connect(uri: &NbdUri, patience: Duration) -> Result<Links, ClientError> {
        Links::over(dial(uri, patience)?, uri, patience)
    }

    /// Adds connections to a first one, if the server allows several.
    pub(super) fn over(first: Client, uri: &NbdUri, patience: Duration) -> Result<Links, ClientError> {
        let export = first.export();
        let mut clients = vec![first];
        while export.has_multi_conn() && clients.len() < LINKS_MAX {
            let Ok(client) = dial(uri, patience.min(FURTHER_PATIENCE)) else { break };
            if client.export() != export {
                return Err(ClientError::Protocol("two connections see two different exports".into()));
            }
            clients.push(client);
        }
        let links = clients.into_iter().map(Client::split);
        let links = links.map(|Halves { sender, receiver }| Link { sender, receiver }).collect();
        Ok(Links { links, export, next: 0 })
    }

    /// The most bytes that one request may carry.
    pub(super) fn payload_max(&self) -> u64 {
        let told = self.export.block_sizes.map_or(PAYLOAD_MAX, |sizes| u64::from(sizes[2]));
        let unit = self.minimum_block().bytes().max(BLOCK_SIZE);
        (told.min(PAYLOAD_MAX) / unit * unit).max(unit)
    }

    /// The minimum block of the server, which was checked before.
    pub(super) fn minimum_block(&self) -> MinimumBlock {
        minimum_block(&self.export).unwrap_or(MinimumBlock::SECTOR)
    }

    pub(super) fn can_do(&self, work: &Work) -> bool {
        match work {
            Work::Discard(_) => self.export.has_trim(),
            Work::WriteZeroes(..) => self.export.has_write_zeroes(),
            Work::Flush => self.export.has_flush(),
            Work::Extents(_) => self.export.allocation.is_some(),
            Work::Read(_) | Work::Write { .. } => true,
        }
    }

    /// Queues the requests of a job on one connection.
    pub(super) fn queue(
        &mut self,
        number: u64,
        job: &mut OriginJob,
        mut note: impl FnMut(Part) -> u64,
    ) -> Result<(), ClientError> {
        let (payload_max, fua) = (self.payload_max(), self.fua(job.durability));
        self.next = (self.next + 1) % self.links.len();
        let sender = &mut self.links[self.next].sender;
        if let Work::Read(extent) = &job.work {
            job.data.resize(usize::try_from(extent.length).expect("reads fit into memory"), 0);
        }
        for range in job.ranges(payload_max) {
            let cookie = note(Part { job: number, start: range.start });
            let length = range.end - range.start;
            job.parts += 1;
            match &job.work {
                Work::Read(extent) => sender.queue_read(cookie, extent.start + range.start, length)?,
                Work::Write { offset, data } => {
                    let bytes = &data[index(range.start)..index(range.end)];
                    sender.queue_write(cookie, offset + range.start, bytes, fua)?;
                }
                Work::Flush => sender.queue_flush(cookie)?,
                Work::Extents(extent) => {
                    sender.queue_block_status(cookie, extent.start, extent.length)?;
                }
                Work::Discard(extent) => {
                    sender.queue_trim(cookie, extent.start + range.start, length, fua)?;
                }
                Work::WriteZeroes(extent, unmap) => {
                    let zeroes = Zeroes { fua, unmap: *unmap };
                    sender.queue_write_zeroes(cookie, extent.start + range.start, length, zeroes)?;
                }
            }
        }
        Ok(())
    }

    /// Queues the flush that makes a job durable if the server has no FUA; `false` if the job needs none, or the
    /// server cannot flush.
    pub(super) fn queue_flush(
        &mut self,
        number: u64,
        job: &mut OriginJob,
        mut note: impl FnMut(Part) -> u64,
    ) -> Result<bool, ClientError> {
        let is_needed = job.durability == Durability::Durable && !job.is_flushing;
        if !is_needed || self.export.has_fua() || !self.export.has_flush() {
            return Ok(false);
        }
        job.is_flushing = true;
        job.parts += 1;
        self.links[self.next].sender.queue_flush(note(Part { job: number, start: 0 }))?;
        Ok(true)
    }

    fn fua(&self, durability: Durability) -> Fua {
        if durability == Durability::Durable && self.export.has_fua() { Fua::Yes } else { Fua::No }
    }

    /// Sends each server connection a disconnect request, without waiting.
    pub(super) fn leave(self) {
        for Link { mut sender, .. } in self.links {
            // A server that does not receive the request notices the end of the connection.
            let _ = sender.try_disconnect();
        }
    }
}

fn index(offset: u64) -> usize {
    usize::try_from(offset).expect("the bytes are in memory")
}

pub(super) fn dial(uri: &NbdUri, patience: Duration) -> Result<Client, ClientError> {
    dial_export(uri, uri.export(), patience)
}

/// Whether the server is this process.
///
/// # Errors
/// If the system gives no random bytes.
pub(super) fn is_own(uri: &NbdUri, patience: Duration) -> Result<bool, ServeError> {
    if let NbdAddress::Unix(path) = uri.address()
        && connect_unix(path).is_ok_and(|socket| is_listening(&socket))
    {
        return Ok(true);
    }
    let probe = Probe::begin()?;
    drop(dial_export(uri, probe.name(), patience));
    Ok(probe.has_arrived())
}

fn is_listening(socket: &UnixStream) -> bool {
    sockopt::socket_peercred(socket).is_ok_and(|peer| peer.pid == rustix::process::getpid())
}

fn dial_export(uri: &NbdUri, export: &str, patience: Duration) -> Result<Client, ClientError> {
    let options = ConnectOptions {
        export: export.to_owned(),
        tls: uri.client_tls()?,
        structured: true,
        allocation: true,
        timeout: Some(patience),
    };
    match uri.address() {
        NbdAddress::Unix(path) => {
            let socket = connect_unix(path)?;
            socket.set_read_timeout(options.timeout)?;
            socket.set_write_timeout(options.timeout)?;
            Client::from_unix(socket, &options)
        }
        NbdAddress::Tcp { host, port } => {
            let socket = connect_tcp(host, *port, patience)?;
            socket.set_read_timeout(options.timeout)?;
            socket.set_write_timeout(options.timeout)?;
            Client::from_tcp(socket, &options)
        }
    }
}

/// Connects without waiting: a server that accepts no connections would otherwise block the caller for ever.
fn connect_unix(path: &Path) -> io::Result<UnixStream> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    let socket = UnixStream::from(socket);
    socket.set_nonblocking(false)?;
    Ok(socket)
}

fn connect_tcp(host: &str, port: u16, patience: Duration) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, patience) {
            Ok(socket) => {
                socket.set_nodelay(true)?;
                let (idle, interval, count) = KEEPALIVE;
                sockopt::set_socket_keepalive(&socket, true)?;
                sockopt::set_tcp_keepidle(&socket, idle)?;
                sockopt::set_tcp_keepintvl(&socket, interval)?;
                sockopt::set_tcp_keepcnt(&socket, count)?;
                let unacknowledged = idle + interval * count;
                let millis = u32::try_from(unacknowledged.as_millis()).unwrap_or(u32::MAX);
                sockopt::set_tcp_user_timeout(&socket, millis)?;
                return Ok(socket);
            }
            Err(error) if error.kind() == io::ErrorKind::TimedOut => last = too_late(patience),
            Err(error) => last = error,
        }
    }
    Err(last)
}
