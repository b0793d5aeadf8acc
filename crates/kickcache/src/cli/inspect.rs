//! `kickcache inspect`: shows a cache device that no daemon serves, without changing it.

use std::io;
use std::path::PathBuf;

use kickcache_command::exit::Failure;
use kickcache_command::options::StateOption;
use kickcache_command::table::{Align, Cell, Colour, Table, Tone};
use kickcache_command::user_text::Printer;
use kickcache_daemon::devices::offline::foreign_device::with_notes;
use kickcache_daemon::devices::offline::out_of_service::OutOfServiceDevice;
use kickcache_daemon::devices::offline::{self, Contents};
use kickcache_daemon::devices::state::uuid_text;
use kickcache_engine::format::growth::size_max;
use kickcache_engine::format::superblock::VolumeRecord;
use kickcache_engine::stats::VolumeStatus;
use kickcache_engine::units::{BLOCK_SIZE, ByteExtent};
use kickcache_units::printable::printable_line;
use kickcache_units::show_bytes;
use serde::Serialize;

use crate::cli::device_state::{UnusedReason, bypassed_json, older_copy_json, print_needless, standing_json};

const EXAMPLES: &str = "\
Examples:
  kickcache inspect /var/cache/kickcache.img
  kickcache inspect /dev/nvme0n1p4 --json | jq '.volumes[] | {name, dirty_bytes}'

Exit codes:
  0  a daemon would use the cache device
  1  it cannot be read; see the message on standard error
  2  an argument is wrong
  7  a daemon would refuse it: it is out of service, an older copy, or was bypassed with dirty blocks";

/// --json has all extents.
const EXTENTS_SHOWN: usize = 8;

/// Show a cache device: superblock, segments, volumes, dirty blocks
///
/// Never writes. Refused while a daemon serves the cache device: use `status` then.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct InspectArgs {
    /// File or block device
    cache: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    state: StateOption,
}

impl InspectArgs {
    pub(crate) fn run(&self, out: &mut dyn Printer) -> Result<(), Failure> {
        let state = self.state.place();
        let contents = offline::read(&self.cache).map_err(|error| with_notes(error, &self.cache, &state))?;
        let unused = UnusedReason::look(&self.cache, &state).map_err(anyhow::Error::from)?;
        let mut device = Device::new(&self.cache.display().to_string(), &contents);
        device.out_of_service = unused.standing.as_ref().map(standing_json);
        unused.standing.iter().for_each(|standing| device.drop_needless(standing));
        device.older_copy = unused.copy.as_ref().map(older_copy_json);
        device.bypassed = bypassed_json(&unused.bypassed);
        if self.json {
            writeln!(out, "{}", serde_json::to_string_pretty(&device)?)?;
        } else {
            print_device(out, &device, Colour::for_stdout())?;
            unused.print(out)?;
        }
        unused.end()
    }
}

#[derive(Serialize)]
struct Device {
    device: String,
    uuid: String,
    epoch: u64,
    device_bytes: u64,
    used_bytes: u64,
    used_bytes_max: u64,
    journal_bytes: u64,
    segment_bytes: u64,
    segments: u64,
    free_segments: u64,
    capacity_bytes: u64,
    probation_bytes: u64,
    main_bytes: u64,
    out_of_service: Option<serde_json::Value>,
    older_copy: Option<serde_json::Value>,
    bypassed: serde_json::Value,
    volumes: Vec<Volume>,
}

#[derive(Serialize)]
struct Volume {
    id: u8,
    name: String,
    origin: String,
    origin_bytes: u64,
    cached_bytes: u64,
    dirty_bytes: u64,
    dirty: Vec<Extent>,
    /// Bytes of blocks that the log of a device out of service has as dirty, and that were written back or
    /// given up.
    needless_bytes: u64,
}

/// In bytes.
#[derive(Serialize)]
struct Extent {
    start: u64,
    length: u64,
}

impl Device {
    fn new(path: &str, contents: &Contents) -> Device {
        let Contents { superblock, status, .. } = contents;
        Device {
            device: path.into(),
            uuid: uuid_text(superblock.uuid),
            epoch: superblock.epoch,
            device_bytes: contents.device_size,
            used_bytes: superblock.geometry.device_size,
            used_bytes_max: size_max(&superblock.geometry),
            journal_bytes: superblock.geometry.journal_size,
            segment_bytes: superblock.geometry.segment_size,
            segments: status.segments,
            free_segments: status.free_segments,
            capacity_bytes: status.capacity_blocks * BLOCK_SIZE,
            probation_bytes: status.probation_blocks * BLOCK_SIZE,
            main_bytes: status.main_blocks * BLOCK_SIZE,
            out_of_service: None,
            older_copy: None,
            bypassed: serde_json::json!([]),
            volumes: superblock.volumes.iter().map(|record| Volume::new(record, contents)).collect(),
        }
    }

    /// A device out of service is not written, so its log may still have written-back blocks as dirty.
    fn drop_needless(&mut self, standing: &OutOfServiceDevice) {
        for volume in self.volumes.iter_mut().filter(|volume| !standing.is_needed_by(&volume.name)) {
            volume.needless_bytes = std::mem::take(&mut volume.dirty_bytes);
            volume.dirty.clear();
        }
    }
}

