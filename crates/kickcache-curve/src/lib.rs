//! Which part of its accesses would an LRU cache of each size hit? Answered while they happen, from a sample of the
//! blocks, in a fixed amount of memory: SHARDS (C. Waldspurger and others, *Efficient MRC Construction with SHARDS*,
//! FAST 2015) with a fixed number of samples and its correction.
//!
//! Modules:
//! * [`sampler`]: takes the accesses.
//! * `samples`, `recency`: the blocks of the sample; in which order they were last used.
//! * `histogram`: accesses by their depth in the LRU stack.
//! * [`curve`]: the hit ratio by size, with its error.
//! * [`hash`]: the hash of blocks.
//!
//! Invariant: counting an access allocates no memory.
//!
//! Start with [`sampler::LruSampler`].

pub mod curve;
pub mod hash;
mod histogram;
mod number;
mod recency;
pub mod sampler;
mod samples;
