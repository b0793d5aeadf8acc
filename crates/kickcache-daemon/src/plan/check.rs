//! The check of a plan, before any device is opened.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use kickcache_engine::config::{VOLUME_COUNT_MAX, VOLUME_NAME_MAX};
use kickcache_engine::format::geometry::{DEVICE_SIZE_MAX, DEVICE_SIZE_MIN};
use kickcache_engine::units::BLOCK_SIZE;
use kickcache_units::{Size, show_bytes};

use crate::path_text::{NotUtf8, check_real_path};
use crate::plan::address::{AddressError, NbdAddress, check_socket_path};
use crate::plan::cache_spec::CacheSpec;
use crate::plan::frontends::serial_number::SerialNumber;
use crate::plan::metrics_address::MetricsAddress;
use crate::plan::origin_timeout::OriginTimeout;
use crate::plan::room::check_sum;
use crate::plan::tls_plan::TlsWord;
use crate::plan::volume_spec::VolumeSpec;
use crate::plan::{Exposure, ServePlan, check_fill_window};
use crate::whole_path::real_path;

/// Why a plan cannot work.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PlanError {
    #[error(
        "there is no cache device to serve; name one with --cache, or with [[cache]] in the configuration file"
    )]
    NoCache,
    #[error("the cache device {} has no volume; add a [[cache.volume]] with its name and origin", .0.display())]
    NoVolume(PathBuf),
    /// A volume without an address.
    #[error(
        "the volume `{0}` has no address; give it one, such as nbd = [\"unix:/run/kickcache/{0}.sock\"], vhost-user = \"/run/kickcache/{0}.vhost\" or ublk = true"
    )]
    NoAddress(String),
    /// More volumes than a superblock can hold.
    #[error("the cache device {} has {found} volumes, it can serve at most {VOLUME_COUNT_MAX}; give the others another cache device", .device.display())]
    TooManyVolumes { device: PathBuf, found: usize },
    /// A name that cannot be used.
    #[error("the volume name `{name}` cannot be used: {what}")]
    Name { name: String, what: String },
    /// Two volumes of one name.
    #[error("two volumes have the name `{0}`; each needs a name of its own")]
    SameName(String),
    /// Two volumes of one serial number.
    #[error(
        "the volumes `{first}` and `{second}` have the serial number {serial}; set another one (serial) for either volume"
    )]
    SameSerial { serial: SerialNumber, first: String, second: String },
    /// One device in two places.
    #[error("{} is named twice, {first} and {second}; each device can have one part only", .path.display())]
    SamePath { path: PathBuf, first: String, second: String },
    /// One address for two volumes that cannot share it.
    #[error(
        "the volumes `{first}` and `{second}` both listen on {address}, behind different cache devices; give each an address of its own"
    )]
    SameAddress { address: NbdAddress, first: String, second: String },
    #[error("the volume `{name}` listens on {address} twice; once is enough")]
    AddressTwice { address: NbdAddress, name: String },
    #[error("the status socket {} is also the path of another socket; choose another path for either", .0.display())]
    StatusSocket(PathBuf),
    /// An NBD address, or another socket of a volume, with the path of the control socket.
    #[error("the volume `{0}` listens on the path of the control socket; choose another path for either")]
    ControlAddress(String),
    /// NBD on a public address, without required certificates and without an explicit flag.
    #[error(
        "{address} can be reached from other machines, and NBD has neither encryption nor a password \
         here; use a unix socket or a loopback address, TLS with certificates of clients (--tls=require, \
         docs/how-to/tls.md), or accept it with --insecure-tcp (insecure-tcp = true)"
    )]
    Insecure { address: NbdAddress },
    /// An impossible combination of TLS settings.
    #[error("{0}")]
    Tls(&'static str),
    /// TLS, but no volume has an NBD address.
    #[error(
        "tls is for NBD, and no volume is served over NBD; give one an address (nbd = [\"tcp:0.0.0.0:10809\"]), or leave tls out"
    )]
    TlsWithoutNbd,
    /// Allowed client names, although clients without a certificate are served.
    #[error(
        "the volume `{0}` is for clients with names in their certificates (allow-client), but clients \
         without a certificate are served, too; use --tls=require (tls = \"require\") without \
         --tls-verify-peer=off"
    )]
    ClientNames(String),
    #[error(
        "the volume `{0}` has allow-client, which is for NBD, and no NBD address; give it one (nbd), or leave allow-client out"
    )]
    ClientNamesWithoutNbd(String),
    #[error(
        "metrics at {address} can be read from other machines, without encryption and without a \
         password; use a loopback address or a unix socket, or accept it with --insecure-tcp \
         (insecure-tcp = true)"
    )]
    InsecureMetrics { address: MetricsAddress },
    /// Metrics on the address of another server of the daemon.
    #[error("metrics are to be served at {address}, and so is {other}; choose another address for either")]
    MetricsAddress { address: MetricsAddress, other: String },
    #[error("a cache file of {found} bytes is not possible: {what}")]
    CacheSize { found: u64, what: String },
    /// An impossible setting of a volume.
    #[error("volume `{name}`: {what}")]
    VolumeSize { name: String, what: String },
    /// Reservations in percent that are too large in total.
    #[error("the cache device {}: {what}", .device.display())]
    Rooms { device: PathBuf, what: String },
    #[error(
        "the volume `{0}` has an origin-timeout, and its origin is a file or block device, which is waited for without end; \
         leave it out"
    )]
    OriginTimeout(String),
    /// A block device of the host, although the daemon gives up the rights of root.
    #[error(
        "the volume `{0}` is a block device of this host (ublk), which needs rights of root for as long as it is served, and the daemon \
         is to go on as another user; leave `user` out, or serve the volume by another front end or another daemon"
    )]
    UblkAsUser(String),
    #[error("the path of {0} is empty; name a file, folder or device")]
    EmptyPath(&'static str),
    /// A path that no record can store.
    #[error(transparent)]
    Text(#[from] NotUtf8),
    /// A socket path that the kernel does not take.
    #[error(transparent)]
    Socket(#[from] AddressError),
}

/// Refuses paths of cache devices and origins that are not UTF-8: records cannot store them.
pub(crate) fn check_texts(cache: &CacheSpec) -> Result<(), NotUtf8> {
    let origins = cache.volumes.iter().filter_map(|volume| volume.origin.local_path());
    origins.chain([cache.device.as_path()]).try_for_each(check_real_path)
}

impl ServePlan {
    /// # Errors
    /// A setting that cannot work.
    pub fn check(&self) -> Result<(), PlanError> {
        check_socket_path(&self.control)?;
        self.check_status_socket()?;
        if self.caches.is_empty() {
            return Err(PlanError::NoCache);
        }
        self.check_empty_paths()?;
        self.caches.iter().try_for_each(check_cache)?;
        self.caches.iter().try_for_each(check_texts)?;
        self.check_names()?;
        self.check_serials()?;
        self.check_paths()?;
        self.check_addresses()?;
        self.check_tls()?;
        self.check_user()?;
        self.metrics.as_ref().map_or(Ok(()), |metrics| self.check_metrics(metrics))
    }

    fn check_empty_paths(&self) -> Result<(), PlanError> {
        let is_empty = |path: &Path| path.as_os_str().is_empty();
        if self.caches.iter().any(|cache| is_empty(&cache.device)) {
            return Err(PlanError::EmptyPath("a cache device"));
        }
        match self.state.as_deref().is_some_and(is_empty) {
            true => Err(PlanError::EmptyPath("the state directory")),
            false => Ok(()),
        }
    }

    fn check_status_socket(&self) -> Result<(), PlanError> {
        let Some(path) = &self.status_socket else { return Ok(()) };
        check_socket_path(path)?;
        let place = NbdAddress::Unix(path.clone()).place();
        let is_taken = |address: &NbdAddress| address.place() == place;
        let metrics = self.metrics.as_ref().map(|metrics| metrics.socket().clone());
        let serves = |volume: &VolumeSpec| {
            let (nbd, own) = (volume.served_by().nbd, volume.frontends.own_sockets());
            nbd.addresses().iter().chain(&own).any(is_taken)
        };
        let others = [Some(NbdAddress::Unix(self.control.clone())), metrics];
        match others.iter().flatten().any(is_taken) || self.volumes().any(serves) {
            true => Err(PlanError::StatusSocket(path.clone())),
            false => Ok(()),
        }
    }

    fn check_metrics(&self, address: &MetricsAddress) -> Result<(), PlanError> {
        let socket = address.socket();
        if self.exposure == Exposure::LocalOnly && !socket.is_local() {
            return Err(PlanError::InsecureMetrics { address: address.clone() });
        }
        let clashes = |other: &NbdAddress| socket.place() == other.place() && !other.is_any_port();
        let other = |other: String| Err(PlanError::MetricsAddress { address: address.clone(), other });
        if clashes(&NbdAddress::Unix(self.control.clone())) {
            return other("the control socket".into());
        }
        let serves = |volume: &&VolumeSpec| {
            let (nbd, own) = (volume.served_by().nbd, volume.frontends.own_sockets());
            nbd.addresses().iter().chain(&own).any(clashes)
        };
        self.volumes().find(serves).map_or(Ok(()), |volume| other(format!("the volume `{}`", volume.name)))
    }

    fn check_tls(&self) -> Result<(), PlanError> {
        self.tls.check().map_err(PlanError::Tls)?;
        let is_nbd = |volume: &VolumeSpec| !volume.served_by().nbd.addresses().is_empty();
        if self.tls.tls != TlsWord::Off && !self.volumes().any(is_nbd) {
            return Err(PlanError::TlsWithoutNbd);
        }
        let mut named = self.volumes().filter(|volume| !volume.frontends.nbd.allowed_clients().is_empty());
        named.try_for_each(|volume| match volume {
            volume if !is_nbd(volume) => Err(PlanError::ClientNamesWithoutNbd(volume.name.clone())),
            volume if !self.tls.is_authenticated() => Err(PlanError::ClientNames(volume.name.clone())),
            _ => Ok(()),
        })
    }

    fn check_user(&self) -> Result<(), PlanError> {
        let mut on_host = self.volumes().filter(|volume| volume.frontends.has_host_device());
        match on_host.next().filter(|_| self.user.is_some()) {
            Some(volume) => Err(PlanError::UblkAsUser(volume.name.clone())),
            None => Ok(()),
        }
    }

    fn volumes(&self) -> impl Iterator<Item = &VolumeSpec> {
        self.caches.iter().flat_map(|cache| &cache.volumes)
    }

    fn check_names(&self) -> Result<(), PlanError> {
        let mut seen = BTreeMap::new();
        match self.volumes().find(|volume| seen.insert(&volume.name, ()).is_some()) {
            Some(volume) => Err(PlanError::SameName(volume.name.clone())),
            None => Ok(()),
        }
    }

    /// Refuses equal serial numbers: names in a guest's /dev/disk/by-id contain them.
    fn check_serials(&self) -> Result<(), PlanError> {
        let mut seen = BTreeMap::new();
        for volume in self.volumes() {
            let (serial, second) = (volume.serial(), volume.name.clone());
            if let Some(first) = seen.insert(serial.clone(), second.clone()) {
                return Err(PlanError::SameSerial { serial, first, second });
            }
        }
        Ok(())
    }

    fn check_paths(&self) -> Result<(), PlanError> {
        // Several paths may name one cache device.
        let mut seen = BTreeMap::new();
        for CacheSpec { device, .. } in &self.caches {
            let second = format!("as the cache device {}", device.display());
            let path = real_path(device);
            if let Some(first) = seen.insert(path.clone(), second.clone()) {
                return Err(PlanError::SamePath { path, first, second });
            }
        }
        let mut seen: BTreeMap<&Path, String> = BTreeMap::new();
        let caches = self.caches.iter().map(|cache| (cache.device.as_path(), "as a cache device".to_owned()));
        let origin = |volume: &'_ VolumeSpec| format!("as the origin of `{}`", volume.name);
        let origins = self.volumes().filter_map(|volume| Some((volume.origin.path()?, origin(volume))));
        for (path, second) in caches.chain(origins) {
            if let Some(first) = seen.insert(path, second.clone()) {
                return Err(PlanError::SamePath { path: path.into(), first, second });
            }
        }
        let mut seen = Vec::new();
        for volume in self.volumes() {
            if let Some((first, _)) = seen.iter().find(|(_, origin)| *origin == &volume.origin) {
                let (path, second) = (volume.origin.to_string().into(), origin(volume));
                return Err(PlanError::SamePath { path, first: String::clone(first), second });
            }
            seen.push((origin(volume), &volume.origin));
        }
        Ok(())
    }

    /// Volumes of one cache device may share an NBD address: clients request a volume by name.
    fn check_addresses(&self) -> Result<(), PlanError> {
        let mut seen: Vec<Listener<'_>> = Vec::new();
        let own = self.volumes().map(|volume| (volume, volume.frontends.own_sockets()));
        let own: Vec<(&VolumeSpec, NbdAddress)> = own
            .flat_map(|(volume, sockets)| sockets.into_iter().map(move |socket| (volume, socket)))
            .collect();
        for (_, address) in &own {
            if let NbdAddress::Unix(path) = address {
                check_socket_path(path)?;
            }
        }
        // Sockets in `own` are not shared.
        for (index, (volume, address)) in own.iter().enumerate() {
            self.check_address(volume, address)?;
            let listener = Listener { cache: self.caches.len() + index, name: &volume.name, address };
            if let Some(other) = seen.iter().find(|other| other.clashes(&listener)) {
                return Err(listener.clash(other));
            }
            seen.push(listener);
        }
        let volumes = self.caches.iter().enumerate();
        let volumes =
            volumes.flat_map(|(cache, plan)| plan.volumes.iter().map(move |volume| (cache, volume)));
        let places: Vec<_> = volumes.map(|(cache, volume)| (cache, volume, volume.served_by())).collect();
        for (cache, volume, frontends) in &places {
            for address in frontends.nbd.addresses() {
                self.check_address(volume, address)?;
                let listener = Listener { cache: *cache, name: &volume.name, address };
                if let Some(other) = seen.iter().find(|other| other.clashes(&listener)) {
                    return Err(listener.clash(other));
                }
                seen.push(listener);
            }
        }
        Ok(())
    }

    fn check_address(&self, volume: &VolumeSpec, address: &NbdAddress) -> Result<(), PlanError> {
        if address.place() == NbdAddress::Unix(self.control.clone()).place() {
            return Err(PlanError::ControlAddress(volume.name.clone()));
        }
        if self.tls.exposure(self.exposure) == Exposure::LocalOnly && !address.is_local() {
            return Err(PlanError::Insecure { address: address.clone() });
        }
        Ok(())
    }
}

struct Listener<'a> {
    cache: usize,
    name: &'a str,
    address: &'a NbdAddress,
}

impl Listener<'_> {
    fn clashes(&self, other: &Listener<'_>) -> bool {
        let shared = self.cache == other.cache && self.name != other.name;
        self.address.place() == other.address.place() && !shared && !any_port(self.address)
    }

    fn clash(&self, other: &Listener<'_>) -> PlanError {
        let (address, name) = (self.address.clone(), self.name.to_owned());
        if self.name == other.name {
            return PlanError::AddressTwice { address, name };
        }
        PlanError::SameAddress { address, first: other.name.into(), second: name }
    }
}

