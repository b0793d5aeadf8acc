//! Where sockets are when nobody names a place.

use std::path::PathBuf;

use crate::plan::address::NbdAddress;

/// The control socket of a daemon that the system started.
pub const SYSTEM_CONTROL: &str = "/run/kickcache/control.sock";

/// Where sockets go when nobody names a place: `$XDG_RUNTIME_DIR/kickcache`, or `/run/kickcache`.
pub fn runtime_dir() -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from) {
        Some(dir) if dir.is_absolute() => dir.join("kickcache"),
        _ => PathBuf::from("/run/kickcache"),
    }
}

/// The control socket when nobody names one.
pub fn default_control() -> PathBuf {
    runtime_dir().join("control.sock")
}

/// The NBD socket of a volume when nobody names one.
pub fn default_nbd(name: &str) -> NbdAddress {
    NbdAddress::Unix(runtime_dir().join(format!("{name}.nbd.sock")))
}
