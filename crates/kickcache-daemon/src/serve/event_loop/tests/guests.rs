//! Guests in the loop, turn by turn.

use std::collections::VecDeque;
use std::io::IoSliceMut;
use std::os::fd::OwnedFd;

use kickcache_engine::time::Duration;
use kickcache_engine::units::ByteExtent;
use kickcache_vhost_user::{Device as GuestDevice, Disk, Socket};
use rustix::io::ioctl_fionread;
use rustix::net::Shutdown;

use super::reader::Reader;
use super::*;
use crate::driver::budget::{Claim, Grant};
use crate::driver::io_engine::IoEngine;
use crate::driver::queued_device::{QueuedDevice, QueuedEnd, QueuedRequest};
use crate::serve::frontend::listener::Listener;
use crate::serve::frontend::vhost_user::key::{Part, PortKey};
use crate::serve::frontend::vhost_user::port::Port;

const SOCKET: WatchKey = WatchKey::VhostUser(PortKey { port: 0, part: Part::Socket, generation: 0 });
const LISTENER: WatchKey = WatchKey::VhostUser(PortKey { port: 0, part: Part::Listener, generation: 0 });

const TURNS_MAX: usize = 1000;
const TURN_TIME_MAX: Duration = Duration::from_millis(10);

/// A loop with a guest.
struct Scene {
    event_loop: EventLoop<PassThrough>,
    guest: Reader,
    front: UnixStream,
    control: Sender<Control>,
    _directory: tempfile::TempDir,
}

impl Scene {
    fn new() -> Scene {
        let mut scene = Scene::with(Reader::new(2));
        let EventLoop { core, frontends, .. } = &mut scene.event_loop;
        frontends.take_requests(core);
        assert!(scene.port().held.is_some());
        scene
    }

    fn with((guest, device): (Reader, GuestDevice)) -> Scene {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let (origin, path) = (directory.path().join("origin"), directory.path().join("s"));
        std::fs::write(&origin, vec![1; 1 << 20]).unwrap();
        let limits = Limits { connection_bytes_max: 4096, ..Limits::default() };
        let (control, receiver) = mpsc::channel();
        let wakeup = Arc::new(Wakeup::new().unwrap());
        let mut event_loop = toy_loop(&origin, &path, IoEngine::Auto, limits, receiver, wakeup);
        let address = Place::Address(NbdAddress::Unix(directory.path().join("guest")));
        let disk = Disk { serial: [0; 20], size: 1 << 20, read_only: false, block_size: 512 };
        let mut port = Port::new(Listener::open_for_guest(address).unwrap(), disk, 0);
        let (front, ours) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        (port.device, port.socket) = (device, Some(Socket::new(OwnedFd::from(ours))));
        event_loop.frontends.vhost_user.ports.push(port);
        Scene { event_loop, guest, front, control, _directory: directory }
    }

    fn port(&mut self) -> &mut Port {
        &mut self.event_loop.frontends.vhost_user.ports[0]
    }

    fn ready(&mut self, key: WatchKey) {
        let EventLoop { core, frontends, .. } = &mut self.event_loop;
        frontends.on_ready(core, key, Interest::Readable);
    }

    fn turn_until(&mut self, is_so: impl Fn(&mut Scene) -> bool) {
        for _ in 0..TURNS_MAX {
            let now = self.event_loop.core.begin_turn();
            let EventLoop { core, frontends, .. } = &mut self.event_loop;
            frontends.take_requests(core);
            self.event_loop.pump(now);
            let EventLoop { core, frontends, .. } = &mut self.event_loop;
            frontends.send(core).unwrap();
            if is_so(self) {
                return;
            }
            let until = Some(now.plus(TURN_TIME_MAX));
            let EventLoop { core, frontends, .. } = &mut self.event_loop;
            core.driver.wait_beside(now, until, frontends).unwrap();
            self.event_loop.take_events();
        }
        panic!("it never comes to this");
    }
}

#[test]
fn a_queue_can_stop_while_a_request_waits_for_memory() {
    let mut scene = Scene::new();
    // GET_VRING_BASE of queue 0.
    scene.front.write_all(&[11, 0, 0, 0, 1, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]).unwrap();
    scene.ready(SOCKET);
    assert!(scene.port().waiting.is_some());
    scene.turn_until(|scene| scene.port().waiting.is_none());
    assert_eq!(scene.guest.answered(), 2);
    let mut reply = [0; 20];
    scene.front.read_exact(&mut reply).unwrap();
    assert_eq!(reply[12..], [0, 0, 0, 0, 2, 0, 0, 0]);
}

#[test]
fn a_request_waiting_for_memory_is_answered_before_the_stop() {
    let mut scene = Scene::new();
    scene.control.send(Control::Stop).unwrap();
    let now = scene.event_loop.core.clock.now();
    scene.event_loop.take_controls(now);
    scene.turn_until(|scene| {
        let now = scene.event_loop.core.clock.now();
        scene.event_loop.advance_stage(now)
    });
    assert_eq!(scene.guest.answered(), 2);
}

