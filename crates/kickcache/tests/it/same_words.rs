//! Options, messages and exit codes that several commands share.

use std::fs;

use crate::daemon::{KICKCACHE, Spec};
use crate::scratch::{MIB, Scratch};
use crate::{need_kickcache, tools};

/// A directory with a job file, a trace and a directory.
struct Desk {
    scratch: Scratch,
}

impl Desk {
    fn new() -> Desk {
        let scratch = Scratch::new();
        let job = "[a]\nrw=randread\nbs=4k\nsize=64m\ntime_based\nruntime=1\n";
        fs::write(scratch.path("j.fio"), job).unwrap();
        fs::write(scratch.path("t.csv"), "time_us,op,offset,size\n0,R,0,4096\n100,R,8192,4096\n").unwrap();
        fs::create_dir(scratch.path("folder")).unwrap();
        Desk { scratch }
    }

    /// The exit code and both outputs of a command in the directory.
    fn run(&self, line: &str) -> (i32, String) {
        let script = format!("cd '{}' && exec {KICKCACHE} {line}", self.scratch.dir().display());
        let output = tools::output("sh", ["-c", &script]);
        let said = [output.stdout, output.stderr].concat();
        (output.status.code().unwrap(), String::from_utf8(said).unwrap())
    }

    fn refuse(&self, expected: &str, lines: &[&str]) {
        for line in lines {
            let (code, said) = self.run(line);
            assert!(code == 2 && said.contains(expected), "{line}: {code}: {said}");
        }
    }
}

#[test]
fn a_missing_file_is_a_wrong_argument() {
    need_kickcache!();
    let desk = Desk::new();
    let missing = "cannot be read: No such file or directory";
    let jobs = [
        "bench --target a=x --job no",
        "simulate run --job no",
        "simulate compare --job no",
        "advise --job no",
    ];
    desk.refuse(&format!("the job file no {missing}"), &jobs);
    let traces = [
        "simulate trace no",
        "simulate run --trace no",
        "simulate compare --trace no",
        "advise --trace no",
        "trace info no",
        "trace convert no -o out --to csv",
    ];
    desk.refuse(&format!("the trace no {missing}"), &traces);
    desk.refuse(&format!("the configuration file no {missing}"), &["serve --config no", "check-config no"]);
    desk.refuse(&format!("the result no {missing}"), &["report no", "report no -o page.html"]);
    desk.refuse(&format!("the file of prices no {missing}"), &["advise --job j.fio --prices no"]);
}

#[test]
fn a_directory_in_place_of_a_file_is_refused() {
    need_kickcache!();
    let desk = Desk::new();
    for (what, line) in [
        ("job file", "bench --target a=x --job folder"),
        ("job file", "simulate run --job folder"),
        ("job file", "advise --job folder"),
        ("trace", "simulate compare --trace folder"),
        ("trace", "advise --trace folder"),
        ("trace", "trace info folder"),
        ("trace", "trace convert folder -o out --to csv"),
        ("result", "report folder"),
    ] {
        desk.refuse(&format!("the {what} folder cannot be read: Is a directory"), &[line]);
    }
    desk.refuse(
        "the configuration file folder cannot be read: it is no regular file",
        &["check-config folder"],
    );
}

#[test]
fn a_share_is_a_size_where_the_load_is_known() {
    need_kickcache!();
    let desk = Desk::new();
    for line in [
        "simulate run --job j.fio --cache lru --size 50%",
        "simulate compare --job j.fio --cache lru --size 50%",
        "advise --job j.fio --size 50% --repeat 1",
    ] {
        let (code, said) = desk.run(line);
        assert!(code == 0 && said.contains("32 MiB"), "{line}: {said}");
    }
    // The trace has two blocks.
    desk.refuse(
        "give larger sizes with --size",
        &["simulate trace t.csv --size 50%", "simulate trace t.csv --sizes 50%"],
    );
    desk.refuse(
        "is not a percentage above 0, up to 100",
        &["simulate run --job j.fio --size 0%", "advise --job j.fio --size 101%"],
    );
    let devices = [
        "format c --size 5%",
        "serve --cache c --origin j.fio --size 5%",
        "grow --size 5%",
        "replace --with c --size 5%",
        "bench --target a=x --size 5%",
    ];
    desk.refuse("`5%` ends in the unknown unit `%`; use K, M, G or T", &devices);
}

