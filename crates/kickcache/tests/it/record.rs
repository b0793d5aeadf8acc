//! `kickcache record` and `kickcache trace` as people use them.

use std::ffi::OsString;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::bad_input::refused;
use crate::client::{FUA, Request, WRITE};
use crate::daemon::{Daemon, KICKCACHE, Spec, VOLUME, guarded};
use crate::guest::{self, Guest};
use crate::scratch::{MIB, Scratch};
use crate::tmpfs::Tmpfs;
use crate::{need_kickcache, need_tools, skip, tools};

const SOON: Duration = Duration::from_secs(60);

struct Recorder {
    child: Child,
    file: PathBuf,
}

impl Recorder {
    /// The daemon has started the recording when this returns.
    fn start(daemon: &Daemon, file: &Path, more: &[&str]) -> Recorder {
        let mut arguments: Vec<OsString> = ["record", VOLUME, "--json", "-o"].map(OsString::from).to_vec();
        arguments.extend([file.into(), "--control".into(), daemon.spec.control().into()]);
        arguments.extend(more.iter().map(OsString::from));
        let mut command = guarded(KICKCACHE, arguments);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // The file is made when the daemon has answered.
        wait_until("the recording begins", || file.exists());
        Recorder { child, file: file.into() }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// As Ctrl-C.
    fn stop(self) -> Value {
        self.signal(Signal::INT);
        self.wait()
    }

    fn wait(self) -> Value {
        let output = self.child.wait_with_output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{}: {errors}", output.status);
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

#[track_caller]
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < SOON, "{what}: not after {SOON:?}");
        thread::sleep(Duration::from_millis(10));
    }
}

fn words(words: &str) -> Vec<OsString> {
    words.split_whitespace().map(OsString::from).collect()
}

fn info(file: &Path) -> Value {
    let text =
        tools::run(KICKCACHE, ["trace".as_ref(), "info".as_ref(), "--json".as_ref(), file.as_os_str()]);
    serde_json::from_str::<Value>(&text).unwrap()[0].clone()
}

