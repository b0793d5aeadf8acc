//! Virtual devices, workloads, faults and an oracle for the cache engine.
