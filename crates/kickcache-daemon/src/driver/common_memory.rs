//! The part of a daemon's payload memory that its event loops share.
//!
//! Invariants:
//! * The bytes in use never exceed the limit.
//! * While loops wait, only the first of them takes memory, so that small requests cannot starve a large one.
//! * A request that gets memory of its loop's own part at once uses no atomic operation and no lock.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::wakeup::Wakeup;

#[derive(Debug)]
pub(crate) struct CommonMemory {
    limit: usize,
    used: AtomicUsize,
    /// Length of [`Loops::waiting`], readable without the lock.
    waiting: AtomicUsize,
    loops: Mutex<Loops>,
}

#[derive(Debug, Default)]
struct Loops {
    wakeups: Vec<(u64, Arc<Wakeup>)>,
    waiting: VecDeque<u64>,
    next: u64,
}

impl CommonMemory {
    pub(crate) fn new(limit: usize) -> CommonMemory {
        let (used, waiting) = (AtomicUsize::new(0), AtomicUsize::new(0));
        CommonMemory { limit, used, waiting, loops: Mutex::default() }
    }

    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    #[cfg(test)]
    pub(crate) fn used_bytes(&self) -> usize {
        self.used.load(Ordering::SeqCst)
    }

    fn lock(&self) -> MutexGuard<'_, Loops> {
        self.loops.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, bytes: usize) -> bool {
        let fits = |used: usize| used.checked_add(bytes).filter(|sum| *sum <= self.limit);
        self.used.fetch_update(Ordering::SeqCst, Ordering::SeqCst, fits).is_ok()
    }
}

/// An event loop's access to the common memory; its drop ends the loop's wait for memory.
#[derive(Debug)]
pub(crate) struct Member {
    memory: Arc<CommonMemory>,
    id: u64,
    is_waiting: bool,
}

impl Member {
    pub(crate) fn new(memory: Arc<CommonMemory>, wakeup: Arc<Wakeup>) -> Member {
        let mut loops = memory.lock();
        let id = loops.next;
        loops.next += 1;
        loops.wakeups.push((id, wakeup));
        drop(loops);
        Member { memory, id, is_waiting: false }
    }

    pub(crate) fn alone(memory: Arc<CommonMemory>) -> Member {
        Member { memory, id: 0, is_waiting: false }
    }

    pub(crate) fn limit(&self) -> usize {
        self.memory.limit
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.memory.waiting.load(Ordering::SeqCst) > 0
    }

    /// Takes bytes, if they are free and no other loop has waited for longer.
    pub(crate) fn take(&mut self, bytes: usize) -> bool {
        if !self.is_wanted() {
            return self.memory.take(bytes);
        }
        let loops = self.memory.lock();
        let may_take = loops.waiting.front().is_none_or(|first| *first == self.id);
        if !may_take || !self.memory.take(bytes) {
            return false;
        }
        drop(loops);
        self.end_wait();
        true
    }

    /// As [`Member::take`]; without success, the loop waits, and is woken for another try.
    pub(crate) fn take_or_wait(&mut self, bytes: usize) -> bool {
        if self.take(bytes) {
            return true;
        }
        if !std::mem::replace(&mut self.is_waiting, true) {
            let mut loops = self.memory.lock();
            loops.waiting.push_back(self.id);
            self.memory.waiting.store(loops.waiting.len(), Ordering::SeqCst);
            // Wakes the other loops, which then disconnect slow clients that hold memory.
            let others = loops.wakeups.iter().filter(|(id, _)| *id != self.id);
            others.for_each(|(_, wakeup)| wakeup.ring());
        }
        // Bytes that were released before the loop was in the line woke no loop.
        self.take(bytes)
    }

    /// If the loop waits, it leaves the line, and the first loop of the line is woken.
    pub(crate) fn end_wait(&mut self) {
        if std::mem::take(&mut self.is_waiting) {
            let mut loops = self.memory.lock();
            loops.waiting.retain(|waiting| *waiting != self.id);
            self.memory.waiting.store(loops.waiting.len(), Ordering::SeqCst);
            loops.wake_first();
        }
    }

    pub(crate) fn give_back(&mut self, bytes: usize) {
        let before = self.memory.used.fetch_sub(bytes, Ordering::SeqCst);
        assert!(before >= bytes, "more bytes were released than in use");
        if self.is_wanted() {
            self.memory.lock().wake_first();
        }
    }
}

impl Loops {
    fn wake_first(&self) {
        let Some(first) = self.waiting.front() else { return };
        let meant = self.wakeups.iter().filter(|(id, _)| id == first);
        meant.for_each(|(_, wakeup)| wakeup.ring());
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.end_wait();
        self.memory.lock().wakeups.retain(|(id, _)| *id != self.id);
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    struct Loop {
        member: Member,
        wakeup: Arc<Wakeup>,
    }

    impl Loop {
        fn of(memory: &Arc<CommonMemory>) -> Loop {
            let wakeup = Arc::new(Wakeup::new().unwrap());
            Loop { member: Member::new(Arc::clone(memory), Arc::clone(&wakeup)), wakeup }
        }

        fn is_woken(&self) -> bool {
            let fd = self.wakeup.as_fd();
            let mut fds = [PollFd::new(&fd, PollFlags::IN)];
            let count = poll(&mut fds, Some(&Timespec::default())).unwrap();
            self.wakeup.clear();
            count > 0
        }
    }

    #[test]
    fn a_loop_that_waits_is_served_before_others_and_woken() {
        let memory = Arc::new(CommonMemory::new(100));
        let (mut first, mut second) = (Loop::of(&memory), Loop::of(&memory));
        assert!(first.member.take(80) && !second.member.take(30));
        assert!(!second.member.take_or_wait(30));
        assert!(first.is_woken(), "it may have clients that keep memory");
        assert!(!first.member.take(10), "the other one waits");
        first.member.give_back(80);
        assert!(second.is_woken() && !first.is_woken());
        assert!(second.member.take_or_wait(30) && first.member.take(70) && !first.member.take(1));
    }

    #[test]
    fn a_loop_that_ends_blocks_no_waiter() {
        let memory = Arc::new(CommonMemory::new(100));
        let (mut first, mut second, mut third) = (Loop::of(&memory), Loop::of(&memory), Loop::of(&memory));
        assert!(first.member.take(80) && !second.member.take_or_wait(90) && !third.member.take_or_wait(30));
        third.is_woken();
        drop(second.member);
        assert!(third.is_woken());
        first.member.give_back(80);
        assert!(third.member.take(30) && first.member.take(70));
    }

    #[test]
    #[should_panic(expected = "more bytes were released")]
    fn no_more_is_given_back_than_was_taken() {
        Loop::of(&Arc::new(CommonMemory::new(100))).member.give_back(1);
    }
}
