//! Operations in flight: requests, submissions, origin accesses, fills, writebacks, and long jobs.

pub(crate) mod applying;
pub(crate) mod blocks;
pub(crate) mod fills;
pub(crate) mod found_journal;
pub(crate) mod growth;
pub(crate) mod jobs;
pub(crate) mod marking;
pub(crate) mod origin;
pub(crate) mod origin_flush;
pub(crate) mod origin_witnesses;
pub(crate) mod pulse;
pub(crate) mod purpose;
pub(crate) mod recovery;
pub(crate) mod requests;
pub(crate) mod reread;
pub(crate) mod searching;
pub(crate) mod slab;
pub(crate) mod submissions;
pub(crate) mod through_writes;
pub(crate) mod unreadable;
pub(crate) mod writebacks;
pub(crate) mod writing;