/// Returns the command's messages.
fn convert(from: &Path, to: &Path, more: &str) -> String {
    let mut arguments = words("trace convert");
    arguments.extend([from.into(), "-o".into(), to.into()]);
    arguments.extend(words(more));
    let output = tools::output(KICKCACHE, &arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    said
}

#[test]
fn a_simulated_recording_gives_the_hit_ratio_of_the_daemon() {
    need_kickcache!();
    need_tools!("fio");
    let scratch = Scratch::new();
    let origin = scratch.sparse("origin", 128 * MIB);
    let mut spec = Spec::new(&scratch, &origin, "write-through", "32M");
    // A wider window depends on how fast devices answer.
    spec.extra = words("--fill-window-max 4K");
    let daemon = spec.start();
    let recorder = Recorder::start(&daemon, &scratch.path("r.kct"), &[]);
    assert_eq!(daemon.volume_count("recordings"), 1);
    let mut arguments = words(
        "--name=r --ioengine=nbd --rw=randread --bs=4k --iodepth=4 --size=128M --number_ios=16000 --norandommap \
         --random_distribution=zipf:1.1 --output-format=json",
    );
    arguments.push(format!("--uri={}", daemon.uri()).into());
    tools::run("fio", arguments);
    let told = recorder.stop();
    let (hits, misses) = (daemon.volume_count("hit_blocks"), daemon.volume_count("miss_blocks"));
    let status = daemon.status();
    // If the machine is too busy to promote a block, the block misses again.
    let late = misses.saturating_sub(daemon.volume_count("promoted_blocks"));
    daemon.stop();
    let found = info(&scratch.path("r.kct"));
    assert_eq!(
        (found["reads"].as_u64(), found["recording"]["lost_records"].as_u64()),
        (Some(16_000), Some(0))
    );
    assert_eq!(
        (told["records"].as_u64(), found["recording"]["volume"].as_str()),
        (Some(16_000), Some(VOLUME))
    );
    let bytes = fs::metadata(scratch.path("r.kct")).unwrap().len();
    assert_eq!(told["bytes"].as_u64(), Some(bytes));
    assert!(bytes < 16_000 * 8, "{bytes} bytes for 16,000 records");

    let mut arguments = words("simulate trace --sizes 32M --scale 1 --json");
    arguments.push(scratch.path("r.kct").into());
    let simulated: Value = serde_json::from_str(&tools::run(KICKCACHE, arguments)).unwrap();
    let missed = simulated["traces"][0]["sizes"][0]["exact"]["miss_ratio"].as_f64().unwrap();
    #[expect(clippy::cast_precision_loss, reason = "thousands")]
    let (real, late) = (misses as f64 / (hits + misses) as f64, late as f64 / (hits + misses) as f64);
    assert_eq!(hits + misses, 16_000);
    assert!((0.1..0.9).contains(&real), "{real}: nothing is shown by this");
    assert!((real - late - 0.05..real + 0.05).contains(&missed), "simulated {missed}, real {real}: {status}");

    let mut arguments = words("simulate compare --size 32M --cache none,kickcache --depth 4 --trace");
    arguments.push(scratch.path("r.kct").into());
    let table = tools::run(KICKCACHE, arguments);
    assert!(table.contains("16,000 accesses, 4 in flight"), "{table}");
}

#[test]
fn every_request_is_recorded_with_fua_and_no_promotion() {
    need_kickcache!();
    let scratch = Scratch::new();
    let origin = scratch.sparse("origin", 16 * MIB);
    let daemon = Spec::new(&scratch, &origin, "write-back", "16M").start();
    let mut client = daemon.connect();
    client.write(0, &[1; 4096]);
    let recorder = Recorder::start(&daemon, &scratch.path("r.kct"), &[]);
    client.read(8192, 512);
    client.write(4096, &[2; 8192]);
    let durable = Request { command: WRITE, flags: FUA, offset: 512, length: 1024 };
    assert_eq!(client.call(durable, &[3; 1024]).unwrap().errno, 0);
    client.flush();
    client.trim(65_536, 65_536);
    client.zero(131_072, 4096, 0);
    client.promote(0, 4096);
    recorder.stop();
    client.read(0, 4096);
    let said = convert(&scratch.path("r.kct"), &scratch.path("r.csv"), "--to csv");
    assert!(said.contains("6 records of kickcache as csv"), "{said}");
    assert!(
        said.contains("1 write of zeroes became plain writes") && said.contains("1 write with FUA"),
        "{said}"
    );
    let csv = fs::read_to_string(scratch.path("r.csv")).unwrap();
    let accesses: Vec<&str> = csv.lines().skip(1).map(|line| line.split_once(',').unwrap().1).collect();
    let expected = ["R,8192,512", "W,4096,8192", "W,512,1024", "F,0,0", "D,65536,65536", "W,131072,4096"];
    assert_eq!(accesses, expected);
    daemon.stop();
}

#[test]
fn requests_over_vhost_user_are_recorded_as_well() {
    need_kickcache!();
    let scratch = Scratch::new();
    let origin = scratch.sparse("origin", 16 * MIB);
    let mut spec = Spec::new(&scratch, &origin, "write-back", "16M");
    let socket = spec.dir.join("guest.sock");
    spec.extra.extend(["--vhost-user".into(), socket.clone().into()]);
    let daemon = spec.start();
    let recorder = Recorder::start(&daemon, &scratch.path("r.kct"), &[]);
    let mut guest = Guest::connect(&socket, 1, 0);
    let range = |sector: u64, sectors: u64| [sector.to_le_bytes(), sectors.to_le_bytes()].concat();
    for (kind, sector, data) in [
        (guest::WRITE, 16, vec![7; 8192]),
        (guest::READ, 16, vec![0; 4096]),
        (guest::FLUSH, 0, Vec::new()),
        (guest::DISCARD, 0, range(128, 128)),
        (guest::ZEROES, 0, range(512, 8)),
    ] {
        assert_eq!(guest.run(0, kind, sector, &data).0, 0, "request {kind}");
    }
    let told = recorder.stop();
    assert_eq!(told["records"].as_u64(), Some(5));
    drop(guest);
    daemon.stop();
    convert(&scratch.path("r.kct"), &scratch.path("r.csv"), "--to csv");
    let csv = fs::read_to_string(scratch.path("r.csv")).unwrap();
    let accesses: Vec<&str> = csv.lines().skip(1).map(|line| line.split_once(',').unwrap().1).collect();
    assert_eq!(accesses, ["W,8192,8192", "R,8192,4096", "F,0,0", "D,65536,65536", "W,262144,4096"]);
}

#[test]
fn a_killed_command_ends_its_recording_with_a_valid_file() {
    need_kickcache!();
    let scratch = Scratch::new();
    let origin = scratch.sparse("origin", 16 * MIB);
    let daemon = Spec::new(&scratch, &origin, "write-back", "16M").start();
    let mut client = daemon.connect();
    let recorder = Recorder::start(&daemon, &scratch.path("r.kct"), &[]);
    client.read(0, 4096);
    // A block is written every two seconds.
    wait_until("a block is written", || fs::metadata(&recorder.file).unwrap().len() > 60);
    let ended = daemon.log().matches("a recording has ended").count();
    recorder.signal(Signal::KILL);
    wait_until("the daemon notices", || daemon.log().matches("a recording has ended").count() > ended);
    client.read(0, 4096);
    assert_eq!(info(&scratch.path("r.kct"))["reads"].as_u64(), Some(1));
    // A daemon that stops ends a recording with success.
    let recorder = Recorder::start(&daemon, &scratch.path("s.kct"), &[]);
    client.read(0, 4096);
    drop(client);
    daemon.stop();
    let told = recorder.wait();
    assert_eq!((told["records"].as_u64(), told["end"].as_str()), (Some(1), Some("stopped")));
    assert_eq!(info(&scratch.path("s.kct"))["reads"].as_u64(), Some(1));
}

#[test]
fn a_recording_has_bounds_and_an_end() {
    need_kickcache!();
    let scratch = Scratch::new();
    let origin = scratch.sparse("origin", 16 * MIB);
    let daemon = Spec::new(&scratch, &origin, "write-back", "16M").start();
    let file = scratch.path("r.kct");
    let recorder = Recorder::start(&daemon, &file, &["--for", "1s"]);
    assert_eq!(recorder.wait()["end"].as_str(), Some("time"));
    let record = |more: &str| {
        let mut arguments = words("record v -o");
        arguments.extend([file.clone().into(), "--control".into(), daemon.spec.control().into()]);
        arguments.extend(words(more));
        refused(more, &arguments)
    };
    assert!(record("").contains("exists, and a recording never overwrites a file"));
    assert!(record("--for never").contains("is not a time; write a number with"));
    assert!(record("--size-max 1K").contains("256 KiB is the least"));
    fs::remove_file(&file).unwrap();
    let mut arguments = words("record w -o");
    arguments.extend([file.clone().into(), "--control".into(), daemon.spec.control().into()]);
    let output = tools::output(KICKCACHE, &arguments);
    assert!(String::from_utf8_lossy(&output.stderr).contains("there is no volume `w` here; there is v"));
    assert!(!output.status.success() && !file.exists());
    daemon.stop();
}

#[test]
fn a_full_disk_ends_the_recording_and_disturbs_no_clients() {
    need_kickcache!();
    if !tools::is_root() {
        skip!("a file system in memory is mounted by root only");
    }
    let scratch = Scratch::new();
    let small = match Tmpfs::new(&scratch, "1M") {
        Ok(small) => small,
        Err(why) => skip!("{why}"),
    };
    let origin = scratch.sparse("origin", 16 * MIB);
    let daemon = Spec::new(&scratch, &origin, "write-back", "16M").start();
    let mut client = daemon.connect();
    let file = small.place.join("r.kct");
    let recorder = Recorder::start(&daemon, &file, &[]);
    client.read(0, 4096);
    wait_until("a block is written", || fs::metadata(&file).unwrap().len() > 60);
    small.fill();
    client.read(4096, 4096);
    let output = recorder.child.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1));
    assert!(errors.contains("are free on its disk; the part recorded until then is valid"), "{errors}");
    client.read(8192, 4096);
    assert_eq!(info(&file)["reads"].as_u64(), Some(1));
    assert_eq!(info(&file)["bad_parts"].as_u64(), Some(0));

    let again = small.place.join("again.kct");
    let mut arguments = words(&format!("record {VOLUME} -o"));
    arguments.extend([again.clone().into(), "--control".into(), daemon.spec.control().into()]);
    let output = tools::output(KICKCACHE, &arguments);
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(!again.exists(), "an empty file would stand in the way of the next try");
    daemon.stop();
}

