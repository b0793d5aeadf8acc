//! First in, first out: a hit does not change the order.

use crate::reference_policy::policy::Policy;
use crate::reference_policy::queues::Queues;

#[derive(Debug)]
pub struct Fifo {
    capacity: usize,
    queues: Queues<1>,
}

impl Fifo {
    /// Room for this many blocks, at least one.
    pub fn new(capacity: u64) -> Fifo {
        Fifo { capacity: usize::try_from(capacity.max(1)).unwrap_or(usize::MAX), queues: Queues::new() }
    }
}

impl Policy for Fifo {
    fn touch(&mut self, block: u64) -> bool {
        if self.queues.find(block).is_some() {
            return true;
        }
        if self.queues.len(0) == self.capacity {
            self.queues.pop(0);
        }
        self.queues.push(0, block);
        false
    }

    fn discard(&mut self, block: u64) {
        self.queues.remove(block);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hit_does_not_save_the_oldest() {
        let mut fifo = Fifo::new(2);
        assert!([1, 2].into_iter().all(|block| !fifo.touch(block)));
        assert!(fifo.touch(1));
        assert!(!fifo.touch(3));
        assert!(fifo.touch(2) && !fifo.touch(1));
    }
}
