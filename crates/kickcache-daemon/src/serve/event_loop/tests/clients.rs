//! Clients that come, reach their limits and go, while their requests are in flight.

use kickcache_engine::request::{Durability, Unmap};

use super::held_device::OriginRequest;
use super::memory::{MIB, READ, Scene, WRITE, ask};
use super::*;

const FLUSH: u16 = 3;
const TRIM: u16 = 4;
const WRITE_ZEROES: u16 = 6;
const FUA: u8 = 1;
const NO_HOLE: u8 = 2;
const EIO: u8 = 5;
const ESHUTDOWN: u8 = 108;

/// The head of a simple reply.
fn reply(errno: u8, cookie: u8) -> Vec<u8> {
    [&0x6744_6698_u32.to_be_bytes()[..], &[0, 0, 0, errno], &[0, 0, 0, 0, 0, 0, 0, cookie]].concat()
}

fn with_flags(flags: u8, mut request: Vec<u8>) -> Vec<u8> {
    request[5] = flags;
    request
}

/// Runs turns until this many bytes have come.
fn receive(scene: &mut Scene, client: &mut UnixStream, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    let mut filled = 0;
    scene.turn_until(|_| {
        filled += client.read(&mut bytes[filled..]).unwrap_or(0);
        filled == count
    });
    bytes
}

/// Turns in which a flaw would show.
fn some_turns(scene: &mut Scene) {
    (0..5).for_each(|_| scene.turn());
}

/// Whether nothing has come from the server.
fn hears_nothing(client: &mut UnixStream) -> bool {
    client.read(&mut [0; 64]).is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
}

/// The next client gets the number of the one before.
#[test]
fn a_late_reply_reaches_no_other_client() {
    let mut scene = Scene::new();
    let origin = scene.hold_origin();
    let mut gone = scene.connect();
    gone.write_all(&request(READ, 1, 0, 4096)).unwrap();
    scene.turn_until(|_| origin.count() == 1);
    drop(gone);
    scene.turn_until(|scene| scene.connections() == 0);
    let mut next = scene.connect();
    next.write_all(&request(READ, 2, 0, 4096)).unwrap();
    scene.turn_until(|_| origin.count() == 2);
    origin.end(Ok(()));
    some_turns(&mut scene);
    assert!(hears_nothing(&mut next));
    assert_eq!(scene.used(), 4096, "its read");
    origin.end(Ok(()));
    assert_eq!(receive(&mut scene, &mut next, 16 + 4096), [reply(0, 2), vec![7; 4096]].concat());
}

/// A client in a state, and the same client after it went: no memory, timer or place in a line is left.
#[test]
fn a_client_that_is_gone_keeps_no_memory_or_timer() {
    let full = Limits { requests_max: 2, ..Limits::default() };
    for what in
        ["greeted", "idle", "reading", "at its limit", "in line for memory", "in a write", "in a reply"]
    {
        let mut scene = Scene::with_limits(full);
        let origin = scene.hold_origin();
        let (mut client, mut others) = (scene.socket(), Vec::new());
        if what != "greeted" {
            client = scene.connect();
        }
        match what {
            "reading" => client.write_all(&request(READ, 1, 0, 4096)).unwrap(),
            "at its limit" => {
                (0..3).for_each(|cookie| client.write_all(&request(READ, cookie, 0, 4096)).unwrap());
                scene.turn_until(|_| origin.count() == 2);
            }
            "in line for memory" => {
                others.extend([ask(&mut scene, 2), ask(&mut scene, 1)]);
                scene.turn_until(|scene| scene.used() == 12 << 20);
                client.write_all(&request(READ, 1, 0, 4 * MIB)).unwrap();
                scene.turn_until(|scene| scene.waiting() == 1);
            }
            "in a write" => client.write_all(&request(WRITE, 1, 0, MIB)).unwrap(),
            "in a reply" => {
                client.write_all(&request(READ, 1, 0, 8 * MIB)).unwrap();
                scene.turn_until(|_| origin.count() == 1);
                origin.end(Ok(()));
                receive(&mut scene, &mut client, 4096);
            }
            _ => {}
        }
        some_turns(&mut scene);
        drop(client);
        scene.pass(2);
        let left = others.len();
        scene.turn_until(|scene| scene.connections() == left && scene.waiting() == 0);
        drop(others);
        while origin.count() > 0 {
            origin.end(Ok(()));
        }
        scene.turn_until(|scene| scene.connections() == 0 && scene.used() == 0);
        scene.pass(1);
        assert_eq!(scene.event_loop.frontends.poll_timeout(), None, "{what}");
        assert_eq!((scene.used(), scene.event_loop.core.requests.len()), (0, 0), "{what}");
        let mut next = scene.connect();
        next.write_all(&request(READ, 9, 0, 4096)).unwrap();
        scene.turn_until(|_| origin.count() == 1);
        origin.end(Ok(()));
        assert_eq!(receive(&mut scene, &mut next, 16)[..], reply(0, 9), "{what}");
    }
}