#[test]
fn a_long_stop_reports_its_reason() {
    let mut scene = Scene::new();
    let began = scene.event_loop.core.clock.now();
    assert_eq!(scene.event_loop.poll_wait(began.plus(Duration::from_millis(60_000))), None, "nothing stops");
    scene.control.send(Control::Stop).unwrap();
    scene.event_loop.take_controls(began);
    let at = |seconds: u64| began.plus(Duration::from_millis(seconds * 1000));
    assert_eq!(scene.event_loop.poll_wait(at(9)), None);
    let said = scene.event_loop.poll_wait(at(10)).unwrap();
    assert_eq!(said, "1 request of clients and virtual machines");
    assert!(scene.event_loop.next_deadline().is_some_and(|due| due <= at(20)));
    assert_eq!(scene.event_loop.poll_wait(at(11)), None);
    assert!(scene.event_loop.poll_wait(at(20)).is_some());
}

#[test]
fn a_request_waiting_for_memory_is_left_to_its_successor() {
    let mut scene = Scene::new();
    scene.front.shutdown(std::net::Shutdown::Both).unwrap();
    scene.ready(SOCKET);
    assert!(scene.port().socket.is_none());
    scene.turn_until(|scene| scene.port().device.outstanding() == 0);
    assert_eq!(scene.guest.answered(), 0);
    let budget = scene.event_loop.core.driver.budget();
    assert_eq!((budget.used(), budget.waiting_count()), (0, 0));
}

#[test]
fn a_read_is_answered_after_its_data_are_in_place() {
    let mut scene = Scene::new();
    scene.guest.cut_payload();
    scene.turn_until(|scene| scene.port().device.has_lost_memory() || scene.port().socket.is_none());
    assert_eq!(scene.guest.answered(), 0, "it was answered before");
}

#[test]
fn a_flood_of_messages_leaves_others_their_turn() {
    let mut scene = Scene::new();
    let set_owner = [3, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0];
    scene.front.write_all(&set_owner.repeat(1000)).unwrap();
    scene.ready(SOCKET);
    let unread = |scene: &mut Scene| ioctl_fionread(scene.port().socket.as_ref().unwrap()).unwrap();
    assert!(unread(&mut scene) > 0, "it took all of them");
    scene.turn_until(|scene| unread(scene) == 0);
}

#[test]
fn a_front_end_that_cannot_be_accepted_is_retried() {
    let mut scene = Scene::new();
    scene.port().socket = None;
    // A TCP socket that was shut down accepts no connection, and is readable for ever.
    let address = Place::Address(NbdAddress::Tcp { host: "127.0.0.1".into(), port: 0 });
    let listener = scene.port().listener.insert(Listener::open_for_guest(address).unwrap());
    rustix::net::shutdown(listener, Shutdown::Both).unwrap();
    scene.ready(LISTENER);
    let now = scene.event_loop.core.clock.now();
    assert!(scene.event_loop.core.accept_again.is_some_and(|again| again > now));
    scene.turn_until(|scene| scene.port().device.outstanding() == 0);
    assert!(!scene.port().listening);
    scene.event_loop.core.accept_again = Some(now);
    scene.event_loop.take_events();
    assert!(scene.port().listening);
}

/// An origin whose requests end with these results, in the order of submission.
struct Scripted {
    results: VecDeque<Result<(), i32>>,
    ended: VecDeque<(Instant, QueuedEnd)>,
    count: Sender<()>,
}

impl QueuedDevice for Scripted {
    fn submit(&mut self, now: Instant, token: u64, _request: QueuedRequest<'_>) {
        let result = self.results.pop_front().expect("a request too many");
        self.ended.push_back((now, QueuedEnd { token, result }));
        self.count.send(()).unwrap();
    }

    fn poll(&mut self, _now: Instant) -> Option<QueuedEnd> {
        self.ended.pop_front().map(|(_, end)| end)
    }

