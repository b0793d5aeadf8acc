//! The control socket, both ends over a real socket in a temporary folder.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::client::{Client, ClientError};
use super::connections::ControlRequest;
use super::memory_report::MemoryReport;
use super::report::{CacheReport, HealthWord, Report, VolumeReport};
use super::server::ControlServer;
use super::socket_file::{ServerError, SocketFault, SocketUsers};
use super::wire::{
    AddedVolume, RecordingTitle, Reloaded, RemoveOrder, Removed, Reply, Request, Resized, VolumeToAdd,
};
use super::workers::Workers;
use super::{Answer, ControlError, RequestHandler};
use crate::plan::frontends::ServedAt;
use crate::recording::parcel::More;
use crate::recording::ring::{Ends, Recorder, ring};
use crate::words::ModeWord;

#[derive(Default)]
struct Daemon {
    told: Mutex<Vec<String>>,
    recorders: Mutex<Vec<Recorder>>,
    /// Volumes are removed once its other end is dropped.
    gate: Mutex<Option<Receiver<()>>>,
}

impl Daemon {
    fn note(&self, what: String) {
        self.told.lock().unwrap().push(what);
    }

    fn find(volume: &str) -> Result<(), ControlError> {
        match volume {
            "vm1" => Ok(()),
            name => Err(ControlError::NoVolume { name: name.into(), known: vec!["vm1".into()] }),
        }
    }

    fn done(&self, what: String) -> Reply {
        self.note(what);
        Reply::Done
    }
}

impl RequestHandler for Daemon {
    fn handle(&self, request: &Request) -> Result<Answer, ControlError> {
        let reply = match request {
            Request::Status {} => Reply::Status(Box::new(report())),
            Request::Mode { volume, mode } => {
                Daemon::find(volume)?;
                self.done(format!("mode {volume} {}", mode.as_str()))
            }
            Request::Drain { volume } => {
                Daemon::find(volume)?;
                self.done(format!("drain {volume}"))
            }
            Request::PauseCaching { volume, seconds } => self.done(format!("pause {volume} {seconds}")),
            Request::Resize { volume } => {
                self.note(format!("resize {volume}"));
                Reply::Resized(Resized { size_bytes: 2 << 30, is_unchanged: false })
            }
            Request::Record { volume } => {
                Daemon::find(volume)?;
                let Ends { recorder, recording } = ring();
                self.recorders.lock().unwrap().push(recorder);
                let title = RecordingTitle { volume: volume.into(), volume_bytes: 1 << 40, started_nanos: 7 };
                return Ok(Answer::Feed(title, recording));
            }
            Request::Add(volume) => {
                self.note(format!("add {} {}", volume.volume["name"], volume.cache.display()));
                Reply::Added(AddedVolume { hint: None })
            }
            Request::Remove(order) => {
                Daemon::find(&order.volume)?;
                self.note(format!("remove {} {} {}", order.volume, order.disconnect, order.abandon_dirty));
                let _ = self.gate.lock().unwrap().as_ref().map(Receiver::recv);
                Reply::Removed(Removed { lost_bytes: 4096, dirty_bytes: 0 })
            }
            Request::Reload { dry_run: false } => {
                Reply::Reloaded(Reloaded { notes: vec!["done".into()], ..Reloaded::default() })
            }
            Request::Reload { dry_run: true } => return Err(ControlError::Wrong("line 7".into())),
            Request::Stop { lose_unlinked } => self.done(format!("stop {lose_unlinked}")),
            Request::Grow { .. }
            | Request::Replace(_)
            | Request::LeaveOut(_)
            | Request::AwaitEnd {}
            | Request::Ping {} => unreachable!("no test sends it"),
        };
        Ok(reply.into())
    }
}

fn drain(client: &Client) -> Result<(), ClientError> {
    client.request(&Request::Drain { volume: "vm1".into() })
}

fn reload(client: &Client, dry_run: bool) -> Result<Reloaded, ClientError> {
    client.request(&Request::Reload { dry_run })
}

fn stop(client: &Client, lose_unlinked: bool) -> Result<(), ClientError> {
    client.request(&Request::Stop { lose_unlinked })
}

