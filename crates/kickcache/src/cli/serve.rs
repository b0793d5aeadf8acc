//! `kickcache serve`: turns flags, or a configuration file, into a plan and runs the daemon.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::builder::{OsStringValueParser as OriginParser, TypedValueParser as _};
use clap::{ArgGroup, Args as _, Id};
use kickcache_command::exit::Failure;
use kickcache_command::options::{ControlOption, StateOption, parse_cache_size};
use kickcache_daemon::config::plan_source::PlanSource;
use kickcache_daemon::devices::state::default_directory;
use kickcache_daemon::driver::device::AccessMode;
use kickcache_daemon::driver::io_engine::IoEngine;
use kickcache_daemon::driver::open_files;
use kickcache_daemon::plan::cache_spec::{CacheService, CacheSpec, Replacement};
use kickcache_daemon::plan::cutoff::Cutoff;
use kickcache_daemon::plan::endurance::Endurance;
use kickcache_daemon::plan::frontends::FrontendSpecs;
use kickcache_daemon::plan::log_plan::{LogFormat, LogLevel, LogPlan};
use kickcache_daemon::plan::memory_limit::MemoryLimit;
use kickcache_daemon::plan::metrics_address::MetricsAddress;
use kickcache_daemon::plan::origin_claims::OriginClaims;
use kickcache_daemon::plan::origin_source::OriginSource;
use kickcache_daemon::plan::origin_timeout::OriginTimeout;
use kickcache_daemon::plan::tls_plan::{TlsPlan, TlsWord, VerifyPeerWord};
use kickcache_daemon::plan::user_spec::UserSpec;
use kickcache_daemon::plan::volume_spec::DirtyLoss;
use kickcache_daemon::plan::volume_spec::VolumeSpec;
use kickcache_daemon::plan::write_budget::WriteBudget;
use kickcache_daemon::plan::{Exposure, ServePlan, parse_fill_window};
use kickcache_daemon::shell_command::Flag;
use kickcache_daemon::whole_path::{real_path, whole_path};
use kickcache_daemon::words::{AdmissionWord, ModeWord};
use kickcache_units::Size;

use crate::cli::limit_flags::LimitFlags;

const EXAMPLES: &str = "\
Examples:
  kickcache serve --cache /var/cache/vm1.img --size 20G --origin /srv/vm1.raw
  kickcache serve --cache /dev/nvme0n1p4 --origin /dev/sdb --name vm1 --mode write-back \\
                  --nbd unix:/run/kickcache/vm1.sock --nbd tcp:127.0.0.1:10809
  kickcache serve --cache /dev/nvme0n1p4 --origin /dev/sdb --vhost-user /run/kickcache/vm1.vhost
  kickcache serve --cache /dev/nvme0n1p4 --origin /dev/sdb --name data --ublk=0 --ublk-queues 4
  kickcache serve --cache /dev/nvme0n1p4 --origin /dev/sdb --name vm1 --nbd tcp:0.0.0.0:10809 \\
                  --tls require --tls-certificates /etc/kickcache/tls --allow-client vm1.example.org
  kickcache serve --config /etc/kickcache.toml --user kickcache

