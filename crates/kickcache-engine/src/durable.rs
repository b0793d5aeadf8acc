//! Records, and waiting until what stands on the cache device is durable.

use crate::format::journal::{Fact, Record};
use crate::order::{DurableWaiter, Need};
use crate::state::{State, Task};
use crate::units::Sequence;

impl State {
    /// Puts a fact into the journal.
    pub(crate) fn record(&mut self, fact: Fact) {
        if self.is_out_of_service() {
            return;
        }
        let sequence = self.order.assign();
        self.counters.journal_records += 1;
        self.journal.add(Record { sequence, fact });
    }

    /// Calls back, by a task, when everything that has a sequence number by now is durable.
    pub(crate) fn wait_durable(&mut self, waiter: DurableWaiter) {
        self.wait_through(self.order.newest(), waiter);
    }

    /// Calls back, by a task, when every block that was forgotten by now is *gone* for good.
    pub(crate) fn wait_gone(&mut self, waiter: DurableWaiter) {
        self.wait_through(self.newest_gone, waiter);
    }

    fn wait_through(&mut self, sequence: Sequence, waiter: DurableWaiter) {
        // What stands on a device that refuses writes may still be made durable, so that writeback can go on.
        let is_hopeless = waiter != DurableWaiter::Writeback || self.order.has_failed();
        if self.is_out_of_service() && is_hopeless {
            self.agenda.push_back(Task::NotDurable(waiter));
            return;
        }
        if self.order.is_durable(sequence) {
            self.agenda.push_back(Task::Durable(waiter));
            return;
        }
        self.flush_journal();
        self.order.wait(Need::Through(sequence), waiter);
    }
}
