//! Accesses in flight that consist of several operations of devices.

use std::collections::VecDeque;

#[derive(Debug, Default)]
pub(super) struct Parts {
    outstanding: Vec<u32>,
    replies: VecDeque<u32>,
}

impl Parts {
    pub(super) fn hold(&mut self, id: u32) {
        let index = id as usize;
        if index >= self.outstanding.len() {
            self.outstanding.resize(index + 1, 0);
        }
        self.outstanding[index] += 1;
    }

    /// The access waits for one operation less; at zero it has ended.
    pub(super) fn release(&mut self, id: u32) {
        let left = &mut self.outstanding[id as usize];
        *left -= 1;
        if *left == 0 {
            self.replies.push_back(id);
        }
    }

    pub(super) fn poll_reply(&mut self) -> Option<u32> {
        self.replies.pop_front()
    }
}
