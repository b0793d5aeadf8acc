//! Accesses in flight, by block: a migration starts when those of its block have ended (`quiesce`).

#[derive(Clone, Debug, Default)]
pub(super) struct Locks {
    shared: Vec<(u64, u32)>,
}

impl Locks {
    pub(super) fn hold(&mut self, block: u64) {
        match self.shared.iter_mut().find(|(held, _)| *held == block) {
            Some((_, count)) => *count += 1,
            None => self.shared.push((block, 1)),
        }
    }

    /// An access has ended; returns whether it was the last one of the block.
    pub(super) fn release(&mut self, block: u64) -> bool {
        let Some(index) = self.shared.iter().position(|(held, _)| *held == block) else { return false };
        self.shared[index].1 -= 1;
        let is_last = self.shared[index].1 == 0;
        if is_last {
            self.shared.swap_remove(index);
        }
        is_last
    }

    pub(super) fn are_held(&self, block: u64) -> bool {
        self.shared.iter().any(|(held, _)| *held == block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_held_until_its_last_access_ended() {
        let mut locks = Locks::default();
        [7, 8, 7].into_iter().for_each(|block| locks.hold(block));
        assert!(!locks.release(7) && locks.are_held(7));
        assert!(locks.release(7) && !locks.are_held(7) && locks.are_held(8));
    }
}
