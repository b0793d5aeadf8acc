//! The loop with an engine without a cache.

mod clients;
mod ending;
mod exchange;
mod guests;
mod held_device;
mod membership;
mod memory;
mod quiescence;
mod reader;
mod superblock;
mod take_over;
mod ublk;

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::{self, Sender};
use std::thread::JoinHandle;
use std::time::Duration as Span;

use kickcache_engine::device::Device;
use kickcache_engine::pass_through::PassThrough;
use kickcache_engine::units::VolumeId;
use kickcache_nbd::client::{Client, ConnectOptions};

use super::*;
use crate::devices::journal_note::JournalNote;
use crate::devices::record_queue::QueuedRecord;
use crate::devices::volume_identity::VolumeIdentity;
use crate::driver::budget::Budget;
use crate::driver::clock::Clock;
use crate::driver::device::{AccessMode, BlockFile, Emptiness};
use crate::driver::executor::{Driver, DriverSettings, Medium, NamedMedium};
use crate::driver::fault::{Cause, Fault};
use crate::driver::io_engine::IoEngine;
use crate::driver::payload_memory::PayloadMemory;
use crate::plan::address::NbdAddress;
use crate::serve::config::{Limits, StatePlace};
use crate::serve::frontend::listener::{Place, VolumePlace};
use crate::serve::frontend::nbd::Nbd;
use crate::serve::frontend::nbd::key::{ConnectionId, NbdKey};
use crate::serve::frontend::nbd::settings::NbdSettings;
use crate::serve::served_volumes::ServedVolumes;
use crate::serve::served_volumes::Volume;
use crate::serve::verbs::Verbs;
use crate::serve::verbs::exchange::RequestHold;
use crate::serve::verbs::resizes::RunningResizes;
use crate::serve::verbs::superblock_lease::SuperblockQueue;
use crate::serve::volume_info::VolumeInfo;

/// Bytes for payload.
const MEMORY: usize = 256 << 20;

pub(super) struct Toy {
    pub(super) control: Sender<Control>,
    pub(super) wakeup: Arc<Wakeup>,
    pub(super) thread: JoinHandle<Result<Vec<UncleanBlocks>, ServeError>>,
}

impl Toy {
    pub(super) fn start(origin: &Path, socket: &Path, io_engine: IoEngine, limits: Limits) -> Toy {
        Toy::start_in(MEMORY, origin, socket, io_engine, limits)
    }

    fn start_in(memory: usize, origin: &Path, socket: &Path, io_engine: IoEngine, limits: Limits) -> Toy {
        let wakeup = Arc::new(Wakeup::new().unwrap());
        let (control, receiver) = mpsc::channel();
        let (origin, socket, rung) = (origin.to_path_buf(), socket.to_path_buf(), Arc::clone(&wakeup));
        let (ready, listening) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let mut event_loop = toy_loop(&origin, &socket, io_engine, limits, receiver, rung);
            event_loop.give_memory(memory);
            ready.send(()).unwrap();
            event_loop.run()
        });
        listening.recv().unwrap();
        Toy { control, wakeup, thread }
    }

    pub(super) fn stop(self) {
        self.control.send(Control::Stop).unwrap();
        self.wakeup.ring();
        self.thread.join().unwrap().unwrap();
    }
}

#[expect(clippy::too_many_arguments, reason = "a fixture")]
fn toy_loop(
    origin: &Path,
    socket: &Path,
    io_engine: IoEngine,
    limits: Limits,
    control: Receiver<Control>,
    wakeup: Arc<Wakeup>,
) -> EventLoop<PassThrough> {
    loop_of(PassThrough::new(), origin, socket, io_engine, limits, control, wakeup)
}

