//! Messages between the daemon and its monitor. A request is one message; the monitor returns a socket for
//! the answer, because devices may hang while they are opened.

use std::ffi::OsString;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};

const LENGTH_MAX: usize = 8192;
const HEAD: usize = 5;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Task {
    Look,
    Open(i32),
    /// Open the file to write; create it if it is missing.
    Make,
    Remove,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Request {
    pub(super) task: Task,
    pub(super) path: PathBuf,
}

#[derive(Debug)]
pub(super) enum Answer {
    Opened(OwnedFd),
    Done,
    Failed(i32),
    Refused(String),
}

/// The two ends of a socket pair that keeps message boundaries.
pub(super) struct Ends {
    pub(super) here: OwnedFd,
    pub(super) there: OwnedFd,
}

impl Ends {
    pub(super) fn make() -> io::Result<Ends> {
        let (here, there) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        Ok(Ends { here, there })
    }
}

impl Request {
    /// Sends the request; returns the socket for the answer.
    pub(super) fn send(&self, to: impl AsFd) -> io::Result<OwnedFd> {
        let (task, flags) = match self.task {
            Task::Look => (0, 0),
            Task::Open(flags) => (1, flags),
            Task::Make => (2, 0),
            Task::Remove => (3, 0),
        };
        let mut bytes = vec![task];
        bytes.extend(flags.to_le_bytes());
        bytes.extend(self.path.as_os_str().as_bytes());
        send(to.as_fd(), &bytes, None)?;
        receive(to)?.fd.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    /// The next request; `None` at the end.
    pub(super) fn receive(from: impl AsFd) -> io::Result<Option<Request>> {
        // Descriptors in the message are closed, and not answered on, as they may lead to a process that
        // trusts root.
        let Message { bytes, .. } = receive(from)?;
        if bytes.is_empty() {
            return Ok(None);
        }
        let wrong = || io::Error::from(io::ErrorKind::InvalidData);
        let (head, path) = bytes.split_at_checked(HEAD).ok_or_else(wrong)?;
        let flags = i32::from_le_bytes(head[1..].try_into().map_err(|_| wrong())?);
        let task = match head[0] {
            0 => Task::Look,
            1 => Task::Open(flags),
            2 => Task::Make,
            3 => Task::Remove,
            _ => return Err(wrong()),
        };
        Ok(Some(Request { task, path: OsString::from_vec(path.to_vec()).into() }))
    }
}

pub(super) fn hand_answers(to: impl AsFd) -> io::Result<OwnedFd> {
    let Ends { here, there } = Ends::make()?;
    send(to, &[0], Some(there.as_fd()))?;
    Ok(here)
}

impl Answer {
    pub(super) fn send(&self, to: impl AsFd) -> io::Result<()> {
        match self {
            Answer::Opened(fd) => send(to, &[0], Some(fd.as_fd())),
            Answer::Done => send(to, &[1], None),
            Answer::Failed(number) => send(to, &[&[2][..], &number.to_le_bytes()].concat(), None),
            Answer::Refused(why) => send(to, &[&[3][..], why.as_bytes()].concat(), None),
        }
    }

    pub(super) fn receive(from: impl AsFd) -> io::Result<Answer> {
        let Message { bytes, fd } = receive(from)?;
        let wrong = || io::Error::from(io::ErrorKind::InvalidData);
        let Some((kind, rest)) = bytes.split_first() else { return Err(io::ErrorKind::UnexpectedEof.into()) };
        match (kind, fd) {
            (0, Some(fd)) => Ok(Answer::Opened(fd)),
            (1, None) => Ok(Answer::Done),
            (2, None) => Ok(Answer::Failed(i32::from_le_bytes(rest.try_into().map_err(|_| wrong())?))),
            (3, None) => Ok(Answer::Refused(String::from_utf8_lossy(rest).into_owned())),
            _ => Err(wrong()),
        }
    }
}

struct Message {
    bytes: Vec<u8>,
    fd: Option<OwnedFd>,
}

fn send(to: impl AsFd, bytes: &[u8], fd: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let bytes = bytes.get(..LENGTH_MAX).unwrap_or(bytes);
    let fds: Vec<BorrowedFd<'_>> = fd.into_iter().collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(&fds));
    }
    let sent = rustix::io::retry_on_intr(|| {
        sendmsg(to.as_fd(), &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)
    });
    Ok(sent.map(drop)?)
}

fn receive(from: impl AsFd) -> io::Result<Message> {
    let mut bytes = vec![0; LENGTH_MAX];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = rustix::io::retry_on_intr(|| {
        recvmsg(from.as_fd(), &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::CMSG_CLOEXEC)
    })?;
    if received.flags.contains(ReturnFlags::CTRUNC) {
        // The message had a descriptor, and this process has no free number for it.
        return Err(io::Error::from_raw_os_error(libc::EMFILE));
    }
    bytes.truncate(received.bytes);
    let mut fd = None;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(fds) = message {
            // One descriptor is kept; any others are closed.
            fd = fds.into_iter().next().or(fd);
        }
    }
    Ok(Message { bytes, fd })
}
