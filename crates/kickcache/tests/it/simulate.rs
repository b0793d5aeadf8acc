//! `kickcache simulate` as people use it.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::bad_input::refused;
use crate::daemon::{KICKCACHE, guarded};
use crate::scratch::{MIB, Scratch};
use crate::{need_kickcache, need_tools, tools};

const JOB: &str = "[global]\nioengine=libaio\niodepth=8\nnumjobs=2\nrw=randread\nrandom_distribution=zipf:1.2\nbs=4k\n\
                   size=64m\ntime_based\nruntime=5\n[mail]\n";

/// A directory with a job file and a trace.
struct Desk(Scratch);

impl Desk {
    fn new() -> Desk {
        let desk = Desk(Scratch::new());
        fs::write(desk.0.path("mail.fio"), JOB).unwrap();
        let mut trace = "time_us,op,offset,size\n".to_owned();
        for index in 0..4_000_u64 {
            let offset = (index * index % 3_001) * 8_192 + 512 * (index % 2);
            let operation = if index % 3 == 0 { 'W' } else { 'R' };
            writeln!(trace, "{},{operation},{offset},{}", index * 2_000, 4_096 + 512 * (index % 4)).unwrap();
        }
        fs::write(desk.0.path("vm.csv"), trace).unwrap();
        desk
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path(name)
    }

    /// With full paths for the names of the desk's files.
    fn arguments(&self, words: &str) -> Vec<OsString> {
        let whole = |word: &str| {
            let is_file = [".fio", ".csv", ".toml", ".html"].iter().any(|end| word.ends_with(end));
            if is_file { self.path(word).into() } else { OsString::from(word) }
        };
        std::iter::once("simulate".into()).chain(words.split_whitespace().map(whole)).collect()
    }

    fn simulate(&self, words: &str) -> String {
        tools::run(KICKCACHE, self.arguments(words))
    }

    fn json(&self, words: &str) -> Value {
        serde_json::from_str(&self.simulate(&format!("{words} --json"))).unwrap()
    }

    fn page(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }
}

