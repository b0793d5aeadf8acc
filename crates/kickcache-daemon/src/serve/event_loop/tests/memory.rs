//! Clients that keep memory for payload.

use std::num::NonZeroU64;
use std::path::PathBuf;

use kickcache_engine::rate::RateCap;

use super::held_device::{HeldDevice, HeldRequests};
use super::*;
use crate::plan::client_cap::ClientCap;

pub(super) const MIB: u32 = 1 << 20;
pub(super) const READ: u16 = 0;
pub(super) const WRITE: u16 = 1;

/// A loop with 16 MiB for payload; requests above 2 MiB share 12 MiB.
pub(super) struct Scene {
    pub(super) event_loop: EventLoop<PassThrough>,
    _control: Sender<Control>,
    directory: tempfile::TempDir,
}

impl Scene {
    pub(super) fn new() -> Scene {
        Scene::with_limits(Limits::default())
    }

    pub(super) fn with_limits(limits: Limits) -> Scene {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let (origin, path) = (directory.path().join("origin"), directory.path().join("s"));
        std::fs::File::create(&origin).unwrap().set_len(64 << 20).unwrap();
        let (control, receiver) = mpsc::channel();
        let wakeup = Arc::new(Wakeup::new().unwrap());
        let mut event_loop = toy_loop(&origin, &path, IoEngine::Auto, limits, receiver, wakeup);
        event_loop.give_memory(16 << 20);
        event_loop.watch_all();
        Scene { event_loop, _control: control, directory }
    }

    /// Replaces the origin by one whose requests end when the test ends them.
    pub(super) fn hold_origin(&mut self) -> HeldRequests {
        let (device, requests) = (Device::Origin(VolumeId::new(0)), HeldRequests::default());
        drop(self.event_loop.core.driver.remove(device));
        let medium = Medium::Queued(Box::new(HeldDevice(requests.clone())));
        self.event_loop.core.driver.add(NamedMedium { device, medium });
        requests
    }

    pub(super) fn path(&self) -> PathBuf {
        self.directory.path().join("s")
    }

    /// The address that clients connect to.
    pub(super) fn address(&self) -> NbdAddress {
        NbdAddress::Unix(self.path())
    }

    /// A connection before its handshake.
    pub(super) fn socket(&self) -> UnixStream {
        let socket = UnixStream::connect(self.path()).unwrap();
        socket.set_nonblocking(true).unwrap();
        socket
    }

    /// A connection in the transmission phase; its volume may begin one request, and the next one an hour later.
    pub(super) fn capped(&mut self) -> UnixStream {
        let rate = RateCap { bytes: NonZeroU64::new(1), requests: None };
        let cap = ClientCap { rate, burst: Duration::from_nanos(0) };
        self.event_loop.core.throttles.set(VolumeId::new(0), cap);
        self.connect()
    }

    /// A connection in the transmission phase.
    pub(super) fn connect(&mut self) -> UnixStream {
        let mut socket = self.socket();
        socket.write_all(&[0, 0, 0, 3]).unwrap();
        socket.write_all(b"IHAVEOPT\0\0\0\x01\0\0\0\x03toy").unwrap();
        let before = self.event_loop.frontends.sessions(0).nbd;
        self.turn_until(|scene| scene.event_loop.frontends.sessions(0).nbd > before);
        // The greeting, and the size and flags of the export.
        let mut left = vec![0; 18 + 10];
        self.turn_until(|_| {
            let count = socket.read(&mut left).unwrap_or(0);
            left.drain(..count);
            left.is_empty()
        });
        socket
    }

    pub(super) fn turn(&mut self) {
        let now = self.event_loop.core.begin_turn();
        let EventLoop { core, frontends, .. } = &mut self.event_loop;
        frontends.take_requests(core);
        self.event_loop.pump(now);
        let EventLoop { core, frontends, .. } = &mut self.event_loop;
        frontends.send(core).unwrap();
        let until = Some(now.plus(Duration::from_millis(5)));
        core.driver.wait_beside(now, until, frontends).unwrap();
        self.event_loop.take_events();
    }

    /// Runs turns of the loop until a condition holds.
    pub(super) fn turn_until(&mut self, mut is_so: impl FnMut(&mut Scene) -> bool) {
        for _ in 0..2000 {
            if is_so(self) {
                return;
            }
            self.turn();
        }
        panic!("it never comes to this");
    }

    /// Lets time pass at once.
    pub(super) fn pass(&mut self, seconds: u64) {
        let EventLoop { core, frontends, .. } = &mut self.event_loop;
        core.now = core.now.plus(Duration::from_millis(seconds * 1000));
        frontends.handle_timeout(core);
    }

    pub(super) fn waiting(&self) -> usize {
        self.event_loop.core.driver.budget().waiting_count()
    }

    pub(super) fn used(&self) -> usize {
        self.event_loop.core.driver.budget().used()
    }

