use super::*;
use crate::world::content::stamp;

const VOLUME: VolumeId = VolumeId::new(0);

fn oracle() -> Oracle {
    Oracle::new(vec![(CHUNK, vec![false])])
}

fn at(start: u64, length: u64) -> ByteExtent {
    ByteExtent { start, length }
}

fn read(oracle: &mut Oracle, extent: ByteExtent, data: &[u8]) -> Result<(), String> {
    let start = oracle.start();
    oracle.end_read(VOLUME, extent, start, data)
}

#[test]
fn parts_of_a_sector_are_judged_alone_once_one_was_written_alone() {
    let mut oracle = oracle();
    let mut data = vec![0; 512];
    let (first, _) = oracle.start_write(VOLUME, at(0, 512), false);
    oracle.end_write(first, at(0, 512), false);
    stamp(VOLUME, first, 0, &mut data);
    read(&mut oracle, at(0, 512), &data).unwrap();
    let (second, _) = oracle.start_write(VOLUME, at(64, 32), false);
    oracle.end_write(second, at(64, 32), false);
    assert!(read(&mut oracle, at(0, 512), &data).is_err());
    stamp(VOLUME, second, 64, &mut data[64..96]);
    read(&mut oracle, at(0, 512), &data).unwrap();
}

#[test]
fn torn_sectors_and_strange_bytes_are_reported() {
    let mut oracle = oracle();
    let mut data = vec![0; 512];
    let (first, _) = oracle.start_write(VOLUME, at(0, 512), false);
    stamp(VOLUME, first, 0, &mut data[..256]);
    assert!(read(&mut oracle, at(0, 512), &data).unwrap_err().contains("both"));
    assert!(read(&mut oracle, at(512, 512), &[7; 512]).unwrap_err().contains("nobody"));
}

#[test]
fn touched_sectors_are_joined() {
    let mut oracle = oracle();
    for start in [0, 512, 4096] {
        oracle.start_write(VOLUME, at(start, 512), true);
    }
    assert_eq!(oracle.touched(VOLUME, 1 << 20), vec![at(0, 1024), at(4096, 512)]);
}
