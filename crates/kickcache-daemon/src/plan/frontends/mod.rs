//! How clients reach a volume: the settings of each front end.
//!
//! To add a front end: a file next to [`nbd`], [`vhost_user`] and [`ublk`] with its settings, a field of
//! [`FrontendSpecs`] and a line in its lists, a field of [`ServedAt`].

pub mod nbd;
pub mod serial_number;
pub mod spec;
pub mod ublk;
pub mod vhost_user;

use std::path::Path;

use kickcache_engine::units::{BLOCK_SIZE, SECTOR_SIZE};
use kickcache_units::Size;
use serde::de::MapAccess;
use serde::{Deserialize, Serialize};

use crate::plan::address::NbdAddress;
use crate::plan::frontends::nbd::NbdSpec;
use crate::plan::frontends::serial_number::SerialNumber;
use crate::plan::frontends::spec::FrontendSpec;
use crate::plan::frontends::ublk::UblkSpec;
use crate::plan::frontends::vhost_user::VhostUserSpec;

/// The settings of all front ends for a volume.
#[derive(Clone, PartialEq, Debug, Default, clap::Args)]
#[group(skip)]
pub struct FrontendSpecs {
    #[command(flatten)]
    pub nbd: NbdSpec,
    #[command(flatten)]
    pub vhost_user: VhostUserSpec,
    #[command(flatten)]
    pub ublk: UblkSpec,
    /// Logical block size of the virtual machine's disk and of the block device: 512 or 4096 [default: 512]
    #[arg(long, value_name = "SIZE", requires = "cache", value_parser = parse_guest_block, allow_hyphen_values = true)]
    pub guest_block: Option<Size>,
    /// Serial number of the virtual machine's disk, 1 to 20 characters [default: the volume's name, its end replaced by a hash if it is
    /// longer]
    #[arg(long, value_name = "TEXT", requires = "cache", allow_hyphen_values = true)]
    pub serial: Option<SerialNumber>,
}

/// Where a volume is served.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ServedAt {
    /// The URIs of the volume for NBD clients.
    pub nbd: Vec<String>,
    #[serde(default)]
    pub vhost_user: Option<String>,
    #[serde(default)]
    pub ublk: Option<String>,
    /// The block device of the volume that another process removed.
    #[serde(default)]
    pub ublk_removed: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Sessions {
    /// NBD connections that have chosen the volume.
    pub nbd: u64,
    pub vhost_user: u64,
    /// 1 while the volume is a block device of the host, otherwise 0.
    pub ublk: u64,
}

const GUEST_BLOCK: &str = "guest-block";
const SERIAL: &str = "serial";

impl FrontendSpecs {
    /// In the order of messages.
    fn all(&self) -> [&dyn FrontendSpec; 3] {
        [&self.nbd, &self.ublk, &self.vhost_user]
    }

    pub(super) fn keys() -> Vec<&'static str> {
        [nbd::KEYS, vhost_user::KEYS, ublk::KEYS, &[GUEST_BLOCK, SERIAL]].concat()
    }

    pub(super) fn read<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        if nbd::KEYS.contains(&key) {
            return self.nbd.read(key, map);
        }
        if vhost_user::KEYS.contains(&key) {
            return self.vhost_user.read(map);
        }
        if ublk::KEYS.contains(&key) {
            return self.ublk.read(key, map);
        }
        match key {
            SERIAL => self.serial = Some(map.next_value()?),
            _ => self.guest_block = Some(map.next_value()?),
        }
        Ok(())
    }

    /// Settings that serve a volume over NBD alone.
    pub fn nbd(addresses: Vec<NbdAddress>) -> FrontendSpecs {
        FrontendSpecs { nbd: NbdSpec::at(addresses), ..FrontendSpecs::default() }
    }

    /// The settings, with an NBD socket in the runtime directory if they have no list of NBD addresses and no
    /// other front end.
    #[must_use]
    pub fn or_default(&self, volume: &str) -> FrontendSpecs {
        let is_said = self.nbd.nbd.is_some() || self.is_reachable();
        let default =
            || NbdSpec { allow_client: self.nbd.allow_client.clone(), ..NbdSpec::of_runtime_dir(volume) };
        let nbd = if is_said { self.nbd.clone() } else { default() };
        FrontendSpecs { nbd, ..self.clone() }
    }

    pub(super) fn is_reachable(&self) -> bool {
        self.all().iter().any(|frontend| frontend.is_reachable())
    }

    pub fn has_host_device(&self) -> bool {
        self.ublk.is_reachable()
    }

    /// Sockets that no other volume may have, as addresses.
    pub(super) fn own_sockets(&self) -> Vec<NbdAddress> {
        let paths = self.all().into_iter().filter_map(FrontendSpec::own_socket);
        paths.map(|path| NbdAddress::Unix(path.into())).collect()
    }

    pub fn unix_sockets(&self) -> Vec<&Path> {
        self.all().into_iter().flat_map(FrontendSpec::unix_sockets).collect()
    }

    pub fn announcements(&self, volume: &str) -> Vec<String> {
        self.all().into_iter().flat_map(|frontend| frontend.announcements(volume)).collect()
    }

    /// Bytes of the logical block that a virtual machine or the host sees.
    ///
    /// # Panics
    /// If the block size was not checked and does not fit into 32 bits.
    pub fn guest_block_bytes(&self) -> u32 {
        let bytes = self.guest_block.map_or(SECTOR_SIZE, Size::bytes);
        u32::try_from(bytes).expect("checked to be 512 or 4096")
    }

    pub(super) fn check(&self) -> Result<(), String> {
        self.guest_block.map_or(Ok(()), check_guest_block)?;
        self.all().into_iter().try_for_each(FrontendSpec::check)
    }
}

fn parse_guest_block(text: &str) -> Result<Size, String> {
    let size: Size = text.parse().map_err(|error| format!("{error}"))?;
    check_guest_block(size)?;
    Ok(size)
}

fn check_guest_block(size: Size) -> Result<(), String> {
    match size.bytes() {
        SECTOR_SIZE | BLOCK_SIZE => Ok(()),
        bytes => Err(format!("a guest's block of {bytes} bytes is not possible; write 512 or 4096")),
    }
}
