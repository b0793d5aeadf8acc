//! The requests of a volume, passed from the loop to a recording client.
//!
//! The loop records an access in a ring of fixed size ([`ring`]); a thread takes the accesses out and sends them over
//! the control connection in parcels ([`parcel`]). The loop never waits: when the ring is full, accesses are lost and
//! counted. The command at the other end writes the file, with a size limit and a check of the free disk space.

pub mod access;
pub mod parcel;
pub mod ring;
