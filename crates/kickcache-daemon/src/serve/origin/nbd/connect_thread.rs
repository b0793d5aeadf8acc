//! Connecting to a server on a thread of its own.

use std::sync::Arc;
use std::time::Duration;
use std::{io, thread};

use super::exchange::{Exchange, Order};
use super::links::Links;
use crate::plan::nbd_uri::NbdUri;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ConnectThread {
    Yes,
    No,
}

/// Connects on a thread of its own, which delivers the result as [`Order::Dialled`].
pub(super) fn dial_beside(uri: &NbdUri, patience: Duration, exchange: &Arc<Exchange>) -> io::Result<()> {
    let (uri, exchange) = (uri.clone(), Arc::clone(exchange));
    let dial = move || exchange.give(Order::Dialled(Links::connect(&uri, patience)));
    thread::Builder::new().name("origin-dial".into()).spawn(dial).map(drop)
}
