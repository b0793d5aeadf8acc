//! Hits of the engine alone a second of processor time, without device and payload.
//!
//! `cargo bench -p kickcache --bench engine_hit`: uniform over 512k cached blocks, and over a hot tenth of
//! the blocks; one request at a time, and 32 that arrive together. With `-- DEPTH HITS`, it makes this number
//! of hits once at that depth.

// Links the daemon's allocator.
use kickcache_daemon as _;
use kickcache_engine::blank_device;
use kickcache_engine::config::{EngineSettings, SequentialCutoff, VolumeSettings};
use kickcache_engine::device::{Completion, Data};
use kickcache_engine::engine::{Engine, Phase};
use kickcache_engine::format::superblock::Superblock;
use kickcache_engine::request::{Operation, Request, RequestId};
use kickcache_engine::time::Instant;
use kickcache_engine::units::{ByteExtent, VolumeId};

const BLOCKS: u64 = 512 << 10;
const ROUNDS: usize = 5;
const HITS: u64 = 2_000_000;

fn main() {
    let mut engine = open();
    fill(&mut engine);
    let numbers: Vec<u64> = std::env::args().filter_map(|word| word.parse().ok()).collect();
    if let [depth, hits] = numbers[..] {
        measure(&mut engine, Load { span: BLOCKS, depth, hits }, 0);
        return;
    }
    for depth in [32, 1] {
        for (name, span) in [("uniform over 512k blocks", BLOCKS), ("uniform over 51k blocks", BLOCKS / 10)] {
            let mut rates: Vec<f64> = (0..ROUNDS)
                .map(|round| measure(&mut engine, Load { span, depth, hits: HITS }, round as u64))
                .collect();
            rates.sort_by(f64::total_cmp);
            let (median, least, most) = (rates[ROUNDS / 2], rates[0], rates[ROUNDS - 1]);
            println!(
                "{name}, {depth} at once: {:.2} M hits/s (median of {ROUNDS}; {:.2} to {:.2}), {:.0} ns a hit",
                median / 1e6,
                least / 1e6,
                most / 1e6,
                1e9 / median
            );
        }
    }
}

fn open() -> Engine {
    let mut superblock = Superblock::new([1; 16], 4 << 30).expect("a fine size");
    let volume = superblock.add_volume("bench", BLOCKS * 4096, "bench").expect("a fine volume");
    let settings = VolumeSettings { sequential_cutoff: SequentialCutoff::Off, ..VolumeSettings::new(volume) };
    let engine_settings = EngineSettings::default();
    let mut engine =
        Engine::open(Instant::ZERO, &superblock, engine_settings, &[settings]).expect("it opens");
    drive(&mut engine);
    assert_eq!(engine.phase(), Phase::Running);
    engine
}

fn drive(engine: &mut Engine) {
    blank_device::run(engine, Instant::ZERO);
    while engine.poll_reply().is_some() {}
}

fn request(block: u64, length: u64) -> Request<'static> {
    Request {
        id: RequestId::new(1),
        volume: VolumeId::new(0),
        operation: Operation::Read,
        extent: ByteExtent { start: block * 4096, length },
        checksums: &[],
    }
}

fn fill(engine: &mut Engine) {
    for block in (0..BLOCKS).step_by(16) {
        engine.handle_request(Instant::ZERO, request(block, 65_536));
        drive(engine);
    }
    let late = Instant::from_nanos(60_000_000_000);
    engine.handle_timeout(late);
    drive(engine);
    assert_eq!(engine.status().volumes[0].cached_blocks, BLOCKS);
}

/// Of this thread so far: other programs on the machine do not count.
fn cpu_seconds() -> f64 {
    let line = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux counts processor time");
    let nanos =
        line.split(' ').next().and_then(|word| word.parse::<f64>().ok()).expect("a number comes first");
    nanos / 1e9
}

/// Hits, uniform over `span` blocks, `depth` at once.
struct Load {
    span: u64,
    depth: u64,
    hits: u64,
}

fn measure(engine: &mut Engine, Load { span, depth, hits }: Load, seed: u64) -> f64 {
    let mut random = 0x9e37_79b9_7f4a_7c15 ^ seed;
    let now = Instant::from_nanos(61_000_000_000);
    let before = engine.status().volumes[0].counters.hit_blocks;
    let start = cpu_seconds();
    let mut submitted = Vec::new();
    for _ in 0..hits / depth {
        for _ in 0..depth {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            engine.handle_request(now, request(random % span, 4096));
        }
        submitted.extend(std::iter::from_fn(|| engine.poll_submission()).map(|submission| submission.id));
        for id in submitted.drain(..) {
            let data = Data { checksums: blank_device::checksums(1), bytes: &[] };
            engine.handle_completion(now, Completion { id, result: Ok(data) });
        }
        let replies = std::iter::from_fn(|| engine.poll_reply()).count() as u64;
        assert_eq!(replies, depth, "a hit ends with its read");
    }
    let seconds = cpu_seconds() - start;
    assert_eq!(engine.status().volumes[0].counters.hit_blocks - before, hits / depth * depth);
    hits as f64 / seconds
}