    pub(super) fn connections(&self) -> usize {
        self.event_loop.frontends.connection_count()
    }
}

/// A client that has sent `count` reads of 4 MiB, and takes no reply.
pub(super) fn ask(scene: &mut Scene, count: u64) -> UnixStream {
    let mut client = scene.connect();
    for cookie in 0..count {
        client.write_all(&request(READ, cookie, 0, 4 * MIB)).unwrap();
    }
    client
}

#[test]
fn a_client_without_reads_is_dropped_while_others_wait() {
    let mut scene = Scene::new();
    let _greedy = ask(&mut scene, 5);
    scene.turn_until(|scene| scene.waiting() == 1 && scene.used() == 12 << 20);
    let mut other = ask(&mut scene, 1);
    scene.turn_until(|scene| scene.waiting() == 2);
    scene.pass(1);
    scene.pass(28);
    assert_eq!((scene.connections(), scene.waiting()), (2, 2));
    scene.pass(2);
    assert_eq!((scene.connections(), scene.waiting()), (1, 1));
    let mut reply = vec![0; 1 << 20];
    let mut taken = 0;
    scene.turn_until(|_| {
        taken += other.read(&mut reply).unwrap_or(0);
        taken == 16 + (4 << 20)
    });
    assert_eq!((scene.connections(), scene.used()), (1, 0));
}

#[test]
fn a_half_sent_write_is_dropped_while_others_wait() {
    let mut scene = Scene::new();
    let mut half = scene.connect();
    half.write_all(&request(WRITE, 1, 0, 12 * MIB)).unwrap();
    scene.turn_until(|scene| scene.used() == 12 << 20);
    let _other = ask(&mut scene, 1);
    scene.turn_until(|scene| scene.waiting() == 1);
    scene.pass(1);
    scene.pass(31);
    assert_eq!(scene.connections(), 1);
    scene.turn_until(|scene| scene.waiting() == 0 && scene.used() <= 4 << 20);
}

#[test]
fn a_client_without_reads_stays_while_memory_suffices() {
    let mut scene = Scene::new();
    let _slow = ask(&mut scene, 3);
    scene.turn_until(|scene| scene.used() >= 4 << 20);
    scene.pass(1);
    scene.pass(3600);
    assert_eq!(scene.connections(), 1);
}

#[test]
fn a_client_that_goes_on_taking_its_replies_stays() {
    let mut scene = Scene::new();
    let mut slow = ask(&mut scene, 5);
    scene.turn_until(|scene| scene.waiting() == 1 && scene.used() == 12 << 20);
    let _other = ask(&mut scene, 1);
    scene.turn_until(|scene| scene.waiting() == 2);
    scene.pass(1);
    let mut some = vec![0; 1 << 20];
    for _ in 0..3 {
        let mut taken = 0;
        scene.turn_until(|_| {
            taken += slow.read(&mut some).unwrap_or(0);
            taken >= 2 << 20
        });
        scene.turn();
        scene.pass(20);
    }
    assert_eq!(scene.connections(), 2, "it took more than 1 MiB in each 30 s");
}

#[test]
fn a_client_that_is_gone_leaves_the_line() {
    let mut scene = Scene::new();
    let greedy = ask(&mut scene, 5);
    scene.turn_until(|scene| scene.waiting() == 1 && scene.used() == 12 << 20);
    let gone = ask(&mut scene, 1);
    scene.turn_until(|scene| scene.waiting() == 2);
    drop(gone);
    scene.pass(2);
    assert_eq!((scene.connections(), scene.waiting()), (1, 1));
    drop(greedy);
    scene.turn_until(|scene| scene.connections() == 0 && scene.used() == 0);
    assert_eq!(scene.waiting(), 0);
}

/// The requests wait for the cap of their volume, or for another engine.
#[test]
fn requests_of_a_client_that_is_gone_keep_no_memory() {
    for what in ["cap", "engine"] {
        let mut scene = Scene::new();
        let mut client = match what {
            "cap" => scene.capped(),
            _ => scene.connect(),
        };
        if what == "engine" {
            scene.event_loop.core.hold();
        }
        for cookie in 0..3 {
            client.write_all(&request(WRITE, cookie, 0, MIB)).unwrap();
            let mut left = vec![9; 1 << 20];
            scene.turn_until(|_| {
                let count = client.write(&left).unwrap_or(0);
                left.drain(..count);
                left.is_empty()
            });
        }
        let held = if what == "cap" { 2 << 20 } else { 3 << 20 };
        scene.turn_until(|scene| scene.used() == held && scene.event_loop.core.requests.is_empty());
        drop(client);
        scene.turn_until(|scene| scene.connections() == 0);
        scene.turn();
        assert_eq!(scene.used(), 0, "{what}");
        scene.event_loop.core.let_go();
    }
}
