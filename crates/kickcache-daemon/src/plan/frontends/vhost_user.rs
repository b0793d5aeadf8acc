//! The settings of vhost-user.

use std::path::{Path, PathBuf};

use serde::de::MapAccess;

use crate::plan::frontends::spec::FrontendSpec;

pub(super) const KEYS: &[&str] = &["vhost-user"];

/// Where a virtual machine finds a volume.
#[derive(Clone, PartialEq, Eq, Debug, Default, clap::Args)]
#[group(skip)]
pub struct VhostUserSpec {
    /// vhost-user-blk socket for a virtual machine; without --nbd, the volume has no NBD socket
    #[arg(id = "vhost_user", long = "vhost-user", value_name = "PATH", requires = "cache")]
    pub path: Option<PathBuf>,
}

impl VhostUserSpec {
    pub(super) fn read<'de, A: MapAccess<'de>>(&mut self, map: &mut A) -> Result<(), A::Error> {
        self.path = Some(map.next_value()?);
        Ok(())
    }
}

impl FrontendSpec for VhostUserSpec {
    fn is_reachable(&self) -> bool {
        self.path.is_some()
    }

    fn unix_sockets(&self) -> Vec<&Path> {
        self.path.as_deref().into_iter().collect()
    }

    fn own_socket(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    fn check(&self) -> Result<(), String> {
        match &self.path {
            Some(path) if path.as_os_str().is_empty() => {
                Err("the path of its vhost-user socket is empty; write one, such as /run/kickcache/vm1.vhost"
                    .into())
            }
            _ => Ok(()),
        }
    }

    fn announcements(&self, _volume: &str) -> Vec<String> {
        self.path.iter().map(|path| format!("vhost-user on {}", path.display())).collect()
    }
}
