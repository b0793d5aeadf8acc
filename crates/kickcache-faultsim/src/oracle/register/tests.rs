use kickcache_engine::request::Durability;

use super::*;

const VOLUME: VolumeId = VolumeId::new(0);

struct Place {
    register: Register,
    book: Book,
}

impl Place {
    fn new() -> Place {
        Place { register: Register::new(1), book: Book::new(1) }
    }

    fn start_write(&mut self) -> Version {
        let issued = self.book.start();
        let version = self.book.add(VOLUME, issued);
        self.register.start_write(version, WriteContent::Stamps, &self.book);
        version
    }

    fn end_write(&mut self, version: Version) {
        let at = self.book.end(self.book.get(version).unwrap().issued);
        self.book.acknowledge(version, at, Durability::Volatile);
        self.register.end_write(version, at);
    }

    fn write(&mut self) -> Version {
        let version = self.start_write();
        self.end_write(version);
        version
    }

    fn end_read(&mut self, start: Tick, version: Version) -> Result<(), String> {
        let end = self.book.end(start);
        self.register.read(CompletedRead { version, start, end }, &self.book)
    }

    fn read(&mut self, version: Version) -> Result<(), String> {
        let start = self.book.start();
        self.end_read(start, version)
    }

    fn allows(&self, version: Version) -> bool {
        Place { register: self.register.clone(), book: self.book.clone() }.read(version).is_ok()
    }

    fn flush(&mut self) {
        let issued = self.book.start();
        self.book.end(issued);
        self.book.flushed(VOLUME, issued);
    }

    fn kill(&mut self) {
        let now = self.book.next_tick();
        self.register.kill(now, VOLUME, &self.book);
    }

    fn cut_power(&mut self) {
        let now = self.book.next_tick();
        self.register.cut_power(now, VOLUME, &self.book);
    }

    fn start_discard(&mut self) {
        self.register.start_discard(&self.book);
    }

    fn end_discard(&mut self) {
        let at = self.book.next_tick();
        self.register.end_discard(at);
    }

    fn discard(&mut self) {
        self.start_discard();
        self.end_discard();
    }
}

#[test]
fn a_read_returns_the_latest_completed_write() {
    let mut place = Place::new();
    assert!(place.allows(1));
    let first = place.write();
    let second = place.write();
    assert!(!place.allows(1) && !place.allows(first) && place.allows(second));
}

#[test]
fn a_read_may_return_concurrent_writes_but_never_revert() {
    let mut place = Place::new();
    let old = place.write();
    let new = place.start_write();
    assert!(place.allows(old) && place.allows(new));
    place.read(new).unwrap();
    assert!(!place.allows(old));
}

#[test]
fn a_long_read_may_return_overlapping_writes() {
    let mut place = Place::new();
    let old = place.write();
    let start = place.book.start();
    let new = place.write();
    let later = place.write();
    let mut other = Place { register: place.register.clone(), book: place.book.clone() };
    assert!(other.end_read(start, old).is_ok());
    assert!(place.end_read(start, new).is_ok());
    assert!(!place.allows(new) && place.allows(later));
}

#[test]
fn concurrent_writes_end_in_either_but_stay_there() {
    let mut place = Place::new();
    let (one, two) = (place.start_write(), place.start_write());
    place.end_write(one);
    place.end_write(two);
    assert!(place.allows(one) && place.allows(two));
    place.read(one).unwrap();
    assert!(place.allows(one) && !place.allows(two));
}

#[test]
fn a_power_cut_reverts_at_most_to_the_last_flush() {
    let mut place = Place::new();
    let old = place.write();
    let flushed = place.write();
    place.flush();
    let (third, fourth) = (place.write(), place.start_write());
    place.cut_power();
    assert!(!place.allows(1) && !place.allows(old));
    assert!(place.allows(flushed) && place.allows(third) && place.allows(fourth));
    place.read(third).unwrap();
    assert!(!place.allows(flushed) && !place.allows(fourth));
    place.cut_power();
    assert!(!place.allows(flushed) && place.allows(third));
}

