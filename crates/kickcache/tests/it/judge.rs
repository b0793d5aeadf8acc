//! `kickcache judge` as `git bisect run` sees it.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::Value;

use crate::daemon::KICKCACHE;
use crate::scratch::Scratch;
use crate::{need_kickcache, need_tools};

/// Git has no configuration but that of the directory.
fn command(program: &str, directory: &Path) -> Command {
    let mut command = Command::new("timeout");
    command.args(["-k", "2", "120", program]).current_dir(directory).stdin(Stdio::null());
    command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1").env("LC_ALL", "C");
    command
}

fn said(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!("{}\n{}", text(&output.stdout), text(&output.stderr))
}

/// The last printed number counts, and more is worse.
fn judge(scratch: &Scratch, against: &str, more: &[&str], line: &str) -> Output {
    let mut judge = command(KICKCACHE, scratch.dir());
    judge.args(["judge", "--against", against, "--metric", "number", "--higher-is-worse", "--shell"]);
    judge.args(more).arg("--").arg(line).output().unwrap()
}

#[test]
fn exit_codes_match_git_bisect() {
    need_kickcache!();
    let scratch = Scratch::new();
    let cases = [
        (0, "echo 100", "echo 100", "good: number is 1.000x ("),
        (0, "echo 100", "echo 10", "good: number is 0.100x ("),
        (1, "echo 100", "echo 120", "bad: number is 1.200x ("),
        (
            125,
            "echo 100",
            "echo oops >&2; exit 3",
            "cannot be judged: the new command failed: exit code 3: oops",
        ),
        (125, "echo 100", "exit 125", "exit code 125"),
        (125, "echo 100", "exit 255", "the new command failed: exit code 255"),
        (125, "echo 100", "yes", "the new command failed: it printed more than 64 MiB"),
        (125, "echo 100", "yes >&2", "the new command failed: it printed more than 64 MiB"),
        (125, "echo 100", "echo fast", "the last line that it printed, `fast`, is not a number"),
        (125, "echo 100", "echo 0", "only numbers above 0 can be compared"),
        (128, "echo 100", "./no-such-program", "stopped: the new command cannot be started: exit code 127"),
        (137, "echo 100", "kill -9 $$", "stopped: the new command died by signal 9"),
        (139, "echo 100", "sh -c 'kill -11 $$'; exit $?", "died by signal 11"),
        (128, "exit 1", "echo 100", "stopped: the known-good command failed: exit code 1"),
        (128, "exit 1", "exit 1", "stopped: the known-good command failed: exit code 1"),
        (128, "./no-such-program", "echo 100", "the known-good command cannot be started"),
    ];
    for (code, against, line, sentence) in cases {
        let output = judge(&scratch, against, &[], line);
        assert_eq!(output.status.code(), Some(code), "{against} / {line}: {}", said(&output));
        assert!(said(&output).contains(sentence), "{against} / {line}: {}", said(&output));
    }
}

#[test]
fn arguments_that_are_refused_stop_a_bisection() {
    need_kickcache!();
    let scratch = Scratch::new();
    let cases: [(i32, &[&str]); 9] = [
        (128, &["judge"]),
        (128, &["judge", "--metric", "speed", "--against", "true", "--", "true"]),
        (128, &["judge", "--metric", "number", "--against", "echo 1", "--", "echo", "1"]),
        (128, &["judge", "--metric", "iops", "--higher-is-worse", "--against", "echo 1", "--", "echo", "1"]),
        (128, &["judge", "--metric", "iops", "--worse-than", "20", "--against", "echo 1", "--", "echo", "1"]),
        (128, &["judge", "--metric", "iops", "--rounds-max", "8", "--against", "echo 1", "--", "echo", "1"]),
        (128, &["judge", "--metric", "iops", "--baseline", "none.json", "--", "echo", "1"]),
        (
            128,
            &[
                "judge",
                "--metric",
                "time",
                "--save",
                "/no/such/folder/x",
                "--rounds",
                "6",
                "--",
                "touch",
                "ran",
            ],
        ),
        (0, &["judge", "--help"]),
    ];
    for (code, arguments) in cases {
        let output = command(KICKCACHE, scratch.dir()).args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", said(&output));
    }
    assert!(!scratch.path("ran").exists(), "nothing is measured that cannot be stored");
}