#[expect(clippy::too_many_arguments, reason = "a fixture")]
fn loop_of<E: CacheEngine>(
    engine: E,
    origin: &Path,
    socket: &Path,
    io_engine: IoEngine,
    limits: Limits,
    control: Receiver<Control>,
    wakeup: Arc<Wakeup>,
) -> EventLoop<E> {
    let file = BlockFile::open(origin, AccessMode::ReadWrite, Emptiness::Refused).unwrap();
    let id = VolumeId::new(0);
    let info = VolumeInfo {
        name: "toy".into(),
        id,
        size: file.size(),
        origin: file.identified().identity,
        read_only: false,
    };
    let zeroes = file.zeroes();
    let media = vec![NamedMedium { device: Device::Origin(id), medium: Medium::File(file) }];
    let budget = Budget::new(&PayloadMemory::new(MEMORY, 1), 1, Arc::clone(&wakeup));
    let settings = DriverSettings { io_engine, budget, pool_pages: 16, media };
    let identity = VolumeIdentity::of_origin("toy", &info.origin);
    let volumes = || {
        vec![Volume {
            info: info.clone(),
            identity: identity.clone(),
            zeroes,
            allowed: Vec::new(),
            _locks: Vec::new(),
        }]
    };
    let nbd = Nbd::open(
        vec![VolumePlace { place: Place::Address(NbdAddress::Unix(socket.into())), volume: 0 }],
        &ServedVolumes::new(volumes()),
        NbdSettings::plain(),
    )
    .unwrap();
    let driver = Driver::open(settings).unwrap();
    let core = Core::new(Clock::start(), engine, driver, volumes(), limits);
    EventLoop {
        origins: Origins::Used,
        core,
        frontends: Frontends { nbd, ..Frontends::default() },
        cache: origin.into(),
        superblock: Superblock::new([0; 16], 8 << 20).unwrap(),
        out_of_service: OutOfService::Untold,
        damaged: Vec::new(),
        control,
        note_queue: RecordQueue::new(Arc::clone(&wakeup)),
        resizes: RunningResizes::default(),
        growth: None,
        takeover: CacheTakeover::new(Arc::clone(&wakeup), origin.into()),
        journal_note: JournalNote::new(Arc::clone(&wakeup)),
        write_budget: None,
        wakeup,
        troubles: Troubles::new(),
        notes: None,
        leaving: None,
        request_hold: RequestHold::None,
        superblock_queue: SuperblockQueue::default(),
        stop_wait: StopWait::default(),
        curve_turn: 0,
        recovery: Default::default(),
        commands: DaemonCommands::default(),
    }
}

impl EventLoop<PassThrough> {
    /// Replaces the budget for payload, which must be unused.
    fn give_memory(&mut self, bytes: usize) {
        let budget = Budget::new(&PayloadMemory::new(bytes, 1), 1, Arc::clone(&self.wakeup));
        self.core.driver.buffers().budget = budget;
    }
}

#[test]
#[ignore = "serves a file for measurements until stdin ends: TOY_FILE=.. TOY_SOCKET=.. TOY_ENGINE=threads|io_uring"]
fn serve_a_file_for_measurements() {
    let io_engine = match std::env::var("TOY_ENGINE").as_deref() {
        Ok("threads") => IoEngine::Threads,
        _ => IoEngine::IoUring,
    };
    let (file, socket) = (std::env::var("TOY_FILE").unwrap(), std::env::var("TOY_SOCKET").unwrap());
    let toy = Toy::start(Path::new(&file), Path::new(&socket), io_engine, Limits::default());
    let _ = io::stdin().lines().count();
    toy.stop();
}

/// A stop waits for the queued records.
#[test]
fn an_outstanding_record_ends_after_its_device_is_removed() {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let [origin, socket, state] = ["origin", "s", "state"].map(|name| directory.path().join(name));
    std::fs::write(&origin, vec![1; 8 << 20]).unwrap();
    let (_control, receiver) = mpsc::channel();
    let wakeup = Arc::new(Wakeup::new().unwrap());
    let mut event_loop = toy_loop(&origin, &socket, IoEngine::Threads, Limits::default(), receiver, wakeup);
    let notes =
        OriginRecords::begin(&StatePlace::Directory(state), (&event_loop.superblock, &origin), &[]).unwrap();
    let notes = Arc::new(notes);
    for _ in 0..2 {
        event_loop.note_queue.add(&notes, QueuedRecord::Newest { newest: Vec::new(), known: Vec::new() });
    }
    event_loop.notes = None;
    for turn in 0.. {
        event_loop.take_controls(Instant::from_nanos(1));
        if event_loop.note_queue.is_empty() {
            break;
        }
        assert!(turn < 5_000, "no record ends");
        std::thread::sleep(Span::from_millis(2));
    }
}

