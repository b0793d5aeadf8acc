//! `kickcache resize`: a daemon uses the extended origin of a volume.

use std::io::Write;

use kickcache_command::exit::Failure;
use kickcache_command::options::ControlOption;
use kickcache_daemon::control::wire::{Request, Resized};
use kickcache_units::show_bytes;

const EXAMPLES: &str = "\
Examples:
  lvextend -L +10G vg/vm1 && kickcache resize vm1
  truncate -s 20G /srv/vm1.raw && kickcache resize vm1";

/// Extend a volume to the size of its origin
///
/// A virtual machine on vhost-user sees the new size at once, an NBD client when it connects. A volume cannot
/// shrink. If the origin was extended while no daemon served it, or is an NBD export (its size is not read
/// while it is served): stop, then `kickcache serve --origin-grown`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ResizeArgs {
    /// Name of the volume
    volume: String,
    #[command(flatten)]
    control: ControlOption,
}

impl ResizeArgs {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<(), Failure> {
        let client = self.control.client();
        let resized: Resized = client.request(&Request::Resize { volume: self.volume.clone() })?;
        let report = client.status()?;
        let mut volumes = report.caches.iter().flat_map(|cache| &cache.volumes);
        let ublk = volumes
            .find(|volume| volume.name == self.volume)
            .and_then(|volume| volume.served_at.ublk.as_deref());
        Ok(writeln!(out, "{}: {}", self.volume, sentence(&resized, ublk))?)
    }
}

fn sentence(resized: &Resized, ublk: Option<&str>) -> String {
    let size = format!("{} ({} bytes)", show_bytes(resized.size_bytes), resized.size_bytes);
    match ublk {
        _ if resized.is_unchanged => format!("{size}, unchanged"),
        None => format!("{size} now"),
        Some(device) => format!(
            "{size} now; {device} gets this size at once on Linux 6.16 and later, otherwise it keeps its \
             present size until the volume is removed and served again, which is then logged"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_device_that_may_keep_its_size_is_mentioned() {
        let grown = Resized { size_bytes: 8192, is_unchanged: false };
        assert_eq!(sentence(&grown, None), "8 KiB (8192 bytes) now");
        assert!(
            sentence(&grown, Some("/dev/ublkb0"))
                .contains("now; /dev/ublkb0 gets this size at once on Linux 6.16")
        );
        assert_eq!(
            sentence(&Resized { is_unchanged: true, ..grown }, Some("/dev/ublkb0")),
            "8 KiB (8192 bytes), unchanged"
        );
    }
}
