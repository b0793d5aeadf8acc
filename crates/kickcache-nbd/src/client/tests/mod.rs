use super::*;

mod interop;
mod requests;
mod server;

use self::server::{Order, ToyServer};

fn options(structured: bool) -> ConnectOptions {
    ConnectOptions {
        export: "ram".to_owned(),
        structured,
        allocation: structured,
        ..ConnectOptions::default()
    }
}
