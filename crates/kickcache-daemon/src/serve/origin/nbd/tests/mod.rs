//! An origin at a server that answers, fails, goes and returns as a test decides.

mod server;

use std::io::{IoSlice, IoSliceMut};

use kickcache_engine::request::{Durability, Unmap};
use kickcache_engine::units::BlockIndex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use self::server::{
    CAN_FLUSH, CAN_FUA, CAN_MULTI_CONN, CAN_TRIM, CAN_ZERO, Connection, FLUSH, FakeServer, Offer, READ,
    ServerRequest, TRIM, WRITE, ZEROES,
};
use super::*;
use crate::driver::checksum::checksum;
use crate::plan::origin_source::OriginSource;

const SIZE: u64 = 64 << 10;
const ALL: u16 = CAN_FLUSH | CAN_FUA | CAN_TRIM | CAN_ZERO;
const NO_FUA: u16 = ALL & !CAN_FUA;
const FUA: u16 = 1;
const NO_HOLE: u16 = 2;
const EIO: u8 = 5;
const ENOSPC: u8 = 28;
const ESHUTDOWN: u8 = 108;

fn offer(flags: u16) -> Offer {
    Offer { size: SIZE, flags, most: None }
}

fn extent(start: u64, length: u64) -> ByteExtent {
    ByteExtent { start, length }
}

/// An origin, and the server with its present connection.
struct Scene {
    origin: NbdOrigin,
    server: FakeServer,
    link: Connection,
    offer: Offer,
}

/// An event of the origin.
#[derive(PartialEq, Eq, Debug)]
enum Event {
    Ended(u64, Result<(), i32>),
    Restarted,
}

impl Scene {
    fn new(flags: u16) -> Scene {
        Scene::at(offer(flags))
    }

    fn at(offer: Offer) -> Scene {
        let claims = OriginClaims { flushless: true, ..OriginClaims::default() };
        let spec =
            |uri: &NbdUri| VolumeSpec { claims, ..VolumeSpec::new("v", OriginSource::Nbd(uri.clone())) };
        let (mut origin, server, link, _) = open(offer, spec);
        origin.begin_compare(&[]);
        origin.end_compare().unwrap();
        Scene { origin, server, link, offer }
    }

    fn submit(&mut self, token: u64, request: QueuedRequest<'_>) {
        self.origin.submit(Instant::ZERO, token, request);
    }

    fn write(&mut self, token: u64, offset: u64, data: &[u8], durability: Durability) {
        self.submit(token, QueuedRequest::Write { offset, pieces: &[IoSlice::new(data)], durability });
    }

    /// The next event.
    fn event(&mut self) -> Event {
        loop {
            if let Some(QueuedEnd { token, result }) = self.origin.poll(Instant::ZERO) {
                return Event::Ended(token, result);
            }
            if self.origin.take_restart() {
                return Event::Restarted;
            }
            let mut fds = [PollFd::from_borrowed_fd(self.origin.wakeup().unwrap(), PollFlags::IN)];
            let limit = Timespec { tv_sec: 20, tv_nsec: 0 };
            assert_eq!(poll(&mut fds, Some(&limit)).unwrap(), 1, "no event comes");
        }
    }

    fn ended(&mut self, token: u64, result: Result<(), i32>) {
        assert_eq!(self.event(), Event::Ended(token, result));
    }

    /// The bytes of the read that ended last.
    fn bytes(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = vec![0xee; length];
        self.origin.take_read(0, extent(0, 0), &mut [IoSliceMut::new(&mut bytes)]);
        bytes
    }

    /// The present connection is lost.
    fn lose(&mut self) {
        let (unconnected, _) = std::os::unix::net::UnixStream::pair().unwrap();
        self.link = Connection::over(unconnected);
    }

    /// The origin has handled a loss, and connects again.
    fn come_back(&mut self, samples: Vec<Sample>) {
        assert_eq!(self.event(), Event::Restarted);
        self.origin.expect(samples);
        self.link = self.server.accept(self.offer);
    }
}

/// Opens the origin of a volume; also returns the requests of the opening.
fn open(
    offer: Offer,
    spec: impl FnOnce(&NbdUri) -> VolumeSpec,
) -> (NbdOrigin, FakeServer, Connection, Vec<ServerRequest>) {
    let server = FakeServer::start();
    let uri = NbdUri::parse(&server.uri()).unwrap();
    let spec = spec(&uri);
    let opening = thread::spawn(move || NbdOrigin::open(&spec, &uri, &StopWish::default()));
    let mut link = server.accept(offer);
    let mut asked = vec![link.serve(READ)];
    // A read-only export, and one without flushes, is used without a further request.
    while !opening.is_finished() {
        if let Some(next) = link.take_soon() {
            link.answer(&next, 0, 0);
            asked.push(next);
        }
    }
    (opening.join().unwrap().unwrap(), server, link, asked)
}

