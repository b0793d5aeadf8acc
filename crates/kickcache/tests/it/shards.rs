//! `kickcache simulate` shared among machines.

use std::fs::File;
use std::path::Path;

use parquet::file::reader::{FileReader, SerializedFileReader};

use crate::daemon::KICKCACHE;
use crate::need_kickcache;
use crate::scratch::Scratch;
use crate::{bad_input::refused, tools};

/// A directory of traces, each over a number of blocks of its own, and a job file.
fn desk() -> Scratch {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("volumes")).unwrap();
    for (volume, blocks) in [2_003_u64, 2_707, 3_407].into_iter().enumerate() {
        let line = |index: u64| format!("{},R,{},4096\n", index * 1_000, index * index % blocks * 4_096);
        let trace: String = (0..6_000).map(line).collect();
        let path = scratch.path(&format!("volumes/vm{volume}.csv"));
        std::fs::write(path, format!("time_us,op,offset,size\n{trace}")).unwrap();
    }
    let job = "[mail]\nrw=randread\nrandom_distribution=zipf:1.2\nbs=4k\nsize=32m\niodepth=8\nruntime=1\n";
    std::fs::write(scratch.path("mail.fio"), job).unwrap();
    scratch
}

/// Each row as text.
fn rows(scratch: &Scratch, words: &str) -> Vec<String> {
    let table = scratch.path("t.parquet");
    let line = format!("simulate {words} --parquet {}", table.display());
    tools::run(KICKCACHE, line.replace('@', scratch.path("").to_str().unwrap()).split_whitespace());
    read(&table)
}

fn read(table: &Path) -> Vec<String> {
    let reader = SerializedFileReader::new(File::open(table).unwrap()).unwrap();
    reader.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string()).collect()
}

fn check_shards(words: &str, row_count: usize) {
    let scratch = desk();
    let whole = rows(&scratch, words);
    assert_eq!(whole.len(), row_count, "{whole:#?}");
    let parts: Vec<Vec<String>> =
        (0..4).map(|index| rows(&scratch, &format!("{words} --shard {index}/4"))).collect();
    assert!(parts.iter().all(|part| part.len() < whole.len()), "no shard does everything");
    assert_eq!(parts.concat(), whole);
}

#[test]
fn shards_of_a_trace_directory_are_together_the_whole() {
    need_kickcache!();
    // Three traces of two sizes by six reference policies and the engine with both fills.
    check_shards("trace @volumes --sizes 20%,50% --scale 16", 3 * 2 * 8);
}

#[test]
fn shards_of_a_comparison_are_together_the_whole() {
    need_kickcache!();
    check_shards(
        "compare --job @mail.fio --size 16M,32M --cache none,lru,kickcache --repeat 2",
        (1 + 2 * 2) * 2,
    );
}

#[test]
fn a_shard_without_runs_is_an_empty_table() {
    need_kickcache!();
    assert!(rows(&desk(), "compare --job @mail.fio --cache lru --shard 3/4").is_empty());
}

#[test]
fn a_shard_that_does_not_exist_is_refused() {
    need_kickcache!();
    let words = ["simulate", "trace", "vm.csv", "--shard", "4/4"].map(Into::into);
    let message = refused("a shard above the last", &words);
    assert!(message.contains("`4/4` is not a shard; write INDEX/COUNT"), "{message}");
}