fn any_port(address: &NbdAddress) -> bool {
    matches!(address, NbdAddress::Tcp { port: 0, .. })
}

fn check_cache(cache: &CacheSpec) -> Result<(), PlanError> {
    if let Some(size) = cache.size {
        check_cache_size(size)?;
    }
    match cache.volumes.len() {
        0 => return Err(PlanError::NoVolume(cache.device.clone())),
        1..=VOLUME_COUNT_MAX => {}
        found => return Err(PlanError::TooManyVolumes { device: cache.device.clone(), found }),
    }
    cache.volumes.iter().try_for_each(check_volume)?;
    check_sum(cache.volumes.iter().map(|volume| volume.room_min))
        .map_err(|what| PlanError::Rooms { device: cache.device.clone(), what })
}

/// # Errors
/// [`PlanError::CacheSize`] if it is out of range or not a multiple of 4096.
pub fn check_cache_size(size: Size) -> Result<(), PlanError> {
    let found = size.bytes();
    if !(DEVICE_SIZE_MIN..=DEVICE_SIZE_MAX).contains(&found) {
        let range = (show_bytes(DEVICE_SIZE_MIN), show_bytes(DEVICE_SIZE_MAX));
        return Err(PlanError::CacheSize { found, what: format!("it needs {} to {}", range.0, range.1) });
    }
    if !found.is_multiple_of(BLOCK_SIZE) {
        let below = found - found % BLOCK_SIZE;
        return Err(PlanError::CacheSize {
            found,
            what: format!("it must be a multiple of 4096, such as {below}"),
        });
    }
    Ok(())
}

