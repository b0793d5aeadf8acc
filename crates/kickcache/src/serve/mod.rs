//! Serving: the event loop with engine, driver and NBD connections.