/// Later flushes cover only writes of this process.
#[test]
fn a_writable_export_is_flushed_when_it_is_opened() {
    for (access, flags, kinds) in [
        (AccessMode::ReadWrite, ALL, &[READ, FLUSH][..]),
        (AccessMode::ReadOnly, ALL, &[READ]),
        (AccessMode::ReadWrite, 0, &[READ]),
    ] {
        let claims = OriginClaims { flushless: true, ..OriginClaims::default() };
        let spec = |uri: &NbdUri| VolumeSpec {
            access,
            claims,
            ..VolumeSpec::new("v", OriginSource::Nbd(uri.clone()))
        };
        let (.., asked) = open(offer(flags), spec);
        assert_eq!(asked.iter().map(|asked| asked.kind).collect::<Vec<_>>(), kinds, "{access:?} {flags}");
    }
}

/// The kinds and flags of the requests of a job, each of which ends with the next error number, and the result.
fn requests(export: u16, request: QueuedRequest<'_>, errnos: &[u8]) -> (Vec<(u16, u16)>, Result<(), i32>) {
    let mut scene = Scene::new(export);
    scene.submit(7, request);
    let mut asked = Vec::new();
    for errno in errnos {
        let next = scene.link.take().unwrap();
        scene.link.answer(&next, *errno, 0);
        asked.push((next.kind, next.flags));
    }
    let Event::Ended(7, result) = scene.event() else { panic!("another event") };
    (asked, result)
}

#[test]
fn a_durable_job_has_fua_or_a_flush_behind_it() {
    let (volatile, durable) = (Durability::Volatile, Durability::Durable);
    let data = [IoSlice::new(&[1; 4096])];
    let write = |durability| QueuedRequest::Write { offset: 0, pieces: &data, durability };
    let zeroes =
        |unmap, durability| QueuedRequest::WriteZeroes { extent: extent(0, 4096), unmap, durability };
    let discard = QueuedRequest::Discard(extent(0, 4096));
    let (failed, full) = (Err(libc::EIO), Err(libc::ENOSPC));
    let cases = [
        (ALL, write(volatile), &[(WRITE, 0)][..], &[0][..], Ok(())),
        (ALL, write(durable), &[(WRITE, FUA)], &[0], Ok(())),
        (NO_FUA, write(volatile), &[(WRITE, 0)], &[0], Ok(())),
        (NO_FUA, write(durable), &[(WRITE, 0), (FLUSH, 0)], &[0, 0], Ok(())),
        (NO_FUA, write(durable), &[(WRITE, 0), (FLUSH, 0)], &[0, EIO], failed),
        (NO_FUA, write(durable), &[(WRITE, 0)], &[ENOSPC], full),
        (CAN_ZERO, write(durable), &[(WRITE, 0)], &[0], Ok(())),
        (ALL, discard, &[(TRIM, FUA)], &[0], Ok(())),
        (NO_FUA, discard, &[(TRIM, 0), (FLUSH, 0)], &[0, 0], Ok(())),
        (ALL, zeroes(Unmap::Allow, volatile), &[(ZEROES, 0)], &[0], Ok(())),
        (ALL, zeroes(Unmap::Forbid, durable), &[(ZEROES, NO_HOLE | FUA)], &[0], Ok(())),
        (NO_FUA, zeroes(Unmap::Forbid, durable), &[(ZEROES, NO_HOLE), (FLUSH, 0)], &[0, 0], Ok(())),
        (ALL, QueuedRequest::Flush, &[(FLUSH, 0)], &[0], Ok(())),
        (ALL, QueuedRequest::Flush, &[(FLUSH, 0)], &[EIO], failed),
        (ALL, QueuedRequest::Read(extent(0, 4096)), &[(READ, 0)], &[EIO], failed),
        // The server does not support these.
        (CAN_FLUSH, discard, &[], &[], Err(libc::EOPNOTSUPP)),
        (CAN_FLUSH, zeroes(Unmap::Allow, volatile), &[], &[], Err(libc::EOPNOTSUPP)),
        (0, QueuedRequest::Flush, &[], &[], Ok(())),
    ];
    for (export, request, asked, errnos, result) in cases {
        assert_eq!(requests(export, request, errnos), (asked.to_vec(), result), "{export:x} {request:?}");
    }
}

