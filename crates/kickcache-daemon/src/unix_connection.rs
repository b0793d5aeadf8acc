//! Connections to unix sockets within a time limit.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

/// Connects within a time limit, which stays in force for writes to the connection.
///
/// # Errors
/// [`io::ErrorKind::WouldBlock`] if the queue of the server stays full for that time; otherwise the reason why
/// there is no connection.
pub(crate) fn connect_within(path: &Path, limit: Duration) -> io::Result<UnixStream> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // By unix(7), the timeout for sending limits connect as well.
    set_socket_timeout(&socket, Timeout::Send, Some(limit))?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(UnixStream::from(socket))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn a_full_queue_of_connections_is_not_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let short = Duration::from_millis(10);
        let mut accepted = Vec::new();
        let refused = loop {
            match connect_within(&path, short) {
                Ok(stream) => accepted.push(stream),
                Err(error) => break error,
            }
            assert!(accepted.len() < 1000, "the queue has an end");
        };
        assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
        drop(listener);
        assert_eq!(connect_within(&path, short).unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    }
}
