//! The journal of systemd, if standard error leads to it.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

/// The socket at which journald accepts entries.
const SOCKET: &str = "/run/systemd/journal/socket";

pub(super) enum Journal {
    Absent,
    /// The journal, whose socket cannot be reached: it gets lines of text.
    Text,
    Socket(JournalSocket),
}

/// Each write is an entry.
pub(super) struct JournalSocket {
    path: PathBuf,
    socket: UnixDatagram,
}

impl Journal {
    pub(super) fn of_stderr() -> Journal {
        let named = std::env::var("JOURNAL_STREAM").ok();
        let stat = rustix::fs::fstat(io::stderr().as_fd());
        let found = stat.map(|stat| format!("{}:{}", stat.st_dev, stat.st_ino)).ok();
        if named.is_none() || named != found {
            return Journal::Absent;
        }
        JournalSocket::connect(Path::new(SOCKET)).map_or(Journal::Text, Journal::Socket)
    }
}

impl JournalSocket {
    fn connect(path: &Path) -> io::Result<JournalSocket> {
        Ok(JournalSocket { path: path.into(), socket: connected(path)? })
    }
}

fn connected(path: &Path) -> io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    socket.connect(path)?;
    Ok(socket)
}

impl Write for JournalSocket {
    fn write(&mut self, entry: &[u8]) -> io::Result<usize> {
        match self.socket.send(entry) {
            Ok(count) => Ok(count),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Err(error),
            Err(_) => {
                // journald may have been restarted.
                self.socket = connected(&self.path)?;
                self.socket.send(entry)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_reach_a_journal_that_was_started_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let (mut bytes, first) = ([0; 16], UnixDatagram::bind(&path).unwrap());
        let mut socket = JournalSocket::connect(&path).unwrap();
        socket.write_all(b"MESSAGE=a\n").unwrap();
        let length = first.recv(&mut bytes).unwrap();
        assert_eq!(&bytes[..length], b"MESSAGE=a\n");
        drop(first);
        std::fs::remove_file(&path).unwrap();
        assert!(socket.write_all(b"MESSAGE=b\n").is_err());
        let second = UnixDatagram::bind(&path).unwrap();
        socket.write_all(b"MESSAGE=c\n").unwrap();
        let length = second.recv(&mut bytes).unwrap();
        assert_eq!(&bytes[..length], b"MESSAGE=c\n");
    }
}
