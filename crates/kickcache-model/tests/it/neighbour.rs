//! A volume with a reservation, and a volume that scans.

use kickcache_engine::config::Room;
use kickcache_model::untimed::neighbour::Neighbour;

const MIB: u64 = 1 << 20;

#[test]
fn a_reservation_keeps_hits_while_the_neighbour_scans() {
    let cache_bytes = 32 * MIB;
    let bare = Neighbour {
        cache_bytes,
        data_bytes: 64 * MIB,
        theta: 0.99,
        reads: 25_000,
        scanned: 8,
        min: None,
        neighbour_max: None,
    };
    let with_min = Neighbour { min: Some(Room::Blocks(cache_bytes / 4096 * 2 / 5)), ..bare };
    let (alone, beside, kept) = (with_min.alone().run(), bare.run(), with_min.run());
    assert!(
        kept.hit_ratio >= alone.hit_ratio * 0.95,
        "{kept:?}, alone {alone:?}, without a minimum {beside:?}"
    );
    assert!(beside.hit_ratio < alone.hit_ratio * 0.95, "nothing to keep: {beside:?}, alone {alone:?}");
    assert!(kept.copies < 0.1, "{kept:?}");
}
