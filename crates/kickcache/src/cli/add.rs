//! `kickcache add`: a daemon serves one more volume.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::builder::{OsStringValueParser as OriginParser, TypedValueParser as _};
use kickcache_command::exit::Failure;
use kickcache_command::notice::notice;
use kickcache_command::options::ControlOption;
use kickcache_daemon::control::report::Report;
use kickcache_daemon::control::wire::{AddedVolume, Request, VolumeToAdd};
use kickcache_daemon::plan::address::NbdAddress;
use kickcache_daemon::plan::cutoff::Cutoff;
use kickcache_daemon::plan::frontends::FrontendSpecs;
use kickcache_daemon::plan::origin_source::OriginSource;
use kickcache_daemon::plan::origin_timeout::OriginTimeout;
use kickcache_daemon::plan::parse_fill_window;
use kickcache_daemon::whole_path::{real_path, whole_path};
use kickcache_daemon::words::{AdmissionWord, ModeWord};
use kickcache_units::Size;
use serde_json::{Map, Value};

use crate::cli::limit_flags::LimitFlags;

const EXAMPLES: &str = "\
Examples:
  kickcache add --cache /dev/nvme0n1p4 --origin /dev/sdc --name vm2 --mode write-back
  kickcache add --cache /dev/nvme0n1p4 --origin /dev/sdc --name vm2 --dry-run    only check it
  kickcache add --cache /dev/nvme0n1p4 --origin /dev/sdd --name vm3 --vhost-user /run/kickcache/vm3.vhost

Exit codes: 0 if the volume is served; 1 if not, 2 if an argument is wrong: then no change
was made; 3 if no daemon answers.";

const ADDED: &str = "added";

/// Add a volume to a running daemon
///
/// The other volumes continue. The next start serves the volumes of its flags or of its configuration file:
/// add the volume there, too (docs/how-to/reload.md).
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct AddArgs {
    /// Cache device that the daemon serves
    #[arg(long)]
    cache: PathBuf,
    /// Origin: a file or block device, or an export of an NBD server
    #[arg(long, value_name = "PATH|URI", value_parser = OriginParser::new().try_map(|text| OriginSource::parse(&text)))]
    origin: OriginSource,
    /// How long requests wait for a lost NBD server before they fail: 1s to 24h [default: 2m]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    origin_timeout: Option<OriginTimeout>,
    /// Name of the volume, and of its NBD export [default: the file name or export name of the origin]
    #[arg(long)]
    name: Option<String>,
    /// When writes are acknowledged, and which data is cached [default: write-through]
    #[arg(long, value_enum)]
    mode: Option<ModeWord>,
    #[command(flatten)]
    frontends: FrontendSpecs,
    /// Refuse writes of clients: a read-only volume
    #[arg(long)]
    read_only: bool,
    /// Sequential streams that are not cached: of more than 4M while too little of them is read again (`auto`), longer than this,
    /// or none (`off`) [default: auto]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    sequential_cutoff: Option<Cutoff>,
    /// Largest fill window, the amount that a miss reads: a power of two from 4K to 1M [default: 1M]
    #[arg(long, value_name = "SIZE", value_parser = parse_fill_window, allow_hyphen_values = true)]
    fill_window_max: Option<Size>,
    #[command(flatten)]
    limits: LimitFlags,
    /// Admission: which misses are cached [default: pressure]
    #[arg(long, value_enum)]
    admission: Option<AdmissionWord>,
    /// Accept an origin at another path, or another file at its path, with the content recorded on the cache
    /// device
    ///
    /// The name of the volume may follow: --origin-moved=vm1
    #[arg(long, value_name = "VOLUME", num_args = 0..=1, require_equals = true)]
    origin_moved: Option<Option<String>>,
    /// Confirm by its path that an origin without an identity of its own is the disk of the last start
    #[arg(long, value_name = "PATH")]
    origin_is: Option<PathBuf>,
    /// Accept an origin that was extended while no daemon served it
    #[arg(long)]
    origin_grown: bool,
    /// Accept an origin that carries a kickcache cache device; writes destroy that
    #[arg(long)]
    force_origin: bool,
    /// Lose dirty blocks of the volume on another cache device
    ///
    /// The path of the cache device may follow: --new-cache=/dev/nvme0n1p4
    #[arg(long, value_name = "PATH", num_args = 0..=1, require_equals = true)]
    new_cache: Option<Option<PathBuf>>,
    /// Accept an origin that cannot be flushed: a power failure may lose its last writes
    #[arg(long)]
    origin_no_flush: bool,
    /// Only check that the volume could be added
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    control: ControlOption,
}

