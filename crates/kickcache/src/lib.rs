//! kickcache: serve a cached disk, look at it, try it.