fn served_at() -> ServedAt {
    ServedAt {
        nbd: vec!["unix:/run/vm1.sock".into()],
        vhost_user: Some("/run/vm1.vhost".into()),
        ublk: None,
        ublk_removed: None,
    }
}

fn volume_report() -> VolumeReport {
    VolumeReport {
        name: "vm1".into(),
        origin: "/dev/sdb".into(),
        origin_last_error: None,
        origin_errors_by_kind: Vec::new(),
        origin_silent_seconds: None,
        origin_away_seconds: None,
        origin_away_why: None,
        origin_fails_in_seconds: None,
        origin_unlinked_at: None,
        recovered_bytes: 0,
        served_at: served_at(),
        mode: ModeWord::WriteBack,
        limits: Default::default(),
        held_requests: 0,
        recordings: 0,
        size_bytes: 1 << 40,
        cached_bytes: 12 << 30,
        dirty_bytes: 1 << 20,
        dirty_seconds: None,
        damaged_bytes: 0,
        damaged: Vec::new(),
        unflushed_bytes: 0,
        caching_paused_seconds: None,
        draining: false,
        fill_window_bytes: 64 << 10,
        incomplete: false,
        requests_in_flight: 3,
        sessions: Default::default(),
        hit_ratio: None,
        read_ahead_hit_ratio: None,
        origin_requests_per_1000: None,
        bypass_bytes: 0,
        since_start: Default::default(),
        recent: Default::default(),
        lru_curve: None,
        latencies: None,
        counters: super::report::VolumeCounters { reads: 7, hit_blocks: 5, ..Default::default() },
    }
}

fn report() -> Report {
    let cache = CacheReport {
        device: "/dev/nvme0n1p4".into(),
        health: HealthWord::Good,
        io_engine: "io_uring".into(),
        record: None,
        last_error: None,
        errors_by_kind: Vec::new(),
        sample_seconds: None,
        silent_seconds: None,
        unlinked_at: None,
        stop_waits_for: None,
        device_bytes: 101 << 30,
        growing_to_bytes: None,
        replacing: None,
        replacement_failure: None,
        leaving_out: None,
        capacity_bytes: 100 << 30,
        segments: 25_600,
        free_segments: 100,
        retired_segments: 0,
        probation_bytes: 1 << 30,
        probation_target_bytes: 2 << 30,
        main_bytes: 11 << 30,
        memory_bytes: 500 << 20,
        wear: Default::default(),
        counters: Default::default(),
        volumes: vec![volume_report()],
    };
    Report {
        version: "0.1.0".into(),
        pid: 5,
        uptime_seconds: 1.5,
        io_engine: "io_uring".into(),
        state_directory: None,
        caches: vec![cache],
        unserved: Vec::new(),
        monitor_ended: false,
        memory: MemoryReport::default(),
        tls_failure: None,
        health: Default::default(),
        conditions: Vec::new(),
        host: Default::default(),
    }
}