/// Bytes read, bytes written, and milliseconds of fio's replay of a log.
fn replay(log: &Path) -> [u64; 3] {
    let mut arguments = words("--name=r --ioengine=psync --output-format=json");
    arguments.push(format!("--read_iolog={}", log.display()).into());
    let text = tools::run("fio", arguments);
    let found: Value = serde_json::from_str(&text[text.find('{').unwrap()..]).unwrap();
    let job = &found["jobs"][0];
    assert_eq!(job["error"].as_u64(), Some(0), "{job}");
    let count = |value: &Value| value.as_u64().unwrap();
    [count(&job["read"]["io_bytes"]), count(&job["write"]["io_bytes"]), count(&job["job_runtime"])]
}

#[test]
fn fio_replays_a_converted_trace_at_its_times() {
    need_kickcache!();
    need_tools!("fio");
    let scratch = Scratch::new();
    let target = scratch.random("target", MIB, 1);
    // Half a second from the first to the last request.
    let csv = "time_us,op,offset,size\n7000000,R,0,4096\n7000050,W,8192,4096\n7000060,F,0,0\n7250000,R,4096,8192\n\
               7500000,W,0,512\n";
    fs::write(scratch.path("t.csv"), csv).unwrap();
    convert(&scratch.path("t.csv"), &scratch.path("t.kct"), "--to kickcache");
    for version in ["iolog", "iolog-v2"] {
        let log = scratch.path(version);
        let name = target.display();
        convert(&scratch.path("t.kct"), &log, &format!("--to {version} --file {name}"));
        let [read, written, millis] = replay(&log);
        assert_eq!([read, written], [4_096 + 8_192, 4_096 + 512], "{version}");
        let is_timed = version == "iolog";
        assert!(!is_timed || millis >= 450, "{millis} ms for half a second");
    }
    let bytes = fs::read(&target).unwrap();
    assert_ne!(bytes[..512], fs::read(scratch.random("again", MIB, 1)).unwrap()[..512], "it was written to");
}

