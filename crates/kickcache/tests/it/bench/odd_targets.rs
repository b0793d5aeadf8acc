//! Unusual targets and jobs of a bench.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::ends::fio_runs_below;
use super::{command, complaint, names, run, small};
use crate::scratch::{MIB, Scratch};
use crate::{need_kickcache, need_tools, tools};

const FIXED: [&str; 3] = ["--noise-floor", "computed", "--json"];

/// A job of a second over 2 MiB.
fn job(scratch: &Scratch, options: &str) -> PathBuf {
    let path = scratch.path("job.fio");
    let fixed = "[w]\nbs=4k\nsize=2m\nioengine=psync\ntime_based\nruntime=1\n";
    fs::write(&path, format!("{fixed}{options}\n")).unwrap();
    path
}

fn words(job: &Path, targets: &[String], more: &[&str]) -> Vec<String> {
    let named = targets.iter().flat_map(|target| ["--target", target.as_str()]);
    let rounds = if more.contains(&"--rounds") { &[][..] } else { &["--rounds", "1"] };
    let more = FIXED.iter().chain(rounds).chain(more).copied();
    let words = ["--job", job.to_str().unwrap()].into_iter().chain(named).chain(more);
    words.map(str::to_owned).collect()
}

fn is_refused(output: &Output, why: &str) {
    assert_eq!(output.status.code(), Some(1), "{}", complaint(output));
    assert!(complaint(output).contains(why), "{}", complaint(output));
}

/// In a job file these would be comments, variables and lines of their own.
const NAMES: [&str; 6] = ["keep;2", "keep #3", "p${PART}", "line\nbreak", "$pagesize", "a:b=c \\d"];

#[test]
fn a_path_with_any_characters_is_measured_and_written() {
    need_tools!("fio");
    let scratch = Scratch::new();
    let neighbours = ["keep", "p4096"].map(|name| scratch.random(name, 4 * MIB, 1));
    let before = fs::read(&neighbours[0]).unwrap();
    let files = NAMES.map(|name| scratch.sparse(name, 4 * MIB));
    let directories = ["d #1", "d"].map(|name| scratch.path(name));
    directories.iter().for_each(|directory| fs::create_dir(directory).unwrap());
    let temporary = scratch.path("temporary #1;$X");
    fs::create_dir(&temporary).unwrap();
    let targets: Vec<String> = files
        .iter()
        .chain(&directories[..1])
        .enumerate()
        .map(|(number, path)| format!("{number}={}", path.display()))
        .collect();
    let mut bench = command(&words(&job(&scratch, "rw=randwrite"), &targets, &[]));
    let output = bench.env("PART", "4096").env("TMPDIR", &temporary).output().unwrap();
    assert!(output.status.success(), "{}", complaint(&output));
    for neighbour in &neighbours {
        assert!(fs::read(neighbour).unwrap() == before, "{} was written to", neighbour.display());
    }
    for file in &files {
        assert!(fs::read(file).unwrap().iter().any(|byte| *byte != 0), "{} was not", file.display());
    }
    for empty in directories.iter().chain([&temporary]) {
        assert!(names(empty).is_empty(), "{:?}", names(empty));
    }
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    let runs = result["rounds"][0]["runs"].as_array().unwrap();
    let writes = |run: &Value| run["result"]["jobs"][0]["writes"]["count"].as_u64().unwrap();
    assert!(runs.len() == targets.len() && runs.iter().all(|run| writes(run) > 0), "{result}");
}

#[test]
fn a_job_never_removes_its_targets() {
    need_tools!("fio");
    let scratch = Scratch::new();
    let file = scratch.random("disk", 4 * MIB, 1);
    let before = fs::read(&file).unwrap();
    let target = [format!("a={}", file.display())];
    let log = scratch.path("iolog");
    let removing =
        format!("rw=randread\nunlink=1 # removed\nunlink_each_loop=1\nwrite_iolog={}", log.display());
    let output = command(&words(&job(&scratch, &removing), &target, &[])).output().unwrap();
    assert!(output.status.success(), "{}", complaint(&output));
    let left_out = format!("unlink=1, unlink_each_loop=1, write_iolog={}", log.display());
    assert!(complaint(&output).contains(&left_out), "{}", complaint(&output));
    for engine in ["filedelete", "filecreate", "ftruncate", "falloc"] {
        let job = job(&scratch, &format!("rw=read\nioengine={engine}"));
        let why = format!("`ioengine={engine}`: this engine does something else");
        is_refused(&command(&words(&job, &target, &["--destroy-data"])).output().unwrap(), &why);
    }
    assert!(fs::read(&file).unwrap() == before);
    assert!(!log.exists());
}