#[test]
fn a_kill_keeps_acknowledged_writes_until_a_power_cut() {
    let mut place = Place::new();
    place.write();
    let second = place.write();
    let open = place.start_write();
    place.kill();
    assert!(!place.allows(1) && place.allows(second) && place.allows(open));
    place.read(second).unwrap();
    let mut flushed = Place { register: place.register.clone(), book: place.book.clone() };
    place.cut_power();
    assert!(place.allows(1) && place.allows(second));
    flushed.flush();
    flushed.cut_power();
    assert!(!flushed.allows(1) && flushed.allows(second));
}

#[test]
fn a_discard_leaves_anything_old_but_one_thing() {
    let mut place = Place::new();
    let old = place.write();
    let new = place.write();
    place.discard();
    assert!(place.allows(old) && place.allows(new) && place.allows(1) && place.allows(ZERO));
    place.read(old).unwrap();
    assert!(place.allows(old) && !place.allows(new) && !place.allows(ZERO));
    let last = place.write();
    assert!(place.allows(last) && !place.allows(old) && !place.allows(ZERO));
}

#[test]
fn a_write_after_a_discard_is_seen_after_a_kill() {
    let mut place = Place::new();
    let old = place.write();
    place.discard();
    let new = place.write();
    place.kill();
    assert!(place.allows(new) && !place.allows(old) && !place.allows(ZERO));
}

#[test]
fn a_read_during_a_discard_may_return_revived_data() {
    let mut place = Place::new();
    let slow = place.start_write();
    place.read(slow).unwrap();
    let new = place.start_write();
    place.start_discard();
    place.end_write(new);
    let start = place.book.start();
    place.end_discard();
    let last = place.write();
    place.read(last).unwrap();
    place.end_read(start, slow).unwrap();
    assert!(!place.allows(slow));
}

#[test]
fn a_read_concurrent_with_the_first_write_may_return_remains() {
    let mut place = Place::new();
    let slow = place.start_write();
    place.read(slow).unwrap();
    let new = place.start_write();
    place.end_write(new);
    place.discard();
    let start = place.book.start();
    let last = place.write();
    place.read(last).unwrap();
    place.end_read(start, slow).unwrap();
    assert!(!place.allows(slow) && !place.allows(new) && place.allows(last));
}

#[test]
fn a_read_after_the_first_write_returns_no_older_data() {
    let mut place = Place::new();
    let slow = place.start_write();
    place.read(slow).unwrap();
    place.discard();
    let last = place.write();
    let start = place.book.start();
    place.read(last).unwrap();
    assert!(place.end_read(start, slow).is_err());
}

#[test]
fn a_power_cut_with_a_concurrent_discard_leaves_its_remains() {
    let mut place = Place::new();
    let slow = place.start_write();
    place.start_discard();
    place.end_write(slow);
    let beside = place.start_write();
    place.end_discard();
    place.flush();
    place.end_write(beside);
    place.read(beside).unwrap();
    place.cut_power();
    assert!(place.allows(beside) && place.allows(ZERO));
}

#[test]
fn kill_and_power_cut_after_a_discard_leave_its_remains() {
    let mut place = Place::new();
    let slow = place.start_write();
    place.start_discard();
    place.end_write(slow);
    place.end_discard();
    place.flush();
    let after = place.write();
    place.read(after).unwrap();
    place.kill();
    assert!(place.allows(after) && !place.allows(ZERO));
    place.cut_power();
    assert!(place.allows(after) && place.allows(ZERO));
}

#[test]
fn flushed_remains_of_a_discard_survive_kill_and_power_cut() {
    let mut place = Place::new();
    let old = place.write();
    place.discard();
    place.flush();
    place.read(old).unwrap();
    place.kill();
    place.cut_power();
    assert!(place.allows(old) && !place.allows(ZERO));
}