#[test]
fn requests_above_the_limits_of_a_client_wait() {
    let default = Limits::default();
    let requests = Limits { requests_max: 3, ..default };
    let bytes = Limits { connection_bytes_max: 3 * 4096, ..default };
    let small = Limits { connection_bytes_max: 512, ..default };
    for (limits, most) in [(requests, 3), (bytes, 3), (small, 1)] {
        let mut scene = Scene::with_limits(limits);
        let origin = scene.hold_origin();
        let mut client = scene.connect();
        (0..9).for_each(|cookie| client.write_all(&request(READ, cookie, 0, 4096)).unwrap());
        for cookie in 0..9 {
            let wanted = most.min(9 - usize::from(cookie));
            scene.turn_until(|_| origin.count() >= wanted);
            some_turns(&mut scene);
            assert_eq!((origin.count(), scene.used()), (wanted, wanted * 4096), "{limits:?}");
            origin.end(Ok(()));
            assert_eq!(receive(&mut scene, &mut client, 16 + 4096)[..16], reply(0, cookie));
        }
        assert_eq!(scene.event_loop.frontends.poll_timeout(), None, "{limits:?}");
    }
}

/// A client that takes no replies would let the server gather them without end.
#[test]
fn a_client_that_takes_no_errors_is_not_read_from() {
    let mut scene = Scene::new();
    let mut client = scene.connect();
    // Reads behind the end fail at once.
    let refused = request(READ, 1, 1 << 40, 4096).repeat(1024);
    let mut sent = 0;
    for _ in 0..200 {
        sent += client.write(&refused).unwrap_or(0);
        scene.turn();
    }
    assert!(sent < 16 << 20, "{sent}");
    let mut taken = 0;
    let mut bytes = vec![0; 1 << 20];
    scene.turn_until(|_| {
        taken += client.read(&mut bytes).unwrap_or(0);
        taken >= sent / 28 * 16
    });
}

/// The client's next command is behind the data of the write.
#[test]
fn a_stop_and_a_removal_refuse_further_commands() {
    for what in ["stop", "removal"] {
        let mut scene = Scene::new();
        let origin = scene.hold_origin();
        let mut client = scene.connect();
        client.write_all(&request(READ, 1, 0, 4096)).unwrap();
        client.write_all(&request(WRITE, 2, 0, 8192)).unwrap();
        client.write_all(&[9; 4096]).unwrap();
        scene.turn_until(|scene| origin.count() == 1 && scene.used() == 4096 + 8192);
        match what {
            "stop" => scene.event_loop.begin_stop(Instant::from_nanos(1), "a test says so"),
            _ => {
                let EventLoop { core, frontends, .. } = &mut scene.event_loop;
                frontends.hide(core, 0);
            }
        }
        assert_eq!(receive(&mut scene, &mut client, 16), reply(ESHUTDOWN, 2), "{what}");
        assert_eq!(scene.used(), 4096, "{what}: the read");
        client.write_all(&[9; 4096]).unwrap();
        client.write_all(&request(WRITE, 3, 0, 4096)).unwrap();
        client.write_all(&[9; 4096]).unwrap();
        client.write_all(&request(READ, 4, 0, 4096)).unwrap();
        client.write_all(&request(FLUSH, 5, 0, 0)).unwrap();
        let refused: Vec<u8> = (3..=5).flat_map(|cookie| reply(ESHUTDOWN, cookie)).collect();
        assert_eq!(receive(&mut scene, &mut client, 48), refused, "{what}");
        origin.end(Ok(()));
        assert_eq!(receive(&mut scene, &mut client, 16 + 4096)[..16], reply(0, 1), "{what}");
        assert_eq!((origin.sent(), scene.used()), (vec![OriginRequest::Read], 0), "{what}");
        assert!(scene.event_loop.frontends.is_quiet(), "{what}");
        if what == "removal" {
            let EventLoop { core, frontends, .. } = &mut scene.event_loop;
            frontends.show(core, 0);
            client.write_all(&request(FLUSH, 6, 0, 0)).unwrap();
            scene.turn_until(|_| origin.count() == 1);
            origin.end(Ok(()));
            assert_eq!(receive(&mut scene, &mut client, 16), reply(0, 6));
        }
    }
}