/// An executable that prints a file for `path`, and appends its verbs to a file.
fn executable(scratch: &Scratch, file: &Path) -> PathBuf {
    let path = scratch.path("executable");
    let script = format!(
        "#!/bin/sh\necho $1 >> {}\ncase $1 in path) echo {} ;; up|down) ;; *) exit 64 ;; esac\n",
        scratch.path("verbs").display(),
        file.display()
    );
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
fn the_target_of_an_executable_is_written_only_if_blank() {
    need_tools!("fio");
    let scratch = Scratch::new();
    let file = scratch.random("disk", 4 * MIB, 1);
    let before = fs::read(&file).unwrap();
    let target = [format!("c=cmd:{}", executable(&scratch, &file).display())];
    let job = job(&scratch, "rw=randwrite");
    let phase = ["--phases", "empty"];
    is_refused(&command(&words(&job, &target, &phase)).output().unwrap(), "holds data, and the job writes");
    assert!(fs::read(&file).unwrap() == before);
    let verbs = fs::read_to_string(scratch.path("verbs")).unwrap();
    assert_eq!(verbs.lines().collect::<Vec<_>>(), ["up", "path", "down"], "it was taken down");
    run(&words(&job, &target, &["--phases", "empty", "--destroy-data"]));
    assert!(fs::read(&file).unwrap() != before);
    scratch.sparse("disk", 4 * MIB);
    run(&words(&job, &target, &["--phases", "empty", "--rounds", "2"]));
}

#[test]
fn a_target_that_would_block_on_open_is_refused() {
    need_tools!("fio");
    let scratch = Scratch::new();
    let (fifo, socket) = (scratch.path("fifo"), scratch.path("socket"));
    tools::run("mkfifo", [&fifo]);
    let _listener = UnixListener::bind(&socket).unwrap();
    for path in [fifo, socket, "/dev/zero".into()] {
        let target = format!("a={}", path.display());
        let arguments = ["--size", "2M", "--runtime", "1", "--target", &target].map(str::to_owned);
        is_refused(&command(&arguments).output().unwrap(), "is not a block device, a file or a directory");
    }
}

#[test]
fn holes_are_reported_as_faster_than_data() {
    need_tools!("fio");
    let scratch = Scratch::new();
    let holes = format!("holes={}", scratch.sparse("holes", 8 * MIB).display());
    let data = format!("data={}", scratch.random("data", 8 * MIB, 1).display());
    let arguments = |target: &str| small(&["--rounds", "1", "--noise-floor", "computed", "--target", target]);
    let output = command(&arguments(&holes)).output().unwrap();
    assert!(complaint(&output).contains("has holes, which are read faster"), "{}", complaint(&output));
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result["targets"][0]["has_holes"], true);
    let table: Vec<String> = arguments(&holes).into_iter().filter(|word| word != "--json").collect();
    let output = command(&table).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(
        printed.contains("holes has holes, which are read faster and written more slowly than data"),
        "{printed}"
    );
    let output = command(&arguments(&data)).output().unwrap();
    assert!(output.status.success() && !complaint(&output).contains("holes"), "{}", complaint(&output));
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result["targets"][0]["has_holes"], false);
}

#[test]
fn two_benches_do_not_write_to_one_file_at_once() {
    need_kickcache!();
    need_tools!("fio");
    let scratch = Scratch::new();
    let file = scratch.sparse("disk", 4 * MIB);
    let target = [format!("a={}", file.display())];
    let (writes, more) = (job(&scratch, "rw=randwrite"), ["--rounds", "3"]);
    let mut first = command(&words(&writes, &target, &more)).stdout(Stdio::null()).spawn().unwrap();
    while fs::read(&file).unwrap().iter().all(|byte| *byte == 0) {
        assert!(first.try_wait().unwrap().is_none(), "it ended before it began");
        thread::sleep(Duration::from_millis(20));
    }
    let why = "is measured by another bench (process ";
    is_refused(&command(&words(&writes, &target, &["--destroy-data"])).output().unwrap(), why);
    let reading = small(&["--rounds", "2", "--noise-floor", "computed", "--target", &target[0]]);
    is_refused(&command(&reading).output().unwrap(), why);
    assert!(first.wait().unwrap().success());
    let mut first = command(&reading).stdout(Stdio::null()).spawn().unwrap();
    run(&reading);
    assert!(first.wait().unwrap().success(), "those that read share it");
}

#[test]
fn a_cache_file_of_another_bench_is_kept() {
    need_kickcache!();
    need_tools!("fio");
    let scratch = Scratch::new();
    let (cache, origin) = (scratch.path("cache"), scratch.random("origin", 8 * MIB, 1));
    let target = format!("k=cache:{},size:16M,origin:{}", cache.display(), origin.display());
    let words = ["--target", &target, "--phases", "empty", "--rounds", "1", "--noise-floor", "computed"];
    // The cache file appears between the check at the beginning and the first turn of the cache.
    let other = format!("a={}", origin.display());
    let first = ["--size", "2M", "--runtime", "4", "--target", &other];
    let words: Vec<String> = first.iter().chain(&words).map(|word| (*word).to_owned()).collect();
    let mut bench = command(&words);
    bench.env("TMPDIR", scratch.dir()).stdout(Stdio::null()).stderr(Stdio::piped());
    let child = bench.spawn().unwrap();
    while !fio_runs_below(&scratch.dir().display().to_string()) {
        thread::sleep(Duration::from_millis(20));
    }
    fs::write(&cache, "of another bench").unwrap();
    let output = child.wait_with_output().unwrap();
    is_refused(&output, "was made meanwhile, as by another bench");
    assert_eq!(fs::read_to_string(&cache).unwrap(), "of another bench");
}