#[test]
fn a_long_job_fails_with_any_of_its_parts() {
    for failed in [None, Some(0), Some(1), Some(2)] {
        let mut scene = Scene::at(Offer { most: Some(8192), ..offer(ALL) });
        scene.submit(1, QueuedRequest::Read(extent(4096, 20 << 10)));
        let parts = [READ; 3].map(|kind| scene.link.expect(kind));
        let ranges = parts.each_ref().map(|part| (part.offset, part.length));
        assert_eq!(ranges, [(4096, 8192), (12_288, 8192), (20_480, 4096)]);
        for (number, part) in (0_u8..3).zip(&parts).rev() {
            assert!(scene.origin.poll(Instant::ZERO).is_none(), "a part is missing");
            let errno = if failed == Some(number) { EIO } else { 0 };
            scene.link.answer(part, errno, number + 1);
        }
        scene.ended(1, if failed.is_some() { Err(libc::EIO) } else { Ok(()) });
        if failed.is_none() {
            let expected = [vec![1; 8192], vec![2; 8192], vec![3; 4096]].concat();
            assert!(scene.bytes(20 << 10) == expected);
        }
        scene.write(2, 0, &[[1; 8192], [2; 8192]].concat(), Durability::Volatile);
        let parts = [WRITE; 2].map(|kind| scene.link.expect(kind));
        assert!(parts[0].data == [1; 8192] && parts[1].data == [2; 8192] && parts[1].offset == 8192);
        scene.link.answer(&parts[0], ENOSPC, 0);
        scene.link.answer(&parts[1], 0, 0);
        scene.ended(2, Err(libc::ENOSPC));
    }
}

/// A scene with jobs in flight: a read, and a durable write whose flush is in flight; one write has been answered.
fn in_flight() -> Scene {
    let mut scene = Scene::new(NO_FUA);
    scene.write(1, 0, &[1; 4096], Durability::Volatile);
    scene.link.serve(WRITE);
    scene.ended(1, Ok(()));
    scene.write(2, 4096, &[2; 4096], Durability::Durable);
    scene.link.serve(WRITE);
    scene.link.expect(FLUSH);
    scene.submit(3, QueuedRequest::Read(extent(8192, 4096)));
    scene.link.expect(READ);
    scene
}

#[test]
fn jobs_in_flight_at_a_loss_begin_again() {
    let mut scene = in_flight();
    scene.lose();
    assert_eq!(scene.event(), Event::Restarted);
    assert!(scene.origin.away().is_some());
    // The server may be another one: the engine first says what it must have.
    scene.write(4, 12_288, &[4; 4096], Durability::Volatile);
    thread::sleep(Duration::from_millis(20));
    assert!(scene.server.is_left_alone(), "it connects without samples");
    scene.origin.expect(Vec::new());
    scene.link = scene.server.accept(scene.offer);
    let again = scene.link.serve(WRITE);
    assert!((again.offset, again.data) == (4096, vec![2; 4096]));
    let read = scene.link.expect(READ);
    scene.link.answer(&read, 0, 9);
    let new = scene.link.serve(WRITE);
    assert_eq!(new.offset, 12_288);
    scene.ended(3, Ok(()));
    assert_eq!(scene.bytes(4096), [9; 4096]);
    scene.ended(4, Ok(()));
    scene.link.serve(FLUSH);
    scene.ended(2, Ok(()));
    assert!(scene.origin.away().is_none());
}

/// A server that shuts down in order says so; the next one gets the requests.
#[test]
fn jobs_at_a_server_that_shuts_down_begin_again() {
    let mut scene = in_flight();
    scene.write(5, 0, &[5; 4096], Durability::Volatile);
    let asked = scene.link.expect(WRITE);
    scene.link.answer(&asked, ESHUTDOWN, 0);
    assert!(scene.link.take().is_none(), "the connection goes on");
    scene.come_back(Vec::new());
    assert_eq!(scene.link.serve(WRITE).offset, 4096);
    assert_eq!(scene.link.serve(READ).offset, 8192);
    assert_eq!(scene.link.serve(WRITE).data, [5; 4096]);
    scene.ended(3, Ok(()));
    scene.ended(5, Ok(()));
    scene.link.serve(FLUSH);
    scene.ended(2, Ok(()));
}

#[test]
fn the_loss_of_one_connection_counts_for_all() {
    let server = FakeServer::start();
    let uri = NbdUri::parse(&server.uri()).unwrap();
    let (spec, offer) = (VolumeSpec::new("v", OriginSource::Nbd(uri.clone())), offer(ALL | CAN_MULTI_CONN));
    let opening = thread::spawn(move || NbdOrigin::open(&spec, &uri, &StopWish::default()));
    let mut link = server.accept(offer);
    link.serve(READ);
    link.serve(FLUSH);
    let mut further = [(); 3].map(|()| server.accept(offer));
    let mut origin = opening.join().unwrap().unwrap();
    origin.begin_compare(&[]);
    origin.end_compare().unwrap();
    let mut scene = Scene { origin, server, link, offer };
    scene.lose();
    assert!(further.iter_mut().all(|link| link.take().is_none()), "a connection goes on");
    assert_eq!(scene.event(), Event::Restarted);
}