fn check_volume(volume: &VolumeSpec) -> Result<(), PlanError> {
    let name = volume.name.clone();
    if let Some(what) = name_fault(&name) {
        return Err(PlanError::Name { name, what });
    }
    if !volume.origin.has_server() && volume.origin_timeout != OriginTimeout::default() {
        return Err(PlanError::OriginTimeout(name));
    }
    if !volume.served_by().is_reachable() {
        return Err(PlanError::NoAddress(name));
    }
    let fits = check_fill_window(volume.fill_window_max).and_then(|()| volume.dirty_marks().check());
    let fits = fits.and_then(|()| volume.room().check()).and_then(|()| volume.frontends.check());
    fits.map_err(|what| PlanError::VolumeSize { name, what })
}

fn name_fault(name: &str) -> Option<String> {
    if name.is_empty() {
        return Some("it is empty; give the volume a name, such as vm1".into());
    }
    if name.len() > VOLUME_NAME_MAX {
        return Some(format!("it has {} bytes, {VOLUME_NAME_MAX} are possible", name.len()));
    }
    if name.starts_with(['-', '.']) {
        return Some("it starts with `-` or `.`; start it with a letter or a digit".into());
    }
    let bad = name.chars().find(|c| !(c.is_alphanumeric() || "-_.+@:".contains(*c)))?;
    Some(format!("it contains {bad:?}; letters, digits and - _ . + @ : are possible"))
}
