//! Checks that a cache device has the room for the reservations of its volumes.

use std::path::Path;

use kickcache_engine::config::{ROOM_PERCENT_MAX, Room, room_total};
use kickcache_engine::format::geometry::Geometry;
use kickcache_engine::units::BLOCK_SIZE;
use kickcache_units::show_bytes;

use crate::plan::room::min_above_max;
use crate::plan::volume_spec::VolumeSpec;
use crate::serve::error::ServeError;

/// Refuses reservations that do not fit this cache device, or are above the volume's limit.
pub(crate) fn check_rooms(
    path: &Path,
    geometry: &Geometry,
    volumes: &[VolumeSpec],
) -> Result<(), ServeError> {
    let capacity = geometry.capacity_blocks();
    let blocks = |room: Option<Room>| room.map(|room| room.blocks(capacity));
    let show = |blocks: u64| show_bytes(blocks * BLOCK_SIZE);
    let mut sum: u64 = 0;
    for volume in volumes {
        let settings = volume.settings();
        let (min, max) = (blocks(settings.room_min), blocks(settings.room_max));
        if let (Some(min), Some(max)) = (min, max)
            && min > max
        {
            let what = min_above_max(&show(min), &show(max));
            return Err(ServeError::Volume { name: volume.name.clone(), what });
        }
        sum = sum.saturating_add(min.unwrap_or(0));
    }
    let most = room_total(capacity);
    if sum <= most {
        return Ok(());
    }
    let what = format!(
        "the room-min of its volumes are {} in total, but at most {} can be reserved ({ROOM_PERCENT_MAX} \
         % of its capacity); lower them, or use a larger cache device",
        show_bytes(sum.saturating_mul(BLOCK_SIZE)),
        show(most)
    );
    Err(ServeError::Cache { path: path.into(), what })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::origin_source::OriginSource;

    fn volume(name: &str, min: &str, max: &str) -> VolumeSpec {
        let room = |text: &str| text.parse().ok();
        let origin = OriginSource::Path("/dev/sdb".into());
        VolumeSpec { room_min: room(min), room_max: room(max), ..VolumeSpec::new(name, origin) }
    }

    #[test]
    fn reservations_are_compared_with_the_capacity() {
        let geometry = Geometry::for_device(1 << 30).unwrap();
        let check = |volumes: &[VolumeSpec]| {
            check_rooms(Path::new("/c"), &geometry, volumes).map_err(|error| error.to_string())
        };
        assert_eq!(check(&[volume("a", "40%", ""), volume("b", "300M", "2T")]), Ok(()));
        let error = check(&[volume("a", "40%", ""), volume("b", "500M", "")]).unwrap_err();
        assert!(error.contains("/c") && error.contains("80 % of its capacity"), "{error}");
        let error = check(&[volume("a", "500M", "20%")]).unwrap_err();
        assert!(error.contains("the minimum must be at most the maximum"), "{error}");
        assert!(check(&[volume("a", "16777215T", ""), volume("b", "16777215T", "")]).is_err());
    }
}
