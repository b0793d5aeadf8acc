//! The live page: what the daemon did in the last hour and the last week, kept beside the metrics, and the page that draws it.
//!
//! * `history`: the rings; `totals`: from reports to rows of them; `busy`: how long devices were at work.
//! * `happenings`: what changed; `document`: all that as JSON, for the page; `view`: who keeps it.
//!
//! Invariants: nothing is kept but what has a bound. The page needs nothing from elsewhere, and changes nothing.

mod busy;
pub(super) mod document;
mod happenings;
mod history;
mod totals;
pub(super) mod view;

#[cfg(test)]
mod tests;

/// The page; it asks for `history.json`.
pub(super) const PAGE: &str = include_str!("page.html");
/// What a browser lets the page do: nothing from elsewhere.
pub(super) const PAGE_POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; \
                                      img-src data:; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'";
