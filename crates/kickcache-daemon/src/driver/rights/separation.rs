//! The process becomes two: the daemon as another user, and its monitor.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::signal::SigSet;
use nix::unistd::{setgroups, setresgid, setresuid};
use rustix::process::{Pid, WaitOptions, waitpid};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};

use crate::driver::rights::access::set_monitor;
use crate::driver::rights::account::Account;
use crate::driver::rights::grant::Grant;
use crate::driver::rights::monitor::Monitor;
use crate::driver::rights::wire::Ends;

pub const MONITOR_ENDED: &str = "the monitor, the part of the daemon that is root, has ended: open \
                                 devices are served on, but no other one that needs its rights can be \
                                 opened; start the daemon again";
/// The capability of root that the monitor needs.
const KEPT: CapabilitySet = CapabilitySet::DAC_OVERRIDE;

pub struct GrantSource {
    pub granted: Vec<Grant>,
    pub reread: Box<dyn Fn() -> Result<Vec<Grant>, String> + Send + Sync>,
    pub named_in: String,
}

static ENDED: AtomicBool = AtomicBool::new(false);

/// Whether the monitor has ended before the daemon.
pub fn has_monitor_ended() -> bool {
    ENDED.load(Ordering::Acquire)
}

/// The daemon's handle of its monitor: the number of the process.
#[must_use = "its end is noticed by `watch`"]
pub struct MonitorHandle(Pid);

impl MonitorHandle {
    /// Logs if the monitor ends before the daemon.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn watch(self) -> io::Result<()> {
        let wait = move || {
            let _ = rustix::io::retry_on_intr(|| waitpid(Some(self.0), WaitOptions::empty()));
            ENDED.store(true, Ordering::Release);
            tracing::error!(event = "monitor_ended", "{MONITOR_ENDED}");
        };
        std::thread::Builder::new().name("monitor-watch".into()).spawn(wait).map(drop)
    }
}

/// Forks the monitor, and makes this process continue as the user.
///
/// # Errors
/// A sentence; the process must end then.
pub fn separate(account: &Account, granting: GrantSource) -> io::Result<MonitorHandle> {
    if std::fs::read_dir("/proc/self/task")?.count() != 1 {
        return Err(io::Error::other("there are threads already"));
    }
    if !rustix::thread::capabilities(None)?.permitted.contains(KEPT) {
        return Err(io::Error::other(
            "the daemon has no capability CAP_DAC_OVERRIDE, which its monitor opens devices with: start it with that one (of a container or \
             a unit: CapabilityBoundingSet), or leave `user` out",
        ));
    }
    let Ends { here: ours, there: its } = Ends::make()?;
    let GrantSource { granted, reread, named_in } = granting;
    let (user, made) = (account.name.clone(), Mutex::default());
    let monitor = Monitor { granted: Mutex::new(granted), reread, user, named_in, made };
    // SAFETY: there is one thread, so that the child has no lock held by another thread.
    match unsafe { libc::fork() } {
        -1 => Err(named("fork the monitor", io::Error::last_os_error())),
        0 => {
            drop(ours);
            be_monitor(monitor, &its)
        }
        pid => {
            drop(its);
            become_user(account)?;
            set_monitor(ours);
            let pid = Pid::from_raw(pid).ok_or(io::ErrorKind::InvalidData)?;
            Ok(MonitorHandle(pid))
        }
    }
}

fn named(what: &str, error: impl Into<io::Error>) -> io::Error {
    let error = error.into();
    io::Error::new(error.kind(), format!("cannot {what}: {error}"))
}

/// Runs the monitor to its end, unless its rights cannot be limited.
fn be_monitor(monitor: Monitor, socket: &OwnedFd) -> ! {
    let _ = SigSet::all().thread_block();
    close_others(socket.as_raw_fd());
    let _ = rustix::thread::set_name(c"kickcache-root");
    let sets = CapabilitySets { effective: KEPT, permitted: KEPT, inheritable: CapabilitySet::empty() };
    let limited = rustix::thread::set_no_new_privs(true).and_then(|()| set_capabilities(None, sets));
    if limited.is_ok() {
        monitor.run(socket);
    }
    std::process::exit(i32::from(limited.is_err()))
}

/// Closes the other descriptors that the daemon was started with.
fn close_others(kept: RawFd) {
    let open = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let open: Vec<RawFd> = open.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for fd in open.into_iter().filter(|fd| *fd > libc::STDERR_FILENO && *fd != kept) {
        // SAFETY: this process has just started, and does not use these descriptors.
        unsafe { libc::close(fd) };
    }
}

fn become_user(account: &Account) -> io::Result<()> {
    let Account { name, uid, gid, groups } = account;
    let no_new = rustix::thread::set_no_new_privs(true);
    no_new.map_err(|error| named("give up new rights", error))?;
    let fail = |error: nix::Error| named(&format!("become the user {name}"), error);
    setgroups(groups).map_err(fail)?;
    setresgid(*gid, *gid, *gid).map_err(fail)?;
    setresuid(*uid, *uid, *uid).map_err(fail)?;
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    set_capabilities(None, sets).map_err(|error| named("give up capabilities", error))?;
    if nix::unistd::setuid(nix::unistd::Uid::from_raw(0)).is_ok() {
        return Err(io::Error::other("cannot give up the rights of root: they can be regained"));
    }
    Ok(())
}
