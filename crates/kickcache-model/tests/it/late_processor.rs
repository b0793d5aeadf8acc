//! A daemon that gets a processor late does not read cached blocks from a slow origin.

use kickcache_engine::config::OriginOffload;
use kickcache_model::replay::late_processor::{LateProcessor, OriginRequests};

const MIB: u64 = 1 << 20;

fn run(data_times: u64, offload: OriginOffload) -> OriginRequests {
    let cache_bytes = 64 * MIB;
    let data_bytes = data_times * cache_bytes;
    LateProcessor { cache_bytes, data_bytes, first_reads: 20_000, reads: 20_000, offload, seed: 1 }.run()
}

#[test]
fn a_late_processor_adds_no_origin_reads() {
    for data_times in [1, 12] {
        let (never, proven) = (run(data_times, OriginOffload::Never), run(data_times, OriginOffload::Proven));
        let is_near = |more: f64, less: f64| more <= less * 1.05 + 1.0;
        assert!(
            is_near(proven.first, never.first) && is_near(proven.later, never.later),
            "data {data_times}x: {proven:?}, without offload {never:?}"
        );
        assert!(data_times > 1 || proven.later <= 16.0, "{proven:?}");
    }
}
