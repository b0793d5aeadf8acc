//! The client of the control socket: the requests of commands to a daemon.

use std::io::{self, BufRead, BufReader};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::control::recording_client::RecordingClient;
use crate::control::report::Report;
use crate::control::wire::{
    AddedVolume, Growing, LeftOnCache, LeftOut, REPLY_LINE_MAX, Reloaded, Removed, Replacing, Reply, Request,
    Resized, read_line, write_line,
};
use crate::own_user::own_user;
use crate::plan::address::{AddressError, check_socket_path};
use crate::shell_command::ShellCommand;
use crate::unix_connection::connect_within;

/// The time limit for the steps of a request that have one.
pub const ANSWER_MAX: Duration = Duration::from_secs(10);

/// The reason why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The control socket does not exist, or no process listens at it.
    #[error(
        "no kickcache daemon answers at {}; start one (see `{}`), or name its control socket with --control",
        .0.display(), ShellCommand::new("serve").word("--help")
    )]
    NoDaemon(PathBuf),
    /// The system does not allow this user to connect.
    #[error(
        "{} may not use the socket {}; run this as the user of its daemon, or name a status socket of your group",
        own_user(), .0.display()
    )]
    NotAllowed(PathBuf),
    /// The path is empty or too long.
    #[error(transparent)]
    Path(#[from] AddressError),
    /// The connection failed, or was closed before the answer.
    #[error("the daemon at {} ended or closed the connection before it answered", .path.display())]
    Io { path: PathBuf, source: io::Error },
    /// The daemon did not accept the connection or answer in time.
    #[error(
        "the daemon at {} has not answered for {} s, and may still carry the request out: it is paused, or waits for a device (see its log); \
         repeat the command",
        .0.display(), ANSWER_MAX.as_secs()
    )]
    Late(PathBuf),
    /// Another daemon than the first one answers at the socket.
    #[error(
        "the daemon of this command ended, and another one answers at {}, to which the command does not apply; repeat it if it is meant for \
         that one, too", .0.display()
    )]
    AnotherDaemon(PathBuf),
    /// The operation is still running at the end of the daemon's time limit.
    #[error("{0}")]
    Running(String),
    #[error("{0}")]
    Refused(String),
    /// The request, or the configuration file, is wrong in itself.
    #[error("{0}")]
    Wrong(String),
    /// The answer has an unknown format, or is of another type than the request needs.
    #[error("the daemon at {} gave an answer that does not fit; is it another version of kickcache?", .0.display())]
    Answer(PathBuf),
}

/// Asks the daemon behind a control socket; each request has a connection of its own. All requests apply to
/// the daemon that answered the first one; daemons of an old version have no name, and count as one daemon.
#[derive(Clone, Debug)]
pub struct Client {
    path: PathBuf,
    /// Time limit for an accepted connection; `None` if there is none.
    accept_max: Option<Duration>,
    /// Time limit for answers, except to requests that may take long.
    answer_max: Option<Duration>,
    /// The daemon that answered first, for all clones.
    instance: Arc<OnceLock<String>>,
}

impl Client {
    pub fn new(path: &Path) -> Client {
        let (accept_max, answer_max) = (Some(ANSWER_MAX), Some(ANSWER_MAX));
        Client { path: path.into(), accept_max, answer_max, instance: Arc::default() }
    }

    #[cfg(test)]
    pub(super) fn answered_within(&self, answer_max: Duration) -> Client {
        Client { answer_max: Some(answer_max), ..self.clone() }
    }

    #[cfg(test)]
    pub(super) fn accepted_within(&self, accept_max: Duration) -> Client {
        Client { accept_max: Some(accept_max), ..self.clone() }
    }

    /// A client that waits for answers without a time limit.
    #[must_use]
    pub fn patient(&self) -> Client {
        Client { answer_max: None, ..self.clone() }
    }

    /// A client that waits without a time limit for an accepted connection, too.
    #[must_use]
    pub fn waiting(&self) -> Client {
        Client { accept_max: None, ..self.patient() }
    }

