//! Notifications to systemd (`NOTIFY_SOCKET`).

use std::ffi::OsStr;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use std::{env, io};

use kickcache_units::{counted, show_bytes};
use sd_notify::NotifyState;

use crate::control::condition::Health;
use crate::serve::server::{Pulse, ServerHealth};

/// The longest pause between two status notifications.
const SPAN: Duration = Duration::from_secs(5);
/// How long sending a notification may take.
const PATIENCE: Duration = Duration::from_millis(500);

/// The source of the pulses of the event loops.
pub(crate) trait Pulses: Send + Sync + 'static {
    fn health(&self) -> Health;

    fn pulses(&self) -> Vec<DevicePulse>;
}

pub(crate) struct DevicePulse {
    pub(crate) device: String,
    pub(crate) pulse: Pulse,
}

pub(crate) fn tell_start() {
    tell(&[NotifyState::Status("starting")]);
}

pub(crate) fn tell_stop() {
    tell(&[NotifyState::Stopping, NotifyState::Status("stopping")]);
}

pub(crate) fn tell_reload() {
    let told = [NotifyState::Reloading, NotifyState::Status("reading the configuration again")];
    match NotifyState::monotonic_usec_now() {
        Ok(now) => tell(&[told[0].clone(), now, told[1].clone()]),
        Err(_) => tell(&told),
    }
}

pub(crate) fn tell_reloaded() {
    tell(&[NotifyState::Ready, NotifyState::Status("serving")]);
}

/// Sends status notifications until this is dropped.
pub(crate) struct ServiceManager {
    ending: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl ServiceManager {
    /// Notifies that the daemon serves its volumes, and then sends status notifications.
    ///
    /// # Errors
    /// If there can be no thread for it.
    pub(crate) fn tell_ready(target: Arc<dyn Pulses>) -> io::Result<ServiceManager> {
        if env::var_os("NOTIFY_SOCKET").is_none() {
            return Ok(ServiceManager { ending: None, thread: None });
        }
        let watchdog = sd_notify::watchdog_enabled();
        let span = watchdog.map_or(SPAN, |limit| SPAN.min(limit / 4));
        let (ending, ended) = mpsc::channel();
        let follow = move || {
            while ended.recv_timeout(span) == Err(RecvTimeoutError::Timeout) {
                let News { status, turns } = News::of(&target.health(), &target.pulses());
                tell(&[NotifyState::Status(&status)]);
                if turns == Turns::All && watchdog.is_some() {
                    tell(&[NotifyState::Watchdog]);
                }
            }
        };
        let thread = thread::Builder::new().name("notify".into()).spawn(follow)?;
        tell(&[NotifyState::Ready, NotifyState::Status("serving")]);
        Ok(ServiceManager { ending: Some(ending), thread: Some(thread) })
    }
}

impl Drop for ServiceManager {
    fn drop(&mut self) {
        self.ending = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// If the service manager does not read, the message is dropped after [`PATIENCE`].
fn tell(news: &[NotifyState<'_>]) {
    if let Some(path) = env::var_os("NOTIFY_SOCKET") {
        let _ = send(&path, &news.iter().map(|news| format!("{news}\n")).collect::<String>());
    }
}

/// Sends a message; fails if the socket's queue stays full for [`PATIENCE`].
fn send(path: &OsStr, message: &str) -> io::Result<()> {
    let socket = UnixDatagram::unbound()?;
    socket.set_write_timeout(Some(PATIENCE))?;
    let address = match path.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(path)?,
    };
    socket.send_to_addr(message.as_bytes(), &address).map(drop)
}

/// Whether all event loops turn that have not ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Turns {
    All,
    NotAll,
}

#[derive(PartialEq, Eq, Debug)]
struct News {
    status: String,
    turns: Turns,
}

impl News {
    fn of(health: &Health, pulses: &[DevicePulse]) -> News {
        let (mut volumes, mut dirty, mut turns, mut stops) = (0, 0, Turns::All, Vec::new());
        for DevicePulse { device, pulse } in pulses {
            match pulse {
                Pulse::Turns(ServerHealth { volumes: count, dirty_bytes, awaited }) => {
                    volumes += *count as u64;
                    dirty += dirty_bytes;
                    stops.extend(awaited.as_ref().map(|awaited| format!("the stop waits for {awaited}")));
                }
                Pulse::Silent => {
                    turns = Turns::NotAll;
                    stops.push(format!("the event loop of {device} does not answer"));
                }
                Pulse::Ended => {}
            }
        }
        let first = format!("{}, {} dirty", counted(volumes, "volume"), show_bytes(dirty));
        let all = [first].into_iter().chain(stops).collect::<Vec<String>>().join("; ");
        News { status: format!("{all}. {}", health.sentence).trim().to_owned(), turns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(volumes: usize, awaited: Option<&str>) -> Pulse {
        Pulse::Turns(ServerHealth { volumes, dirty_bytes: 1 << 20, awaited: awaited.map(str::to_owned) })
    }

    fn news(pulses: Vec<Pulse>) -> (String, Turns) {
        let devices = ["/dev/a", "/dev/b"].map(str::to_owned).into_iter().zip(pulses);
        let named: Vec<_> = devices.map(|(device, pulse)| DevicePulse { device, pulse }).collect();
        let News { status, turns } =
            News::of(&Health { sentence: "All is well.".into(), ..Health::default() }, &named);
        (status, turns)
    }

    #[test]
    fn a_hanging_loop_starves_the_watchdog_but_no_ended_one() {
        let good = || turns(2, None);
        assert_eq!(news(vec![good(), good()]), ("4 volumes, 2 MiB dirty. All is well.".into(), Turns::All));
        let silent = "2 volumes, 1 MiB dirty; the event loop of /dev/b does not answer. All is well.";
        assert_eq!(news(vec![good(), Pulse::Silent]), (silent.into(), Turns::NotAll));
        let ended = "2 volumes, 1 MiB dirty. All is well.";
        assert_eq!(news(vec![Pulse::Ended, good()]), (ended.into(), Turns::All));
    }

    #[test]
    fn a_service_manager_that_does_not_read_causes_no_delay() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        let mut heard = 0;
        let full = loop {
            match send(path.as_os_str(), "STATUS=serving\n") {
                Ok(()) => heard += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(full.kind(), io::ErrorKind::WouldBlock);
        let mut message = [0; 64];
        for _ in 0..heard {
            let length = manager.recv(&mut message).unwrap();
            assert_eq!(&message[..length], b"STATUS=serving\n");
        }
    }

    #[test]
    fn problems_are_in_the_status_text() {
        let stop = turns(1, Some("the origin of a"));
        let expected = "2 volumes, 2 MiB dirty; the stop waits for the origin of a. All is well.";
        assert_eq!(news(vec![turns(1, None), stop]), (expected.into(), Turns::All));
    }
}
