//! Volumes are added to a server, or are refused.

use super::*;
use crate::driver::device::AccessMode;
use crate::operations::volume_addition::{join, prepare};

/// A server of `one` whose cache device has a dirty block of `two`.
fn with_dirty_blocks(folder: &Folder) -> ServerHandle {
    let server = folder.start(vec![folder.volume("one"), folder.volume("two")], CacheService::InService);
    folder.client("two").write_at(0, &[2; 4096]).unwrap();
    stop(&server);
    folder.start(vec![folder.volume("one")], CacheService::InService)
}

#[test]
fn a_volume_with_dirty_blocks_is_not_added_read_only() {
    let folder = Folder::new();
    let server = with_dirty_blocks(&folder);
    let read_only = VolumeSpec { access: AccessMode::ReadOnly, ..folder.volume("two") };
    let refused = prepare(&server, &read_only, &[]).map(|_| ()).unwrap_err().to_string();
    assert!(refused.contains("1 dirty block that its origin lacks"), "{refused}");
    join(&server, prepare(&server, &folder.volume("two"), &[]).unwrap()).unwrap();
    let mut found = [0; 4096];
    folder.client("two").read_at(0, &mut found).unwrap();
    assert_eq!(found, [2; 4096]);
    stop(&server);
}

#[test]
fn a_volume_without_dirty_blocks_is_added_read_only() {
    let folder = Folder::new();
    let server = folder.start(vec![folder.volume("one")], CacheService::InService);
    let read_only = VolumeSpec { access: AccessMode::ReadOnly, ..folder.volume("two") };
    join(&server, prepare(&server, &read_only, &[]).unwrap()).unwrap();
    let mut found = [0; 4096];
    folder.client("two").read_at(0, &mut found).unwrap();
    assert_eq!(found, [1; 4096]);
    assert!(folder.client("two").write_at(0, &[2; 4096]).is_err());
    stop(&server);
}
