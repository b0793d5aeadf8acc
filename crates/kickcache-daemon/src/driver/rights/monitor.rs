//! The part that stays root: it opens granted files, and answers with descriptors.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, openat, unlinkat};

use crate::driver::rights::grant::{Grant, Right};
use crate::driver::rights::trusted_path::{Identity, ResolvedPath, Untrusted, walk};
use crate::driver::rights::wire::{Answer, Request, Task, hand_answers};

/// The most requests that are answered at the same time.
const REQUESTS_MAX: usize = 256;
const FLAGS: i32 = libc::O_ACCMODE | libc::O_DIRECT | libc::O_EXCL | libc::O_NONBLOCK;

/// Reads the grants again: the configuration may have changed.
pub(super) type Reread = dyn Fn() -> Result<Vec<Grant>, String> + Send + Sync;

pub(super) struct Monitor {
    pub(super) granted: Mutex<Vec<Grant>>,
    pub(super) reread: Box<Reread>,
    pub(super) user: String,
    pub(super) named_in: String,
    pub(super) made: Mutex<Vec<CreatedFile>>,
}

/// A file that the monitor created: its identity and place. If it moved, or another file is there, the
/// monitor does not remove it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct CreatedFile {
    folder: Identity,
    name: OsString,
    file: Identity,
}

impl CreatedFile {
    fn of(place: &ResolvedPath, file: &File) -> io::Result<CreatedFile> {
        let folder = Identity::of(&place.folder.metadata()?);
        Ok(CreatedFile { folder, name: place.name.clone(), file: Identity::of(&file.metadata()?) })
    }
}

impl Monitor {
    /// Answers until the daemon has ended, a message of it is invalid, or no socket for an answer can be made or sent.
    pub(super) fn run(self, socket: &OwnedFd) {
        let (monitor, busy) = (Arc::new(self), Arc::new(AtomicUsize::new(0)));
        loop {
            match Request::receive(socket) {
                Ok(Some(request)) => {
                    let Ok(answers) = hand_answers(socket) else { return };
                    answer_aside(&monitor, &busy, request, answers);
                }
                // No healthy daemon sends an invalid request.
                Ok(None) | Err(_) => return,
            }
        }
    }

    pub(super) fn answer(&self, request: &Request) -> Answer {
        self.done(request).unwrap_or_else(|refused| match refused {
            Refused::System(number) => Answer::Failed(number),
            Refused::Sentence(why) => Answer::Refused(why),
        })
    }

    fn done(&self, request: &Request) -> Result<Answer, Refused> {
        let path = &request.path;
        let place = walk(path).map_err(|error| self.tell_if_named(path, self.refuse_walk(error)))?;
        let Some(found) = &place.found else { return self.make(request, &place) };
        let wanted = match request.task {
            Task::Look => Right::Read,
            Task::Open(flags) if flags & libc::O_ACCMODE == libc::O_RDONLY => Right::Read,
            Task::Open(_) | Task::Make => Right::Write,
            Task::Remove => return self.remove(&place, found),
        };
        let metadata = found.metadata()?;
        if metadata.is_dir() {
            return Err(self.tell_if_named(path, Refused::System(libc::EISDIR)));
        }
        self.check(path, |grant| grant.right_to(&metadata) >= Some(wanted))?;
        match request.task {
            Task::Look => Ok(Answer::Opened(found.try_clone()?.into())),
            Task::Open(flags) => Ok(Answer::Opened(open_again(found, flags & FLAGS)?)),
            Task::Make => Ok(Answer::Opened(open_again(found, libc::O_RDWR)?)),
            Task::Remove => Ok(Answer::Done),
        }
    }

    /// Creates a missing file, if that is requested and a grant permits it.
    fn make(&self, request: &Request, place: &ResolvedPath) -> Result<Answer, Refused> {
        let wanted = if request.task == Task::Make { Right::Make } else { Right::Read };
        self.check(&request.path, |grant| grant.right >= wanted && grant.is_place(place))?;
        if request.task != Task::Make {
            return Err(Refused::System(libc::ENOENT));
        }
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::RDWR | OFlags::CLOEXEC;
        let made = openat(&place.folder, &place.name, flags, Mode::RUSR | Mode::WUSR)?;
        let made = File::from(made);
        self.made.lock().unwrap_or_else(PoisonError::into_inner).push(CreatedFile::of(place, &made)?);
        Ok(Answer::Opened(made.into()))
    }