fn loop_without_clients(directory: &Path) -> EventLoop<PassThrough> {
    let (origin, socket) = (directory.join("origin"), directory.join("s"));
    std::fs::write(&origin, vec![1; 8 << 20]).unwrap();
    let (_, receiver) = mpsc::channel();
    let wakeup = Arc::new(Wakeup::new().unwrap());
    toy_loop(&origin, &socket, IoEngine::Threads, Limits::default(), receiver, wakeup)
}

#[test]
fn counted_errors_do_not_pass_to_another_cache_device() {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let mut event_loop = loop_without_clients(directory.path());
    let now = event_loop.core.now;
    let cause = Cause::Errno(libc::EIO);
    let fault = |device| Fault { device, operation: "read", offset: 0, length: 4096, cause };
    let devices = [Device::Cache, Device::Origin(VolumeId::new(0))];
    let noted =
        |event_loop: &mut EventLoop<_>| devices.map(|device| event_loop.troubles.note(now, fault(device)));
    assert_eq!([noted(&mut event_loop), noted(&mut event_loop)], [[true; 2], [false; 2]]);
    event_loop.end_troubles_of_cache(now);
    assert_eq!(devices.map(|device| event_loop.troubles.tally(device).is_some()), [false, true]);
    let held: Vec<_> = event_loop.troubles.end(now).map(|held| held.kind.device).collect();
    assert_eq!(held, devices[1..]);
}

#[test]
fn time_in_which_the_loop_was_stopped_is_no_silence() {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let mut event_loop = loop_without_clients(directory.path());
    let at = |seconds: u64| Instant::from_nanos(seconds * 1_000_000_000);
    let core = &mut event_loop.core;
    // A sleep that was to end after a second ended after a minute.
    (core.clock, core.now) = (Clock::started_ago(100), at(40));
    assert_eq!(core.begin_turn_after(Some(at(41))), at(41));
    let missed = core.take_missed().as_nanos() / 1_000_000_000;
    assert!((59..90).contains(&missed), "{missed}");
    assert_eq!(event_loop.troubles.hear(event_loop.core.now, Device::Cache, Some(at(35))), None);
    // A turn that took a minute is a gap, a sleep without an end is none.
    let core = &mut event_loop.core;
    (core.clock, core.now) = (Clock::started_ago(100), at(40));
    assert_eq!((core.begin_turn(), core.take_missed() > Duration::from_nanos(0)), (at(40), true));
    core.clock = Clock::started_ago(100);
    assert!(core.begin_turn_after(None) >= at(100));
    assert_eq!(core.take_missed(), Duration::from_nanos(0));
}

struct ToySetup {
    directory: tempfile::TempDir,
    toy: Toy,
}

impl ToySetup {
    fn new(limits: Limits) -> ToySetup {
        ToySetup::in_memory(MEMORY, limits)
    }

    fn in_memory(memory: usize, limits: Limits) -> ToySetup {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let origin = directory.path().join("origin");
        std::fs::write(&origin, vec![1; 8 << 20]).unwrap();
        let toy = Toy::start_in(memory, &origin, &directory.path().join("s"), IoEngine::Auto, limits);
        ToySetup { directory, toy }
    }

    fn connect(&self) -> Client {
        let path = self.directory.path().join("s");
        Client::connect_unix(path, &ConnectOptions::default()).unwrap()
    }

    fn raw(&self) -> UnixStream {
        let socket = UnixStream::connect(self.directory.path().join("s")).unwrap();
        socket.set_read_timeout(Some(Span::from_secs(10))).unwrap();
        socket
    }

    fn raw_transmission(&self) -> UnixStream {
        let mut socket = self.raw();
        let mut greeting = [0; 18];
        socket.read_exact(&mut greeting).unwrap();
        socket.write_all(&[0, 0, 0, 3]).unwrap();
        socket.write_all(b"IHAVEOPT\0\0\0\x01\0\0\0\x03toy").unwrap();
        let mut size_and_flags = [0; 10];
        socket.read_exact(&mut size_and_flags).unwrap();
        socket
    }

    fn stop(self) {
        self.toy.stop();
        assert!(!self.directory.path().join("s").exists());
    }
}

