//! The requests of a volume, passed from the loop to a recording client.
//!
//! The loop puts accesses into a ring of fixed size ([`ring`]); a thread takes them out and sends them over
//! the control connection in parcels ([`parcel`]). The loop never waits: if the ring is full, accesses are
//! lost and counted.

pub mod access;
pub mod parcel;
pub mod ring;