#[test]
fn a_job_file_is_compared_on_several_caches_and_sizes() {
    need_kickcache!();
    let desk = Desk::new();
    let words = "compare --job mail.fio --size 16M,128M --cache none,bcache,kickcache --repeat 2";
    let table = desk.simulate(&format!("{words} -o report.html"));
    assert!(table.contains("mail.fio, 2 jobs on 128 MiB") && table.contains("MIN-MAX"), "{table}");
    let is_row = |line: &&str| ["none ", "bcache ", "kickcache "].iter().any(|name| line.starts_with(name));
    assert_eq!(table.lines().filter(is_row).count(), 5, "none once, two caches of two sizes: {table}");
    assert_eq!(table, desk.simulate(&format!("{words} --threads 1")), "the seed decides, whatever runs when");
    let page = desk.page("report.html");
    for part in ["Caches of 16 MiB", "bcache, 128 MiB", "Bytes written to the cache device"] {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn json_has_the_figures_of_the_table() {
    need_kickcache!();
    let desk = Desk::new();
    let runs = desk.json("run --job mail.fio --cache kickcache --size 64M --seed 3 --seconds 2");
    let run = &runs[0];
    assert_eq!(run["seed"], 3);
    assert_eq!(run["nanos"], 2_000_000_000_u64);
    assert_eq!(run["jobs"].as_array().unwrap().len(), 2);
    assert!(run["cache_device"]["write_bytes"].as_u64().unwrap() > 0);
}

#[test]
fn a_trace_is_replayed_at_its_times_faster_or_unpaced() {
    need_kickcache!();
    let desk = Desk::new();
    let nanos = |words: &str| {
        let runs = desk.json(&format!("run --trace vm.csv --device article-ssd --size 16M {words}"));
        let jobs = &runs[0]["jobs"][0];
        let count = ["reads", "writes"].map(|kind| jobs[kind]["count"].as_u64().unwrap());
        assert_eq!(count.iter().sum::<u64>(), 4_000, "each access of the trace is made once");
        runs[0]["nanos"].as_u64().unwrap()
    };
    assert!((7_990_000_000..8_100_000_000).contains(&nanos("")), "4,000 accesses 2 ms apart");
    assert!((1_990_000_000..2_100_000_000).contains(&nanos("--speed 4")));
    assert!(nanos("--depth 16") < 500_000_000, "flash needs no more");
    let table = desk.simulate("compare --trace vm.csv --cache none,dm-cache,kickcache --size 16M --speed 20");
    assert!(table.contains("at 20 times its speed, "), "{table}");
    assert!(table.contains("no cache: fell behind"), "a disk makes no 10,000 accesses a second: {table}");
}

#[test]
fn a_write_budget_is_kept_and_kickcaches_alone() {
    need_kickcache!();
    let desk = Desk::new();
    let written = |words: &str| {
        let run = format!(
            "run --job mail.fio --device article-ssd --seconds 3 --cache kickcache --size 32M {words}"
        );
        desk.json(&run)[0]["cache_device"]["write_bytes"].as_u64().unwrap()
    };
    let (free, kept) = (written(""), written("--write-budget 64M/day"));
    assert!(kept < 20 * MIB && free > 60 * MIB, "{kept} bytes written of {free}");
    let words = "compare --job mail.fio --cache none,bcache --write-budget 64M/day";
    let said = refused(words, &desk.arguments(words));
    assert!(said.contains("--write-budget is for kickcache"), "{said}");
}

#[test]
fn a_trace_is_counted_with_reference_policies_and_charted() {
    need_kickcache!();
    let desk = Desk::new();
    let table = desk.simulate("trace vm.csv --sizes 10%,50% -o hits.html");
    for policy in ["FIFO", "SIEVE", "ARC", "LIRS", "S3-FIFO", "KICKCACHE"] {
        assert!(table.contains(policy), "{table}");
    }
    assert!(desk.page("hits.html").contains("kickcache (wide)"));
}

#[test]
fn sizes_that_are_too_small_are_omitted_or_reported() {
    need_kickcache!();
    let desk = Desk::new();
    // 3,001 places: 1 % of these is too small, and 10 % is smaller than the smallest cache device, unless
    // scaled.
    let table = desk.simulate("trace vm.csv --sizes 1%,10%,50%");
    assert!(table.contains("1 %: left out; it has"), "{table}");
    assert!(table.contains("10 %: KICKCACHE and WIDE got the smallest"), "{table}");
    let json = desk.json("trace vm.csv --sizes 1%,10%,50% --scale 16");
    let notes: Vec<&str> =
        json["notes"].as_array().unwrap().iter().map(|note| note.as_str().unwrap()).collect();
    assert_eq!(notes, ["vm.csv, 1 %: left out; it has 30 blocks, and at least 64 are needed"]);
    assert_eq!(json["traces"][0]["sizes"].as_array().unwrap().len(), 2);
}

#[test]
fn published_rows_come_with_a_report() {
    need_kickcache!();
    let desk = Desk::new();
    let table = desk.simulate("published --only cloud -o rows.html");
    assert!(table.starts_with("Cloud disks") && table.contains("4 KiB random read, depth 128"), "{table}");
    let page = desk.page("rows.html");
    assert!(page.contains("href=\"#group-5\"") && page.contains("kickcache, 4 KiB random write, depth 1"));
}

#[test]
fn a_device_file_has_the_differences_from_the_textbook() {
    need_kickcache!();
    let desk = Desk::new();
    fs::write(desk.path("slow.toml"), "name = \"a slow disk\"\n[disk]\nrpm = 3600\n").unwrap();
    let rate = |device: &str| {
        let words = format!("run --job mail.fio --cache none --device {device}");
        let table = desk.simulate(&words);
        let line = table.lines().last().unwrap().split_whitespace().nth(2).unwrap().to_owned();
        line.parse::<f64>().unwrap()
    };
    assert!(rate("slow.toml") < 0.95 * rate("disk-7200"));
}

#[test]
fn an_impossible_simulation_is_refused_with_a_sentence() {
    need_kickcache!();
    let desk = Desk::new();
    fs::write(desk.path("timeless.csv"), "time_us,op,offset,size\n,R,0,4096\n,W,8192,4096\n").unwrap();
    fs::write(desk.path("wrong.fio"), "[a]\nsize=1g\nrw=sideways\n").unwrap();
    for (name, text) in [
        ("typo.toml", "[disk]\nrmp = 3600"),
        ("zero.toml", "[ssd]\nbandwidth = 0"),
        ("two.toml", "[ssd]\n[disk]"),
    ] {
        fs::write(desk.path(name), format!("name = \"x\"\n{text}\n")).unwrap();
    }
    let cases = [
        ("run", "--job"),
        ("run --job mail.fio --trace vm.csv", "cannot be used with"),
        ("run --job nowhere.fio", "No such file"),
        ("run --job wrong.fio", "wrong.fio: line 3"),
        ("run --job mail.fio --size 10X", "unknown unit"),
        ("run --job mail.fio --size 1k --cache bcache", "at least"),
        ("run --job mail.fio --cache zfs", "dm-cache-4.11"),
        ("run --job mail.fio --device floppy", "mirrored-5400"),
        ("run --job mail.fio --device typo.toml", "line 3: unknown field `rmp`"),
        ("run --job mail.fio --device zero.toml", "bandwidth = 0"),
        ("run --job mail.fio --device two.toml", "more than one table"),
        ("run --job mail.fio --speed 2", "cannot be used with"),
        ("run --trace timeless.csv", "--depth"),
        ("run --trace vm.csv --speed 0", "factor above 0"),
        ("run --trace vm.csv --speed 2 --depth 4", "cannot be used with"),
        ("run --trace mail.fio", "none of the formats"),
        ("run --job mail.fio --runtime 0", "is not from 1s to 10000000s"),
        ("run --job mail.fio -o /no/such/folder/x", "cannot be written"),
        ("published --only cloud -o /no/such/folder/x", "cannot be written"),
        ("run --job mail.fio --size -1", "is negative"),
        ("run --job mail.fio --size 1000T --cache dm-cache", "a cache has at most"),
        ("run --job mail.fio --size 16777215T --cache bcache", "a cache has at most"),
        ("run --job /dev/zero", "more than 1 MiB"),
        ("run --job mail.fio --device /dev/zero", "more than 1 MiB"),
        ("run --trace /dev/zero --format csv", "no regular file"),
        ("run --trace vm.csv --format spc", "4 fields were found; 5 were expected"),
        ("trace vm.csv --sizes 200%", "percentage"),
        ("trace vm.csv --sizes -5%", "percentage"),
        ("trace vm.csv --sizes 1K", "at least 64"),
        ("trace vm.csv --sizes 15T", "too large for vm.csv: if a block represents 4"),
        ("trace vm.csv --sizes 16777215T --scale 1024", "too large for vm.csv"),
        ("trace vm.csv --format spc", "4 fields were found; 5 were expected"),
        ("trace pipe.csv", "no regular file"),
        ("trace /dev/zero --format csv", "no regular file"),
        ("trace nowhere.csv", "No such file"),
    ];
    tools::run("mkfifo", [desk.path("pipe.csv")]);
    for (words, part) in cases {
        let arguments = desk.arguments(words);
        let said = refused(words, &arguments);
        assert!(said.contains(part), "{words}: {said}");
        assert_eq!(tools::output(KICKCACHE, &arguments).status.code(), Some(2), "{words}: {said}");
    }
    for (words, part) in [
        ("--calibrate nowhere.fio", "does not exist"),
        ("--calibrate pipe.csv", "is not a block device, a file or a directory"),
    ] {
        let said = refused(words, &desk.arguments(words));
        assert!(said.contains(part), "{words}: {said}");
    }
}

#[test]
fn a_run_without_measured_accesses_is_reported() {
    need_kickcache!();
    let desk = Desk::new();
    fs::write(desk.path("late.fio"), format!("{JOB}ramp_time=100\n")).unwrap();
    let output = tools::output(KICKCACHE, desk.arguments("run --job late.fio --seconds 1 --size 16M --json"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("its figures are meaningless"), "{said}");
}

/// Standard input is a pipe; calls `look` when all bytes were written to it.
fn piped(program: &str, arguments: &[OsString], bytes: &[u8], look: impl FnOnce()) -> String {
    let (input, output) = (Stdio::piped(), Stdio::piped());
    let mut command = Command::new(program);
    let mut child = command.args(arguments).stdin(input).stdout(output).spawn().unwrap();
    child.stdin.as_mut().unwrap().write_all(bytes).unwrap();
    look();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_job_file_may_be_a_pipe() {
    need_kickcache!();
    let desk = Desk::new();
    let words = "run --cache none --seconds 1 --job";
    let table = piped(KICKCACHE, &desk.arguments(&format!("{words} /dev/stdin")), JOB.as_bytes(), || ());
    assert_eq!(table.lines().last(), desk.simulate(&format!("{words} mail.fio")).lines().last());
}

#[test]
fn a_trace_from_a_pipe_leaves_no_file_behind() {
    need_kickcache!();
    let desk = Desk::new();
    let folder = desk.path("temporary");
    fs::create_dir(&folder).unwrap();
    // More than a pipe holds, so that some of it was read when all of it is written.
    let trace = fs::read(desk.path("vm.csv")).unwrap().repeat(12);
    let mut arguments = desk.arguments("trace - --sizes 64M --json");
    let program = format!("TMPDIR={}", folder.display());
    arguments.splice(0..0, [OsString::from(program), KICKCACHE.into()]);
    let json = piped("env", &arguments, &trace, || {
        let left: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(left.is_empty(), "a signal would leave {left:?}");
    });
    let found: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(found["traces"][0]["name"], "standard input", "{json}");
}

#[test]
fn a_file_is_measured_by_fio_and_its_description_simulates() {
    need_kickcache!();
    need_tools!("fio");
    let desk = Desk::new();
    let data = desk.0.random("data.bin", 32 * MIB, 1);
    let before = fs::read(&data).unwrap();
    let text = tools::run(KICKCACHE, ["simulate".as_ref(), "--calibrate".as_ref(), data.as_os_str()]);
    assert!(fs::read(&data).unwrap() == before, "calibration only reads");
    assert!(text.contains("in brackets, the figures of this description"), "{text}");
    fs::write(desk.path("measured.toml"), text).unwrap();
    let table = desk.simulate("run --job mail.fio --cache none --device measured.toml --seconds 1");
    assert!(table.contains("measured"), "{table}");
}

#[test]
fn an_interrupted_calibration_leaves_no_files() {
    need_kickcache!();
    need_tools!("fio", "pgrep");
    let scratch = Scratch::new();
    let (data, temporary) = (scratch.path("data"), scratch.path("tmp"));
    fs::write(&data, vec![7; 32 << 20]).unwrap();
    fs::create_dir(&temporary).unwrap();
    let mut calibration = guarded(KICKCACHE, vec!["simulate".into(), "--calibrate".into(), data.into()]);
    let output = calibration.env("TMPDIR", &temporary).stderr(Stdio::piped()).spawn().unwrap();
    // The name of its own command must not match.
    let pattern = format!("[f]io .*{}", temporary.display());
    let runs = || tools::output("pgrep", ["-f", &pattern]).status.success();
    let begun = Instant::now();
    while !runs() {
        assert!(begun.elapsed() < Duration::from_secs(60), "fio did not start");
        thread::sleep(Duration::from_millis(20));
    }
    kill_process(Pid::from_child(&output), Signal::TERM).unwrap();
    let output = output.wait_with_output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(130) && error.contains("was interrupted"), "{error}");
    let ended = Instant::now();
    while runs() {
        assert!(ended.elapsed() < Duration::from_secs(60), "fio lives on");
        thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(fs::read_dir(&temporary).unwrap().count(), 0);
}
