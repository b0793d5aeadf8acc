//! Classifies the file at the path of a new unix socket.

use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::test_kill_process;

use crate::opener::Opener;
use crate::unix_connection::connect_within;

/// The longest wait for the socket of a killed process, which accepts connections until the kernel has ended the
/// process's I/O in flight.
const ENDING_MAX: Duration = Duration::from_secs(2);
const ENDING_LOOK: Duration = Duration::from_millis(20);
/// Time limit for a connection to enter the queue of the server.
const CONNECT_MAX: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) enum SocketFile {
    Nothing,
    NotASocket,
    /// A socket without a process that listens.
    Unserved,
    /// A socket that a process serves; with the process, if it is not this one and could be found.
    Served(Option<Opener>),
    Untried {
        owner: u32,
        source: io::Error,
    },
}

/// Looks up the file. If the process of a socket has just ended, waits until its socket is closed, at most for
/// [`ENDING_MAX`].
///
/// # Errors
/// The path cannot be looked at.
pub(crate) fn look(path: &Path) -> io::Result<SocketFile> {
    let owner = match std::fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => return Ok(SocketFile::NotASocket),
        Ok(found) => found.uid(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(SocketFile::Nothing),
        Err(error) => return Err(error),
    };
    let begin = Instant::now();
    loop {
        match connect_within(path, CONNECT_MAX) {
            Ok(taken) if has_ended(&taken) && begin.elapsed() < ENDING_MAX => thread::sleep(ENDING_LOOK),
            Ok(taken) => return Ok(SocketFile::Served(Opener::of_peer(&taken))),
            // The queue of the server is full, so a process serves the socket.
            Err(source) if source.kind() == io::ErrorKind::WouldBlock => return Ok(SocketFile::Served(None)),
            Err(source) if source.kind() == io::ErrorKind::ConnectionRefused => {
                return Ok(SocketFile::Unserved);
            }
            Err(source) => return Ok(SocketFile::Untried { owner, source }),
        }
    }
}

fn has_ended(connection: &UnixStream) -> bool {
    rustix::net::sockopt::socket_peercred(connection)
        .is_ok_and(|peer| test_kill_process(peer.pid) == Err(rustix::io::Errno::SRCH))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use rustix::net::{AddressFamily, SocketFlags, SocketType};

    use super::*;

    #[test]
    fn a_socket_of_an_ended_process_is_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        let flags = SocketFlags::CLOEXEC;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap();
        // Another process listens and ends; this process keeps the socket open for a while.
        let listen = "use Socket; open(S, '<&=0'); bind(S, sockaddr_un($ARGV[0])) && listen(S, 9) || die $!";
        let mut child = std::process::Command::new("perl");
        let ended =
            child.args(["-e", listen]).arg(&path).stdin(socket.try_clone().unwrap()).status().unwrap();
        assert!(ended.success());
        drop(child);
        UnixStream::connect(&path).unwrap();
        let kernel = thread::spawn(move || {
            thread::sleep(Duration::from_millis(200));
            drop(socket);
        });
        assert!(matches!(look(&path), Ok(SocketFile::Unserved)));
        kernel.join().unwrap();
    }

    #[test]
    fn the_kinds_of_existing_files_are_distinguished() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name| directory.path().join(name);
        std::fs::write(path("file"), "").unwrap();
        drop(UnixListener::bind(path("stale")).unwrap());
        let live = UnixListener::bind(path("live")).unwrap();
        assert!(matches!(look(&path("none")), Ok(SocketFile::Nothing)));
        assert!(matches!(look(&path("file")), Ok(SocketFile::NotASocket)));
        assert!(matches!(look(&path("stale")), Ok(SocketFile::Unserved)));
        assert!(matches!(look(&path("live")), Ok(SocketFile::Served(None))), "by this process");
        assert!(look(&path("file").join("below")).is_err());
        drop(live);
    }
}
