//! The events of a trace file.

use crate::trace_file::record::Record;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Event {
    Access {
        record: Record,
        /// A device, or for blktrace a processor of a device: its records are expected in the order of their times.
        stream: u64,
    },
    /// A header or a summary: another recording may follow.
    Header,
}

impl Event {
    pub(crate) fn of_device(record: Record) -> Event {
        Event::Access { record, stream: record.device.into() }
    }
}