#[test]
fn a_verdict_stays_valid_if_it_cannot_be_printed() {
    need_kickcache!();
    need_tools!("bash");
    let scratch = Scratch::new();
    let line = format!(
        "{KICKCACHE} judge --against 'echo 100' --metric number --lower-is-worse -- echo 50 > /dev/full"
    );
    let output = command("bash", scratch.dir()).args(["-c", &line]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
}

#[test]
fn the_json_has_every_round_and_a_seed_repeats_them() {
    need_kickcache!();
    let scratch = Scratch::new();
    let json = |seed| -> Value {
        let output =
            judge(&scratch, "echo 200", &["--json", "--seed", seed, "--rounds-max", "40"], "echo 150");
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let report = json("5");
    assert_eq!((&report["verdict"], &report["exit_code"]), (&"good".into(), &0.into()), "{report:#}");
    let rounds = report["rounds"].as_array().unwrap();
    assert!((9..=10).contains(&rounds.len()), "nothing is noisier than echo: {report:#}");
    assert_eq!((&rounds[0]["good"], &rounds[0]["new"]), (&200.0.into(), &150.0.into()));
    assert_eq!(report["rounds"], json("5")["rounds"]);
    assert_ne!(report["rounds"], json("6")["rounds"]);
    let short = judge(&scratch, "echo 200", &["--json", "--rounds-max", "9"], "echo 230");
    let report: Value = serde_json::from_slice(&short.stdout).unwrap();
    assert_eq!((&report["verdict"], &report["exit_code"]), (&Value::Null, &125.into()));
}

/// The judged command takes 0.1 s, where the known-good one takes 0.01 s.
#[test]
fn a_ten_times_slower_program_is_never_called_good() {
    need_kickcache!();
    let scratch = Scratch::new();
    let mut judge = command(KICKCACHE, scratch.dir());
    judge.args([
        "judge",
        "--against",
        "sleep 0.01",
        "--metric",
        "time",
        "--rounds-max",
        "12",
        "--",
        "sleep",
        "0.1",
    ]);
    let output = judge.output().unwrap();
    assert_ne!(output.status.code(), Some(0), "{}", said(&output));
}

#[test]
fn processor_time_of_all_that_a_command_starts_counts() {
    need_kickcache!();
    let scratch = Scratch::new();
    let busy = "sh -c 'i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done'";
    let mut judge = command(KICKCACHE, scratch.dir());
    judge.args([
        "judge",
        "--against",
        &format!("{busy}; {busy}"),
        "--metric",
        "cpu-time",
        "--shell",
        "--json",
    ]);
    let output = judge.args(["--rounds-max", "9", "--", busy]).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let ratio = report["ratio"].as_f64().unwrap();
    assert!(ratio < 0.9, "half of the work: {report:#}");
}

/// Returns when the command has created a file.
fn judging(scratch: &Scratch, line: &str, file: &str) -> Child {
    let mut judge = Command::new(KICKCACHE);
    judge.args(["judge", "--against", line, "--metric", "time", "--shell", "--", line]);
    let judge = judge.current_dir(scratch.dir()).stderr(Stdio::null()).spawn().unwrap();
    let begun = Instant::now();
    while !scratch.path(file).exists() {
        assert!(begun.elapsed() < Duration::from_secs(60), "it did not start");
        thread::sleep(Duration::from_millis(5));
    }
    judge
}

#[test]
fn an_interrupt_ends_the_command_and_all_that_it_started() {
    need_kickcache!();
    let scratch = Scratch::new();
    let line = "sleep 1000 & echo $! > pid.new; mv pid.new pid; wait";
    let mut judge = judging(&scratch, line, "pid");
    let pid = fs::read_to_string(scratch.path("pid")).unwrap().trim().parse().unwrap();
    kill_process(Pid::from_child(&judge), Signal::INT).unwrap();
    assert_eq!(judge.wait().unwrap().code(), Some(130));
    let begun = Instant::now();
    while test_kill_process(Pid::from_raw(pid).unwrap()).is_ok() {
        assert!(begun.elapsed() < Duration::from_secs(60), "the sleeper lives on");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_command_that_ignores_an_interrupt_is_killed() {
    need_kickcache!();
    let scratch = Scratch::new();
    let line = "trap '' TERM INT HUP; echo > begun; sleep 1000; sleep 1000";
    let mut judge = judging(&scratch, line, "begun");
    let begun = Instant::now();
    kill_process(Pid::from_child(&judge), Signal::INT).unwrap();
    let ended = loop {
        assert!(begun.elapsed() < Duration::from_secs(120), "it waits for ever");
        match judge.try_wait().unwrap() {
            Some(status) => break status,
            None => thread::sleep(Duration::from_millis(20)),
        }
    };
    assert_eq!(ended.code(), Some(130));
}

#[test]
fn remains_of_a_round_are_ended_before_the_next() {
    need_kickcache!();
    let scratch = Scratch::new();
    let line = "if [ -e pid ] && kill -0 $(cat pid); then exit 7; fi; sleep 1000 & echo $! > pid; echo 100";
    let output = judge(&scratch, line, &[], line);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
}

#[test]
fn a_stored_result_is_judged_by_its_control() {
    need_kickcache!();
    let scratch = Scratch::new();
    let judge = |more: &[&str], line: &str| {
        let mut judge = command(KICKCACHE, scratch.dir());
        judge.args(["judge", "--metric", "iops", "--shell"]).args(more).arg("--").arg(line).output().unwrap()
    };
    let code = |more: &[&str], line: &str| judge(more, line).status.code();
    let with_control = ["--save", "good.json", "--against", "echo 1000", "--rounds", "8"];
    let output = judge(&with_control, "echo 500");
    assert!(said(&output).contains("8 rounds are stored in good.json."), "{}", said(&output));
    let baseline = ["--baseline", "good.json"];
    assert_eq!(code(&baseline, "echo 500"), Some(0));
    assert_eq!(code(&baseline, "echo 400"), Some(1));
    let drifted = ["--baseline", "good.json", "--against", "echo 900"];
    let output = judge(&drifted, "echo 500");
    assert_eq!(output.status.code(), Some(125), "{}", said(&output));
    assert!(said(&output).contains("the control is 0.900x the stored value"), "{}", said(&output));
    assert_eq!(code(&["--save", "alone.json", "--rounds", "8"], "echo 500"), Some(0));
    assert_eq!(code(&["--baseline", "alone.json"], "echo 500"), Some(0), "its control is the command itself");
    assert_eq!(code(&["--baseline", "alone.json"], "echo 400"), Some(1));
}

const COMMITS: usize = 64;
const SLOW: usize = 41;
const BROKEN: usize = 32;

/// The printed number varies by up to 5 % either way. The file `$NOISE` has the state of the random
/// generator.
fn program(commit: usize) -> String {
    let cost = 1_000 + commit * 7 % 40;
    let cost = if commit >= SLOW { cost * 5 / 4 } else { cost };
    let first = if commit == BROKEN { "exit 3" } else { "set -eu" };
    format!(
        "#!/bin/sh\n# change {commit}\n{first}\nread seed < \"$NOISE\"\n\
         seed=$(( (seed * 1103515245 + 12345) % 2147483648 ))\necho $seed > \"$NOISE\"\n\
         echo $(( {cost} * (1000 + seed / 65536 % 101 - 50) ))\n"
    )
}

/// The input of `git fast-import`.
fn history() -> String {
    let mut stream = String::new();
    for commit in 1..=COMMITS {
        let (text, message) = (program(commit), format!("change {commit}"));
        write!(
            stream,
            "commit refs/heads/main\ncommitter A <a@example.org> {} +0000\ndata {}\n{message}\nM 100755 inline program\n\
             data {}\n{text}\n",
            1_700_000_000 + commit,
            message.len(),
            text.len()
        )
        .unwrap();
    }
    stream
}

#[test]
fn git_bisect_finds_the_slow_commit_without_a_hand() {
    need_kickcache!();
    need_tools!("git");
    let scratch = Scratch::new();
    let repository = scratch.path("repository");
    fs::create_dir(&repository).unwrap();
    let git = |arguments: &[&str]| {
        let output =
            command("git", &repository).env("NOISE", scratch.path("noise")).args(arguments).output().unwrap();
        assert!(output.status.success(), "git {arguments:?}: {}", said(&output));
        said(&output)
    };
    git(&["init", "-q"]);
    let mut import = command("git", &repository);
    let mut import = import.args(["fast-import", "--quiet"]).stdin(Stdio::piped()).spawn().unwrap();
    import.stdin.take().unwrap().write_all(history().as_bytes()).unwrap();
    assert!(import.wait().unwrap().success());
    git(&["checkout", "-q", "main"]);
    fs::write(scratch.path("good"), program(1)).unwrap();
    fs::write(scratch.path("noise"), "1\n").unwrap();
    let script = format!(
        "#!/bin/sh\nsh -n program || exit 125\nexec {KICKCACHE} judge --seed 1 --against 'sh ../good' --metric number \
         --higher-is-worse --worse-than 20% -- sh ./program\n"
    );
    fs::write(scratch.path("step"), script).unwrap();
    git(&["bisect", "start", "main", &format!("main~{}", COMMITS - 1)]);
    let told = git(&["bisect", "run", "sh", "../step"]);
    assert!(told.contains("is the first bad commit"), "{told}");
    assert_eq!(git(&["show", "-s", "--format=%s", "refs/bisect/bad"]).trim(), format!("change {SLOW}"));
    let log = git(&["bisect", "log"]);
    assert!(log.contains("# skip: ") && log.contains(&format!("change {BROKEN}")), "{log}");
    assert!(log.lines().filter(|line| line.starts_with("git bisect ")).count() <= 12, "{log}");
}
