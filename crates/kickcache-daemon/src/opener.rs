//! The process that has a file open, listens at a port or is the peer of a connection.

use std::fmt::{self, Display, Formatter};
use std::fs::{self, DirEntry};
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, StatxFlags, statx};

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Opener {
    pub id: u32,
    /// The name of its program, at most 15 bytes; empty if it cannot be read.
    pub program: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum OpenFileId {
    Inode { device: (u32, u32), inode: u64 },
    BlockDevice((u32, u32)),
}

impl OpenFileId {
    /// Identifies the file at a path from the kernel's cached metadata, since a file system that does not answer must
    /// not stop the caller.
    fn of(path: &Path) -> Option<OpenFileId> {
        let found = statx(CWD, path, AtFlags::STATX_DONT_SYNC, StatxFlags::TYPE | StatxFlags::INO).ok()?;
        Some(match FileType::from_raw_mode(found.stx_mode.into()) {
            FileType::BlockDevice => OpenFileId::BlockDevice((found.stx_rdev_major, found.stx_rdev_minor)),
            _ => {
                OpenFileId::Inode { device: (found.stx_dev_major, found.stx_dev_minor), inode: found.stx_ino }
            }
        })
    }
}

impl Opener {
    /// Another process that has one of these files open; a process with a lock on such a file is preferred.
    pub fn of_any(paths: &[&Path]) -> Option<Opener> {
        let wanted: Vec<OpenFileId> = paths.iter().filter_map(|path| OpenFileId::of(path)).collect();
        let rank = |id: u32| {
            let open = descriptors(id)
                .filter(|entry| OpenFileId::of(&entry.path()).is_some_and(|found| wanted.contains(&found)));
            // 0 if the process has a lock on the file, otherwise 1.
            open.map(|entry| u8::from(!has_lock(id, &entry))).min()
        };
        let ranked = others().filter_map(|id| Some((rank(id)?, id)));
        ranked.min().map(|(_, id)| Opener::new(id))
    }

    pub fn of_port(port: u16) -> Option<Opener> {
        let tables =
            ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| fs::read_to_string(path).unwrap_or_default());
        let sockets: Vec<String> = tables.iter().flat_map(|table| listening_sockets(table, port)).collect();
        let is_it = |entry: DirEntry| {
            fs::read_link(entry.path())
                .is_ok_and(|link| sockets.iter().any(|socket| *socket == link.to_string_lossy()))
        };
        others().find(|id| descriptors(*id).any(is_it)).map(Opener::new)
    }

    /// The process at the other end of a connection; `None` if it is this one, or unknown.
    pub(crate) fn of_peer(connection: &UnixStream) -> Option<Opener> {
        let peer = rustix::net::sockopt::socket_peercred(connection).ok()?;
        let id = u32::try_from(peer.pid.as_raw_nonzero().get()).ok()?;
        (id != std::process::id()).then(|| Opener::new(id))
    }

    fn new(id: u32) -> Opener {
        let program = fs::read_to_string(format!("/proc/{id}/comm")).unwrap_or_default();
        Opener { id, program: program.trim().chars().filter(|letter| !letter.is_control()).collect() }
    }
}

impl Display for Opener {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "process {}", self.id)?;
        if self.program.is_empty() { Ok(()) } else { write!(f, ", {}", self.program) }
    }
}

/// The process before a sentence, such as `process 77, fio: `; empty if no process is known.
pub(crate) fn in_front(opener: Option<&Opener>) -> String {
    opener.map(|opener| format!("{opener}: ")).unwrap_or_default()
}

/// The process in brackets after a space, such as ` (process 77, fio)`; empty if no process is known.
pub fn in_brackets(opener: Option<&Opener>) -> String {
    opener.map(|opener| format!(" ({opener})")).unwrap_or_default()
}

fn others() -> impl Iterator<Item = u32> {
    let own = std::process::id();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(move |id| *id != own)
}

fn descriptors(id: u32) -> impl Iterator<Item = DirEntry> {
    fs::read_dir(format!("/proc/{id}/fd")).into_iter().flatten().flatten()
}

fn has_lock(id: u32, descriptor: &DirEntry) -> bool {
    let path = format!("/proc/{id}/fdinfo/{}", descriptor.file_name().to_string_lossy());
    fs::read_to_string(path).is_ok_and(|text| text.lines().any(|line| line.starts_with("lock:")))
}

fn listening_sockets(table: &str, port: u16) -> Vec<String> {
    const LISTENS: &str = "0A";
    let socket = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (_, number) = words.get(1)?.rsplit_once(':')?;
        let is_it = words.get(3) == Some(&LISTENS) && u16::from_str_radix(number, 16) == Ok(port);
        is_it.then(|| format!("socket:[{}]", words.get(9).copied().unwrap_or_default()))
    };
    table.lines().filter_map(socket).collect()
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;

    fn reader(path: &Path) -> Child {
        Command::new("sleep")
            .arg("1000")
            .stdin(fs::File::open(path).unwrap())
            .stdout(Stdio::null())
            .spawn()
            .unwrap()
    }

    #[test]
    fn the_process_with_a_lock_comes_first() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(Opener::of_any(&[file.path()]), None, "this process does not count");
        let mut readers = [reader(file.path()), reader(file.path())];
        let found = Opener::of_any(&[Path::new("/nothing/here"), file.path()]).unwrap();
        let first = readers.iter().map(Child::id).min().unwrap();
        assert_eq!(found.id, first);
        let own = file.reopen().unwrap();
        own.lock().unwrap();
        let mut holder = Command::new("sleep").arg("1000").stdin(own).spawn().unwrap();
        assert_eq!(Opener::of_any(&[file.path()]).unwrap().id, holder.id());
        for child in readers.iter_mut().chain([&mut holder]) {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert_eq!(Opener::of_any(&[file.path()]), None);
    }

    #[test]
    fn listening_sockets_are_found_by_their_port() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
                     0: 0100007F:2A11 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0\n   \
                     1: 0100007F:2A11 0100007F:C350 01 00000000:00000000 00:00000000 00000000     0        0 4712 1 0\n   \
                     2: 0100007F:2A12 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4713 1 0\n";
        assert_eq!(listening_sockets(table, 10_769), ["socket:[4711]"]);
        assert_eq!(listening_sockets("one line\n:: : 0A\n", 10_769), Vec::<String>::new());
    }

    #[test]
    fn a_process_is_named_with_its_program() {
        let opener = Opener { id: 77, program: "fio".into() };
        assert_eq!(
            (in_front(Some(&opener)), in_brackets(Some(&opener))),
            ("process 77, fio: ".into(), " (process 77, fio)".into())
        );
        assert_eq!((in_front(None), in_brackets(None)), (String::new(), String::new()));
    }
}