#[test]
fn failed_conversions_through_pipes_leave_no_files() {
    need_kickcache!();
    let scratch = Scratch::new();
    fs::write(scratch.path("t.csv"), "time_us,op,offset,size\n1,R,0,4096\nnonsense\n2,W,4096,512\n").unwrap();
    let script = format!(
        "{KICKCACHE} trace convert - -o - --to blkparse <{0}/t.csv | {KICKCACHE} trace convert - -o - --to kickcache | \
         {KICKCACHE} trace convert - -o {0}/back.csv --to csv",
        scratch.dir().display()
    );
    tools::run("sh", ["-c", &script]);
    let back = fs::read_to_string(scratch.path("back.csv")).unwrap();
    assert_eq!(back, "time_us,op,offset,size\n1,R,0,4096\n2,W,4096,512\n");
    fs::write(scratch.path("two.csv"), "1,R,0,4096,100\n2,R,0,4096,200\n").unwrap();
    let before: Vec<_> =
        fs::read_dir(scratch.dir()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    let fail = |from: &str, more: &str| {
        let mut arguments = words("trace convert");
        arguments.extend([scratch.path(from).into(), "-o".into(), scratch.path("back.csv").into()]);
        arguments.extend(words(more));
        refused(more, &arguments)
    };
    assert!(fail("two.csv", "--from alibaba --to csv").contains("more than one device"));
    assert!(fail("t.csv", "--to pcap").contains("is not a format that can be written"));
    assert!(fail("absent", "--to csv").contains("absent cannot be read"));
    assert!(fail("back.csv", "--to msr").contains("back.csv, which is read; name another file"));
    fs::write(scratch.path("empty"), "").unwrap();
    assert!(fail("empty", "--to csv").contains("it is empty"));
    fs::remove_file(scratch.path("empty")).unwrap();
    let away = words(&format!(
        "trace convert {}/two.csv --from alibaba -o /nonexistent/x --to csv",
        scratch.dir().display()
    ));
    let sentence = refused("away", &away);
    assert!(
        sentence.contains("/nonexistent/x cannot be written: No such file") && !sentence.contains(".tmp"),
        "{sentence}"
    );
    let mut damaged = words("trace info");
    damaged.push(scratch.path("t.csv").into());
    let output = tools::output(KICKCACHE, &damaged);
    assert_eq!(output.status.code(), Some(1), "a script must know that it is not all");
    assert!(String::from_utf8_lossy(&output.stdout).contains("t.csv"), "what could be read is shown");
    let after: Vec<_> =
        fs::read_dir(scratch.dir()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(before, after);
    assert_eq!(fs::read_to_string(scratch.path("back.csv")).unwrap(), back, "it was not touched");
}

#[test]
fn joined_logs_are_counted_and_reported() {
    need_kickcache!();
    let scratch = Scratch::new();
    let log = "fio version 3 iolog\n0 /x add\n0 /x open\n1000 /x read 0 4096\n2001000 /x read 4096 4096\n";
    fs::write(scratch.path("log.io"), log.repeat(2)).unwrap();
    let mut arguments = words("trace info --json");
    arguments.push(scratch.path("log.io").into());
    let output = tools::output(KICKCACHE, &arguments);
    assert_eq!(output.status.code(), Some(0));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("log.io: times begin again at 1 place"), "{said}");
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&json[0]["span_nanos"], &json[0]["times"]["joined_recordings"]),
        (&4_000_000_000_u64.into(), &1.into())
    );
}

