//! Metrics for Prometheus: the numbers of the daemon's report, as text over HTTP.
//!
//! Invariants: a request changes no volume and no setting. A client that sends or reads slowly does
//! not delay another one. Names, once released, stay; docs/reference/metrics.md lists all of them.
//!
//! To add a metric: a line in one of the three lists. Shown: docs/reference/metrics.md.

mod caches;
mod connections;
mod daemon;
mod exposition;
mod family;
mod http;
mod live;
pub mod scrape;
pub mod server;
mod volumes;

#[cfg(test)]
mod tests;
