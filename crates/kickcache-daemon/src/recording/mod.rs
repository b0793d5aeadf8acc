//! What a volume is asked for, on its way from the loop to whoever records it.
//!
//! The loop notes an access by three stores into a ring of fixed size ([`ring`]); a thread takes them out and sends them over
//! the control connection in parcels ([`parcel`]). Nobody waits: when the ring is full, accesses are lost and counted. What
//! becomes of them, a file with a limit on a disk with room, is the affair of the command at the other end.

pub mod access;
pub mod parcel;
pub mod ring;
