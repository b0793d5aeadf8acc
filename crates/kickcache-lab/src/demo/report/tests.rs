use expect_test::expect;

use super::*;
use crate::demo::load_maker::LoadMaker;
use crate::demo::result::{CacheFigures, Figures, Latency, Phase, PhaseResult, RESULT_VERSION, Settings};

fn figures(operations: u64, millis: u64, scale: u64) -> Figures {
    let latency = Latency {
        mean_ns: 210_000 * scale,
        p50_ns: 170_400 * scale,
        p99_ns: 1_049_000 * scale,
        p99_9_ns: 8_339_000 * scale,
        max_ns: 10_641_000 * scale,
    };
    Figures { operations, iops: operations * 1000 / millis, latency }
}

fn phase(phase: Phase, millis: u64, from: u64, to: u64) -> PhaseResult {
    let intervals = millis / 100;
    let climb = |index: u64| from + (to - from) * index / (intervals - 1);
    let operations: Vec<u64> = (0..intervals).map(climb).collect();
    let sum: u64 = operations.iter().sum();
    let scale = if from < 200 { 20 } else { 1 };
    let cache = (millis > 10_000).then(|| CacheFigures {
        hit_blocks: sum - sum / 50,
        miss_blocks: sum / 50,
        hit_ratio: CacheFigures::ratio(sum - sum / 50, sum / 50),
        promoted_blocks: 30_000,
        origin_reads: 2_000,
        cached_blocks: 30_000,
    });
    let jobs = vec![figures(sum / 2, millis, scale), figures(sum - sum / 2, millis, scale)];
    let total = figures(sum, millis, scale);
    PhaseResult { phase, millis, others: 0.0, total, jobs, cache, interval_millis: 100, operations }
}

fn result() -> DemoResult {
    let settings = Settings {
        kickcache: "0.1.0".into(),
        load: LoadMaker::BuiltIn,
        seed: 1,
        jobs: 2,
        depth: 8,
        block_bytes: 4096,
        zipf_theta: 1.2,
        job_bytes: 128 << 20,
        cache_bytes: 256 << 20,
        slow_disk: "a pair of drives".into(),
    };
    let phases = vec![
        phase(Phase::SlowDisk, 9_333, 90, 110),
        phase(Phase::FastFile, 9_333, 8_000, 9_500),
        phase(Phase::Cold, 14_000, 80, 6_000),
        phase(Phase::Stale, 14_000, 80, 5_900),
        phase(Phase::Restart, 14_000, 6_000, 7_000),
    ];
    DemoResult { version: RESULT_VERSION, settings, phases, runs: Vec::new() }
}