    fn remove(&self, place: &ResolvedPath, found: &File) -> Result<Answer, Refused> {
        let one = CreatedFile::of(place, found)?;
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if !made.contains(&one) {
            return Err(Refused::System(libc::EPERM));
        }
        unlinkat(&place.folder, &place.name, AtFlags::empty())?;
        made.retain(|known| *known != one);
        Ok(Answer::Done)
    }

    /// Refuses a request without a grant in the present configuration; if this cannot be read, the previous
    /// configuration counts.
    fn check(&self, path: &Path, is_granted: impl Fn(&Grant) -> bool) -> Result<(), Refused> {
        let now = (self.reread)();
        let known = {
            let mut known = self.granted.lock().unwrap_or_else(PoisonError::into_inner);
            if let Ok(now) = &now {
                known.clone_from(now);
            }
            known.clone()
        };
        // Grants of other paths are compared only if no grant of this path applies: their files may be
        // devices that hang.
        let (named, others): (Vec<Grant>, Vec<Grant>) =
            known.into_iter().partition(|grant| grant.path == path);
        if named.iter().chain(&others).any(&is_granted) {
            return Ok(());
        }
        let why = now.err().map(|why| format!(" ({why})")).unwrap_or_default();
        Err(Refused::Sentence(format!(
            "the user {} may not open it, and the monitor opens only named devices{why}; name it in {}, or give the user rights to it",
            self.user, self.named_in
        )))
    }

    /// Details of a path are reported only if the configuration names the path.
    fn tell_if_named(&self, path: &Path, refused: Refused) -> Refused {
        self.check(path, |grant| grant.path == path).err().unwrap_or(refused)
    }

    fn refuse_walk(&self, error: Untrusted) -> Refused {
        match error {
            Untrusted::Io(error) => Refused::from(error),
            Untrusted::Folder(_) => Refused::Sentence(format!(
                "the user {} may not open it, and the monitor does not, as {error}; give the user rights to it, or the folder to root \
                 alone",
                self.user
            )),
        }
    }
}

enum Refused {
    System(i32),
    Sentence(String),
}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Refused {
        Refused::System(error.raw_os_error().unwrap_or(libc::EIO))
    }
}

impl From<rustix::io::Errno> for Refused {
    fn from(error: rustix::io::Errno) -> Refused {
        Refused::System(error.raw_os_error())
    }
}

/// Opens the file that was found, not one that replaced it since. Pipes and the like are not opened.
fn open_again(found: &File, flags: i32) -> Result<OwnedFd, Refused> {
    use std::os::unix::fs::FileTypeExt;
    let kind = found.metadata()?.file_type();
    if !kind.is_file() && !kind.is_block_device() {
        return Err(Refused::System(libc::EINVAL));
    }
    let flags = OFlags::from_bits_retain(u32::try_from(flags).unwrap_or_default()) | OFlags::CLOEXEC;
    Ok(openat(CWD, format!("/proc/self/fd/{}", found.as_raw_fd()), flags, Mode::empty())?)
}

fn answer_aside(monitor: &Arc<Monitor>, busy: &Arc<AtomicUsize>, request: Request, answers: OwnedFd) {
    if busy.fetch_add(1, Ordering::AcqRel) >= REQUESTS_MAX {
        busy.fetch_sub(1, Ordering::AcqRel);
        let _ = Answer::Failed(libc::EAGAIN).send(&answers);
        return;
    }
    let (monitor, its) = (Arc::clone(monitor), Arc::clone(busy));
    let answer = move || {
        // The receiver may be closed.
        let _ = monitor.answer(&request).send(&answers);
        its.fetch_sub(1, Ordering::AcqRel);
    };
    if std::thread::Builder::new().spawn(answer).is_err() {
        // The other end of `answers` detects that the request was dropped.
        busy.fetch_sub(1, Ordering::AcqRel);
    }
}
