//! The daemon's end of the control socket: one thread that accepts, one thread a connection.

use std::io::{self, BufReader};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::fs::Mode;
use rustix::net::{AddressFamily, Shutdown, SocketAddrUnix, SocketFlags, SocketType};

use crate::control::ControlTarget;
use crate::control::wire::{REQUEST_LINE_MAX, Reply, Request, read_line, write_line};
use crate::plan::address::{AddressError, check_socket_path};

/// Connections served at a time; more are closed at once.
pub const CONNECTION_COUNT_MAX: usize = 32;
/// A connection that says nothing for this long is closed.
pub const IDLE_MAX: Duration = Duration::from_secs(10);

/// Why the control socket cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// Another daemon has it.
    #[error(
        "another kickcache daemon answers at the control socket {}; stop it with `kickcache stop`, or give this one \
         another path with --control", .0.display()
    )]
    Live(PathBuf),
    /// Something else lies there.
    #[error(
        "the control socket cannot be made: {} exists and is not a socket; it was left as it is, choose another path \
         with --control", .0.display()
    )]
    NotASocket(PathBuf),
    /// The path is too long.
    #[error(transparent)]
    Path(#[from] AddressError),
    /// Everything else.
    #[error("the control socket {} cannot be made", .path.display())]
    Io {
        /// Its path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// A control socket that is open; closing removes its path.
#[must_use = "the socket is closed when this is dropped"]
pub struct ControlServer {
    path: PathBuf,
    inode: u64,
    listener: Arc<UnixListener>,
    acceptor: Option<JoinHandle<()>>,
}

impl ControlServer {
    /// Opens the socket and serves it on a thread of its own until dropped. A socket that nobody answers is
    /// replaced; missing folders are made, for their owner only.
    ///
    /// # Errors
    /// A live daemon, or something that is no socket, has the path; or the system refuses.
    pub fn start(path: &Path, target: Arc<dyn ControlTarget>) -> Result<ControlServer, ServerError> {
        check_socket_path(path)?;
        let fail = |source| ServerError::Io { path: path.into(), source };
        let listener = Arc::new(open(path)?);
        let inode = std::fs::metadata(path).map_err(fail)?.ino();
        let for_thread = Arc::clone(&listener);
        let acceptor = std::thread::Builder::new()
            .name("control".into())
            .spawn(move || accept_all(&for_thread, &target))
            .map_err(fail)?;
        Ok(ControlServer { path: path.into(), inode, listener, acceptor: Some(acceptor) })
    }

    /// Where it listens.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ControlServer {
    fn drop(&mut self) {
        // Shutting a listening socket down wakes its accept.
        let _ = rustix::net::shutdown(&*self.listener, Shutdown::Both);
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
        if std::fs::symlink_metadata(&self.path).is_ok_and(|found| found.ino() == self.inode) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn open(path: &Path) -> Result<UnixListener, ServerError> {
    let fail = |source| ServerError::Io { path: path.into(), source };
    let folder =
        path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(fail)?;
    // Two daemons that start at once must not both find the same stale socket.
    let lock = std::fs::File::open(folder).map_err(fail)?;
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive)
        .map_err(|error| fail(error.into()))?;
    make_room(path)?;
    bind(path).map_err(fail)
}

/// Removes a socket that nobody answers; everything else stays and is an error.
fn make_room(path: &Path) -> Result<(), ServerError> {
    let fail = |source| ServerError::Io { path: path.into(), source };
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(fail(error)),
        Ok(found) if !found.file_type().is_socket() => return Err(ServerError::NotASocket(path.into())),
        Ok(_) => {}
    }
    match UnixStream::connect(path) {
        Ok(_) => Err(ServerError::Live(path.into())),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path).map_err(fail)
        }
        Err(error) => Err(fail(error)),
    }
}

fn bind(path: &Path) -> io::Result<UnixListener> {
    let socket =
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // The mode of the socket before bind is the mode of the file that bind makes: nobody else can ever connect.
    rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    rustix::net::listen(&socket, 16)?;
    Ok(UnixListener::from(socket))
}

fn accept_all(listener: &UnixListener, target: &Arc<dyn ControlTarget>) {
    let open = Arc::new(AtomicUsize::new(0));
    loop {
        match listener.accept() {
            Ok((stream, _)) => serve_aside(stream, target, &open),
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => return,
            // Out of file descriptors or of memory: those in use come back.
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}

fn serve_aside(stream: UnixStream, target: &Arc<dyn ControlTarget>, open: &Arc<AtomicUsize>) {
    if open.fetch_add(1, Ordering::Relaxed) >= CONNECTION_COUNT_MAX {
        open.fetch_sub(1, Ordering::Relaxed);
        return;
    }
    let (target, count) = (Arc::clone(target), Arc::clone(open));
    let serve = move || {
        let _ = serve_connection(&stream, &*target);
        count.fetch_sub(1, Ordering::Relaxed);
    };
    if std::thread::Builder::new().name("control-client".into()).spawn(serve).is_err() {
        open.fetch_sub(1, Ordering::Relaxed);
    }
}

fn serve_connection(stream: &UnixStream, target: &dyn ControlTarget) -> io::Result<()> {
    stream.set_read_timeout(Some(IDLE_MAX))?;
    stream.set_write_timeout(Some(IDLE_MAX))?;
    let mut reader = BufReader::new(stream);
    let mut writer = stream;
    loop {
        match read_line::<Request>(&mut reader, REQUEST_LINE_MAX) {
            Ok(Some(request)) => write_line(&mut writer, &answer(target, &request))?,
            Ok(None) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                let message = format!("this is not a request: {error}");
                return write_line(&mut writer, &Reply::Error { message });
            }
            Err(error) => return Err(error),
        }
    }
}

fn answer(target: &dyn ControlTarget, request: &Request) -> Reply {
    let result = match request {
        Request::Status {} => target.status().map(|report| Reply::Status(Box::new(report))),
        Request::Mode { volume, mode } => target.set_mode(volume, *mode).map(|()| Reply::Done),
        Request::Drain { volume } => target.drain(volume).map(|()| Reply::Done),
        Request::Resize { volume } => target.resize(volume).map(|size_bytes| Reply::Resized { size_bytes }),
        Request::Stop {} => target.stop().map(|()| Reply::Done),
    };
    result.unwrap_or_else(|error| Reply::Error { message: error.to_string() })
}
