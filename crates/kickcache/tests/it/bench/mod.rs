//! `kickcache bench` with real fio.

pub(crate) mod ends;
mod interrupted;
mod odd_targets;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::bad_input::Loop;
use crate::daemon::KICKCACHE;
use crate::scratch::{MIB, Scratch};
use crate::{need_kickcache, need_tools, skip, tools};

/// Without a limit for the load of the machine.
fn command(arguments: &[String]) -> Command {
    let mut command = Command::new(KICKCACHE);
    command.arg("bench").args(arguments).args(["--busy-limit", "100"]).stdin(Stdio::null());
    command
}

fn small(arguments: &[&str]) -> Vec<String> {
    ["--size", "2M", "--runtime", "1", "--json"]
        .into_iter()
        .chain(arguments.iter().copied())
        .map(str::to_owned)
        .collect()
}

fn run(arguments: &[String]) -> Value {
    let output = command(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn complaint(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn names(directory: &Path) -> BTreeSet<PathBuf> {
    fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect()
}

/// Target and phase of each run of a round.
fn order(round: &Value) -> Vec<String> {
    let runs = round["runs"].as_array().unwrap();
    let again = |run: &Value| if run["turn"] == "again" { " again" } else { "" };
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    runs.iter().map(|run| format!("{} {}{}", text(&run["target"]), text(&run["phase"]), again(run))).collect()
}

fn sum(series: &Value) -> u64 {
    series["values"].as_array().unwrap().iter().map(|value| value.as_u64().unwrap()).sum()
}

#[test]
fn targets_run_in_turns_and_leave_no_files() {
    need_kickcache!();
    need_tools!("fio");
    let scratch = Scratch::new();
    let file = scratch.random("disk", 4 * MIB, 1);
    let before = fs::read(&file).unwrap();
    let (cache, origin) = (scratch.path("cache"), scratch.path("origin"));
    let found = names(scratch.dir());
    let disk = format!("disk={}", file.display());
    let cached =
        format!("cached=cache:{},size:16M,origin:{},mode:write-back", cache.display(), origin.display());
    let (bare, both) = ("disk=mirrored-5400", "cached=origin:mirrored-5400,cache:article-ssd");
    let predict = ["--predict", bare, "--predict", both];
    let targets = ["--target", &disk, "--target", &cached, "--rounds", "2"];
    let result = run(&small(&[&targets[..], &predict[..]].concat()));
    assert_eq!(result["end"], "complete");
    let rounds = result["rounds"].as_array().unwrap();
    assert_eq!(rounds.len(), 2);
    assert_eq!(order(&rounds[0]), ["disk found", "cached empty", "cached stale", "disk found again"]);
    assert_eq!(order(&rounds[1]), ["disk found again", "cached empty", "cached stale", "disk found"]);
    for run in rounds.iter().flat_map(|round| round["runs"].as_array().unwrap()) {
        for job in run["result"]["jobs"].as_array().unwrap() {
            let count = job["reads"]["count"].as_u64().unwrap();
            let bins = job["reads"]["latencies"].as_array().unwrap();
            assert_eq!(
                bins.iter().map(|bin| bin[1].as_u64().unwrap()).sum::<u64>(),
                count,
                "every latency is there"
            );
            assert!(count > 0 && sum(&job["reads"]["ended"]) > 0, "{job}");
        }
        let hits = sum(&run["result"]["hit_blocks"]);
        assert_eq!(hits > 0, run["target"] == "cached", "the server's counters are in the run");
    }
    assert_eq!(names(scratch.dir()), found, "the cache and the origin were made, and are gone");
    assert!(fs::read(&file).unwrap() == before);
    check_predictions(&result["predictions"]);
    compare_with_a_simulation(&scratch, &result);
}

fn check_predictions(predictions: &Value) {
    let predictions = predictions.as_array().unwrap();
    let names: Vec<&str> =
        predictions.iter().map(|one| one["result"]["predicts"].as_str().unwrap()).collect();
    assert_eq!(names, ["disk", "cached, empty cache", "cached, stale data"]);
    for one in predictions {
        let result = &one["result"];
        let jobs = result["jobs"].as_array().unwrap();
        assert_eq!(jobs.len(), 2, "the articles' two jobs");
        assert!(jobs.iter().all(|job| job["reads"]["count"].as_u64().unwrap() > 0), "{result}");
        assert_eq!(result["nanos"].as_u64().unwrap() / 1_000_000_000, 1, "as long as it was measured");
        assert_eq!(sum(&result["hit_blocks"]) > 0, one["target"] == "cached");
    }
}

fn compare_with_a_simulation(scratch: &Scratch, result: &Value) {
    let names = ["measured.json", "simulated.json", "job.fio", "page.html"];
    let [measured, simulated, job, page] = names.map(|name| scratch.path(name));
    fs::write(&measured, result.to_string()).unwrap();
    fs::write(&job, "[a]\nrw=randread\nbs=4k\nsize=2m\ntime_based\nruntime=1\n").unwrap();
    let compare = ["simulate", "compare", "--cache", "none,lru", "--size", "16M", "--json", "--job"];
    let said = tools::run(KICKCACHE, compare.map(PathBuf::from).into_iter().chain([job]));
    fs::write(&simulated, said).unwrap();
    let said =
        tools::run(KICKCACHE, ["report".into(), measured.clone(), simulated, "-o".into(), page.clone()]);
    assert!(said.contains("measured: disk: ") && said.contains("simulated: no cache "), "{said}");
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("measured: cached, stale data") && page.contains("class=\"answer\""));
    assert!(page.contains("<tr class=\"predicted\"") && page.contains(" predicted\" d=\"M"), "drawn as such");
    assert!(said.contains(" IOPS, predicted "), "{said}");
    fs::write(&measured, "{}").unwrap();
    let output = tools::output(KICKCACHE, ["report".into(), measured]);
    assert_eq!(output.status.code(), Some(2));
    assert!(complaint(&output).contains("expected the output of `bench --json`"), "{}", complaint(&output));
}

#[test]
fn a_file_system_keeps_only_its_own_files() {
    need_tools!("fio");
    let scratch = Scratch::new();
    let directory = scratch.path("fs");
    fs::create_dir(&directory).unwrap();
    fs::write(directory.join("mine"), "kept").unwrap();
    let target = format!("fs={}", directory.display());
    let phases = ["--phases", "stale,repeated", "--rounds", "1"];
    let result = run(&small(&[&["--target", target.as_str()][..], &phases].concat()));
    assert_eq!(order(&result["rounds"][0]), ["fs stale", "fs repeated", "fs stale again"]);
    assert_eq!(names(&directory), [directory.join("mine")].into());
    let restart =
        command(&small(&["--target", &target, "--phases", "restart", "--rounds", "1"])).output().unwrap();
    assert_eq!(restart.status.code(), Some(2));
    assert!(complaint(&restart).contains("cannot be restarted by the bench"), "{}", complaint(&restart));
}

#[test]
fn data_is_overwritten_only_by_explicit_flag() {
    need_kickcache!();
    need_tools!("fio");
    let scratch = Scratch::new();
    let file = scratch.random("disk", 4 * MIB, 1);
    let before = fs::read(&file).unwrap();
    let job = scratch.path("job.fio");
    fs::write(&job, "[w]\nrw=randwrite\nbs=4k\nsize=2m\nioengine=psync\ntime_based\nruntime=1\n").unwrap();
    let arguments = |targets: &str, more: &[&str]| -> Vec<String> {
        let fixed = ["--job", job.to_str().unwrap(), "--rounds", "1", "--json", "--target", targets];
        fixed.iter().chain(more).map(|word| word.to_string()).collect()
    };
    let (name, new) = (file.display(), scratch.path("new"));
    let as_cache = format!("c=cache:{name},origin:{},size:4M", new.display());
    for target in [format!("d={name}"), format!("c=cache:{},origin:{name},size:16M", new.display()), as_cache]
    {
        let output = command(&arguments(&target, &[])).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{target}");
        assert!(complaint(&output).contains("data"), "{target}: {}", complaint(&output));
        assert!(fs::read(&file).unwrap() == before, "{target}");
    }
    let result = run(&arguments(&format!("d={name}"), &["--destroy-data"]));
    assert!(result["rounds"][0]["runs"][0]["result"]["jobs"][0]["writes"]["count"].as_u64().unwrap() > 0);
    assert!(fs::read(&file).unwrap() != before);
}

#[test]
fn block_devices_in_use_are_never_written_to() {
    need_kickcache!();
    need_tools!("fio", "mkfs.ext4");
    let scratch = Scratch::new();
    let file = scratch.random("disk", 16 * MIB, 1);
    let loop_device = match Loop::new(&file) {
        Ok(made) => made,
        Err(why) => skip!("{why}"),
    };
    let device = loop_device.path().display().to_string();
    let before = fs::read(&file).unwrap();
    let job = scratch.path("job.fio");
    fs::write(&job, "[w]\nrw=randrw\nbs=4k\nsize=2m\nioengine=psync\ndirect=1\ntime_based\nruntime=1\n")
        .unwrap();
    let arguments = |target: &str, more: &[&str]| -> Vec<String> {
        let fixed = ["--job", job.to_str().unwrap(), "--rounds", "1", "--json", "--target", target];
        fixed.iter().chain(more).map(|word| word.to_string()).collect()
    };
    let disk = format!("disk={device}");
    let refused = command(&arguments(&disk, &[])).output().unwrap();
    assert_eq!(refused.status.code(), Some(1), "{}", complaint(&refused));
    assert!(complaint(&refused).contains("holds data, and the job writes"), "{}", complaint(&refused));
    assert!(fs::read(&file).unwrap() == before);
    let result = run(&arguments(&disk, &["--destroy-data"]));
    let counted = &result["rounds"][0]["runs"][0]["result"]["origin_device"];
    assert!(counted["writes"].as_u64().unwrap() > 0, "what the kernel counts of the device: {counted}");
    tools::run("mkfs.ext4", ["-q", "-F", &device]);
    let mounted = Mounted::new(&device, scratch.path("mnt"));
    let in_use = command(&arguments(&disk, &["--destroy-data"])).output().unwrap();
    assert_eq!(in_use.status.code(), Some(1), "{}", complaint(&in_use));
    assert!(complaint(&in_use).contains("is in use"), "{}", complaint(&in_use));
    let result = run(&arguments(&format!("fs={}", mounted.0.display()), &[]));
    let counted = &result["rounds"][0]["runs"][0]["result"];
    assert!(counted["jobs"][0]["writes"]["count"].as_u64().unwrap() > 0, "{counted}");
    assert_eq!(names(&mounted.0), [mounted.0.join("lost+found")].into(), "nothing is left there");
}

struct Mounted(PathBuf);

impl Mounted {
    fn new(device: &str, place: PathBuf) -> Mounted {
        fs::create_dir(&place).unwrap();
        tools::run("mount", [device.as_ref(), place.as_os_str()]);
        Mounted(place)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn an_interruption_keeps_the_results_and_cleans_up() {
    need_kickcache!();
    need_tools!("fio");
    let scratch = Scratch::new();
    let file = scratch.random("disk", 4 * MIB, 1);
    let cache = scratch.path("cache");
    let disk = format!("disk={}", file.display());
    let cached = format!("cached=cache:{},size:16M,origin:{}", cache.display(), file.display());
    let arguments = small(&["--target", &disk, "--target", &cached, "--phases", "empty", "--rounds", "1000"]);
    let child = command(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // The turn of the second target has begun.
    let deadline = Instant::now() + Duration::from_secs(60);
    while !cache.exists() {
        assert!(Instant::now() < deadline, "the cache was never made");
        thread::sleep(Duration::from_millis(20));
    }
    kill_process(Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", complaint(&output));
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&result["end"], &result["rounds"][0]["standing"]),
        (&"interrupted".into(), &"incomplete".into())
    );
    assert_eq!(order(&result["rounds"][0])[0], "disk empty");
    assert!(!cache.exists(), "what was made for the bench is gone");
}

#[test]
fn an_unwritable_file_does_not_lose_the_other_outputs() {
    need_kickcache!();
    need_tools!("fio");
    let scratch = Scratch::new();
    let disk = format!("disk={}", scratch.random("disk", 4 * MIB, 1).display());
    let page = scratch.path("page.html");
    let page_text = page.to_str().unwrap();
    let once = ["--rounds", "1", "--noise-floor", "computed", "--save", "/dev/full", "-o", page_text];
    let output = command(&small(&[&["--target", &disk], &once[..]].concat())).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", complaint(&output));
    assert!(complaint(&output).contains("/dev/full cannot be written"), "{}", complaint(&output));
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(order(&result["rounds"][0]), ["disk found"]);
    assert!(fs::read_to_string(page).unwrap().contains("</html>"));
}

#[test]
fn a_job_without_a_block_is_a_wrong_argument() {
    need_kickcache!();
    for size in ["0", "4095"] {
        let output =
            Command::new(KICKCACHE).args(["bench", "--target", "a=x", "--size", size]).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", complaint(&output));
        assert!(complaint(&output).contains("reads no block of 4 KiB"), "{}", complaint(&output));
    }
}

fn executable(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib/bench").join(name)
}

#[test]
fn executables_put_other_servers_up_and_take_them_down() {
    need_tools!("fio", "qemu-nbd", "nbdkit");
    let scratch = Scratch::new();
    let image = scratch.random("image", 8 * MIB, 1);
    let target = |name: &str| format!("{name}=cmd:{}", executable(name).display());
    let (qemu, nbdkit) = (target("qemu-nbd"), target("nbdkit-cache"));
    let arguments = small(&["--target", &qemu, "--target", &nbdkit, "--phases", "empty", "--rounds", "1"]);
    let mut command = command(&arguments);
    command.env("IMAGE", &image).env("CACHE_DIR", scratch.dir()).env("TMPDIR", scratch.dir());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", complaint(&output));
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(order(&result["rounds"][0]), ["qemu-nbd empty", "nbdkit-cache empty", "qemu-nbd empty again"]);
    // The sockets and records of the daemons were in a directory of the bench.
    assert_eq!(names(scratch.dir()), [image].into());
}

#[test]
fn executables_describe_and_refuse_their_operations() {
    let say = |name: &str, verb: &str| {
        let scratch = Scratch::new();
        let state = scratch.path("ours");
        fs::write(scratch.path(name.trim_start_matches("dm-")), "").unwrap();
        let mut command = Command::new(executable(name));
        command.arg(verb).env("DRY_RUN", "1").env("CACHE", "/dev/fast").env("ORIGIN", "/dev/slow");
        let output = command.env("KICKCACHE_BENCH_DIR", state.parent().unwrap()).output().unwrap();
        (output.status.code(), complaint(&output))
    };
    for (name, up) in [
        (
            "lvmcache",
            "+ lvconvert --yes --type cache --cachepool kickcache_bench/pool kickcache_bench/data\n",
        ),
        ("bcache", "+ make-bcache --wipe-bcache -C /dev/fast -B /dev/slow\n"),
        ("dm-writecache", "--table 0 SECTORS writecache s /dev/slow /dev/fast 4096 0\n"),
    ] {
        let (code, said) = say(name, "up");
        assert!(code == Some(0) && said.contains(up), "{name}: {said}");
        let (code, said) = say(name, "down");
        assert!(code == Some(0) && said.contains('+'), "{name}: {said}");
        assert_eq!(say(name, "sideways").0, Some(64), "{name}");
    }
    if tools::is_installed("shellcheck") {
        let names = ["lvmcache", "bcache", "dm-writecache", "qemu-nbd", "nbdkit-cache"].map(executable);
        let flags = ["-x", "-P", "SCRIPTDIR"].map(PathBuf::from);
        tools::run("shellcheck", flags.into_iter().chain(names));
    }
}
