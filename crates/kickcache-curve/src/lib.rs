//! Which part of its accesses would an LRU cache of each size hit? Answered while they happen, from a sample of the blocks,
//! in a fixed amount of memory: SHARDS (C. Waldspurger and others, *Efficient MRC Construction with SHARDS*, FAST 2015)
//! with a fixed number of samples and its correction. A leaf: the daemon and the models both use it.
//!
//! Modules:
//! * [`sampler`]: takes the accesses; an access of a block outside the sample's range of hashes needs no look-up.
//! * `samples`, `recency`: the blocks of the sample; in which order they were last used.
//! * `histogram`: how far apart the accesses of a block are.
//! * [`curve`]: the hit ratio by size, with its error.
//! * [`hash`]: the hash of blocks, shared with other code that samples by hash.
//!
//! Invariants: the same accesses give the same curve; counting an access allocates no memory.
//!
//! Start with [`sampler::LruSampler`].

pub mod curve;
pub mod hash;
mod histogram;
mod number;
mod recency;
pub mod sampler;
mod samples;