#[test]
fn a_size_is_rounded_down_to_blocks_with_a_note() {
    need_kickcache!();
    let desk = Desk::new();
    for line in [
        "format c --size 16777217",
        "simulate run --job j.fio --cache lru --size 16777217",
        "simulate compare --job j.fio --cache lru --size 16777217",
        "advise --job j.fio --repeat 1 --size 16777217",
        "simulate trace t.csv --size 16777217",
        "grow --size 16777217 --control none",
        "replace --with x --size 16777217 --control none",
    ] {
        let (_, said) = desk.run(line);
        let note = "the size of 16777217 bytes is rounded down to 16777216, a multiple of 4096";
        assert!(said.matches(note).count() == 1, "{line}: {said}");
    }
    assert_eq!(fs::metadata(desk.scratch.path("c")).unwrap().len(), 16 * MIB);
}

#[test]
fn a_time_has_the_same_units_everywhere() {
    need_kickcache!();
    let desk = Desk::new();
    // Options, and messages that come after their values were accepted.
    let options = [
        ("bench --target a=/nowhere/x --runtime", ""),
        ("record v -o out --control none --for", "no kickcache daemon"),
        ("pause-caching v --control none --for", "no kickcache daemon"),
        ("simulate run --job no --runtime", "the job file no"),
        ("simulate compare --job no --seconds", "the job file no"),
        ("advise --job no --runtime", "the job file no"),
        ("status --control none --watch", "no kickcache daemon"),
        ("top --control none --every", "needs a terminal"),
        ("demo --dir /nowhere --runtime", ""),
        ("demo --dir /nowhere --seconds", ""),
    ];
    let wrong = "is not a time; write a number with ms, s, m, h or d, such as 90s or 1h";
    for (option, after) in options {
        for good in ["2", "2s", "2000ms", "0.5m", "1h"] {
            let (_, said) = desk.run(&format!("{option} {good}"));
            assert!(said.contains(after) && !said.contains("invalid value"), "{option} {good}: {said}");
        }
        for bad in ["soon", "2w", "1.s", "1e3"] {
            let (code, said) = desk.run(&format!("{option} {bad}"));
            assert!(code == 2 && said.contains(wrong), "{option} {bad}: {said}");
        }
        let (code, said) = desk.run(&format!("{option} 0"));
        assert!(code == 2 && said.contains("`0` is not from "), "{option} 0: {said}");
    }
}

#[test]
fn a_missing_volume_or_daemon_has_the_same_message() {
    need_kickcache!();
    let desk = Desk::new();
    let origin = desk.scratch.sparse("origin", 16 * MIB);
    let daemon = Spec::new(&desk.scratch, &origin, "write-back", "16M").start();
    for command in [
        "status nobody",
        "status nobody --check",
        "mode nobody",
        "mode nobody bypass",
        "mode nobody bypass --dry-run",
        "drain nobody",
        "resize nobody",
        "pause-caching nobody --for 5m",
        "record nobody -o out",
        "remove nobody",
        "remove nobody --dry-run",
        "advise --volume nobody",
    ] {
        let (code, said) = desk.run(&format!("{command} --control control.sock"));
        assert!(
            code == 1 && said.contains("there is no volume `nobody` here; there is v"),
            "{command}: {code}: {said}"
        );
        let (code, said) = desk.run(&format!("{command} --control none"));
        assert!(
            code == 3 && said.contains("no kickcache daemon answers at none"),
            "{command}: {code}: {said}"
        );
    }
    daemon.stop();
}
