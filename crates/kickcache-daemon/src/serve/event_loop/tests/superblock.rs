//! Writers of the superblock in the loop.

use std::sync::mpsc::{Receiver as Answered, TryRecvError};

use kickcache_engine::units::VolumeId;

use super::*;
use crate::serve::event_loop::cache_takeover::TakeoverStep;
use crate::serve::verbs::superblock_lease::{LeaseNumber, SuperblockLease, SuperblockWriter};

struct Writer {
    number: LeaseNumber,
    answered: Answered<Result<SuperblockLease, ServeError>>,
}

impl Writer {
    fn request(event_loop: &mut EventLoop<PassThrough>, writer: SuperblockWriter) -> Writer {
        let (answer, answered) = mpsc::channel();
        Writer { number: event_loop.wait_for_superblock(writer, answer), answered }
    }

    fn waits(&self) -> bool {
        matches!(self.answered.try_recv(), Err(TryRecvError::Empty))
    }

    fn epoch(&self) -> u64 {
        self.answered.try_recv().unwrap().unwrap().superblock.epoch
    }
}

/// Writers that a loop without a cache device serves.
fn writers(event_loop: &mut EventLoop<PassThrough>) -> Vec<SuperblockWriter> {
    let resize = |number| event_loop.resizes.begin(VolumeId::new(number));
    let [first, second] = [1, 2].map(resize).map(SuperblockWriter::Resize);
    vec![first, SuperblockWriter::Growth, second, SuperblockWriter::Growth]
}

#[test]
fn a_superblock_is_lent_to_one_writer_at_a_time() {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let mut event_loop = loop_without_clients(directory.path());
    let writers = writers(&mut event_loop);
    let requested: Vec<Writer> =
        writers.into_iter().map(|writer| Writer::request(&mut event_loop, writer)).collect();
    for (at, writer) in requested.iter().enumerate() {
        assert!(requested[at + 1..].iter().all(Writer::waits), "{at}");
        event_loop.lend_to_next();
        assert!(requested[at + 1..].iter().all(Writer::waits), "{at}");
        assert_eq!(writer.epoch(), event_loop.superblock.epoch);
        assert!(event_loop.is_storing_superblock());
        // The writer stores another superblock, which the next one gets.
        event_loop.superblock.epoch += 1;
        event_loop.end_lease(writer.number);
    }
    assert!(!event_loop.is_storing_superblock());
}

#[test]
fn only_the_end_of_its_own_lease_lends_it_on() {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let mut event_loop = loop_without_clients(directory.path());
    let [first, second, third] = [(); 3].map(|()| Writer::request(&mut event_loop, SuperblockWriter::Growth));
    event_loop.end_lease(second.number);
    assert!(third.waits());
    event_loop.end_lease(first.number);
    assert!(second.answered.try_recv().is_err(), "it gave up before");
    assert_eq!(third.epoch(), event_loop.superblock.epoch);
    event_loop.end_lease(first.number);
    assert!(event_loop.is_storing_superblock(), "the first lease has ended before");
}

#[test]
fn a_writer_that_left_does_not_keep_the_superblock() {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let mut event_loop = loop_without_clients(directory.path());
    let first = Writer::request(&mut event_loop, SuperblockWriter::Growth);
    drop(Writer::request(&mut event_loop, SuperblockWriter::Growth).answered);
    let third = Writer::request(&mut event_loop, SuperblockWriter::Growth);
    event_loop.end_lease(first.number);
    assert!(!third.waits());
}

#[test]
fn no_writer_gets_the_superblock_that_a_takeover_stores() {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let mut event_loop = loop_without_clients(directory.path());
    for step in [TakeoverStep::Sealed(Instant::ZERO), TakeoverStep::Recording, TakeoverStep::Parting] {
        event_loop.takeover.step = Some(step);
        let writer = Writer::request(&mut event_loop, SuperblockWriter::Growth);
        event_loop.lend_to_next();
        assert!(writer.waits(), "{step:?}");
        event_loop.takeover.step = None;
        event_loop.lend_to_next();
        assert_eq!(writer.epoch(), event_loop.superblock.epoch);
        event_loop.end_lease(writer.number);
    }
}

#[test]
fn an_abandoned_resize_gets_no_superblock() {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let mut event_loop = loop_without_clients(directory.path());
    let volume = VolumeId::new(3);
    let resize = SuperblockWriter::Resize(event_loop.resizes.begin(volume));
    let first = Writer::request(&mut event_loop, SuperblockWriter::Growth);
    let second = Writer::request(&mut event_loop, resize);
    event_loop.resizes.abandon(volume);
    event_loop.end_lease(first.number);
    assert!(second.answered.try_recv().unwrap().is_err() && !event_loop.is_storing_superblock());
    // Another volume may have the number of the removed one.
    event_loop.resizes.begin(volume);
    let third = Writer::request(&mut event_loop, resize);
    assert!(third.answered.try_recv().unwrap().is_err());
}

#[test]
fn a_resize_gets_no_superblock_during_a_stop() {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let mut event_loop = loop_without_clients(directory.path());
    let resize = SuperblockWriter::Resize(event_loop.resizes.begin(VolumeId::new(0)));
    let first = Writer::request(&mut event_loop, SuperblockWriter::Growth);
    let second = Writer::request(&mut event_loop, resize);
    event_loop.begin_stop(Instant::from_nanos(1), "a test says so");
    event_loop.end_lease(first.number);
    assert!(matches!(second.answered.try_recv().unwrap(), Err(ServeError::Stopped)));
}
