//! Records, and waiting until what stands on the cache device is durable.

use crate::format::journal::RECORD_COUNT_MAX;
use crate::order::{DurableWaiter, Need};
use crate::state::State;
use crate::task::Task;
use crate::units::Sequence;

impl State {
    /// Writes all records that have gathered.
    pub(crate) fn flush_journal(&mut self) {
        self.write_records(1);
    }

    /// Writes full blocks of records.
    #[inline]
    pub(crate) fn write_full_records(&mut self) {
        if self.device.journal.gathered() >= RECORD_COUNT_MAX {
            self.write_records(RECORD_COUNT_MAX);
        }
    }

    /// Writes blocks of records while at least this many have gathered.
    fn write_records(&mut self, least: usize) {
        while let Some(next) = self.device.take_records(least) {
            self.submit(next.purpose, next.operation);
        }
    }

    /// Calls back, by a task, when everything that has a sequence number by now is durable.
    pub(crate) fn wait_durable(&mut self, waiter: DurableWaiter) {
        self.wait_through(self.device.order.newest(), waiter);
    }

    /// Calls back, by a task, when every block that was forgotten by now is *gone* durably.
    pub(crate) fn wait_gone(&mut self, waiter: DurableWaiter) {
        self.wait_through(self.device.newest_gone(), waiter);
    }

    fn wait_through(&mut self, sequence: Sequence, waiter: DurableWaiter) {
        // What stands on a device that refuses writes may still be made durable, so that writeback can go on.
        let is_hopeless = waiter != DurableWaiter::Writeback || self.device.order.has_failed();
        if self.device.is_out_of_service() && is_hopeless {
            self.agenda.push_back(Task::NotDurable(waiter));
            return;
        }
        if self.device.order.is_durable(sequence) {
            self.agenda.push_back(Task::Durable(waiter));
            return;
        }
        self.flush_journal();
        self.device.order.wait(Need::Through(sequence), waiter);
    }
}
