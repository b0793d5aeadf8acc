//! The default places of sockets.

use std::path::PathBuf;

use crate::plan::address::NbdAddress;

/// The control socket of a daemon that the system started.
pub const SYSTEM_CONTROL: &str = "/run/kickcache/control.sock";

/// The default directory of sockets: `$XDG_RUNTIME_DIR/kickcache`, or `/run/kickcache`.
pub fn runtime_dir() -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from) {
        Some(dir) if dir.is_absolute() => dir.join("kickcache"),
        _ => PathBuf::from("/run/kickcache"),
    }
}

pub fn default_control() -> PathBuf {
    runtime_dir().join("control.sock")
}

pub fn default_nbd(name: &str) -> NbdAddress {
    NbdAddress::Unix(runtime_dir().join(format!("{name}.nbd.sock")))
}
