//! Cells: pieces of a disk that contain their number and version.

use crate::rng::Rng;

/// Version 0 is zeroes.
pub(crate) fn fill(cell: &mut [u8], number: u64, version: u64) {
    if version == 0 {
        return cell.fill(0);
    }
    cell[..8].copy_from_slice(&number.to_le_bytes());
    cell[8..16].copy_from_slice(&version.to_le_bytes());
    Rng::new(number ^ version.rotate_left(40)).fill(&mut cell[16..]);
}

/// The version of a cell that was read, or a description of its error.
pub(crate) fn version(cell: &[u8], number: u64) -> Result<u64, String> {
    let found = u64::from_le_bytes(cell[..8].try_into().unwrap());
    let version = u64::from_le_bytes(cell[8..16].try_into().unwrap());
    if version != 0 && found != number {
        return Err(format!("cell {number} holds the data of cell {found}, version {version}"));
    }
    let mut expected = vec![0; cell.len()];
    fill(&mut expected, number, version);
    match (0..cell.len()).find(|&at| cell[at] != expected[at]) {
        None => Ok(version),
        Some(at) => Err(format!("cell {number} is torn: version {version} up to byte {at}, then other data")),
    }
}

#[test]
fn a_cell_has_its_version_and_detects_damage() {
    let mut cell = vec![0; 4096];
    assert_eq!(version(&cell, 7), Ok(0));
    fill(&mut cell, 7, 3);
    assert_eq!(version(&cell, 7), Ok(3));
    assert!(version(&cell, 8).unwrap_err().contains("data of cell 7"));
    let mut newer = vec![0; 4096];
    fill(&mut newer, 7, 4);
    cell[2048..].copy_from_slice(&newer[2048..]);
    assert!(version(&cell, 7).unwrap_err().contains("torn"));
    let mut zeroed = newer.clone();
    zeroed[..512].fill(0);
    assert!(version(&zeroed, 7).unwrap_err().contains("torn"));
}
