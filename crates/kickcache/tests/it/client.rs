//! A minimal NBD client with simple replies, independent of the product's codec.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
pub(crate) const REQUEST_MAGIC: u32 = 0x2560_9513;
const REPLY_MAGIC: u32 = 0x6744_6698;

pub(crate) const READ: u16 = 0;
pub(crate) const WRITE: u16 = 1;
pub(crate) const FLUSH: u16 = 3;
pub(crate) const TRIM: u16 = 4;
pub(crate) const CACHE: u16 = 5;
pub(crate) const WRITE_ZEROES: u16 = 6;
pub(crate) const FUA: u16 = 1;
pub(crate) const NO_HOLE: u16 = 2;

pub(crate) const EPERM: u32 = 1;
pub(crate) const EINVAL: u32 = 22;
pub(crate) const ENOSPC: u32 = 28;
pub(crate) const ESHUTDOWN: u32 = 108;

/// For a server's answer.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, Default)]
pub(crate) struct Request {
    pub(crate) command: u16,
    pub(crate) flags: u16,
    pub(crate) offset: u64,
    pub(crate) length: u32,
}

impl Request {
    pub(crate) fn encode(self, handle: u64) -> Vec<u8> {
        let mut bytes = REQUEST_MAGIC.to_be_bytes().to_vec();
        bytes.extend(self.flags.to_be_bytes());
        bytes.extend(self.command.to_be_bytes());
        bytes.extend(handle.to_be_bytes());
        bytes.extend(self.offset.to_be_bytes());
        bytes.extend(self.length.to_be_bytes());
        bytes
    }
}

/// `errno` 0 is success.
pub(crate) struct Reply {
    pub(crate) handle: u64,
    pub(crate) errno: u32,
    pub(crate) data: Vec<u8>,
}

pub(crate) struct Client {
    stream: UnixStream,
    pub(crate) size: u64,
    pub(crate) flags: u16,
    handle: u64,
    reads: HashMap<u64, u32>,
}

impl Client {
    pub(crate) fn connect(socket: &Path, name: &str) -> io::Result<Client> {
        let mut stream = greet(socket)?;
        stream.write_all(&3_u32.to_be_bytes())?;
        let mut data = u32::try_from(name.len()).unwrap().to_be_bytes().to_vec();
        data.extend(name.as_bytes());
        data.extend([0, 0]);
        stream.write_all(&option(7, &data))?;
        let (size, flags) = read_info(&mut stream)?;
        Ok(Client { stream, size, flags, handle: 0, reads: HashMap::new() })
    }

    pub(crate) fn send(&mut self, request: Request, payload: &[u8]) -> io::Result<u64> {
        self.handle += 1;
        let mut bytes = request.encode(self.handle);
        bytes.extend(payload);
        self.stream.write_all(&bytes)?;
        if request.command == READ {
            self.reads.insert(self.handle, request.length);
        }
        Ok(self.handle)
    }

    /// Waits for any reply.
    pub(crate) fn receive(&mut self) -> io::Result<Reply> {
        let mut header = [0; 16];
        self.stream.read_exact(&mut header)?;
        if header[..4] != REPLY_MAGIC.to_be_bytes() {
            return Err(io::Error::other(format!("no reply: {header:x?}")));
        }
        let errno = u32::from_be_bytes(header[4..8].try_into().unwrap());
        let handle = u64::from_be_bytes(header[8..].try_into().unwrap());
        let length = self.reads.remove(&handle).filter(|_| errno == 0).unwrap_or(0);
        let mut data = vec![0; usize::try_from(length).unwrap()];
        self.stream.read_exact(&mut data)?;
        Ok(Reply { handle, errno, data })
    }

    /// One request and its reply.
    pub(crate) fn call(&mut self, request: Request, payload: &[u8]) -> io::Result<Reply> {
        let handle = self.send(request, payload)?;
        let reply = self.receive()?;
        assert_eq!(reply.handle, handle, "a reply to another request");
        Ok(reply)
    }

    fn must(&mut self, request: Request, payload: &[u8]) -> Vec<u8> {
        let Request { command, offset, length, .. } = request;
        let reply = self.call(request, payload);
        let reply = reply.unwrap_or_else(|error| panic!("command {command} at {offset}+{length}: {error}"));
        assert_eq!(reply.errno, 0, "error of command {command} at {offset}+{length}");
        reply.data
    }

    pub(crate) fn read(&mut self, offset: u64, length: u32) -> Vec<u8> {
        self.must(Request { command: READ, flags: 0, offset, length }, &[])
    }

    pub(crate) fn write(&mut self, offset: u64, data: &[u8]) {
        let length = u32::try_from(data.len()).unwrap();
        self.must(Request { command: WRITE, flags: 0, offset, length }, data);
    }

    pub(crate) fn flush(&mut self) {
        self.must(Request { command: FLUSH, ..Request::default() }, &[]);
    }

    pub(crate) fn trim(&mut self, offset: u64, length: u32) {
        self.must(Request { command: TRIM, flags: 0, offset, length }, &[]);
    }

    pub(crate) fn zero(&mut self, offset: u64, length: u32, flags: u16) {
        self.must(Request { command: WRITE_ZEROES, flags, offset, length }, &[]);
    }

    pub(crate) fn promote(&mut self, offset: u64, length: u32) {
        self.must(Request { command: CACHE, flags: 0, offset, length }, &[]);
    }

    pub(crate) fn stream(&self) -> &UnixStream {
        &self.stream
    }
}

/// The client's flags are not sent yet.
pub(crate) fn greet(socket: &Path) -> io::Result<UnixStream> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut greeting = [0; 18];
    stream.read_exact(&mut greeting)?;
    if &greeting[..16] != b"NBDMAGICIHAVEOPT" {
        return Err(io::Error::other(format!("no NBD server: {greeting:x?}")));
    }
    Ok(stream)
}

pub(crate) fn option(number: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = OPTION_MAGIC.to_be_bytes().to_vec();
    bytes.extend(number.to_be_bytes());
    bytes.extend(u32::try_from(data.len()).unwrap().to_be_bytes());
    bytes.extend(data);
    bytes
}

/// The type and the data of an option reply.
pub(crate) fn option_reply(stream: &mut UnixStream) -> io::Result<(u32, Vec<u8>)> {
    let mut header = [0; 20];
    stream.read_exact(&mut header)?;
    if header[..8] != OPTION_REPLY_MAGIC.to_be_bytes() {
        return Err(io::Error::other(format!("no option reply: {header:x?}")));
    }
    let kind = u32::from_be_bytes(header[12..16].try_into().unwrap());
    let length = u32::from_be_bytes(header[16..20].try_into().unwrap());
    let mut data = vec![0; usize::try_from(length).unwrap()];
    stream.read_exact(&mut data)?;
    Ok((kind, data))
}

/// The export's size and flags, from the replies to GO.
fn read_info(stream: &mut UnixStream) -> io::Result<(u64, u16)> {
    let mut export = None;
    loop {
        let (kind, data) = option_reply(stream)?;
        match kind {
            1 => {
                return export.ok_or_else(|| io::Error::other("GO was acknowledged without NBD_INFO_EXPORT"));
            }
            3 if data.starts_with(&[0, 0]) && data.len() == 12 => {
                let size = u64::from_be_bytes(data[2..10].try_into().unwrap());
                export = Some((size, u16::from_be_bytes(data[10..].try_into().unwrap())));
            }
            3 => {}
            _ => {
                let text = String::from_utf8_lossy(&data);
                return Err(io::Error::other(format!("GO was refused: {kind:#x} {text}")));
            }
        }
    }
}