impl Volume {
    fn new(record: &VolumeRecord, contents: &Contents) -> Volume {
        let status: Option<&VolumeStatus> =
            contents.status.volumes.iter().find(|status| status.volume == record.id);
        let dirty =
            contents.dirty.iter().find(|(id, _)| *id == record.id).map(|(_, extents)| extents.as_slice());
        let dirty = dirty.unwrap_or_default();
        Volume {
            id: record.id.get(),
            name: record.name.clone(),
            origin: record.origin_identity.clone(),
            origin_bytes: record.origin_size,
            cached_bytes: status.map_or(0, |status| status.cached_blocks * BLOCK_SIZE),
            dirty_bytes: dirty.iter().map(|extent| extent.length).sum(),
            dirty: dirty
                .iter()
                .map(|ByteExtent { start, length }| Extent { start: *start, length: *length })
                .collect(),
            needless_bytes: 0,
        }
    }
}

fn print_device(out: &mut dyn Printer, device: &Device, colour: Colour) -> io::Result<()> {
    writeln!(out, "cache device {}, {}", device.device, show_bytes(device.device_bytes))?;
    writeln!(out, "  uuid      {}, epoch {} of the superblock", device.uuid, device.epoch)?;
    let (used, most) = (show_bytes(device.used_bytes), show_bytes(device.used_bytes_max));
    writeln!(
        out,
        "  journal   {}; {used} are used, and can grow to {most}",
        show_bytes(device.journal_bytes)
    )?;
    let segment = show_bytes(device.segment_bytes);
    writeln!(out, "  segments  {} of {segment}, {} free", device.segments, device.free_segments)?;
    let (probation, main) = (show_bytes(device.probation_bytes), show_bytes(device.main_bytes));
    writeln!(out, "  contents  {probation} on probation, {main} in the main queue")?;
    writeln!(out)?;
    volume_table(device).print(out, colour)?;
    device.volumes.iter().try_for_each(|volume| print_dirty(out, volume))
}

fn volume_table(device: &Device) -> Table {
    let mut table = Table::new(&[
        ("VOLUME", Align::Left),
        ("SIZE", Align::Right),
        ("CACHED", Align::Right),
        ("DIRTY", Align::Right),
        ("ORIGIN", Align::Left),
    ]);
    for volume in &device.volumes {
        let tone = if volume.dirty_bytes > 0 { Tone::Warning } else { Tone::Plain };
        table.row(vec![
            Cell::new(&volume.name),
            Cell::new(show_bytes(volume.origin_bytes)),
            Cell::new(show_bytes(volume.cached_bytes)),
            Cell::toned(show_bytes(volume.dirty_bytes), tone),
            Cell::new(&volume.origin),
        ]);
    }
    table
}

fn print_dirty(out: &mut dyn Printer, volume: &Volume) -> io::Result<()> {
    print_needless(out, &volume.name, volume.needless_bytes)?;
    if volume.dirty.is_empty() {
        return Ok(());
    }
    writeln!(out, "\ndirty in {}, as byte offset + length:", printable_line(&volume.name))?;
    for extent in volume.dirty.iter().take(EXTENTS_SHOWN) {
        writeln!(out, "  {} + {}", extent.start, extent.length)?;
    }
    match volume.dirty.len().saturating_sub(EXTENTS_SHOWN) {
        0 => Ok(()),
        more => writeln!(out, "  and {more} more; --json lists them all"),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn a_device_is_shown_with_its_first_dirty_extents() {
        let dirty = (0..10).map(|i| Extent { start: i * 8192, length: 4096 }).collect();
        let volume = |name: &str, dirty: Vec<Extent>| Volume {
            id: 0,
            name: name.into(),
            origin: "file:/srv/vm1.raw".into(),
            origin_bytes: 1 << 30,
            cached_bytes: 1 << 20,
            dirty_bytes: dirty.iter().map(|extent: &Extent| extent.length).sum(),
            dirty,
            needless_bytes: 0,
        };
        let device = Device {
            device: "/c".into(),
            uuid: uuid_text([0xa5; 16]),
            epoch: 3,
            device_bytes: 64 << 20,
            used_bytes: 64 << 20,
            used_bytes_max: 1 << 30,
            journal_bytes: 640 << 10,
            segment_bytes: 256 << 10,
            segments: 249,
            free_segments: 245,
            capacity_bytes: 62 << 20,
            probation_bytes: 1 << 20,
            main_bytes: 0,
            out_of_service: None,
            older_copy: None,
            bypassed: serde_json::json!([]),
            volumes: vec![volume("vm1", dirty), volume("vm2", Vec::new())],
        };
        let mut out = Vec::new();
        print_device(&mut out, &device, Colour::Off).unwrap();
        expect![[r#"
            cache device /c, 64 MiB
              uuid      a5a5a5a5-a5a5-a5a5-a5a5-a5a5a5a5a5a5, epoch 3 of the superblock
              journal   640 KiB; 64 MiB are used, and can grow to 1 GiB
              segments  249 of 256 KiB, 245 free
              contents  1 MiB on probation, 0 B in the main queue

            VOLUME   SIZE  CACHED   DIRTY  ORIGIN
            vm1     1 GiB   1 MiB  40 KiB  file:/srv/vm1.raw
            vm2     1 GiB   1 MiB     0 B  file:/srv/vm1.raw

            dirty in vm1, as byte offset + length:
              0 + 4096
              8192 + 4096
              16384 + 4096
              24576 + 4096
              32768 + 4096
              40960 + 4096
              49152 + 4096
              57344 + 4096
              and 2 more; --json lists them all
        "#]]
        .assert_eq(&String::from_utf8(out).unwrap());
    }
}