#[test]
fn a_damaged_trace_is_converted_partly_with_an_exit_code() {
    need_kickcache!();
    let scratch = Scratch::new();
    let (head, good, bad) = ("time_us,op,offset,size\n", "1,R,0,4096\n2,W,4096,512\n", "nonsense\n");
    for text in [format!("{head}{bad}{good}"), format!("{head}{good}{bad}")] {
        fs::write(scratch.path("t.csv"), text).unwrap();
        let mut arguments = words("trace convert --to csv");
        arguments.extend([scratch.path("t.csv").into(), "-o".into(), scratch.path("out.csv").into()]);
        let output = tools::output(KICKCACHE, &arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("2 records of csv as csv") && said.contains("one part is invalid"), "{said}");
        assert_eq!(fs::read_to_string(scratch.path("out.csv")).unwrap(), format!("{head}{good}"));
        fs::remove_file(scratch.path("out.csv")).unwrap();
    }
    fs::write(scratch.path("out.csv"), "kept").unwrap();
    let mut arguments = words("trace convert --to csv --from msr");
    arguments.extend([scratch.path("t.csv").into(), "-o".into(), scratch.path("out.csv").into()]);
    let output = tools::output(KICKCACHE, &arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && said.contains("no access was found in"), "{said}");
    assert_eq!(fs::read_to_string(scratch.path("out.csv")).unwrap(), "kept");
}

#[test]
fn a_killed_conversion_leaves_no_partial_file() {
    need_kickcache!();
    let scratch = Scratch::new();
    let folder = scratch.path("folder");
    fs::create_dir(&folder).unwrap();
    let can_be_unnamed = rustix::fs::OFlags::TMPFILE | rustix::fs::OFlags::WRONLY;
    if rustix::fs::open(&folder, can_be_unnamed, rustix::fs::Mode::RUSR).is_err() {
        skip!("this file system has no files without a name");
    }
    let mut arguments = words("trace convert - --to csv -o");
    arguments.push(folder.join("t.csv").into());
    let mut convert =
        Command::new(KICKCACHE).args(&arguments).stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut input = convert.stdin.take().unwrap();
    let line = "1,R,0,4096\n";
    input.write_all(format!("time_us,op,offset,size\n{}", line.repeat(50_000)).as_bytes()).unwrap();
    let open_files = format!("/proc/{}/fd", convert.id());
    wait_until("the file is begun", || {
        let files = fs::read_dir(&open_files).unwrap();
        files
            .filter_map(|file| fs::read_link(file.unwrap().path()).ok())
            .any(|path| path.starts_with(&folder))
    });
    convert.kill().unwrap();
    convert.wait().unwrap();
    drop(input);
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
}