struct Room {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

fn room() -> Room {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("deep/control.sock");
    Room { _folder: folder, path }
}

fn start(path: &Path) -> (Arc<Daemon>, Result<ControlServer, ServerError>) {
    let daemon = Arc::new(Daemon::default());
    let server = ControlServer::start(path, daemon.clone());
    (daemon, server)
}

#[test]
fn every_command_goes_there_and_back() {
    let room = room();
    let (daemon, server) = start(&room.path);
    let _server = server.unwrap();
    let client = Client::new(&room.path);
    assert_eq!(client.status().unwrap(), report());
    let volume = || "vm1".to_owned();
    let done = |request| client.request::<()>(&request).unwrap();
    done(Request::Mode { volume: volume(), mode: ModeWord::WriteAround });
    done(Request::PauseCaching { volume: volume(), seconds: 60 });
    done(Request::Drain { volume: volume() });
    let resized: Resized = client.request(&Request::Resize { volume: volume() }).unwrap();
    assert_eq!(resized.size_bytes, 2 << 30);
    let added = Request::Add(VolumeToAdd {
        cache: "/dev/fast".into(),
        volume: serde_json::json!({"name": "vm2"}),
        origin_moved: false,
        origin_grown: false,
        force_origin: false,
        new_cache: false,
        dry_run: false,
    });
    assert_eq!(client.request::<AddedVolume>(&added).unwrap().hint, None);
    let order = RemoveOrder { volume: "vm1".into(), disconnect: true, abandon_dirty: true, dry_run: false };
    let removed: Removed = client.request(&Request::Remove(order)).unwrap();
    assert_eq!(removed.lost_bytes, 4096);
    done(Request::Stop { lose_unlinked: false });
    done(Request::Stop { lose_unlinked: true });
    let told = [
        "mode vm1 write-around",
        "pause vm1 60",
        "drain vm1",
        "resize vm1",
        "add \"vm2\" /dev/fast",
        "remove vm1 true true",
        "stop false",
        "stop true",
    ];
    assert_eq!(*daemon.told.lock().unwrap(), told);
}

#[test]
fn an_unknown_volume_is_refused_with_the_existing_names() {
    let room = room();
    let (_daemon, server) = start(&room.path);
    let _server = server.unwrap();
    let error = Client::new(&room.path).request::<()>(&Request::Drain { volume: "vm2".into() }).unwrap_err();
    assert_eq!(error.to_string(), "there is no volume `vm2` here; there is vm1");
}

#[test]
fn a_wrong_file_and_a_refused_change_are_distinguished() {
    let room = room();
    let (_daemon, server) = start(&room.path);
    let _server = server.unwrap();
    let client = Client::new(&room.path);
    assert_eq!(reload(&client, false).unwrap().notes, ["done"]);
    let wrong = reload(&client, true).unwrap_err();
    assert!(matches!(&wrong, ClientError::Wrong(what) if what == "line 7"), "{wrong}");
}

#[test]
fn an_equal_request_gets_the_answer_of_the_first() {
    let (hold, gate) = channel();
    let daemon = Arc::new(Daemon { gate: Mutex::new(Some(gate)), ..Daemon::default() });
    let mut workers = Workers::new(daemon.clone(), SocketUsers::Owner).unwrap();
    let request = |number, abandon_dirty| {
        let order = RemoveOrder { volume: "vm1".into(), disconnect: false, abandon_dirty, dry_run: false };
        let request = Request::Remove(order);
        ControlRequest { number, request, peer: None }
    };
    (1..4).for_each(|number| workers.begin(request(number, false)));
    drop(hold);
    let mut answers = Vec::new();
    while answers.len() < 3 {
        answers.extend(workers.take_answers().into_iter().map(|answered| answered.number));
    }
    answers.sort_unstable();
    assert_eq!(answers, [1, 2, 3]);
    assert_eq!(daemon.told.lock().unwrap().len(), 1);
    workers.begin(request(4, false));
    workers.begin(request(5, true));
    while answers.len() < 5 {
        answers.extend(workers.take_answers().into_iter().map(|answered| answered.number));
    }
    assert_eq!(daemon.told.lock().unwrap().len(), 3, "an earlier answer and another request are not shared");
}

#[test]
fn a_patient_client_waits_as_long_as_the_daemon_exists() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let paused = UnixListener::bind(&path).unwrap();
    let client = Client::new(&path);
    let late = client.answered_within(Duration::from_millis(1)).status().unwrap_err();
    assert!(matches!(late, ClientError::Late(_)) && late.to_string().contains("may still carry"), "{late}");
    let patient = client.answered_within(Duration::from_millis(1)).patient();
    let asking = std::thread::spawn(move || patient.status().unwrap_err());
    let (first, second) = (paused.accept().unwrap(), paused.accept().unwrap());
    assert!(!asking.is_finished());
    drop((first, second));
    assert!(matches!(asking.join().unwrap(), ClientError::Io { .. }));
}

#[test]
fn only_the_owner_can_open_the_socket() {
    let room = room();
    let (_daemon, server) = start(&room.path);
    let _server = server.unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&room.path), 0o600);
    assert_eq!(mode(room.path.parent().unwrap()), 0o700);
}

