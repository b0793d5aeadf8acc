//! Listening sockets.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::Mode;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::umask;

use crate::opener::{Opener, in_brackets};
use crate::own_user::own_user;
use crate::places;
use crate::plan::Exposure;
use crate::plan::address::{NbdAddress, UNIX_PATH_MAX};
use crate::serve::error::ServeError;
use crate::socket_path::{self, SocketFile};

const BACKLOG: i32 = 128;

#[derive(Debug)]
pub(crate) enum Place {
    /// A unix socket, made with mode 0600, or TCP.
    Address(NbdAddress),
    /// A socket that the process was started with.
    Inherited(OwnedFd),
}

pub(crate) struct VolumePlace {
    pub(crate) place: Place,
    pub(crate) volume: usize,
}

impl Place {
    pub(crate) fn address(&self) -> Option<&NbdAddress> {
        match self {
            Place::Address(address) => Some(address),
            Place::Inherited(_) => None,
        }
    }

    /// Whether one listener serves both places. Places with port 0, which the system chooses, have one
    /// listener each.
    pub(crate) fn is_same(&self, other: &Place) -> bool {
        match (self, other) {
            (Place::Address(NbdAddress::Tcp { port: 0, .. }), _) => false,
            (Place::Address(first), Place::Address(second)) => first == second,
            _ => false,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Listener {
    socket: OwnedFd,
    /// The bound address of the socket; a description for an inherited socket.
    pub(crate) address: String,
    /// The path, device and inode of a unix socket that was made here.
    made: Option<(PathBuf, Inode)>,
    kind: SocketKind,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum SocketKind {
    Unix,
    Tcp,
    /// The socket is already connected: it is the only connection.
    Connection,
}

impl Listener {
    pub(crate) fn open(place: Place, exposure: Exposure) -> Result<Listener, ServeError> {
        match place {
            Place::Address(NbdAddress::Unix(path)) => open_unix(path),
            Place::Address(NbdAddress::Tcp { host, port }) => open_tcp(resolve(&host, port)?, exposure),
            Place::Inherited(socket) => inherit(socket),
        }
    }

    /// A socket for one hypervisor, which listens or is connected to it already.
    pub(crate) fn open_for_guest(place: Place) -> Result<Listener, ServeError> {
        match place {
            Place::Inherited(socket) if !is_listening(&socket)? => connected(socket),
            place => Listener::open(place, Exposure::LocalOnly),
        }
    }

    pub(crate) fn is_connection(&self) -> bool {
        self.kind == SocketKind::Connection
    }

    /// Accepts a connection without blocking; `None` if none was accepted. A socket that is a
    /// connection returns a duplicate of itself at each call.
    pub(crate) fn accept(&self) -> io::Result<Option<OwnedFd>> {
        if self.is_connection() {
            return self.socket.try_clone().map(Some);
        }
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        match rustix::net::accept_with(&self.socket, flags) {
            Ok(socket) => {
                self.tune(&socket);
                Ok(Some(socket))
            }
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR | rustix::io::Errno::CONNABORTED) => {
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Enlarges the kernel's buffer for replies of a connection to a unix socket. A failure only costs speed.
    pub(crate) fn enlarge(&self, socket: &OwnedFd) {
        if self.kind == SocketKind::Unix {
            let _ = rustix::net::sockopt::set_socket_send_buffer_size(socket, SEND_BUFFER);
        }
    }

    /// Errors are ignored: a connection works without these options.
    fn tune(&self, socket: &OwnedFd) {
        match self.kind {
            SocketKind::Tcp => {
                let _ = rustix::net::sockopt::set_tcp_nodelay(socket, true);
                let _ = rustix::net::sockopt::set_socket_keepalive(socket, true);
            }
            SocketKind::Unix | SocketKind::Connection => {}
        }
    }
}

/// The send buffer of a unix socket in bytes; the kernel caps it at net.core.wmem_max.
const SEND_BUFFER: usize = 2 << 20;

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let Some((path, made)) = &self.made else { return };
        // Another process may have replaced the socket.
        if identity(path).ok() == Some(*made) {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Refuses an address with an error that can be found before a socket is opened.
pub(crate) fn check(address: &NbdAddress, exposure: Exposure) -> Result<(), ServeError> {
    match address {
        NbdAddress::Unix(path) => check_path(path),
        NbdAddress::Tcp { host, port } => check_exposure(resolve(host, *port)?, exposure),
    }
}

/// Refuses a path that is too long for a unix socket, has no folder, or is among the kernel's
/// files.
pub(crate) fn check_path(path: &Path) -> Result<(), ServeError> {
    check_length(path).and_then(|()| check_folder(path))
}

/// The numeric address of a host: the first IPv4 address of its name, otherwise the first address.
fn resolve(host: &str, port: u16) -> Result<SocketAddr, ServeError> {
    let name = format!("{host}:{port}");
    let found = (host, port).to_socket_addrs();
    let found: Vec<SocketAddr> =
        found.map_err(|source| error(&name, format!("its host cannot be found: {source}")))?.collect();
    let chosen = found.iter().find(|found| found.is_ipv4()).or_else(|| found.first());
    chosen.copied().ok_or_else(|| error(&name, "its host has no address"))
}

fn check_length(path: &Path) -> Result<(), ServeError> {
    let length = path.as_os_str().len();
    if length <= UNIX_PATH_MAX {
        return Ok(());
    }
    let what = format!(
        "the path of the socket has {length} bytes, at most {UNIX_PATH_MAX} are possible; choose a shorter one"
    );
    Err(error(&path.display().to_string(), what))
}

fn check_folder(path: &Path) -> Result<(), ServeError> {
    let name = path.display().to_string();
    if let Some(fault) = places::fault(path).filter(|_| !path.exists()) {
        return Err(error(&name, fault));
    }
    let folder =
        path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    match std::fs::metadata(folder) {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => Err(error(&name, format!("{} is no folder; choose another path", folder.display()))),
        Err(_) => Err(error(
            &name,
            format!("there is no folder {}; make it, or choose another path", folder.display()),
        )),
    }
}

fn check_exposure(address: SocketAddr, exposure: Exposure) -> Result<(), ServeError> {
    if address.ip().is_loopback() || exposure != Exposure::LocalOnly {
        return Ok(());
    }
    let what = "it can be reached from other machines, and has neither encryption nor authentication; \
                use a unix socket or a loopback address, require TLS, or allow insecure TCP";
    Err(error(&address.to_string(), what))
}

fn open_unix(path: PathBuf) -> Result<Listener, ServeError> {
    check_length(&path)?;
    let name = path.display().to_string();
    make_room(&path, &name)?;
    let failed = |source: io::Error| error(&name, why_no_socket(&path, &source));
    let socket = bind_unix(&path).map_err(failed)?;
    let made = identity(&path).map_err(failed)?;
    Ok(Listener { socket, address: name, made: Some((path, made)), kind: SocketKind::Unix })
}

fn why_no_socket(path: &Path, source: &io::Error) -> String {
    let folder = path.parent().unwrap_or(path).display();
    match source.kind() {
        io::ErrorKind::PermissionDenied => format!(
            "{} may not make a socket in {folder} ({source}); give the folder to it, let it pass through \
             those above, or choose another path",
            own_user()
        ),
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::StorageFull => {
            format!("no socket can be made in {folder} ({source}); choose another path")
        }
        _ => source.to_string(),
    }
}

fn why_no_listener(port: u16, source: &io::Error) -> String {
    let advice = match source.kind() {
        io::ErrorKind::AddrInUse => format!(
            "; another process listens there{}: stop it, or choose another port",
            in_brackets(Opener::of_port(port).as_ref())
        ),
        io::ErrorKind::AddrNotAvailable => {
            "; this machine has no such address: use one of its own (`ip address`)".into()
        }
        io::ErrorKind::PermissionDenied => format!(
            "; {} may not use ports below 1024 without CAP_NET_BIND_SERVICE: choose a higher one",
            own_user()
        ),
        _ => String::new(),
    };
    format!("{source}{advice}")
}

/// Removes a socket without a server; refuses every other file.
fn make_room(path: &Path, name: &str) -> Result<(), ServeError> {
    let refused = match socket_path::look(path) {
        Ok(SocketFile::Nothing) => return Ok(()),
        Ok(SocketFile::Unserved) => return std::fs::remove_file(path).map_err(|source| error(name, source)),
        Ok(SocketFile::NotASocket) => {
            "a file that is not a socket has this name; move it away or choose another path".into()
        }
        Ok(SocketFile::Served(by)) => format!(
            "another process serves on this socket{}; stop it or choose another path",
            in_brackets(by.as_ref())
        ),
        Ok(SocketFile::Untried { source, .. }) => {
            format!("a socket is there and cannot be tried ({source}); remove it")
        }
        Err(source) => why_no_socket(path, &source),
    };
    Err(error(name, refused))
}

fn bind_unix(path: &Path) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    let address = SocketAddrUnix::new(path)?;
    let before = umask(Mode::from_raw_mode(0o177));
    let bound = rustix::net::bind(&socket, &address);
    umask(before);
    bound?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket)
}

fn open_tcp(address: SocketAddr, exposure: Exposure) -> Result<Listener, ServeError> {
    check_exposure(address, exposure)?;
    let failed = |source: io::Error| error(&address.to_string(), why_no_listener(address.port(), &source));
    let listener = std::net::TcpListener::bind(address).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    let address = listener.local_addr().map_or_else(|_| address.to_string(), |bound| bound.to_string());
    Ok(Listener { socket: listener.into(), address, made: None, kind: SocketKind::Tcp })
}

const INHERITED: &str = "the inherited socket";

fn is_listening(socket: &OwnedFd) -> Result<bool, ServeError> {
    rustix::net::sockopt::socket_acceptconn(socket).map_err(|found| error(INHERITED, found))
}

fn connected(socket: OwnedFd) -> Result<Listener, ServeError> {
    rustix::io::ioctl_fionbio(&socket, true).map_err(|found| error(INHERITED, found))?;
    Ok(Listener { socket, address: INHERITED.into(), made: None, kind: SocketKind::Connection })
}

fn inherit(socket: OwnedFd) -> Result<Listener, ServeError> {
    let name = INHERITED;
    if !is_listening(&socket)? {
        return Err(error(name, "it does not listen; pass a listening socket (LISTEN_FDS)"));
    }
    rustix::io::ioctl_fionbio(&socket, true).map_err(|found| error(name, found))?;
    let domain = rustix::net::sockopt::socket_domain(&socket).map_err(|found| error(name, found))?;
    let kind = if domain == AddressFamily::UNIX { SocketKind::Unix } else { SocketKind::Tcp };
    Ok(Listener { socket, address: name.into(), made: None, kind })
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Inode {
    device: u64,
    number: u64,
}

fn identity(path: &Path) -> io::Result<Inode> {
    use std::os::unix::fs::MetadataExt;
    let metadata = std::fs::symlink_metadata(path)?;
    Ok(Inode { device: metadata.dev(), number: metadata.ino() })
}

#[expect(clippy::needless_pass_by_value, reason = "sentences and errors arrive by value")]
fn error(address: &str, what: impl ToString) -> ServeError {
    ServeError::Address { address: address.into(), what: what.to_string() }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::{UnixListener, UnixStream};

    use super::*;

    fn open(path: &Path) -> Result<Listener, ServeError> {
        Listener::open(Place::Address(NbdAddress::Unix(path.into())), Exposure::LocalOnly)
    }

    #[test]
    fn a_socket_is_private_and_removed_in_the_end() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        let listener = open(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(listener.accept().unwrap().is_none());
        let _client = UnixStream::connect(&path).unwrap();
        assert!(listener.accept().unwrap().is_some());
        drop(listener);
        assert!(!path.exists());
    }

    #[test]
    fn a_stale_socket_is_replaced_and_a_live_one_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        drop(UnixListener::bind(&path).unwrap());
        let live = open(&path).unwrap();
        let refused = open(&path).unwrap_err().to_string();
        assert!(refused.contains("another process serves"), "{refused}");
        drop(live);
    }

    #[test]
    fn a_file_that_is_no_socket_stays() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        std::fs::write(&path, "precious").unwrap();
        let refused = open(&path).unwrap_err().to_string();
        assert!(refused.contains("not a socket"), "{refused}");
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    }

    #[test]
    fn an_obstacle_is_reported_with_its_remedy() {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = NbdAddress::Tcp { host: "127.0.0.1".into(), port: taken.local_addr().unwrap().port() };
        let refused = Listener::open(Place::Address(address), Exposure::LocalOnly).unwrap_err().to_string();
        assert!(refused.contains("another process listens there"), "{refused}");
        let elsewhere = NbdAddress::Tcp { host: "192.0.2.1".into(), port: 0 };
        let refused =
            Listener::open(Place::Address(elsewhere), Exposure::InsecureTcp).unwrap_err().to_string();
        assert!(refused.contains("this machine has no such address"), "{refused}");
        let denied = why_no_socket(Path::new("/srv/s"), &io::ErrorKind::PermissionDenied.into());
        assert!(denied.contains("may not make a socket in /srv"), "{denied}");
    }

    #[test]
    fn a_long_path_is_refused_with_its_length() {
        let path = PathBuf::from(format!("/tmp/{}", "x".repeat(103)));
        let refused = open(&path).unwrap_err().to_string();
        assert!(refused.contains("108 bytes"), "{refused}");
    }

    #[test]
    fn tcp_is_for_loopback_by_default() {
        let everywhere = Place::Address(tcp("0.0.0.0"));
        let refused = Listener::open(everywhere, Exposure::LocalOnly).unwrap_err();
        assert!(refused.to_string().contains("insecure"), "{refused}");
        Listener::open(Place::Address(tcp("127.0.0.1")), Exposure::LocalOnly).unwrap();
    }

    #[test]
    fn a_host_by_name_becomes_one_by_number() {
        assert!(resolve("localhost", 10809).unwrap().ip().is_loopback());
        let unknown = check(&tcp("no-such-host.invalid"), Exposure::LocalOnly).unwrap_err().to_string();
        assert!(unknown.contains("no-such-host.invalid:0: its host cannot be found"), "{unknown}");
    }

    #[test]
    fn one_listener_serves_an_address_unless_its_port_is_dynamic() {
        let unix = || Place::Address(NbdAddress::Unix("/x".into()));
        assert!(unix().is_same(&unix()));
        assert!(!Place::Address(tcp("127.0.0.1")).is_same(&Place::Address(tcp("127.0.0.1"))));
    }

    fn tcp(host: &str) -> NbdAddress {
        NbdAddress::Tcp { host: host.into(), port: 0 }
    }
}
