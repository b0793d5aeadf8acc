//! Plays a log back up to a power cut.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use anyhow::{Context, ensure};

use crate::record::{Kind, Record, Records};
use crate::state::DiskFile;

const SECTOR: usize = 512;

/// The effect of a power cut on a request that no flush covers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unflushed {
    Lost,
    /// A request is kept whole or lost.
    Whole,
    /// A request is kept whole, lost, or kept in some sectors.
    Torn,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct PowerCut {
    pub(crate) until: u64,
    pub(crate) seed: u64,
    pub(crate) unflushed: Unflushed,
}

/// One disk, and its writes and discards since its last flush.
struct Target {
    file: File,
    unflushed: Vec<Record>,
}

/// Brings the files to a state that the disks could have after the cut.
pub(crate) fn replay(records: Records, disks: &[DiskFile], cut: PowerCut) -> anyhow::Result<()> {
    let open = |disk: &DiskFile| {
        let file = File::options().write(true).open(&disk.path);
        let file = file.with_context(|| format!("cannot open {}", disk.path.display()))?;
        Ok(Target { file, unflushed: Vec::new() })
    };
    let mut targets: Vec<Target> = disks.iter().map(open).collect::<anyhow::Result<_>>()?;
    let count = usize::try_from(cut.until)?;
    for record in records.take(count) {
        let record = record?;
        let disk = usize::from(record.disk);
        ensure!(disk < targets.len(), "the log has {} disks at least; name them all", disk + 1);
        let target = &mut targets[disk];
        match record.kind {
            Kind::Flush => {
                for record in std::mem::take(&mut target.unflushed) {
                    apply(&target.file, &record, 0..usize::MAX)?;
                }
            }
            Kind::Lie => {}
            Kind::Write | Kind::Zeroes => target.unflushed.push(record),
        }
    }
    let mut chance = Chance(cut.seed ^ cut.until.rotate_left(32));
    if cut.unflushed == Unflushed::Lost {
        return Ok(());
    }
    for target in &targets {
        for record in &target.unflushed {
            survive(&target.file, record, cut.unflushed, &mut chance)?;
        }
    }
    Ok(())
}

fn survive(file: &File, record: &Record, unflushed: Unflushed, chance: &mut Chance) -> anyhow::Result<()> {
    let sectors = usize::try_from(record.length)?.div_ceil(SECTOR);
    match chance.below(4) {
        0 => {}
        1 if unflushed == Unflushed::Torn => {
            for sector in (0..sectors).filter(|_| chance.below(2) == 0).collect::<Vec<_>>() {
                apply(file, record, sector * SECTOR..(sector + 1) * SECTOR)?;
            }
        }
        2 if unflushed == Unflushed::Torn => {
            let kept = usize::try_from(chance.below(u64::try_from(sectors)? + 1))?;
            apply(file, record, 0..kept * SECTOR)?;
        }
        _ => apply(file, record, 0..usize::MAX)?,
    }
    Ok(())
}

/// Applies the record's operation to some of its bytes.
fn apply(file: &File, record: &Record, part: std::ops::Range<usize>) -> io::Result<()> {
    let zeroes;
    let data = match record.kind {
        Kind::Zeroes => {
            zeroes = vec![0; usize::try_from(record.length).map_err(io::Error::other)?];
            &zeroes
        }
        Kind::Write | Kind::Flush | Kind::Lie => &record.data,
    };
    let part = part.start.min(data.len())..part.end.min(data.len());
    let offset = record.offset + u64::try_from(part.start).map_err(io::Error::other)?;
    file.write_all_at(&data[part], offset)
}

/// By splitmix64.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes 1s and flushes, writes 2s over them and does not.
    fn cut(until: u64, seed: u64) -> Vec<u8> {
        let folder = tempfile::tempdir().unwrap();
        let (log, disk) = (folder.path().join("log"), folder.path().join("disk"));
        std::fs::write(&disk, [0; 4096]).unwrap();
        let write =
            |fill| Record { kind: Kind::Write, disk: 0, offset: 0, length: 4096, data: vec![fill; 4096] };
        let flush = Record { kind: Kind::Flush, disk: 0, offset: 0, length: 0, data: Vec::new() };
        let mut bytes = Vec::new();
        [write(1), flush, write(2)].iter().for_each(|record| record.put(&mut bytes).unwrap());
        std::fs::write(&log, bytes).unwrap();
        let disks = [DiskFile { name: "d".into(), path: disk.clone() }];
        let records = Records::new(File::open(log).unwrap());
        replay(records, &disks, PowerCut { until, seed, unflushed: Unflushed::Torn }).unwrap();
        std::fs::read(disk).unwrap()
    }

    #[test]
    fn flushed_writes_are_kept_and_others_kept_lost_or_torn() {
        let (mut lost, mut kept, mut torn) = (0, 0, 0);
        for seed in 0..200 {
            assert!(cut(2, seed).iter().all(|byte| *byte == 1));
            let found = cut(3, seed);
            assert!(found.chunks(SECTOR).all(|sector| sector.iter().all(|byte| *byte == sector[0])));
            assert!(found.iter().all(|byte| *byte == 1 || *byte == 2));
            match (found.contains(&1), found.contains(&2)) {
                (true, false) => lost += 1,
                (false, true) => kept += 1,
                _ => torn += 1,
            }
        }
        assert!(lost > 20 && kept > 20 && torn > 20, "{lost} lost, {kept} kept, {torn} torn");
    }
}
