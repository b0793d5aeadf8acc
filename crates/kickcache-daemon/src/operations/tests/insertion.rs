//! A cache device is put into use, or is not.

use super::*;
use crate::devices::cache_device::{CacheDevice, Overwrite};
use crate::operations::cache_insertion::{CacheInsertion, take_in};
use crate::serve::control::NamedSettings;
use crate::serve::error::ServeError;

/// Takes a new device in; `before` is called when it has been formatted.
fn take_new_in(
    folder: &Folder,
    server: &ServerHandle,
    volumes: &[VolumeSpec],
    before: impl FnOnce(),
) -> Result<(), ServeError> {
    let named = |volume: &VolumeSpec| NamedSettings {
        volume: volume.name.clone(),
        settings: volume.settings(),
        client_cap: volume.client_cap(),
    };
    let settings: Vec<NamedSettings> = volumes.iter().map(named).collect();
    let freed_segments = CacheSpec::new(&folder.path("new"), Vec::new()).freed_segments();
    let insertion = CacheInsertion { volumes, settings: &settings, freed_segments };
    take_in(server, &insertion, || {
        let device = CacheDevice::format(&folder.path("new"), Some(8 << 20), Overwrite::Refuse)?;
        before();
        Ok(device)
    })
}

#[test]
fn records_name_a_device_that_was_taken_in() {
    let folder = Folder::new();
    let volumes = vec![folder.volume("one"), folder.volume("two")];
    let server = folder.start(volumes.clone(), CacheService::LeftOut);
    let before = folder.records();
    assert_eq!(before.len(), 2);
    take_new_in(&folder, &server, &volumes, || {}).unwrap();
    let after = folder.records();
    for (before, after) in before.iter().zip(&after) {
        assert_ne!(before.cache_uuid, after.cache_uuid);
        assert!(after.may_be_dirty && !after.written_without && after.cache_path == folder.path("new"));
    }
    stop(&server);
}

#[test]
fn records_stay_after_a_failed_take_in() {
    let folder = Folder::new();
    let volumes = vec![folder.volume("one"), folder.volume("two")];
    let server = folder.start(volumes.clone(), CacheService::LeftOut);
    let before = folder.records();
    // A server that stops does not exchange its engine.
    take_new_in(&folder, &server, &volumes, || server.stop()).unwrap_err();
    server.join().unwrap();
    assert_eq!(folder.records(), before);
}