#[test]
fn the_socket_goes_away_with_the_server() {
    let room = room();
    let (_daemon, server) = start(&room.path);
    drop(server.unwrap());
    assert!(!room.path.exists());
    assert!(matches!(Client::new(&room.path).status(), Err(ClientError::NoDaemon(_))));
}

#[test]
fn a_stale_socket_is_replaced() {
    let room = room();
    std::fs::create_dir_all(room.path.parent().unwrap()).unwrap();
    drop(UnixListener::bind(&room.path).unwrap());
    let (_daemon, server) = start(&room.path);
    let _server = server.unwrap();
    Client::new(&room.path).status().unwrap();
}

#[test]
fn a_live_socket_is_left_alone() {
    let room = room();
    let (_first, server) = start(&room.path);
    let _server = server.unwrap();
    let (_second, refused) = start(&room.path);
    assert!(matches!(refused, Err(ServerError { fault: SocketFault::Live(_), .. })));
    Client::new(&room.path).status().unwrap();
}

#[test]
fn a_file_that_is_no_socket_is_kept() {
    let room = room();
    std::fs::create_dir_all(room.path.parent().unwrap()).unwrap();
    std::fs::write(&room.path, "precious").unwrap();
    let (_daemon, refused) = start(&room.path);
    assert!(matches!(refused, Err(ServerError { fault: SocketFault::NotASocket, .. })));
    assert_eq!(std::fs::read_to_string(&room.path).unwrap(), "precious");
}

#[test]
fn an_overlong_path_is_refused_by_both_ends() {
    let path = Path::new("/").join("x".repeat(107));
    let (_daemon, refused) = start(&path);
    assert!(matches!(refused, Err(ServerError { fault: SocketFault::Path(_), .. })));
    assert!(matches!(Client::new(&path).status(), Err(ClientError::Path(_))));
}

#[test]
fn nonsense_is_answered_with_a_sentence() {
    let room = room();
    let (_daemon, server) = start(&room.path);
    let _server = server.unwrap();
    let long = format!("\"{}\n", "x".repeat(8 << 10));
    for nonsense in
        ["\n", "{}\n", "[]\n", "{\"command\":\"fly\"}\n", "{\"command\":\"stop\",\"x\":1}\n", &long]
    {
        let mut stream = UnixStream::connect(&room.path).unwrap();
        let _ = stream.write_all(nonsense.as_bytes());
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        assert!(
            answer.starts_with("{\"reply\":\"error\",\"message\":\"this is not a request: "),
            "{nonsense}: {answer}"
        );
    }
    Client::new(&room.path).status().unwrap();
}

#[test]
fn a_request_with_an_unknown_key_is_refused() {
    let room = room();
    let (daemon, server) = start(&room.path);
    let _server = server.unwrap();
    let unknown = [
        r#"{"command":"mode","volume":"vm1","mode":"bypass","x":1}"#,
        r#"{"command":"remove","volume":"vm1","disconnect":false,"abandon_dirty":false,"dry-run":true}"#,
        r#"{"command":"replace","with":"/b","dry-run":true}"#,
        r#"{"command":"leave-out","dry-run":true}"#,
        r#"{"command":"add","cache":"/c","volume":{"name":"a"},"dry-run":true}"#,
    ];
    for request in unknown {
        let mut stream = UnixStream::connect(&room.path).unwrap();
        stream.write_all(format!("{request}\n").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.contains("this is not a request: unknown field"), "{request}: {answer}");
    }
    assert!(daemon.told.lock().unwrap().is_empty());
}

#[test]
fn a_request_with_a_key_twice_is_refused() {
    let room = room();
    let (daemon, server) = start(&room.path);
    let _server = server.unwrap();
    let twice = [
        r#"{"command":"mode","volume":"vm1","volume":"vm1","mode":"bypass"}"#,
        r#"{"command":"status","command":"stop"}"#,
        r#"{"command":"leave-out","device":"/a","device":"/b"}"#,
        r#"{"command":"add","cache":"/c","volume":{"name":"a","origin":"/x","origin":"/y"}}"#,
        r#"{"command":"add","cache":"/c","volume":{"name":"a","more":[{"b":1,"b":1}]}}"#,
    ];
    for request in twice {
        let mut stream = UnixStream::connect(&room.path).unwrap();
        stream.write_all(format!("{request}\n").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.contains("this is not a request: the key `") && answer.contains("twice"), "{answer}");
    }
    assert!(daemon.told.lock().unwrap().is_empty());
}