/// A client whose requests have ended goes before the volume does.
#[test]
fn clients_of_a_hidden_volume_go_with_their_last_reply() {
    let mut scene = Scene::new();
    let origin = scene.hold_origin();
    let (mut busy, mut idle) = (scene.connect(), scene.connect());
    busy.write_all(&request(READ, 1, 0, 4096)).unwrap();
    scene.turn_until(|_| origin.count() == 1);
    let EventLoop { core, frontends, .. } = &mut scene.event_loop;
    frontends.hide(core, 0);
    assert!(!frontends.end_quiet(core, 0), "a request is in flight");
    assert_eq!((idle.read(&mut [0; 9]).unwrap(), scene.connections()), (0, 1));
    origin.end(Ok(()));
    receive(&mut scene, &mut busy, 16 + 4096);
    let EventLoop { core, frontends, .. } = &mut scene.event_loop;
    assert!(frontends.end_quiet(core, 0));
    assert_eq!((busy.read(&mut [0; 9]).unwrap(), scene.connections()), (0, 0));
}

/// The requests of a command to the origin, each of which ends with the next of these results, and the reply.
fn ends(command: (u16, u8), results: &[Result<(), i32>]) -> (Vec<OriginRequest>, u8) {
    let mut scene = Scene::new();
    let origin = scene.hold_origin();
    let mut client = scene.connect();
    let (kind, flags) = command;
    client.write_all(&with_flags(flags, request(kind, 1, 0, 4096))).unwrap();
    if kind == WRITE {
        client.write_all(&[9; 4096]).unwrap();
    }
    for result in results {
        assert!(hears_nothing(&mut client), "{command:?}: a reply before the last request");
        scene.turn_until(|_| origin.count() == 1);
        origin.end(*result);
    }
    let head = receive(&mut scene, &mut client, 16);
    assert_eq!(scene.used(), 0);
    (origin.sent(), head[7])
}

#[test]
fn flags_of_commands_reach_the_origin() {
    let (ok, failed) = (Ok(()), Err(libc::EIO));
    let (volatile, durable) = (Durability::Volatile, Durability::Durable);
    let zeroes = |unmap, durability| vec![OriginRequest::Zeroes(unmap, durability)];
    assert_eq!(ends((WRITE, 0), &[ok]), (vec![OriginRequest::Write(volatile)], 0));
    assert_eq!(ends((WRITE, FUA), &[ok]), (vec![OriginRequest::Write(durable)], 0));
    assert_eq!(ends((WRITE, FUA), &[failed]), (vec![OriginRequest::Write(durable)], EIO));
    assert_eq!(ends((WRITE_ZEROES, 0), &[ok]), (zeroes(Unmap::Allow, volatile), 0));
    assert_eq!(ends((WRITE_ZEROES, NO_HOLE), &[ok]), (zeroes(Unmap::Forbid, volatile), 0));
    assert_eq!(ends((WRITE_ZEROES, NO_HOLE | FUA), &[ok]), (zeroes(Unmap::Forbid, durable), 0));
    assert_eq!(ends((TRIM, 0), &[ok]), (vec![OriginRequest::Discard], 0));
    assert_eq!(ends((TRIM, 0), &[failed]), (vec![OriginRequest::Discard], EIO));
    assert_eq!(ends((TRIM, FUA), &[ok, ok]), (vec![OriginRequest::Discard, OriginRequest::Flush], 0));
    assert_eq!(ends((TRIM, FUA), &[ok, failed]), (vec![OriginRequest::Discard, OriginRequest::Flush], EIO));
    assert_eq!(ends((TRIM, FUA), &[failed]), (vec![OriginRequest::Discard], EIO));
    assert_eq!(ends((READ, 0), &[failed]), (vec![OriginRequest::Read], EIO));
}

#[test]
fn a_stop_refuses_commands_in_line_for_memory() {
    for what in ["stop", "removal"] {
        let mut scene = Scene::new();
        let origin = scene.hold_origin();
        let _greedy = [ask(&mut scene, 2), ask(&mut scene, 1)];
        scene.turn_until(|scene| scene.used() == 12 << 20);
        let mut client = scene.connect();
        client.write_all(&request(READ, 1, 0, 4 * MIB)).unwrap();
        scene.turn_until(|scene| scene.waiting() == 1);
        match what {
            "stop" => scene.event_loop.begin_stop(Instant::from_nanos(1), "a test says so"),
            _ => {
                let EventLoop { core, frontends, .. } = &mut scene.event_loop;
                frontends.hide(core, 0);
            }
        }
        assert_eq!(receive(&mut scene, &mut client, 16), reply(ESHUTDOWN, 1), "{what}");
        assert_eq!((scene.waiting(), origin.count()), (0, 3), "{what}");
    }
}
