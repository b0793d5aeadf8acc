//! `kickcache mode`: shows or changes the mode of a volume that is served.

use std::io::Write;

use anyhow::anyhow;
use kickcache_command::exit::Failure;
use kickcache_command::options::ControlOption;
use kickcache_daemon::control::ControlError;
use kickcache_daemon::control::report::VolumeReport;
use kickcache_daemon::control::wire::Request;
use kickcache_daemon::words::ModeWord;
use kickcache_units::show_bytes;

const EXAMPLES: &str = "\
Examples:
  kickcache mode vm1                    print the mode
  kickcache mode vm1 write-back
  kickcache mode vm1 bypass --dry-run   print the planned change only
  kickcache mode vm1 write-through      new writes at once; dirty blocks are written back";

/// Show or change the mode of a volume while it is served
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ModeArgs {
    /// Name of the volume
    volume: String,
    /// New mode; without it, the current mode is printed
    #[arg(value_enum)]
    mode: Option<ModeWord>,
    /// Only print the planned change
    #[arg(long, requires = "mode")]
    dry_run: bool,
    #[command(flatten)]
    control: ControlOption,
}

impl ModeArgs {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<(), Failure> {
        let client = self.control.client();
        if let Some(mode) = self.mode.filter(|_| !self.dry_run) {
            let request = Request::Mode { volume: self.volume.clone(), mode };
            let () = client.request(&request)?;
            return Ok(writeln!(out, "{}: now {}", self.volume, mode.as_str())?);
        }
        let report = client.status()?;
        let volumes: Vec<_> = report.caches.iter().flat_map(|cache| &cache.volumes).collect();
        if let Some(unserved) = report.unserved.iter().find(|unserved| unserved.name == self.volume) {
            return Err(anyhow!("volume {} is not served: {}", unserved.name, unserved.why).into());
        }
        let Some(found) = volumes.iter().find(|volume| volume.name == self.volume) else {
            let known = volumes.iter().map(|volume| volume.name.clone()).collect();
            return Err(anyhow!(ControlError::NoVolume { name: self.volume.clone(), known }).into());
        };
        match self.mode {
            Some(mode) => Ok(writeln!(out, "{}", planned(found, mode))?),
            None => Ok(writeln!(out, "{}", found.mode.as_str())?),
        }
    }
}

fn planned(volume: &VolumeReport, mode: ModeWord) -> String {
    let (name, before, after) = (&volume.name, volume.mode.as_str(), mode.as_str());
    if volume.mode == mode {
        return format!("{name}: is {before} already");
    }
    match volume.dirty_bytes {
        dirty if dirty > 0 && volume.mode == ModeWord::WriteBack => {
            format!("{name}: {before} -> {after}; {} of dirty blocks are written back", show_bytes(dirty))
        }
        _ => format!("{name}: {before} -> {after}"),
    }
}
