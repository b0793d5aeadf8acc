//! Records, and waiting until what stands on the cache device is durable.

use alloc::vec::Vec;

use crate::device::DeviceOperation;
use crate::format::durable::Durable;
use crate::format::journal::{Fact, RECORD_COUNT_MAX, Record};
use crate::inflight::purpose::Purpose;
use crate::order::{DurableWaiter, Need};
use crate::request::Durability;
use crate::state::State;
use crate::task::Task;
use crate::units::Sequence;

impl State {
    /// What is known to be durable by now, for what is written next.
    pub(crate) fn durable(&self) -> Durable {
        let mut journal = self.order.durable_blocks();
        journal.end = journal.end.min(self.journal.kept_end());
        Durable { batches: self.order.durable_range(), journal }
    }

    /// Puts a fact into the journal.
    pub(crate) fn record(&mut self, fact: Fact) {
        if self.is_out_of_service() {
            return;
        }
        let sequence = self.order.assign();
        self.counters.journal_records += 1;
        self.journal.add(Record { sequence, fact });
    }

    /// Writes all records that have gathered.
    pub(crate) fn flush_journal(&mut self) {
        self.write_records(1);
    }

    /// Writes full blocks of records.
    #[inline]
    pub(crate) fn write_full_records(&mut self) {
        if self.journal.gathered() >= RECORD_COUNT_MAX {
            self.write_records(RECORD_COUNT_MAX);
        }
    }

    /// Writes blocks of records while at least so many have gathered.
    fn write_records(&mut self, least: usize) {
        while self.journal.gathered() >= least && !self.is_out_of_service() {
            let (write, sequences) = self.journal.take_records(self.durable());
            self.order.begin_journal_block(write.number);
            let operation = DeviceOperation::WriteMetadata {
                offset: write.offset,
                bytes: write.bytes.into_boxed_slice(),
                pieces: Vec::new(),
                durability: Durability::Volatile,
            };
            self.submit(Purpose::Journal { block: write.number, sequences }, operation);
        }
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
