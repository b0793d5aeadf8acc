//! The other end of a socket, for the log.

use std::net::SocketAddr;
use std::os::fd::AsFd;

use rustix::net::{getpeername, sockopt};

pub(crate) fn peer(socket: impl AsFd) -> String {
    let remote = getpeername(&socket).ok().flatten();
    if let Some(address) = remote.and_then(|remote| SocketAddr::try_from(remote).ok()) {
        return address.to_string();
    }
    match sockopt::socket_peercred(&socket) {
        Ok(process) => {
            format!("the local process {} of user {}", process.pid.as_raw_nonzero(), process.uid.as_raw())
        }
        Err(_) => "somebody".into(),
    }
}