    fn take_read(&mut self, _token: u64, _extent: ByteExtent, into: &mut [IoSliceMut<'_>]) {
        into.iter_mut().for_each(|piece| piece.fill(1));
    }

    fn next_wakeup(&self) -> Option<Instant> {
        self.ended.front().map(|(since, _)| *since)
    }
}

const GUEST_WRITE: u32 = 1;
const GUEST_DISCARD: u32 = 11;
const GUEST_ZEROES: u32 = 13;
const OK: Result<(), i32> = Ok(());
const EIO: Result<(), i32> = Err(libc::EIO);

/// The status of a guest's request on an origin with these results, and the number of requests to the origin.
fn ends(kind: u32, bytes: &[u8], results: &[Result<(), i32>]) -> (u8, usize) {
    let mut scene = Scene::with(Reader::with_request(kind, bytes));
    let origin = Device::Origin(VolumeId::new(0));
    let (count, counted) = mpsc::channel();
    let scripted = Scripted { results: results.iter().copied().collect(), ended: VecDeque::new(), count };
    drop(scene.event_loop.core.driver.remove(origin));
    let medium = Medium::Queued(Box::new(scripted));
    scene.event_loop.core.driver.add(NamedMedium { device: origin, medium });
    scene.turn_until(|scene| scene.guest.answered() == 1);
    assert_eq!((scene.port().device.outstanding(), scene.port().bytes), (0, 0));
    assert_eq!(scene.event_loop.core.driver.budget().used(), 0);
    (scene.guest.status(), counted.try_iter().count())
}

/// Ranges of 4 KiB at every 64 KiB.
fn ranges(count: u64) -> Vec<u8> {
    let range = |number: u64| [(number * 128).to_le_bytes(), 8_u64.to_le_bytes()].concat();
    (0..count).flat_map(range).collect()
}

#[test]
fn a_request_of_several_ranges_succeeds_if_all_do() {
    for kind in [GUEST_DISCARD, GUEST_ZEROES] {
        assert_eq!(ends(kind, &ranges(3), &[OK, OK, OK]), (0, 3));
        assert_eq!(ends(kind, &ranges(2), &[EIO, OK]).0, 1, "the first range failed");
        assert_eq!(ends(kind, &ranges(3), &[OK, EIO, OK]).0, 1);
        assert_eq!(ends(kind, &ranges(2), &[OK, EIO]).0, 1);
        assert_eq!(ends(kind, &ranges(1), &[EIO]).0, 1);
    }
}

#[test]
fn a_failed_write_fails_for_the_guest() {
    for (result, status) in [(OK, 0), (EIO, 1), (Err(libc::ENOSPC), 1)] {
        assert_eq!(ends(GUEST_WRITE, &[7; 4096], &[result]), (status, 1));
    }
}

#[test]
fn a_hidden_volume_has_no_guest() {
    let mut scene = Scene::new();
    let hide = |scene: &mut Scene| {
        let EventLoop { core, frontends, .. } = &mut scene.event_loop;
        frontends.hide(core, 0);
    };
    let has_ended = |scene: &mut Scene| {
        let EventLoop { core, frontends, .. } = &mut scene.event_loop;
        frontends.end_quiet(core, 0)
    };
    assert!(!has_ended(&mut scene));
    hide(&mut scene);
    let port = scene.port();
    assert!(port.socket.is_none() && port.held.is_none() && port.device.outstanding() == 1);
    assert!(!has_ended(&mut scene), "a read is in flight");
    scene.turn_until(|scene| scene.port().device.outstanding() == 0);
    assert!(has_ended(&mut scene));
    // A turn offers the socket again, unless the volume is hidden; so does a connection that had come already.
    scene.ready(LISTENER);
    assert!(!scene.port().listening && scene.port().socket.is_none());
    let EventLoop { core, frontends, .. } = &mut scene.event_loop;
    frontends.show(core, 0);
    assert!(scene.port().listening);
    hide(&mut scene);
    assert!(!scene.port().listening);
    assert_eq!(scene.guest.answered(), 0);
}

/// A loop whose memory others have, and the first read of the guest, which waits for it.
fn without_memory() -> (Scene, Vec<Grant>) {
    let mut scene = Scene::with(Reader::new(2));
    scene.event_loop.give_memory(64 << 10);
    let budget = &mut scene.event_loop.core.driver.buffers().budget;
    let claim = || Claim { volume: 0, bytes: 4096, held: 0, key: 1 };
    let grants: Vec<Grant> = std::iter::from_fn(|| budget.reserve(claim())).collect();
    budget.cancel(1);
    assert!(!grants.is_empty() && budget.waiting_count() == 0);
    let EventLoop { core, frontends, .. } = &mut scene.event_loop;
    frontends.take_requests(core);
    assert_eq!((core.driver.budget().waiting_count(), scene.port().device.outstanding()), (1, 1));
    (scene, grants)
}

#[test]
fn a_guest_that_is_gone_leaves_the_line_for_memory() {
    let (mut scene, grants) = without_memory();
    scene.front.shutdown(std::net::Shutdown::Both).unwrap();
    scene.ready(SOCKET);
    assert_eq!(scene.event_loop.core.driver.budget().waiting_count(), 0);
    let budget = &mut scene.event_loop.core.driver.buffers().budget;
    grants.into_iter().for_each(|grant| budget.release(grant));
    scene.turn_until(|scene| scene.port().listening);
    let port = scene.port();
    assert!(port.held.is_none() && port.device.outstanding() == 0);
    assert_eq!(scene.event_loop.core.driver.budget().used(), 0);
}

#[test]
fn a_guest_gets_its_turn_when_memory_is_free_again() {
    let (mut scene, grants) = without_memory();
    let budget = &mut scene.event_loop.core.driver.buffers().budget;
    grants.into_iter().for_each(|grant| budget.release(grant));
    scene.turn_until(|scene| scene.guest.answered() == 2);
    let budget = scene.event_loop.core.driver.budget();
    assert_eq!((budget.used(), budget.waiting_count()), (0, 0));
}