#[test]
fn silent_connections_do_not_block_others() {
    let room = room();
    let (_daemon, server) = start(&room.path);
    let _server = server.unwrap();
    let silent: Vec<UnixStream> = (0..500).map(|_| UnixStream::connect(&room.path).unwrap()).collect();
    Client::new(&room.path).status().unwrap();
    let is_open = |mut stream: &UnixStream| {
        stream.set_nonblocking(true).unwrap();
        stream.read(&mut [0; 1]).is_err()
    };
    let open: Vec<bool> = silent.iter().map(is_open).collect();
    assert!(!open[0] && open[499], "the longest idle goes first");
}

#[test]
fn a_flood_of_connections_does_not_block_others() {
    let room = room();
    let (_daemon, server) = start(&room.path);
    let _server = server.unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut kept = VecDeque::new();
                while !over.load(Ordering::Relaxed) {
                    kept.extend(UnixStream::connect(&room.path));
                    kept.drain(..kept.len().saturating_sub(100));
                }
            });
        }
        // A connection that has not sent its request yet may be closed as idle: the client tries again.
        let is_closed = |answer: &Result<Report, ClientError>| matches!(answer, Err(ClientError::Io { .. }));
        let answers = (0..2_000).map(|_| Client::new(&room.path).status());
        let asked: Vec<_> = answers.filter(|answer| !is_closed(answer)).take(20).collect();
        over.store(true, Ordering::Relaxed);
        assert_eq!(asked.len(), 20);
        asked.into_iter().for_each(|answer| drop(answer.unwrap()));
    });
}

#[test]
fn clients_that_do_not_read_do_not_block_others() {
    let room = room();
    let (_daemon, server) = start(&room.path);
    let _server = server.unwrap();
    let requests = "{\"command\":\"status\"}\n".repeat(2000);
    let deaf: Vec<UnixStream> = (0..40)
        .map(|_| {
            let mut stream = UnixStream::connect(&room.path).unwrap();
            stream.set_nonblocking(true).unwrap();
            let _ = stream.write(requests.as_bytes());
            stream
        })
        .collect();
    Client::new(&room.path).status().unwrap();
    drop(deaf);
}

#[test]
fn pipelined_requests_are_answered_in_order_to_the_last() {
    let room = room();
    let (daemon, server) = start(&room.path);
    let _server = server.unwrap();
    let mut stream = UnixStream::connect(&room.path).unwrap();
    stream.write_all(b"{\"command\":\"drain\",\"volume\":\"vm1\"}\n{\"command\":\"stop\"}\n").unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answers = String::new();
    stream.read_to_string(&mut answers).unwrap();
    assert_eq!(answers, "{\"reply\":\"done\"}\n{\"reply\":\"done\"}\n");
    assert_eq!(*daemon.told.lock().unwrap(), ["drain vm1", "stop false"]);
}

