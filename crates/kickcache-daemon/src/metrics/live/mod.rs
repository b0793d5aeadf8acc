//! The live page: the activity of the daemon in the last hour and the last week.
//!
//! Invariants: the numbers of kept rows and events are bounded. The page needs no external resource, and changes no
//! state.

mod busy;
pub(super) mod document;
mod events;
mod history;
#[cfg(test)]
mod scenes;
mod totals;
pub(super) mod view;

#[cfg(test)]
mod tests;

/// The page; it requests `history.json`.
pub(super) const PAGE: &str = include_str!("page.html");
pub(super) const PAGE_POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; \
                                      img-src data:; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'";