/// A sample of a block that has this byte everywhere.
fn sample(block: u64, byte: u8) -> Sample {
    Sample { block: BlockIndex::new(block), checksum: checksum(&[byte; 4096]) }
}

/// A server that returns, and is not used.
#[derive(Clone, Copy, Debug)]
enum RejectedServer {
    Export(Offer),
    /// Its two sampled blocks have these bytes.
    Blocks([u8; 2]),
    ShutsDown,
    Goes,
}

impl RejectedServer {
    fn meet(self, scene: &mut Scene) {
        let right = scene.offer;
        let mut link = match self {
            RejectedServer::Export(offer) => scene.server.accept(offer),
            RejectedServer::Blocks(_) | RejectedServer::ShutsDown | RejectedServer::Goes => {
                scene.server.accept(right)
            }
        };
        match self {
            RejectedServer::Export(_) | RejectedServer::Goes => {}
            RejectedServer::Blocks(found) => {
                let asked = [READ; 2].map(|kind| link.expect(kind));
                assert_eq!(asked.each_ref().map(|asked| asked.offset), [8192, 12_288]);
                asked.iter().zip(found).for_each(|(asked, byte)| link.answer(asked, 0, byte));
            }
            RejectedServer::ShutsDown => {
                let asked = link.expect(READ);
                link.answer(&asked, ESHUTDOWN, 0);
                link.expect(READ);
            }
        }
        if !matches!(self, RejectedServer::Goes) {
            assert!(link.take().is_none(), "{self:?}");
        }
        assert!(scene.origin.poll(Instant::ZERO).is_none(), "{self:?}");
    }
}

#[test]
fn a_returned_server_has_the_export_and_its_blocks() {
    let right = offer(ALL);
    let others = [
        RejectedServer::Export(Offer { size: 2 * SIZE, ..right }),
        RejectedServer::Export(Offer { size: SIZE / 2, ..right }),
        RejectedServer::Export(Offer { flags: ALL & !CAN_FLUSH, ..right }),
        RejectedServer::Blocks([7, 9]),
        RejectedServer::Blocks([9, 8]),
        RejectedServer::Blocks([9, 9]),
        RejectedServer::ShutsDown,
        RejectedServer::Goes,
    ];
    for other in others {
        let mut scene = Scene::new(ALL);
        scene.submit(1, QueuedRequest::Read(extent(0, 4096)));
        scene.link.expect(READ);
        scene.lose();
        assert_eq!(scene.event(), Event::Restarted);
        scene.origin.expect(vec![sample(2, 7), sample(3, 8)]);
        other.meet(&mut scene);
        // A block that cannot be read says nothing.
        scene.link = scene.server.accept(right);
        let asked = [READ; 2].map(|kind| scene.link.expect(kind));
        scene.link.answer(&asked[0], EIO, 0);
        scene.link.answer(&asked[1], 0, 8);
        assert_eq!(scene.link.serve(READ).offset, 0);
        scene.ended(1, Ok(()));
    }
}

/// Without flushes, a restart of a server may lose every write: the samples are no proof.
#[test]
fn a_server_without_flushes_is_used_without_a_comparison() {
    let mut scene = Scene::new(0);
    scene.submit(1, QueuedRequest::Read(extent(0, 4096)));
    scene.link.expect(READ);
    scene.lose();
    scene.come_back(vec![sample(2, 7)]);
    assert_eq!(scene.link.serve(READ).offset, 0);
    scene.ended(1, Ok(()));
}

#[test]
fn jobs_of_an_abandoned_server_fail_until_it_is_back() {
    let mut scene = Scene::new(ALL);
    scene.submit(1, QueuedRequest::Read(extent(0, 4096)));
    scene.link.expect(READ);
    scene.origin.give_up();
    assert_eq!(scene.event(), Event::Restarted);
    scene.ended(1, Err(libc::EIO));
    scene.submit(2, QueuedRequest::Flush);
    scene.ended(2, Err(libc::EIO));
    assert!(scene.link.take().is_none(), "the connection goes on");
    scene.origin.expect(Vec::new());
    scene.link = scene.server.accept(scene.offer);
    while scene.origin.away().is_some() {
        thread::sleep(Duration::from_millis(1));
    }
    scene.submit(3, QueuedRequest::Flush);
    scene.link.serve(FLUSH);
    scene.ended(3, Ok(()));
}

/// A server without a job in flight responds, as far as anyone can see.
#[test]
fn an_idle_server_is_not_abandoned() {
    let mut scene = Scene::new(ALL);
    scene.origin.give_up();
    scene.submit(1, QueuedRequest::Flush);
    scene.link.serve(FLUSH);
    scene.ended(1, Ok(()));
}

#[test]
fn a_dropped_origin_leaves_its_server() {
    let mut scene = Scene::new(ALL);
    drop(scene.origin);
    assert!(scene.link.take().is_none());
}