fn request(kind: u16, cookie: u64, offset: u64, length: u32) -> Vec<u8> {
    let mut bytes = 0x2560_9513_u32.to_be_bytes().to_vec();
    bytes.extend([0, 0]);
    bytes.extend(kind.to_be_bytes());
    bytes.extend(cookie.to_be_bytes());
    bytes.extend(offset.to_be_bytes());
    bytes.extend(length.to_be_bytes());
    bytes
}

#[test]
fn a_client_reads_data_that_another_wrote() {
    let served = ToySetup::new(Limits::default());
    let (mut first, mut second) = (served.connect(), served.connect());
    for (offset, length) in [(0, 512), (4096, 4096), (65536, 1 << 20), (3 << 20, 4 << 20)] {
        let bytes: Vec<u8> = (0..length).map(|byte| u8::try_from(byte % 253).unwrap()).collect();
        first.write_at(offset, &bytes).unwrap();
        let mut back = vec![0; length];
        second.read_at(offset, &mut back).unwrap();
        assert!(back == bytes);
    }
    first.flush().unwrap();
    second.trim(0, 1 << 20).unwrap();
    second.write_zeroes(1 << 20, 1 << 20).unwrap();
    let mut back = vec![1; 2 << 20];
    first.read_at(0, &mut back).unwrap();
    assert!(back.iter().all(|&byte| byte == 0));
    served.stop();
}

#[test]
fn a_half_received_write_is_not_applied() {
    let served = ToySetup::new(Limits::default());
    for length in [4096_u32, 1 << 20] {
        let mut socket = served.raw_transmission();
        socket.write_all(&request(1, 1, 0, length)).unwrap();
        socket.write_all(&vec![9; usize::try_from(length).unwrap() - 1]).unwrap();
        drop(socket);
    }
    let mut back = vec![0; 1 << 20];
    served.connect().read_at(0, &mut back).unwrap();
    assert!(back.iter().all(|&byte| byte == 1));
    served.stop();
}

#[test]
fn a_client_that_never_reads_stalls_only_itself() {
    let reply_max = Span::from_millis(100);
    let served = ToySetup::in_memory(
        2 << 20,
        Limits { reply_max, connection_bytes_max: 1 << 20, ..Limits::default() },
    );
    let mut stuck: Vec<UnixStream> = (0..4).map(|_| served.raw_transmission()).collect();
    for socket in &mut stuck {
        socket.set_nonblocking(true).unwrap();
        for cookie in 0..2000 {
            if socket.write_all(&request(0, cookie, 0, 65536)).is_err() {
                break;
            }
        }
    }
    let mut client = served.connect();
    let mut back = vec![0; 1 << 20];
    for _ in 0..20 {
        client.read_at(0, &mut back).unwrap();
    }
    drop(stuck);
    client.read_at(0, &mut back).unwrap();
    served.stop();
}

#[test]
fn a_client_that_neither_reads_nor_sends_is_dropped() {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let (origin, path) = (directory.path().join("origin"), directory.path().join("s"));
    std::fs::write(&origin, vec![1; 1 << 20]).unwrap();
    let (_control, receiver) = mpsc::channel();
    let wakeup = Arc::new(Wakeup::new().unwrap());
    let mut event_loop = toy_loop(&origin, &path, IoEngine::Auto, Limits::default(), receiver, wakeup);
    let client = UnixStream::connect(&path).unwrap();
    let EventLoop { core, frontends, .. } = &mut event_loop;
    frontends.on_ready(core, WatchKey::Nbd(NbdKey::Listener(0)), Interest::Readable);
    let first = WatchKey::Nbd(NbdKey::Client(ConnectionId { index: 0, generation: 0 }));
    frontends.on_ready(core, first, Interest::Writable);
    assert_eq!(frontends.nbd.connection_count(), 1);
    client.shutdown(std::net::Shutdown::Write).unwrap();
    frontends.on_ready(core, first, Interest::Writable);
    assert_eq!(frontends.nbd.connection_count(), 0);
}

#[test]
fn many_clients_with_little_memory_all_come_to_their_end() {
    let limits = Limits { connection_bytes_max: 32 << 10, ..Limits::default() };
    let served = ToySetup::in_memory(64 << 10, limits);
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                let mut socket = served.raw_transmission();
                let requests: Vec<u8> = (0..300).flat_map(|cookie| request(0, cookie, 4096, 16384)).collect();
                let mut writer = socket.try_clone().unwrap();
                scope.spawn(move || writer.write_all(&requests).unwrap());
                let mut replies = vec![0; 300 * (16 + 16384)];
                socket.read_exact(&mut replies).unwrap();
            });
        }
    });
    served.stop();
}