#[test]
fn the_result_is_printed_in_80_columns() {
    let mut out = Vec::new();
    print(&result(), Colours::Plain, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    expect![[r#"
        IOPS over time, on a logarithmic scale:

             │           ▆▆▇▇▇▇▇███              ▁▂▂              ▁▁▂ ▃▃▃▃▃▃▃▄▄▄▄▄▄▄▄▄
             │           ██████████        ▂▃▅▆▇████        ▂▃▄▆▇████ ████████████████
             │           ██████████    ▁▄▆██████████    ▁▄▆██████████ ████████████████
          10k┤           ██████████   ▅█████████████   ▅█████████████ ████████████████
             │           ██████████  ███████████████  ▇██████████████ ████████████████
             │           ██████████ ▅███████████████ ▄███████████████ ████████████████
           1k┤▂▂▂▂▃▃▃▃▄▄ ██████████ ████████████████ ████████████████ ████████████████
             │██████████ ██████████ ████████████████ ████████████████ ████████████████
             │██████████ ██████████ ████████████████ ████████████████ ████████████████
          100┤██████████ ██████████ ████████████████ ████████████████ ████████████████
             └──────────┴──────────┴────────────────┴────────────────┴────────────────
              slow alone fast alone   empty cache       stale data       restarted
                 9 s        9 s           14 s             14 s             14 s

                       IOPS   job 1   job 2    hits     p50     p99   p99.9     speed-up
        slow alone      991     495     495       - 3.41 ms 21.0 ms  167 ms 1.0x 0.9-1.1
        fast alone   87,185  43,592  43,592       -  170 µs 1.05 ms 8.34 ms  88.0x 81-95
        empty cache  30,395  15,197  15,197  98.0 % 3.41 ms 21.0 ms  167 ms 30.7x 2.7-59
        stale data   29,895  14,947  14,947  98.0 % 3.41 ms 21.0 ms  167 ms 30.2x 2.7-58
        restarted    64,995  32,497  32,497  98.0 %  170 µs 1.05 ms 8.34 ms  65.6x 61-70
        Speed-up: times the slow disk's IOPS; of the run, and min-max of its seconds.

        * Empty cache: 56.5x the slow disk's speed in its last 2 s; 10x after 1.7 s.
        * Stale data in the cache made no difference that one run of each can show:
          29,895 IOPS, 30,395 without it (seconds of the second halves: 31,988-57,112
          and 32,525-58,079).
        * Restart: 60,319 IOPS in the first second; seconds before it, in the second
          half: 31,988-57,112; after it: 60,319-69,672.

        Next: `kickcache serve --help` puts a cache in front of a disk of yours.
    "#]]
    .assert_eq(&text);
}

fn chart(result: &DemoResult, colours: Colours) -> String {
    let mut out = Vec::new();
    chart::print(&result.phases, colours, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn colours_change_only_the_colour() {
    let plain = chart(&result(), Colours::Plain);
    let mut colourful = chart(&result(), Colours::Ansi);
    assert!(colourful.contains("\x1b[31m"));
    for code in [0, 31, 32, 33, 34, 36] {
        colourful = colourful.replace(&format!("\x1b[{code}m"), "");
    }
    assert_eq!(plain, colourful);
}

#[test]
fn a_result_without_operations_is_printed_too() {
    let mut result = result();
    for phase in &mut result.phases {
        phase.operations.fill(0);
    }
    result.phases[0].total.iops = 0;
    print(&result, Colours::Plain, &mut Vec::new()).unwrap();
    assert_eq!(chart(&result, Colours::Plain), "");
    result.phases.clear();
    print(&result, Colours::Plain, &mut Vec::new()).unwrap();
}

#[test]
fn the_json_is_read_back_as_it_was() {
    let result = result();
    let text = serde_json::to_string_pretty(&result).unwrap();
    assert_eq!(serde_json::from_str::<DemoResult>(&text).unwrap(), result);
    assert!(text.contains(r#""phase": "slow-disk""#) && text.contains(r#""load": "built-in""#), "{text}");
}

#[test]
fn sentences_follow_the_figures() {
    let mut result = result();
    result.phases[3] = phase(Phase::Stale, 14_000, 80, 2_000);
    result.phases[2] = phase(Phase::Cold, 14_000, 80, 500);
    let sentences = conclusions::conclusions(&result).join("\n");
    expect![[r#"
        Empty cache: 4.7x the slow disk's speed in its last 2 s; not yet 10x.
        Stale data in the cache cost nothing: 10,395 IOPS, 2,895 without it (seconds of the second halves: 11,085-19,374 and 3,045-4,856).
        Restart: 60,319 IOPS in the first second; seconds before it, in the second half: 11,085-19,374; after it: 60,319-69,672."#]]
    .assert_eq(&sentences);
}

#[test]
fn a_terminal_of_24_lines_ends_with_table_and_findings() {
    let mut out = Vec::new();
    let mut result = result();
    result.phases.iter_mut().for_each(|phase| phase.others = 0.3);
    print(&result, Colours::Plain, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    // The last of the 24 is for the prompt.
    let seen = lines[lines.len() - 23..].join("\n");
    for part in [
        "IOPS   job 1",
        "slow alone ",
        "restarted ",
        "Empty cache: ",
        "Stale data in",
        "Restart: ",
        "WARNING: other",
    ] {
        assert!(seen.contains(part), "{part} is out of sight:\n{seen}");
    }
}

#[test]
fn short_runs_and_busy_machines_are_warned_of() {
    let mut result = result();
    assert!(conclusions::warnings(&result).is_empty());
    result.phases[1].others = 0.31;
    result.phases.iter_mut().for_each(|phase| phase.millis = 1_500);
    let said = conclusions::warnings(&result).join("\n");
    assert_eq!(conclusions::conclusions(&result), Vec::<String>::new(), "of runs without whole seconds");
    assert!(said.contains("1.5 s are too short") && said.contains("up to 31 % of the processors"), "{said}");
}
