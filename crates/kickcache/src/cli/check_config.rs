//! `kickcache check-config`: whether a configuration file can be used.

use std::io::Write;
use std::path::PathBuf;

use kickcache_command::exit::Failure;
use kickcache_units::counted;

const EXAMPLES: &str = "\
Examples:
  kickcache check-config /etc/kickcache/kickcache.toml

Devices are not opened: `kickcache reload --dry-run` also compares the file with a running daemon.
Exit codes: 0 if the file is good; 2 if a key or a value is wrong, or the file cannot be read.";

/// Check a configuration file without a daemon
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CheckConfigArgs {
    /// The configuration file
    file: PathBuf,
}

impl CheckConfigArgs {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<(), Failure> {
        let plan = kickcache_daemon::config::read(&self.file)?;
        let volumes: Vec<_> = plan.caches.iter().flat_map(|cache| &cache.volumes).collect();
        let (count, caches) = (volumes.len() as u64, plan.caches.len() as u64);
        let file = self.file.display();
        writeln!(
            out,
            "{file}: good; {} on {} would be served",
            counted(count, "volume"),
            counted(caches, "cache device")
        )?;
        for cache in &plan.caches {
            for volume in &cache.volumes {
                let (name, mode, origin) = (&volume.name, volume.mode.as_str(), &volume.origin);
                writeln!(out, "{name}: {mode}, origin {origin}, cache device {}", cache.device.display())?;
            }
        }
        Ok(())
    }
}
