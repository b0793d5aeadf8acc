//! Blocks that reclaim moves, and batches of moved blocks that fail.

#![expect(clippy::unwrap_used, reason = "helpers of a test may fail by a panic")]

use kickcache_engine::engine::Phase;
use kickcache_engine::request::{Durability, Operation};
use kickcache_faultsim::plan::faults::{Faults, Rates};

use crate::stage::{Stage, blocks, dirty_plan};

const VOLATILE: Operation = Operation::Write(Durability::Volatile);

/// Returns a stage with a clean block that is the only live block of its segment in the main queue, and has an older
/// copy in another segment full of live blocks.
fn with_an_older_copy(seed: u64) -> Stage {
    let mut stage = Stage::with(dirty_plan(seed), seed);
    assert_eq!(stage.open(), Phase::Running);
    (1..3).for_each(|version| stage.write(blocks(0, 14), version + 1).unwrap());
    stage.write(blocks(100, 13), 3).unwrap();
    stage.flush().unwrap();
    let both = [stage.ask(VOLATILE, blocks(0, 1), 4), stage.ask(VOLATILE, blocks(100, 13), 4)];
    both.into_iter().for_each(|id| drop(stage.finish(id).unwrap()));
    stage.write(blocks(100, 13), 5).unwrap();
    stage.drain();
    (0..3).for_each(|_| drop((1..14).map(|block| stage.read(block).unwrap()).collect::<Vec<_>>()));
    stage
}

/// The copy of the block is lost with its batch, and the power fails before the next batch is durable.
#[test]
fn a_failed_batch_does_not_restore_an_older_copy() {
    let mut carried = 0;
    for steps in 0..60 {
        let mut stage = with_an_older_copy(steps);
        let mut next = 200;
        while stage.status().counters.reinserted_blocks == 0 && next < 3_900 {
            if next % 20 == 0 {
                stage.drain();
            }
            stage.write(blocks(next, 14), 2).unwrap();
            next += 14;
        }
        carried += stage.status().counters.reinserted_blocks;
        let cache = Rates { write: 10_000, ..Rates::default() };
        stage.set_faults(Faults { cache, ..Faults::default() }, Vec::new());
        let errors = stage.status().counters.errors;
        stage.until(|stage| stage.status().counters.errors > errors);
        stage.set_faults(Faults::default(), Vec::new());
        for _ in 0..steps {
            stage.step();
        }
        stage.cut_and_open();
        assert_eq!(stage.read(0), Ok(4), "after {steps} steps");
    }
    assert!(carried >= 60, "{carried}");
}