Configuration file, for several volumes; the keys are the names of the flags:
  control = \"/run/kickcache/control.sock\"
  [[cache]]
  device = \"/dev/nvme0n1p4\"
  size = \"100G\"                         # for a new file only
  [[cache.volume]]
  name = \"vm1\"
  origin = \"/dev/sdb\"
  mode = \"write-back\"
  nbd = [\"unix:/run/kickcache/vm1.sock\"]

TLS, and which clients may use which volume: docs/how-to/tls.md.
Virtual machines: the machine's memory must be shared (docs/how-to/virtual-machines.md).
If a device is missing, moved, older or damaged: docs/reference/recovery.md.

Signals:
  SIGTERM, SIGINT, SIGQUIT, SIGXCPU  stop cleanly, as `kickcache stop`. If a device does not answer,
     the log names it after 10 s; a signal after that ends the daemon without waiting for it
  SIGHUP  read the configuration file again, as `kickcache reload`; without one as the next
  SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM, SIGPROF, SIGIO, SIGSTKFLT, SIGPWR, SIGXFSZ and the
     real-time signals  written to the log, no effect
  SIGPIPE  ignored";

/// The capabilities of a block backend by QEMU's vhost-user specification; not `blk-file`, as a volume has
/// two devices.
const CAPABILITIES: &str = r#"{"type": "block", "features": ["read-only"]}"#;

/// Flags that conflict with a configuration file.
fn volume_flags() -> Vec<Id> {
    let own = [
        "cache",
        "origin",
        "origin_timeout",
        "name",
        "mode",
        "size",
        "discard",
        "write_budget",
        "endurance",
        "read_only",
        "sequential_cutoff",
        "fill_window_max",
        "admission",
    ];
    let others = LimitFlags::augment_args(FrontendSpecs::augment_args(clap::Command::new("volume")));
    own.into_iter().map(Id::from).chain(others.get_arguments().map(|flag| flag.get_id().clone())).collect()
}

/// Serve volumes: each is an origin with a cache device, exported as a disk
///
/// Only a cache file that is new, empty or blank is formatted. The origin keeps its contents.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, group = ArgGroup::new("what").required(true).args(["cache", "config", "print_capabilities"]))]
pub(crate) struct ServeArgs {
    /// Cache device: a file or block device on fast storage
    #[arg(long, requires = "origin")]
    cache: Option<PathBuf>,
    /// Origin: a file or block device, or an export of an NBD server
    ///
    /// URIs: nbd://HOST:PORT/EXPORT, nbd+unix:///EXPORT?socket=PATH (docs/how-to/remote-origins.md), with TLS nbds:// and nbds+unix://
    /// (docs/how-to/tls.md).
    #[arg(long, value_name = "PATH|URI", requires = "cache", value_parser = OriginParser::new().try_map(|text| OriginSource::parse(&text)))]
    origin: Option<OriginSource>,
    /// How long requests wait for a lost NBD server before they fail: 1s to 24h [default: 2m]
    #[arg(long, value_name = "TIME", requires = "cache", allow_hyphen_values = true)]
    origin_timeout: Option<OriginTimeout>,
    /// Name of the volume, and of its NBD export [default: the file name or export name of the origin]
    #[arg(long, requires = "cache")]
    name: Option<String>,
    /// When writes are acknowledged, and which data is cached [default: write-through]
    #[arg(long, value_enum, requires = "cache")]
    mode: Option<ModeWord>,
    #[command(flatten)]
    frontends: FrontendSpecs,
    /// Size of a new cache file, from 8M to 15T, rounded down to a multiple of 4096
    #[arg(long, value_name = "SIZE", requires = "cache", value_parser = parse_cache_size, allow_hyphen_values = true)]
    size: Option<Size>,
    /// Discard free segments of the cache device (TRIM) before they are written again
    ///
    /// For SSDs that slow down or wear when full, and that discard quickly. For a cache file, the space is
    /// returned to its file system, where other files may use it.
    #[arg(long, requires = "cache")]
    discard: bool,
    /// Limit of the bytes written to the cache device, such as 50G/day, or 0.5dwpd (drive writes a day)
    /// [default: no limit]
    ///
    /// When it is used up, fewer misses are cached; writes of clients do not wait for it (docs/reference/limits.md).
    #[arg(long, value_name = "BUDGET", requires = "cache", allow_hyphen_values = true)]
    write_budget: Option<WriteBudget>,
    /// Bytes that the cache device can be written in its life, such as 600TBW; `status` then shows its
    /// remaining life
    #[arg(long, value_name = "BYTES", requires = "cache", allow_hyphen_values = true)]
    endurance: Option<Endurance>,
    /// Refuse writes of clients: a read-only volume
    #[arg(long, requires = "cache")]
    read_only: bool,
    /// Sequential streams that are not cached: of more than 4M while too little of them is read again (`auto`), longer than this,
    /// or none (`off`) [default: auto]
    #[arg(long, value_name = "SIZE", requires = "cache", allow_hyphen_values = true)]
    sequential_cutoff: Option<Cutoff>,
    /// Largest fill window, the amount that a miss reads: a power of two from 4K to 1M [default: 1M]
    #[arg(long, value_name = "SIZE", requires = "cache", value_parser = parse_fill_window, allow_hyphen_values = true)]
    fill_window_max: Option<Size>,
    #[command(flatten)]
    limits: LimitFlags,
    /// Admission: which misses are cached [default: pressure]
    #[arg(long, value_enum, requires = "cache")]
    admission: Option<AdmissionWord>,
    /// Print the capabilities of this vhost-user backend as JSON, for management layers, and exit
    #[arg(long, exclusive = true)]
    print_capabilities: bool,
    /// Configuration file (TOML), instead of the flags above
    #[arg(long, value_name = "FILE", conflicts_with_all = volume_flags())]
    config: Option<PathBuf>,
    /// I/O interface for devices [default: auto, or that of the configuration file]
    #[arg(long, value_enum)]
    io_engine: Option<IoEngine>,
    /// Memory for the payload of requests, of all volumes: 64M to 64G [default: 256M, or that of the configuration file]
    ///
    /// The total memory of a daemon: docs/reference/memory.md.
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    memory_limit: Option<MemoryLimit>,
    #[command(flatten)]
    control: ControlOption,
    /// A second control socket that only reports the status, for users of the daemon's group, such as monitoring
    #[arg(long, value_name = "PATH")]
    status_socket: Option<PathBuf>,
    /// Serve metrics for Prometheus over HTTP, read-only, at /metrics: tcp:HOST:PORT or unix:PATH
    ///
    /// For example tcp:127.0.0.1:9469. The metrics are listed in docs/reference/metrics.md.
    #[arg(long, value_name = "ADDRESS", value_parser = OriginParser::new().try_map(|text| MetricsAddress::parse(&text)))]
    metrics: Option<MetricsAddress>,
    /// Format of the log [default: text, or that of the configuration file]
    #[arg(long, value_enum, value_name = "FORMAT")]
    log_format: Option<LogFormat>,
    /// Least important level in the log [default: info, or that of the configuration file]
    ///
    /// Events and what to do about them: docs/reference/logs.md.
    #[arg(long, value_enum, value_name = "LEVEL")]
    log_level: Option<LogLevel>,
    /// Accept an origin at another path, or another file at its path, with the content recorded on the cache
    /// device
    ///
    /// With several volumes: --origin-moved=vm1
    #[arg(long, value_name = "VOLUME", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    origin_moved: Vec<String>,
    /// Confirm by its path that an origin without an identity of its own, such as a serial number, is the
    /// disk of the last start
    #[arg(long, value_name = "PATH")]
    origin_is: Vec<PathBuf>,
    /// Accept an origin that was written while it was detached: its clean blocks are dropped; refused if any
    /// is dirty
    ///
    /// With several volumes: --origin-changed=vm1
    #[arg(long, value_name = "VOLUME", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    origin_changed: Vec<String>,
    /// Accept an origin that was extended while no daemon served it (while it is served: `kickcache resize`)
    ///
    /// With several volumes: --origin-grown=vm1
    #[arg(long, value_name = "VOLUME", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    origin_grown: Vec<String>,
    /// Accept an origin that carries a kickcache cache device; writes destroy that
    ///
    /// With several volumes: --force-origin=vm1
    #[arg(long, value_name = "VOLUME", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    force_origin: Vec<String>,
    /// Accept an origin that cannot be flushed: a power failure may lose its last writes
    ///
    /// That includes writes that a client has flushed. With several volumes: --origin-no-flush=vm1
    #[arg(long, value_name = "VOLUME", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    origin_no_flush: Vec<String>,
    /// Serve the origins without the cache device; volumes with dirty blocks there are refused
    ///
    /// The blocks of these volumes on the cache device are dropped, because they become stale. With several
    /// cache devices: --without-cache=/dev/nvme0n1p4
    #[arg(long, value_name = "DEVICE", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    without_cache: Vec<OsString>,
    /// Lose the dirty blocks of a volume
    ///
    /// Applies to a cache device that is left out, out of service or unreadable, or that was bypassed since.
    /// With several volumes: --lose-dirty=vm1
    #[arg(long, value_name = "VOLUME", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    lose_dirty: Vec<String>,
    /// Use a new or another cache device; dirty blocks on the previous one are lost
    ///
    /// With several cache devices: --new-cache=/dev/nvme0n1p4
    #[arg(long, value_name = "DEVICE", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    new_cache: Vec<OsString>,
    #[command(flatten)]
    state: StateOption,
    /// Drop privileges to this user: NAME or NAME:GROUP; needs a start by root
    ///
    /// A small process keeps the rights of root, and opens cache devices and origins (docs/how-to/run-as-user.md). Not
    /// for `--ublk`.
    #[arg(long, value_name = "USER", allow_hyphen_values = true)]
    user: Option<UserSpec>,
    /// With --user: a device that `add` and `replace` may open later, although that user may not
    #[arg(long, value_name = "PATH")]
    may_open: Vec<PathBuf>,
    /// Whether NBD clients may or must use TLS [default: off, or that of the configuration file]
    ///
    /// With certificates of clients, NBD may be offered to other machines: docs/how-to/tls.md.
    #[arg(long, value_enum, value_name = "WORD")]
    tls: Option<TlsWord>,
    /// Folder with ca-cert.pem, server-cert.pem and server-key.pem, as for nbdkit and QEMU
    ///
    /// Checked each second: after a change, new connections use the new files, without a restart.
    #[arg(long, value_name = "DIR")]
    tls_certificates: Option<PathBuf>,
    /// Whether NBD clients with TLS need a certificate of an authority in ca-cert.pem [default: on]
    #[arg(long, value_enum, value_name = "WORD")]
    tls_verify_peer: Option<VerifyPeerWord>,
    /// Accept public addresses for NBD and metrics, without encryption and without a password
    #[arg(long)]
    insecure_tcp: bool,
}

impl ServeArgs {
    pub(crate) fn run(mut self: Box<Self>, out: &mut dyn Write) -> Result<(), Failure> {
        if self.print_capabilities {
            return Ok(writeln!(out, "{CAPABILITIES}")?);
        }
        open_files::raise_limit();
        let mut plan = self.plan()?;
        if plan.user.is_some() && plan.state.is_none() {
            // After the change of user, the default state directory would be another one.
            self.state.state = default_directory();
            plan.state.clone_from(&self.state.state);
        }
        let source = match self.config.clone() {
            Some(config) => PlanSource::file(whole_path(&config), move || self.plan_again(&config)),
            None => PlanSource::FLAGS,
        };
        Ok(kickcache_daemon::daemon::run(plan, source, out)?)
    }

    /// The plan of the present configuration file. Flags about origins and cache devices apply to the start
    /// only, except the one for an origin that cannot be flushed.
    fn plan_again(&self, config: &Path) -> anyhow::Result<ServePlan> {
        let mut plan = kickcache_daemon::config::read(config)?;
        self.override_file(&mut plan);
        for volume in plan.caches.iter_mut().flat_map(|cache| &mut cache.volumes) {
            let is_said = |name: &String| name.is_empty() || *name == volume.name;
            volume.claims.flushless |= self.origin_no_flush.iter().any(is_said);
        }
        plan.check()?;
        Ok(plan)
    }

    pub(crate) fn plan(&self) -> Result<ServePlan, Failure> {
        let mut plan = match (&self.config, &self.cache, &self.origin) {
            (Some(config), _, _) => kickcache_daemon::config::read(config)?,
            (None, Some(cache), Some(origin)) => self.plan_of_flags(cache, origin)?,
            (None, _, _) => {
                return Err(Failure::usage(
                    "no origin and no configuration file given; use --cache and --origin, or --config",
                ));
            }
        };
        self.override_file(&mut plan);
        mark_origins(&mut plan, "--origin-moved", &self.origin_moved, |state| state.moved = true)?;
        mark_confirmed(&mut plan, &self.origin_is)?;
        mark_origins(&mut plan, "--origin-changed", &self.origin_changed, |state| state.changed = true)?;
        mark_origins(&mut plan, "--origin-grown", &self.origin_grown, |state| state.grown = true)?;
        mark_origins(&mut plan, "--force-origin", &self.force_origin, |state| state.forced = true)?;
        let flushless = &self.origin_no_flush;
        mark_origins(&mut plan, "--origin-no-flush", flushless, |state| state.flushless = true)?;
        mark_volumes(&mut plan, "--lose-dirty", &self.lose_dirty, |volume| {
            volume.dirty_loss = DirtyLoss::Accepted;
        })?;
        let caches = &mut plan.caches;
        mark_caches(caches, "--without-cache", &self.without_cache, |cache| {
            cache.service = CacheService::LeftOut;
        })?;
        mark_caches(caches, "--new-cache", &self.new_cache, |cache| {
            cache.replacement = Replacement::Accept;
        })?;
        plan.check()?;
        Ok(plan)
    }

    fn plan_of_flags(&self, cache: &Path, origin: &OriginSource) -> Result<ServePlan, Failure> {
        let name = self.volume_name(origin)?;
        let default = VolumeSpec::new(&name, origin.clone());
        let volume = VolumeSpec {
            origin_timeout: self.origin_timeout.unwrap_or(default.origin_timeout),
            mode: self.mode.unwrap_or(default.mode),
            admission: self.admission.unwrap_or(default.admission),
            sequential_cutoff: self.sequential_cutoff.unwrap_or(default.sequential_cutoff),
            fill_window_max: self.fill_window_max.unwrap_or(default.fill_window_max),
            access: if self.read_only { AccessMode::ReadOnly } else { AccessMode::ReadWrite },
            frontends: self.frontends.clone(),
            ..default
        };
        let volume = self.limits.limit(volume);
        Ok(ServePlan {
            control: self.control.path(),
            status_socket: None,
            metrics: None,
            log: LogPlan::default(),
            state: None,
            user: None,
            may_open: Vec::new(),
            io_engine: IoEngine::default(),
            memory_limit: MemoryLimit::default(),
            exposure: Exposure::default(),
            tls: TlsPlan::default(),
            caches: vec![CacheSpec {
                size: self.size,
                discard: self.discard,
                write_budget: self.write_budget,
                endurance: self.endurance,
                ..CacheSpec::new(cache, vec![volume])
            }],
        })
    }

    fn volume_name(&self, origin: &OriginSource) -> Result<String, Failure> {
        if let Some(name) = &self.name {
            return Ok(name.clone());
        }
        origin.name().map(str::to_owned).ok_or_else(|| {
            Failure::usage(format!("the origin {origin} gives no name for its volume; add --name NAME"))
        })
    }

    /// Applies the flags for the whole daemon.
    fn override_file(&self, plan: &mut ServePlan) {
        if let Some(control) = &self.control.control {
            plan.control.clone_from(control);
        }
        if let Some(path) = &self.status_socket {
            plan.status_socket = Some(path.clone());
        }
        if let Some(metrics) = &self.metrics {
            plan.metrics = Some(metrics.clone());
        }
        plan.log.format = self.log_format.unwrap_or(plan.log.format);
        plan.log.level = self.log_level.unwrap_or(plan.log.level);
        if let Some(state) = &self.state.state {
            plan.state = Some(state.clone());
        }
        if let Some(user) = &self.user {
            plan.user = Some(user.clone());
        }
        plan.may_open.extend(self.may_open.iter().cloned());
        plan.io_engine = self.io_engine.unwrap_or(plan.io_engine);
        plan.memory_limit = self.memory_limit.unwrap_or(plan.memory_limit);
        plan.tls.tls = self.tls.unwrap_or(plan.tls.tls);
        plan.tls.verify_peer = self.tls_verify_peer.unwrap_or(plan.tls.verify_peer);
        if let Some(folder) = &self.tls_certificates {
            plan.tls.certificates = Some(folder.clone());
        }
        if self.insecure_tcp {
            plan.exposure = Exposure::InsecureTcp;
        }
    }
}

/// An empty name means the only cache device.
fn mark_caches(
    caches: &mut [CacheSpec],
    flag: &'static str,
    devices: &[OsString],
    mark: impl Fn(&mut CacheSpec),
) -> Result<(), Failure> {
    let flags = caches.iter().map(|cache| Flag::new(flag, cache.device.as_os_str()).to_string());
    let flags = flags.collect::<Vec<_>>().join(", ");
    let known = caches.iter().map(|cache| cache.device.display().to_string()).collect::<Vec<_>>().join(", ");
    for device in devices {
        let is_empty = device.is_empty();
        if is_empty && caches.len() != 1 {
            return Err(Failure::usage(format!("{flag} must name a cache device; use one of {flags}")));
        }
        let is_meant =
            |cache: &&mut CacheSpec| is_empty || whole_path(&cache.device) == whole_path(Path::new(device));
        let cache = caches.iter_mut().find(is_meant).ok_or_else(|| {
            let device = device.display();
            Failure::usage(format!("{flag} names {device}; there is only {known}"))
        })?;
        mark(cache);
    }
    Ok(())
}

/// Marks the origins that the user confirms by their paths.
fn mark_confirmed(plan: &mut ServePlan, paths: &[PathBuf]) -> Result<(), Failure> {
    for path in paths {
        let mut volumes = plan.caches.iter_mut().flat_map(|cache| &mut cache.volumes);
        let is_meant = |volume: &&mut VolumeSpec| {
            volume.origin.path().is_some_and(|origin| real_path(origin) == real_path(path))
        };
        let volume = volumes.find(is_meant).ok_or_else(|| {
            let path = path.display();
            Failure::usage(format!(
                "--origin-is names {path}, which is the origin of no volume; give the path of an origin"
            ))
        })?;
        volume.claims.moved = true;
    }
    Ok(())
}

/// An empty name means the only volume.
fn mark_origins(
    plan: &mut ServePlan,
    flag: &'static str,
    names: &[String],
    mark: impl Fn(&mut OriginClaims),
) -> Result<(), Failure> {
    mark_volumes(plan, flag, names, |volume| mark(&mut volume.claims))
}

/// An empty name means the only volume.
fn mark_volumes(
    plan: &mut ServePlan,
    flag: &'static str,
    names: &[String],
    mark: impl Fn(&mut VolumeSpec),
) -> Result<(), Failure> {
    let mut volumes: Vec<&mut VolumeSpec> =
        plan.caches.iter_mut().flat_map(|cache| &mut cache.volumes).collect();
    let known = volumes.iter().map(|volume| volume.name.clone()).collect::<Vec<_>>().join(", ");
    let flags = volumes.iter().map(|volume| Flag::new(flag, volume.name.as_ref()).to_string());
    let flags = flags.collect::<Vec<_>>().join(", ");
    for name in names {
        if name.is_empty() && volumes.len() != 1 {
            return Err(Failure::usage(format!("{flag} must name a volume; use one of {flags}")));
        }
        let volume = volumes.iter_mut().find(|volume| name.is_empty() || volume.name == *name);
        let volume = volume.ok_or_else(|| {
            Failure::usage(format!("{flag} names the volume `{name}`; there is only {known}"))
        })?;
        mark(volume);
    }
    Ok(())
}
