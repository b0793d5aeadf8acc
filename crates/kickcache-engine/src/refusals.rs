//! Decides whether a block of a write through the log stays if the origin refuses the write.

use crate::ids::Ticket;
use crate::inflight::blocks::block_extent;
use crate::inflight::writing::IfRefused;
use crate::state::State;
use crate::time::Duration;
use crate::units::{BlockKey, Location};

/// The time after a refused write in which reads do not keep blocks.
const REFUSAL_REST: Duration = Duration::from_millis(1_000);

impl State {
    /// Whether reads must not use a block in the log, because the origin may refuse its write.
    #[inline]
    pub(crate) fn may_vanish(&self, key: BlockKey, location: Location) -> bool {
        self.requests.through_count > 0 && self.must_vanish(key, location) && !mutant!(RefusedRead)
    }

    #[cold]
    fn must_vanish(&self, key: BlockKey, location: Location) -> bool {
        self.is_forgotten_if_refused(key, location) && !self.can_be_kept(key)
    }

    fn is_forgotten_if_refused(&self, key: BlockKey, location: Location) -> bool {
        self.requests.written_through(&self.cache, self.cache.copy_at(key, location))
            == Some(IfRefused::Forgotten)
    }

    /// Whether the data of writes through the log may stay in a block if the origin refuses them. Not if a read is
    /// queued after them, because this read would return the earlier data.
    fn can_be_kept(&self, key: BlockKey) -> bool {
        let refused_at = self.volumes.get(key.volume()).refused_at;
        refused_at.is_none_or(|at| self.now.since(at) >= REFUSAL_REST)
            && !self.requests.is_any_through(key, self.is_read_behind(key))
    }

    /// Whether a read of the block is queued after a place at the origin.
    fn is_read_behind(&self, key: BlockKey) -> impl Fn(Ticket) -> bool + use<> {
        let last = self.volumes.get(key.volume()).queue.last_read(block_extent(key.block()));
        move |ticket| last.is_some_and(|read| read > ticket)
    }

    #[inline]
    pub(crate) fn keep_what_is_read(&mut self, key: BlockKey, location: Location) {
        if self.requests.through_count > 0 && !mutant!(RefusedRead) {
            self.keep_if_forgotten(key, location);
        }
    }

    #[cold]
    fn keep_if_forgotten(&mut self, key: BlockKey, location: Location) {
        if self.is_forgotten_if_refused(key, location) {
            self.keep_if_refused(key);
        }
    }

    /// The data of writes through the log stays in a block if the origin refuses them, unless a read waits behind them.
    pub(crate) fn keep_if_refused(&mut self, key: BlockKey) {
        let is_read_behind = self.is_read_behind(key);
        self.requests.keep_if_refused(key, is_read_behind);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Mode;
    use crate::device::DeviceError;
    use crate::request::{Durability, Errno, Operation};
    use crate::scene::Scene;
    use crate::units::{BlockIndex, VolumeId};

    #[test]
    fn a_refused_write_drops_its_copy_even_after_a_move() {
        let mut scene = Scene::new(Mode::WriteThrough);
        let write = Operation::Write(Durability::Volatile);
        scene.hold("origin write");
        scene.begin(write, 0, 4096);
        let older = scene.location(0);
        scene.begin(write, 0, 4096);
        let key = BlockKey::new(VolumeId::new(0), BlockIndex::new(0));
        scene.engine.state.revive(key, older);
        assert!(scene.engine.state.is_forgotten_if_refused(key, older));
        scene.end_held();
        assert!(!scene.engine.state.is_forgotten_if_refused(key, older));
        assert_eq!(scene.not_clean(), (0, 1));
    }

    #[test]
    fn a_block_read_during_its_write_through_survives_a_refusal() {
        let write = Operation::Write(Durability::Volatile);
        for is_read in [false, true] {
            let mut scene = Scene::new(Mode::WriteThrough);
            scene.hold("origin read");
            scene.begin(Operation::Read, 0, 4096);
            scene.begin(write, 0, 4096);
            if is_read {
                assert_eq!(scene.read(0, 4096).1, ["cache read 4096"], "the origin is not read");
            }
            scene.fail_times(1, "origin write", DeviceError::Io);
            scene.end_held();
            assert_eq!((scene.take_reply(), scene.take_reply()), (Some(Ok(())), Some(Err(Errno::Io))));
            assert_eq!(scene.not_clean(), (u64::from(is_read), 0), "a read block does not vanish");
            assert_eq!(scene.is_cached(0), is_read);
            scene.engine.check();
        }
    }

    #[test]
    fn refused_writes_leave_no_copies_in_the_log() {
        let write = Operation::Write(Durability::Volatile);
        let mut scene = Scene::new(Mode::WriteThrough);
        scene.fail_times(1, "origin write", DeviceError::Io);
        assert_eq!(scene.write(8192, 4096).0, Err(Errno::Io));
        for seen in ["origin read", "cache read"] {
            scene.hold("origin write");
            scene.begin(write, 1 << 20, 4096);
            let read = [scene.begin(Operation::Read, 1 << 20, 4096), scene.end_held()].concat();
            assert!(read.iter().any(|line| line.starts_with(seen)), "{seen}: {read:?}");
            scene.drain();
            assert_eq!((scene.take_reply(), scene.take_reply()), (Some(Ok(())), Some(Ok(()))));
            scene.flush().0.unwrap();
            scene.pass(REFUSAL_REST);
        }
    }
}
