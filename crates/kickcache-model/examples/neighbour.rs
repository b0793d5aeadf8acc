//! The hits that a volume keeps while its neighbour scans, with and without a reservation, as a Markdown
//! table.

use kickcache_engine::config::Room;
use kickcache_engine::units::BLOCK_SIZE;
use kickcache_model::untimed::neighbour::{Neighbour, NeighbourResult};

const MIB: u64 = 1 << 20;
const CACHE_BYTES: u64 = 256 * MIB;
const MIN_PERCENT: u64 = 40;
const READS: u64 = 200_000;

fn main() {
    println!(
        "| zipf | neighbour reads | alone on {MIN_PERCENT} % | with neighbour | with `room-min` of {MIN_PERCENT} % | part | copies a block | with `room-max` of 60 % for the neighbour |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for theta in [0.8, 0.99, 1.2] {
        for scanned in [4, 16] {
            let bare = Neighbour {
                cache_bytes: CACHE_BYTES,
                data_bytes: 512 * MIB,
                theta,
                reads: READS,
                scanned,
                min: None,
                neighbour_max: None,
            };
            let with_min =
                Neighbour { min: Some(Room::Blocks(CACHE_BYTES / BLOCK_SIZE * MIN_PERCENT / 100)), ..bare };
            let (alone, beside, kept) = (with_min.alone().run(), bare.run(), with_min.run());
            let bounded = Neighbour { neighbour_max: Some(Room::Share(614)), ..bare }.run();
            let percent = |kept: NeighbourResult| format!("{:.1} %", kept.hit_ratio * 100.0);
            println!(
                "| {theta} | {scanned} for one | {} | {} | {} | {:.1} % | {:.2} | {} |",
                percent(alone),
                percent(beside),
                percent(kept),
                kept.hit_ratio / alone.hit_ratio * 100.0,
                kept.copies,
                percent(bounded)
            );
        }
    }
}
