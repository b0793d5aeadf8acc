use super::*;
use crate::index::index;
use crate::oracle::cells::CHUNK;

const VOLUME: VolumeId = VolumeId::new(0);

fn oracle() -> Oracle {
    Oracle::new(vec![FirstContent { size: CHUNK, filled: vec![false] }])
}

fn at(start: u64, length: u64) -> ByteExtent {
    ByteExtent { start, length }
}

fn read(oracle: &mut Oracle, extent: ByteExtent, data: &Payload) -> Result<(), String> {
    let start = oracle.start();
    oracle.end_read(VOLUME, extent, start, data)
}

fn write(oracle: &mut Oracle, extent: ByteExtent) -> Version {
    let version = oracle.start_write(VOLUME, extent, WriteContent::Stamps).version;
    oracle.end_write(version, extent, Durability::Volatile);
    version
}

#[test]
fn partial_blocks_are_judged_alone_after_a_partial_write() {
    let mut oracle = oracle();
    let first = write(&mut oracle, at(0, 4096));
    let mut data = Payload::stamped(VOLUME, at(0, 4096), first);
    read(&mut oracle, at(0, 4096), &data).unwrap();
    for part in [at(512, 1024), at(64, 32)] {
        let version = write(&mut oracle, part);
        assert!(read(&mut oracle, at(0, 4096), &data).is_err());
        let whole = Block::stamp(VOLUME, 0, version);
        data.blocks[0].overlay(index(part.start), &whole, index(part.start), index(part.length));
        read(&mut oracle, at(0, 4096), &data).unwrap();
    }
}

#[test]
fn torn_blocks_are_judged_by_sector_and_reported() {
    let mut oracle = oracle();
    let first = oracle.start_write(VOLUME, at(0, 4096), WriteContent::Stamps).version;
    let mut data = Payload::new(at(0, 4096), |_| Block::Zeroes);
    data.blocks[0].overlay(512, &Block::stamp(VOLUME, 0, first), 512, 512);
    read(&mut oracle, at(0, 4096), &data).unwrap();
    data.blocks[0].overlay(0, &Block::stamp(VOLUME, 0, first), 0, 256);
    assert!(read(&mut oracle, at(0, 4096), &data).unwrap_err().contains("both"));
    let noise = Payload::new(at(4096, 4096), |_| Block::Noise(7));
    assert!(read(&mut oracle, at(4096, 4096), &noise).unwrap_err().contains("no client"));
}

#[test]
fn touched_blocks_are_joined() {
    let mut oracle = oracle();
    for start in [0, 4608, 16384] {
        oracle.start_write(VOLUME, at(start, 512), WriteContent::Zeroes);
    }
    assert_eq!(oracle.touched(VOLUME, 1 << 20), vec![at(0, 8192), at(16384, 4096)]);
}