#[test]
fn a_recording_follows_its_reply_and_ends_with_its_client() {
    let room = room();
    let (daemon, server) = start(&room.path);
    let _server = server.unwrap();
    let client = Client::new(&room.path);
    assert!(client.record("vm2").unwrap_err().to_string().contains("there is vm1"));
    let recording = client.record("vm1").unwrap();
    assert_eq!((recording.title().volume_bytes, recording.title().started_nanos), (1 << 40, 7));
    client.status().unwrap();
    drop(recording);
    let began = Instant::now();
    while daemon.recorders.lock().unwrap()[0].is_wanted() {
        assert!(began.elapsed() < Duration::from_secs(60), "nobody noticed that the client is gone");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn the_end_of_the_server_waits_for_recordings() {
    let room = room();
    let (daemon, server) = start(&room.path);
    let server = server.unwrap();
    let mut recording = Client::new(&room.path).record("vm1").unwrap();
    daemon.recorders.lock().unwrap().clear();
    drop(server);
    let parcel = recording.next(Duration::from_secs(60)).unwrap().unwrap();
    assert_eq!(parcel.more, More::No);
}

#[test]
fn commands_that_take_long_do_not_wait_for_a_connection() {
    let room = room();
    std::fs::create_dir_all(room.path.parent().unwrap()).unwrap();
    let listener = UnixListener::bind(&room.path).unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let client = Client::new(&room.path).accepted_within(Duration::from_millis(20));
    for _ in 0..3 {
        assert!(matches!(reload(&client, true), Err(ClientError::Late(_))));
        assert!(matches!(client.status(), Err(ClientError::Late(_))));
    }
}

#[test]
fn an_older_daemon_refuses_a_ping_and_executes_the_rest() {
    let room = room();
    std::fs::create_dir_all(room.path.parent().unwrap()).unwrap();
    let listener = UnixListener::bind(&room.path).unwrap();
    let older = std::thread::spawn(move || {
        let mut asked = Vec::new();
        for answer in
            ["{\"reply\":\"error\",\"message\":\"this is not a request\"}\n", "{\"reply\":\"done\"}\n"]
        {
            let (mut stream, _) = listener.accept().unwrap();
            let mut line = [0; 512];
            let count = stream.read(&mut line).unwrap();
            asked.push(String::from_utf8(line[..count].to_vec()).unwrap());
            stream.write_all(answer.as_bytes()).unwrap();
        }
        asked
    });
    let reloaded = reload(&Client::new(&room.path), false);
    assert!(matches!(reloaded, Err(ClientError::Answer(_))), "{reloaded:?}");
    let asked = older.join().unwrap();
    assert_eq!(asked[0], "{\"command\":\"ping\"}\n");
    assert!(asked[1].contains("reload"), "{asked:?}");
}

#[test]
fn a_command_does_not_continue_with_another_daemon() {
    let room = room();
    let (_, first) = start(&room.path);
    let client = Client::new(&room.path);
    client.status().unwrap();
    drop(first.unwrap());
    assert!(matches!(client.status(), Err(ClientError::NoDaemon(_))));
    let (daemon, _server) = start(&room.path);
    for client in [client.clone(), client.patient(), client.waiting()] {
        assert!(matches!(stop(&client, false), Err(ClientError::AnotherDaemon(_))));
        assert!(matches!(client.await_end(), Err(ClientError::AnotherDaemon(_))));
        assert!(matches!(client.record("vm1"), Err(ClientError::AnotherDaemon(_))));
    }
    assert!(daemon.told.lock().unwrap().is_empty());
    drain(&Client::new(&room.path)).unwrap();
}

#[test]
fn a_start_continues_although_another_user_locks_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    let other = std::fs::File::open(folder.path()).unwrap();
    rustix::fs::flock(&other, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let (_daemon, server) = start(&folder.path().join("control.sock"));
    assert!(server.is_ok());
}

#[test]
fn the_status_socket_permits_no_changes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run/status.sock");
    let daemon = Arc::new(Daemon::default());
    let server = ControlServer::start_status(&path, daemon.clone()).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o660);
    assert_eq!(std::fs::metadata(path.parent().unwrap()).unwrap().permissions().mode() & 0o777, 0o750);
    let client = Client::new(&path);
    assert_eq!(client.status().unwrap().caches.len(), 1);
    let order = RemoveOrder { volume: "vm1".into(), disconnect: true, abandon_dirty: true, dry_run: false };
    let refused = [
        stop(&client, true).unwrap_err(),
        client.request::<()>(&Request::Mode { volume: "vm1".into(), mode: ModeWord::Bypass }).unwrap_err(),
        drain(&client).unwrap_err(),
        client.request::<Removed>(&Request::Remove(order)).unwrap_err(),
        reload(&client, false).unwrap_err(),
    ];
    for error in refused {
        assert!(error.to_string().contains("the status socket permits no changes"), "{error}");
    }
    assert_eq!(daemon.told.lock().unwrap().len(), 0);
    drop(server);
    assert!(!path.exists());
}