    /// The state of the daemon.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn status(&self) -> Result<Report, ClientError> {
        self.request(&Request::Status {}).map(|report: Box<Report>| *report)
    }

    /// Sends a request and returns the content of the reply.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn request<T: ExpectedReply>(&self, request: &Request) -> Result<T, ClientError> {
        let answer_max = if request.may_take_long() { None } else { self.answer_max };
        let stream = self.connect_same()?;
        let reply = exchange(&stream, &mut BufReader::new(&stream), answer_max, request);
        let reply = reply.map_err(|error| self.exchange_error(error))?;
        T::of(reply).map_err(|other| self.refusal(other))
    }

    /// Begins a recording of the requests of a volume.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn record(&self, volume: &str) -> Result<RecordingClient, ClientError> {
        let stream = self.connect_same()?;
        let mut reader = BufReader::new(&stream);
        let reply =
            exchange(&stream, &mut reader, self.answer_max, &Request::Record { volume: volume.into() });
        let came = reader.buffer().to_vec();
        let reply = reply.map_err(|error| self.exchange_error(error))?;
        let Reply::Recording(title) = reply else { return Err(self.refusal(reply)) };
        Ok(RecordingClient::new(stream, title, came))
    }

    /// Requests a report of the daemon's end.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn await_end(&self) -> Result<AwaitedEnd, ClientError> {
        let stream = self.connect_same()?;
        let ask = |stream: &UnixStream| {
            stream.set_write_timeout(Some(ANSWER_MAX))?;
            let mut writer = stream;
            write_line(&mut writer, &Request::AwaitEnd {})
        };
        ask(&stream).map_err(|error| self.exchange_error(error))?;
        Ok(AwaitedEnd(BufReader::new(stream)))
    }

    fn refusal(&self, reply: Reply) -> ClientError {
        match reply {
            Reply::Error { message } => ClientError::Refused(message),
            Reply::Wrong { message } => ClientError::Wrong(message),
            Reply::Running { message } => ClientError::Running(message),
            Reply::Done
            | Reply::Present { .. }
            | Reply::Added(_)
            | Reply::Removed(_)
            | Reply::Reloaded(_)
            | Reply::Recording(_)
            | Reply::Ended { .. }
            | Reply::Growing(_)
            | Reply::Replacing(_)
            | Reply::LeftOut(_)
            | Reply::Resized(_)
            | Reply::Status(_) => ClientError::Answer(self.path.clone()),
        }
    }

    fn connect_same(&self) -> Result<UnixStream, ClientError> {
        let stream = self.connect()?;
        let limit = self.accept_max.map(|limit| self.answer_max.map_or(limit, |other| limit.min(other)));
        let reply = exchange(&stream, &mut BufReader::new(&stream), limit, &Request::Ping {});
        let (instance, stream) = match reply.map_err(|error| self.exchange_error(error))? {
            Reply::Present { instance } => (instance, stream),
            // An older daemon has no name.
            Reply::Done => (String::new(), stream),
            // A daemon that is too old for this request refuses it and closes the connection, so a new one is
            // needed.
            _ => (String::new(), self.connect()?),
        };
        match *self.instance.get_or_init(|| instance.clone()) == instance {
            true => Ok(stream),
            false => Err(ClientError::AnotherDaemon(self.path.clone())),
        }
    }

    fn connect(&self) -> Result<UnixStream, ClientError> {
        check_socket_path(&self.path)?;
        let connected = match self.accept_max {
            Some(limit) => connect_within(&self.path, limit),
            None => UnixStream::connect(&self.path),
        };
        connected.map_err(|error| self.connect_error(error))
    }

    fn connect_error(&self, source: io::Error) -> ClientError {
        let path = self.path.clone();
        match source.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => ClientError::NoDaemon(path),
            io::ErrorKind::PermissionDenied => ClientError::NotAllowed(path),
            io::ErrorKind::WouldBlock => ClientError::Late(path),
            _ => ClientError::Io { path, source },
        }
    }

    fn exchange_error(&self, source: io::Error) -> ClientError {
        let path = self.path.clone();
        match source.kind() {
            io::ErrorKind::InvalidData => ClientError::Answer(path),
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => ClientError::Late(path),
            _ => ClientError::Io { path, source },
        }
    }
}

/// The content of one kind of reply.
pub trait ExpectedReply: Sized {
    /// The content.
    ///
    /// # Errors
    /// Gives the reply back if it is of another kind.
    fn of(reply: Reply) -> Result<Self, Reply>;
}

macro_rules! expected {
    ($($content:ty: $reply:pat => $value:expr;)*) => {$(
        impl ExpectedReply for $content {
            fn of(reply: Reply) -> Result<Self, Reply> {
                match reply {
                    $reply => Ok($value),
                    other => Err(other),
                }
            }
        }
    )*};
}

expected! {
    (): Reply::Done => ();
    Box<Report>: Reply::Status(report) => report;
    Resized: Reply::Resized(resized) => resized;
    Growing: Reply::Growing(growing) => growing;
    Replacing: Reply::Replacing(replacing) => replacing;
    LeftOut: Reply::LeftOut(left_out) => left_out;
    AddedVolume: Reply::Added(added) => added;
    Removed: Reply::Removed(removed) => removed;
    Reloaded: Reply::Reloaded(reloaded) => reloaded;
}

/// A connection on which a client waits for the report of the daemon's end.
#[derive(Debug)]
pub struct AwaitedEnd(BufReader<UnixStream>);

/// The reported end of a daemon.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum KnownEnd {
    /// The daemon ended cleanly, with these blocks left on cache devices.
    Clean(Vec<LeftOnCache>),
    /// No clean end is known, for this reason.
    Unclean(String),
    /// The daemon is an older one, which does not report its end.
    Untold,
}

impl AwaitedEnd {
    /// The reported end; `None` if no report arrives within `span`, which must be above zero, or if a signal
    /// interrupts the wait.
    pub fn wait(&mut self, span: Duration) -> Option<KnownEnd> {
        let limited = self.0.get_ref().set_read_timeout(Some(span));
        let reply = limited.and_then(|()| read_line(&mut self.0, REPLY_LINE_MAX));
        match reply {
            Ok(Some(Reply::Ended { error: None, left })) => Some(KnownEnd::Clean(left)),
            Ok(Some(Reply::Ended { error: Some(why), .. })) => Some(KnownEnd::Unclean(why)),
            Ok(Some(_)) => Some(KnownEnd::Untold),
            Ok(None) => Some(KnownEnd::Unclean("it ended without a word, as after kill -9".into())),
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted => None,
                _ => Some(KnownEnd::Unclean(error.to_string())),
            },
        }
    }
}

fn exchange(
    stream: &UnixStream,
    reader: &mut impl BufRead,
    answer_max: Option<Duration>,
    request: &Request,
) -> io::Result<Reply> {
    stream.set_read_timeout(answer_max)?;
    stream.set_write_timeout(Some(ANSWER_MAX))?;
    let mut writer = stream;
    write_line(&mut writer, request)?;
    let reply = read_line(reader, REPLY_LINE_MAX)?;
    reply.ok_or_else(|| io::Error::new(io::ErrorKind::UnexpectedEof, "it closed the connection"))
}