#[test]
fn a_late_handshake_is_cut_off() {
    let served = ToySetup::new(Limits { handshake_max: Span::from_millis(100), ..Limits::default() });
    let mut socket = served.raw();
    let mut client = served.connect();
    let mut bytes = Vec::new();
    socket.read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes.len(), 18, "the greeting and the end");
    client.read_at(0, &mut [0; 512]).unwrap();
    served.stop();
}

#[test]
fn there_is_a_limit_on_connections() {
    let served = ToySetup::new(Limits { connections_max: 2, ..Limits::default() });
    let clients = [served.connect(), served.connect()];
    let mut third = served.raw();
    assert_eq!(third.read(&mut [0; 18]).unwrap(), 0);
    drop(clients);
    std::thread::sleep(Span::from_millis(50));
    drop(served.connect());
    served.stop();
}

#[test]
fn the_oldest_handshake_gives_way() {
    let served = ToySetup::new(Limits { handshakes_max: 2, ..Limits::default() });
    let greeted = || {
        let mut socket = served.raw();
        socket.read_exact(&mut [0; 18]).unwrap();
        socket
    };
    let (mut first, second) = (greeted(), greeted());
    let _third = greeted();
    assert_eq!(first.read(&mut [0; 18]).unwrap(), 0, "it gave way");
    served.connect().read_at(0, &mut [0; 512]).unwrap();
    drop(second);
    served.stop();
}

#[test]
fn rubbish_ends_its_connection_only() {
    let served = ToySetup::new(Limits::default());
    for rubbish in [&[0xff; 4096][..], b"GET / HTTP/1.1\r\n\r\n", &[0; 5]] {
        let mut socket = served.raw();
        socket.write_all(rubbish).unwrap();
        drop(socket);
    }
    let mut socket = served.raw_transmission();
    socket.write_all(&[0xee; 28]).unwrap();
    assert_eq!(socket.read(&mut [0; 18]).unwrap_or(0), 0);
    served.connect().read_at(0, &mut [0; 512]).unwrap();
    served.stop();
}

#[test]
fn a_stop_finishes_requests_in_flight_and_refuses_later_ones() {
    let served = ToySetup::new(Limits::default());
    let mut socket = served.raw_transmission();
    let requests: Vec<u8> = (0..100).flat_map(|cookie| request(0, cookie, 0, 4096)).collect();
    socket.write_all(&requests).unwrap();
    let mut first = [0; 16 + 4096];
    socket.read_exact(&mut first).unwrap();
    served.toy.control.send(Control::Stop).unwrap();
    served.toy.control.send(Control::Stop).unwrap();
    served.toy.wakeup.ring();
    let mut rest = Vec::new();
    socket.read_to_end(&mut rest).unwrap();
    let mut answered = 1;
    let mut rest = &rest[..];
    while !rest.is_empty() {
        assert_eq!(rest[..4], 0x6744_6698_u32.to_be_bytes());
        let payload = if rest[4..8] == [0; 4] { 4096 } else { 0 };
        assert!(payload > 0 || rest[4..8] == [0, 0, 0, 108]);
        rest = &rest[16 + payload..];
        answered += 1;
    }
    assert_eq!(answered, 100);
    served.toy.thread.join().unwrap().unwrap();
}

#[test]
fn the_server_answers_and_stops_with_its_last_handle() {
    let served = ToySetup::new(Limits::default());
    let _client = served.connect();
    let (answer, answered) = mpsc::channel();
    let call = Box::new(move |verbs: &mut dyn Verbs, now| answer.send(verbs.status(now)).unwrap());
    served.toy.control.send(Control::Verbs(call)).unwrap();
    served.toy.wakeup.ring();
    let status = answered.recv().unwrap();
    assert_eq!((status.connections, status.volumes.len()), (1, 1));
    let Toy { control, wakeup, thread } = served.toy;
    drop(control);
    wakeup.ring();
    thread.join().unwrap().unwrap();
}