impl AddArgs {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<(), Failure> {
        let name = self.volume_name()?;
        if let Some(Some(moved)) = &self.origin_moved
            && *moved != name
        {
            return Err(Failure::usage(format!(
                "--origin-moved names {moved}, and {name} is to be added; name the same"
            )));
        }
        if let Some(Some(new)) = &self.new_cache
            && whole_path(new) != whole_path(&self.cache)
        {
            return Err(Failure::usage(format!(
                "--new-cache names {}, and --cache {}; name the same",
                new.display(),
                self.cache.display()
            )));
        }
        let confirms =
            |path: &PathBuf| self.origin.path().is_some_and(|origin| real_path(origin) == real_path(path));
        if let Some(path) = self.origin_is.as_ref().filter(|path| !confirms(path)) {
            return Err(Failure::usage(format!(
                "--origin-is names {}, and the origin is {}; name the same",
                path.display(),
                self.origin
            )));
        }
        let client = self.control.client().patient();
        let is_served = |report: &Report| {
            let volumes = report.caches.iter().flat_map(|cache| &cache.volumes);
            volumes.into_iter().any(|volume| volume.name == name)
        };
        let done = if is_served(&client.status()?) { "is served already" } else { ADDED };
        let AddedVolume { hint } = client.request(&Request::Add(VolumeToAdd {
            cache: whole_path(&self.cache),
            volume: Value::Object(self.table(&name)?),
            origin_moved: self.origin_moved.is_some() || self.origin_is.is_some(),
            origin_grown: self.origin_grown,
            force_origin: self.force_origin,
            new_cache: self.new_cache.is_some(),
            dry_run: self.dry_run,
        }))?;
        if self.dry_run {
            let done = if done == ADDED { "can be added" } else { done };
            return Ok(writeln!(out, "{name}: {done}")?);
        }
        writeln!(out, "{name}: {done}")?;
        if let Some(hint) = hint {
            notice(&hint);
        }
        let report = client.status()?;
        let mut volumes = report.caches.iter().flat_map(|cache| &cache.volumes);
        let Some(found) = volumes.find(|volume| volume.name == name) else { return Ok(()) };
        found.served_at.nbd.iter().try_for_each(|uri| writeln!(out, "{uri}"))?;
        Ok(found.served_at.vhost_user.iter().try_for_each(|path| writeln!(out, "vhost-user on {path}"))?)
    }

    fn volume_name(&self) -> Result<String, Failure> {
        let name = self.name.as_deref().or_else(|| self.origin.name());
        name.map(str::to_owned).ok_or_else(|| {
            let origin = &self.origin;
            Failure::usage(format!("the origin {origin} gives no name for its volume; add --name NAME"))
        })
    }

    fn table(&self, name: &str) -> Result<Map<String, Value>, Failure> {
        let origin = match self.origin.path() {
            Some(path) => text(&whole_path(path))?,
            None => self.origin.to_string(),
        };
        let frontends = &self.frontends;
        let nbd = frontends.nbd.nbd.as_ref();
        let nbd =
            nbd.map(|addresses| addresses.iter().map(address).collect::<Result<Vec<_>, _>>()).transpose()?;
        let guest = frontends.vhost_user.path.as_deref().map(|path| text(&whole_path(path))).transpose()?;
        let clients = frontends.nbd.allowed_clients();
        let clients: Vec<String> = clients.iter().map(ToString::to_string).collect();
        let keys: [(&str, Option<Value>); 16] = [
            ("name", Some(name.into())),
            ("origin", Some(origin.into())),
            (
                "origin-timeout",
                self.origin_timeout.map(|timeout| format!("{}s", timeout.span().as_secs()).into()),
            ),
            ("mode", self.mode.map(|mode| mode.as_str().into())),
            ("admission", self.admission.map(|admission| admission.as_str().into())),
            ("sequential-cutoff", self.sequential_cutoff.map(|cutoff| cutoff.exact().into())),
            ("fill-window-max", self.fill_window_max.map(|size| size.bytes().into())),
            ("read-only", self.read_only.then_some(true.into())),
            ("origin-no-flush", self.origin_no_flush.then_some(true.into())),
            ("nbd", nbd.map(Value::from)),
            ("allow-client", (!clients.is_empty()).then(|| clients.into())),
            ("vhost-user", guest.map(Value::from)),
            ("guest-block", frontends.guest_block.map(|size| size.bytes().into())),
            ("serial", frontends.serial.as_ref().map(|serial| serial.to_string().into())),
            ("ublk", frontends.ublk.id.map(|_| true.into())),
            ("ublk-queues", frontends.ublk.queues.map(|queues| queues.get().into())),
        ];
        let own = keys.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
        Ok(own.chain(self.limits.keys()).collect())
    }
}

/// An address from the root: the daemon may be in another folder.
fn address(address: &NbdAddress) -> Result<String, Failure> {
    match address.unix_path() {
        Some(path) => Ok(format!("unix:{}", text(&whole_path(path))?)),
        None => Ok(address.to_string()),
    }
}

fn text(path: &Path) -> Result<String, Failure> {
    path.to_str().map(str::to_owned).ok_or_else(|| {
        Failure::usage(format!(
            "{} is not UTF-8; a path in a request to a daemon must be UTF-8",
            path.display()
        ))
    })
}
