//! The disks, their faults and the log: one lock for all, so that the log has the writes in their order.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::Context;
use kickcache_engine::units::ByteExtent;

use crate::fault::{Effect, Fault, Operation};
use crate::record::{Kind, Record};

const NOWHERE: ByteExtent = ByteExtent { start: 0, length: 0 };

#[derive(Clone, Debug)]
pub(crate) struct DiskFile {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
}

impl FromStr for DiskFile {
    type Err = String;

    fn from_str(text: &str) -> Result<DiskFile, String> {
        let (name, path) = text.split_once('=').ok_or_else(|| format!("`{text}` is not NAME=FILE"))?;
        Ok(DiskFile { name: name.into(), path: path.into() })
    }
}

pub(crate) struct Disk {
    pub(crate) name: String,
    pub(crate) size: u64,
    file: File,
}

pub(crate) struct State {
    pub(crate) disks: Vec<Disk>,
    faults: Vec<Fault>,
    log: BufWriter<File>,
    position: u64,
    /// How often the faults were cleared: operations that hung before then continue.
    pub(crate) clearings: u64,
    /// Operations that met a fault.
    met: u64,
}

impl State {
    pub(crate) fn open(log: &Path, disks: &[DiskFile]) -> anyhow::Result<State> {
        let open = |disk: &DiskFile| -> anyhow::Result<Disk> {
            let file = File::options().read(true).write(true).open(&disk.path);
            let file = file.with_context(|| format!("cannot open {}", disk.path.display()))?;
            Ok(Disk { name: disk.name.clone(), size: file.metadata()?.len(), file })
        };
        let log = File::create(log).with_context(|| format!("cannot make the log {}", log.display()))?;
        Ok(State {
            disks: disks.iter().map(open).collect::<Result<_, _>>()?,
            faults: Vec::new(),
            log: BufWriter::new(log),
            position: 0,
            clearings: 0,
            met: 0,
        })
    }

    pub(crate) fn command(&mut self, line: &str) -> anyhow::Result<String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["position"] => {
                self.log.flush()?;
                return Ok(self.position.to_string());
            }
            ["met"] => return Ok(self.met.to_string()),
            ["clear"] => {
                self.faults.clear();
                self.clearings += 1;
            }
            ["fault", fault @ ..] => {
                let fault = Fault::parse(fault)?;
                let known = self.disks.iter().any(|disk| disk.name == fault.disk);
                anyhow::ensure!(known, "there is no disk {}", fault.disk);
                self.faults.push(fault);
            }
            _ => anyhow::bail!("`{line}` is not position, met, clear or fault"),
        }
        Ok("done".into())
    }

    /// The effect of the first fault that affects the operation.
    pub(crate) fn effect(&mut self, disk: usize, operation: Operation, extent: ByteExtent) -> Option<Effect> {
        let name = &self.disks[disk].name;
        let effect = self.faults.iter_mut().find_map(|fault| fault.meet(name, operation, extent));
        self.met += u64::from(effect.is_some());
        effect
    }

    pub(crate) fn read(&mut self, disk: usize, offset: u64, into: &mut [u8]) -> anyhow::Result<()> {
        Ok(self.disks[disk].file.read_exact_at(into, offset)?)
    }

    pub(crate) fn write(&mut self, disk: usize, offset: u64, data: Vec<u8>) -> anyhow::Result<()> {
        self.disks[disk].file.write_all_at(&data, offset)?;
        let length = u64::try_from(data.len())?;
        self.record(disk, Kind::Write, ByteExtent { start: offset, length }, data)
    }

    pub(crate) fn zero(&mut self, disk: usize, offset: u64, length: u64) -> anyhow::Result<()> {
        let zeroes = vec![0; usize::try_from(length)?];
        self.disks[disk].file.write_all_at(&zeroes, offset)?;
        self.record(disk, Kind::Zeroes, ByteExtent { start: offset, length }, Vec::new())
    }

    pub(crate) fn flush(&mut self, disk: usize) -> anyhow::Result<()> {
        self.record(disk, Kind::Flush, NOWHERE, Vec::new())
    }

    pub(crate) fn lie(&mut self, disk: usize) -> anyhow::Result<()> {
        self.record(disk, Kind::Lie, NOWHERE, Vec::new())
    }

    fn record(&mut self, disk: usize, kind: Kind, extent: ByteExtent, data: Vec<u8>) -> anyhow::Result<()> {
        let disk = u8::try_from(disk)?;
        Record { kind, disk, offset: extent.start, length: extent.length, data }.put(&mut self.log)?;
        self.position += 1;
        Ok(())
    }
}
