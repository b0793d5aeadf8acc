use std::collections::{HashMap, HashSet};
use std::process::Command;

use kickcache_engine::time::Duration;

use super::*;
use crate::trace_file::{Format, Record, TraceFile};
use crate::workload::fio::values::{KbBase, size};
use crate::workload::{Access, Kind};
use crate::zipf::Zipf;

fn parse(text: &str) -> FioWorkload {
    FioWorkload::parse(text, 1).unwrap_or_else(|error| panic!("{error}"))
}

#[track_caller]
fn refuse(text: &str) -> String {
    FioWorkload::parse(text, 1).unwrap_err().to_string()
}

fn at(millis: u64) -> Instant {
    Instant::ZERO.plus(Duration::from_millis(millis))
}

fn drain(workload: &mut FioWorkload, job: usize, now: Instant, most: usize) -> Vec<Access> {
    let step = |_| match workload.next(job, now) {
        JobStep::Access(access) => Some(access),
        JobStep::WaitUntil(_) | JobStep::WaitForJobs | JobStep::Finished => None,
    };
    (0..most).map_while(step).collect()
}

/// The workload of the articles on other caches.
const PUBLISHED: &str = "[global]
ioengine=libaio
direct=1
iodepth=8
numjobs=2
readwrite=randread
random_distribution=zipf:1.2
bs=4k
size=2g
time_based
runtime=30m
group_reporting

[test]
";

#[test]
fn the_published_job_has_two_files_and_two_orders() {
    let mut workload = parse(PUBLISHED);
    assert_eq!(workload.jobs().iter().map(|job| job.depth).collect::<Vec<_>>(), [8, 8]);
    assert_eq!(workload.volume_bytes(), 4 << 30);
    let first = drain(&mut workload, 0, at(0), 10_000);
    let second = drain(&mut workload, 1, at(0), 10_000);
    assert!(first.iter().all(|access| access.extent.end() <= 2 << 30 && access.kind == Kind::Read));
    assert!(second.iter().all(|access| access.extent.start >= 2 << 30));
    let moved: Vec<u64> = second.iter().map(|access| access.extent.start - (2 << 30)).collect();
    assert_ne!(first.iter().map(|access| access.extent.start).collect::<Vec<_>>(), moved);
    assert_eq!(workload.next(0, at(30 * 60_000)), JobStep::Finished);
}

#[test]
fn a_job_without_time_ends_with_its_size() {
    let mut workload = parse("[seq]\nrw=write\nbs=64k\nsize=1m\nfsync=8\noffset=1m\n");
    let accesses = drain(&mut workload, 0, at(0), 100);
    let writes: Vec<u64> =
        accesses.iter().filter(|a| a.kind == Kind::Write).map(|a| a.extent.start).collect();
    assert_eq!(writes, (16..32).map(|index| index << 16).collect::<Vec<_>>());
    assert_eq!(accesses.iter().filter(|access| access.kind == Kind::Flush).count(), 1);
    assert_eq!(workload.volume_bytes(), 2 << 20);
}

#[test]
fn a_mixed_job_keeps_its_share() {
    let mut workload =
        parse("[m]\nrw=randrw\nrwmixread=70\nsize=1g\ntime_based\nruntime=1\nioengine=io_uring\n");
    let accesses = drain(&mut workload, 0, at(0), 10_000);
    let reads = accesses.iter().filter(|access| access.kind == Kind::Read).count();
    assert!((6_800..7_200).contains(&reads), "{reads}");
}

#[test]
fn random_jobs_use_each_block_once_by_default() {
    let distinct = |extra: &str| {
        let mut workload = parse(&format!("[r]\nrw=randread\nsize=4m\n{extra}"));
        let accesses = drain(&mut workload, 0, at(0), 1_024);
        accesses.iter().map(|access| access.extent.start).collect::<HashSet<_>>().len()
    };
    assert_eq!(distinct(""), 1_024);
    assert!(distinct("norandommap\n") < 700);
}

#[test]
fn rates_and_thinking_hold_a_job_back() {
    let mut workload = parse("[r]\nrw=randread\nsize=4m\nrate_iops=100\n");
    assert_eq!(drain(&mut workload, 0, at(0), 10).len(), 1);
    assert_eq!(workload.next(0, at(3)), JobStep::WaitUntil(at(10)));
    assert_eq!(drain(&mut workload, 0, at(35), 10).len(), 3);
    let mut workload = parse("[r]\nrw=randread\nsize=4m\nrate=400k\n");
    drain(&mut workload, 0, at(0), 10);
    assert_eq!(workload.next(0, at(3)), JobStep::WaitUntil(at(10)));
    let mut workload = parse("[r]\nrw=randread\nsize=4m\nthinktime=20ms\nthinktime_blocks=2\n");
    assert_eq!(drain(&mut workload, 0, at(0), 10).len(), 2);
    assert_eq!(workload.next(0, at(5)), JobStep::WaitUntil(at(20)));
}

#[test]
fn zero_means_no_limit_as_with_fio() {
    for line in ["runtime=0", "number_ios=0", "io_size=0"] {
        let mut workload = parse(&format!("[r]\nrw=read\nsize=64k\n{line}\n"));
        assert_eq!(drain(&mut workload, 0, at(0), 100).len(), 16, "{line}");
    }
    let said = refuse("[r]\nrw=read\nsize=64k\ntime_based\nruntime=0\n");
    assert!(said.contains("time_based was found without a runtime"), "{said}");
}

#[test]
fn the_longest_times_add_up_to_no_shorter_one() {
    let text = "[r]\nrw=read\nsize=64k\nruntime=18446744073\nramp_time=18446744073\n";
    let mut workload = parse(&format!("{text}[s]\nrw=read\nstonewall\nsize=64k\nruntime=1\n"));
    assert_eq!(workload.longest(), Some(Duration::from_nanos(u64::MAX)));
    assert_eq!(drain(&mut workload, 0, at(0), 100).len(), 16);
}

#[test]
fn a_skew_that_fio_refuses_is_refused() {
    for (value, part) in [
        ("zipf:1.2:5", "\"5\" was found; a place from 0 to 1 was expected"),
        ("zipf:1.2:nan", "\"nan\" was found; a place from 0 to 1 was expected"),
        ("pareto:0.2:-1", "\"-1\" was found; a place from 0 to 1 was expected"),
        ("zipf:1.2:0.5:more", "\"more\" was found; nothing more was expected"),
    ] {
        let said = refuse(&format!("[r]\nrw=randread\nsize=1g\nrandom_distribution={value}\n"));
        assert!(said.starts_with("line 4: ") && said.contains(part), "{value}: {said}");
    }
}

#[test]
fn too_many_jobs_are_refused_before_they_are_made() {
    // Each of these jobs would sum ten million terms.
    let many = "[r]\nrw=randread\nrandom_distribution=zipf:1.2\nsize=1t\nnumjobs=65536\n";
    assert_eq!(refuse(many), "job [r]: more than 1024 jobs were found; lower numjobs");
}

#[test]
fn a_stonewall_waits_for_earlier_jobs() {
    let text = "[global]\nsize=64k\nbs=4k\nramp_time=2\n[a]\nrw=read\n[b]\nstonewall\nrw=write\nfilename=b\n[c]\nrw=read\nfilename=b\n";
    let mut workload = parse(text);
    assert_eq!(workload.next(1, at(0)), JobStep::WaitForJobs);
    assert_eq!(drain(&mut workload, 0, at(0), 100).len(), 16);
    assert_eq!(drain(&mut workload, 1, at(0), 1).len(), 1);
    let shared = drain(&mut workload, 2, at(0), 1);
    assert_eq!(shared[0].extent.start, 1 << 20);
    assert_eq!((workload.volume_bytes(), workload.measured_from()), (2 << 20, at(2_000)));
}

#[test]
fn a_seed_decides_everything() {
    let run = |seed| {
        let mut workload = FioWorkload::parse(PUBLISHED, seed).unwrap();
        drain(&mut workload, 0, at(0), 1_000)
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn unknown_options_are_refused_with_their_line() {
    assert_eq!(
        refuse("[a]\nsize=1g\nverify=crc32c\n"),
        "line 3: option `verify` is not known to the simulator; remove the line, or run the job with fio itself"
    );
    assert_eq!(
        refuse("[a]\nsize=1x\n"),
        "line 2: `size`: \"1x\" was found; a size such as 4k or 2g was expected"
    );
    assert_eq!(
        refuse("[a]\nsize=1g\nrandom_distribution=zipf:1\n"),
        "line 3: `random_distribution`: zipf:1 was found; a theta above 0 that is not 1 was expected"
    );
    assert_eq!(
        refuse("[a]\nrw=read\n"),
        "job [a]: no size was found; write how much data the job has, such as size=2g"
    );
    assert_eq!(
        refuse("[global]\nsize=1g\n"),
        "the job file: no job was found; write a section such as [job] with its options"
    );
    assert_eq!(refuse("[a]\nsize=${SIZE}\n"), "line 2: \"${SIZE}\" names a variable; write the value itself");
    for bad in
        ["rw=randomly", "numjobs=0", "bs=100", "bs=0", "rwmixread=101", "iodepth=x", "runtime=1y", "bs=1g"]
    {
        assert!(refuse(&format!("[a]\nsize=1g\n{bad}\n")).len() > 20);
    }
    let workload = parse("[a]\nsize=1g\ndirect=0\nwrite_lat_log=x\n");
    assert_eq!(workload.warnings(), ["line 3: `direct=0`: there is no page cache in the simulator."]);
}

/// The requests of real fio, from its own log; `None` without fio.
fn real_fio(distribution: &str, count: usize) -> Option<Vec<u64>> {
    let directory = std::env::temp_dir().join(format!("kickcache-fio-{}-{distribution}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let run = Command::new("fio")
        .current_dir(&directory)
        .args([
            "--name=job",
            "--ioengine=null",
            "--rw=randread",
            "--bs=4k",
            "--size=256m",
            "--write_iolog=log",
        ])
        .arg(format!("--random_distribution={distribution}"))
        .arg(format!("--io_size={}", count * 4096))
        .output();
    let log = directory.join("log");
    let offsets = run.ok().filter(|run| run.status.success()).map(|_| {
        let records = TraceFile::open(&log, Some(Format::Iolog)).unwrap().map(Result::unwrap);
        let reads = records.filter(|record: &Record| record.kind == Kind::Read);
        reads.map(|record| record.extent.start / 4096).collect()
    });
    std::fs::remove_dir_all(&directory).unwrap();
    if offsets.is_none() {
        eprintln!("skipped: fio cannot be run here");
    }
    offsets
}

/// The values of an option as fio parses them, by its debug output; `None` without fio.
fn parsed_by_fio(option: &str, line: &str, more: &str) -> Option<Vec<u64>> {
    let name = format!("kickcache-fio-{}-{option}.fio", std::process::id());
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, format!("[a]\nioengine=null\nrw=read\n{line}\n{more}\n")).unwrap();
    let run = Command::new("fio").args(["--parse-only", "--debug=parse"]).arg(&path).output();
    std::fs::remove_file(&path).unwrap();
    let Ok(run) = run else {
        eprintln!("skipped: fio cannot be run here");
        return None;
    };
    let text = String::from_utf8_lossy(&run.stdout).into_owned();
    let mark = format!(" __handle_option={option},");
    let values = text.lines().skip_while(|line| !line.contains(&mark));
    let values = values.take_while(|line| line.contains(&mark) || !line.contains("handle_option="));
    Some(values.filter_map(|line| line.split_once("out=")?.1.trim().parse().ok()).collect())
}

#[test]
fn sizes_are_those_of_real_fio() {
    let sizes = [
        "1GiB", "1Gi", "1GB", "1g", "1G", "1gib", "3kib", "3KB", "3ki", "7MiB", "2TiB", "2t", "1PiB", "4096",
        "512b", "0x1000",
    ];
    for (base, more) in [(KbBase::Binary, ""), (KbBase::Decimal, "kb_base=1000")] {
        for text in sizes {
            let Some(real) = parsed_by_fio("size", &format!("size={text}"), more) else { return };
            assert_eq!(real, [size(text, base).unwrap()], "{text} {more}");
        }
    }
}

#[test]
fn times_are_those_of_real_fio() {
    for text in ["1", "90", "500ms", "500msec", "3us", "3usec", "30S", "5M", "2h", "1d"] {
        let Some(real) = parsed_by_fio("runtime", &format!("runtime={text}"), "size=1m") else { return };
        assert_eq!(real, [time(text, 1_000_000_000).unwrap().as_nanos() / 1_000], "{text}");
    }
    for refused in ["1sec", "2min", "1.5"] {
        assert!(time(refused, 1_000_000_000).is_err(), "fio reads {refused} as another time");
    }
}

/// The bytes and accesses of the first job as fio makes them, in a direction; `None` without fio.
fn made_by_fio(text: &str, direction: &str) -> Option<(u64, u64)> {
    let path = std::env::temp_dir().join(format!("kickcache-made-{}-{}.fio", std::process::id(), text.len()));
    std::fs::write(&path, text).unwrap();
    let run = Command::new("fio").arg("--output-format=json").arg(&path).output();
    std::fs::remove_file(&path).unwrap();
    let Ok(run) = run else {
        eprintln!("skipped: fio cannot be run here");
        return None;
    };
    let text = String::from_utf8_lossy(&run.stdout).into_owned();
    let json: serde_json::Value = serde_json::from_str(&text[text.find('{')?..]).ok()?;
    let made = &json["jobs"][0][direction];
    Some((made["io_bytes"].as_u64()?, made["total_ios"].as_u64()?))
}

#[test]
fn jobs_make_the_accesses_of_real_fio() {
    for (options, direction) in [
        ("rw=write\nbs=1m\nsize=1GiB", "write"),
        ("rw=write\nbs=1m\nsize=1Gi ; a comment", "write"),
        ("rw=read\nbs=4k,8k,64k # a comment\nsize=8m", "read"),
        ("rw=write\nbs=4k,8k\nsize=8m", "write"),
        ("rw=write\nbs=64k,\nsize=8m", "write"),
        ("rw=read\nbs=,8k\nsize=8m", "read"),
        ("rw=trim\nbs=4k,8k,64k\nsize=8m", "trim"),
        ("rw=trim\nbs=4k,8k\nsize=8m", "trim"),
        ("rw=write\nbs=512\nsize=64kib", "write"),
        ("rw=write\nbs=64k\nsize=1000k\nio_size=1900k", "write"),
        ("rw=randread\nbs=64k\nsize=1000k", "read"),
        ("size=64ki\nkb_base=1000\nrw=write\nbs=512", "write"),
    ] {
        let text = format!("[a]\nioengine=null\n{options}\n");
        let Some(real) = made_by_fio(&text, direction) else { return };
        let accesses = drain(&mut parse(&text), 0, at(0), 100_000);
        let bytes = accesses.iter().map(|access| access.extent.length).sum::<u64>();
        assert_eq!((bytes, accesses.len() as u64), real, "{options}");
    }
}

#[test]
fn trims_have_blocks_rates_and_a_depth_of_their_own() {
    let job = |engine: &str, rw: &str| {
        parse(&format!(
            "[a]\nioengine={engine}\niodepth=32\nrw={rw}\nbs=4k,8k,64k\nrate_iops=0,0,10\nfsync=2\nsize=8m\n"
        ))
    };
    let mut trims = job("libaio", "randtrim");
    assert_eq!(trims.jobs()[0].depth, 1);
    let first = drain(&mut trims, 0, at(0), 10);
    assert!(first.len() == 1 && first[0].kind == Kind::Discard && first[0].extent.length == 64 << 10);
    let all = drain(&mut trims, 0, at(60_000), 1_000);
    assert_eq!(all.len(), 127, "each trim is made once, and none is followed by a flush");
    assert_eq!(all.iter().chain(&first).map(|trim| trim.extent.start).collect::<HashSet<_>>().len(), 128);
    assert_eq!(job("libaio", "randwrite").jobs()[0].depth, 32);
    assert_eq!(job("nbd", "randtrim").jobs()[0].depth, 32);
    assert_eq!(job("psync", "randtrim").jobs()[0].depth, 1);
}

#[test]
fn lines_follow_the_rules_of_fio() {
    let text = "\u{feff}[global] ; defaults\r\nbs=64k\t# blocks\r\n kb_base=1000\n[globals]\nrw=read\n[a] # job\nsize=4mib ; MiB\n";
    let mut workload = parse(text);
    let accesses = drain(&mut workload, 0, at(0), 1_000);
    assert!(accesses.len() == 65 && accesses[0].extent.length == 64_000, "{}", accesses.len());
    assert_eq!(workload.jobs().len(), 1);
    assert!(workload.warnings().is_empty());
    let expected = "line 2: `size=1GiB`: as with fio, KiB, MiB and the like are powers of 1000 here";
    assert!(parse("[a]\nsize=1GiB\n").warnings()[0].starts_with(expected));
    assert_eq!(
        refuse("[a]\nsize=1g\ninclude other.fio\n"),
        "line 3: `include` is not followed; put the lines of that file here"
    );
    for bad in [
        "kb_base=1001",
        "bs=4k,8k,16k,32k",
        "bssplit=4k/50:8k/50",
        "bsrange=4k-8k",
        "size=10%",
        "rw=trimwrite",
    ] {
        assert!(refuse(&format!("[a]\nsize=1g\n{bad}\n")).starts_with("line 3: "), "{bad}");
    }
    let long = refuse(&format!("[a]\nsize={}\u{1b}[2J\n", "9".repeat(5_000)));
    assert!(long.len() < 250 && !long.contains('\u{1b}'), "{long}");
}

fn counts(blocks: impl Iterator<Item = u64>) -> HashMap<u64, usize> {
    let mut counts = HashMap::new();
    blocks.for_each(|block| *counts.entry(block).or_default() += 1);
    counts
}

fn mass(counts: &HashMap<u64, usize>, block_of_rank: impl Fn(u64) -> u64, ranks: u64) -> usize {
    (0..ranks).filter_map(|rank| counts.get(&block_of_rank(rank))).sum()
}

#[test]
fn zipf_is_scattered_over_the_file_as_by_fio() {
    const COUNT: usize = 100_000;
    let Some(real) = real_fio("zipf:1.2:0.3", COUNT) else { return };
    assert!(real.len() >= COUNT, "{}", real.len());
    let mut zipf = Zipf::new(65_536, 1.2, 7).with_centre(0.3);
    let expected = zipf.clone();
    let (real, ours) = (counts(real.into_iter().take(COUNT)), counts((0..COUNT).map(|_| zipf.next())));
    for ranks in [1, 2, 3, 10, 100, 1_000, 10_000] {
        let place = |rank| expected.block_of_rank(rank);
        let (real, ours) = (mass(&real, place, ranks), mass(&ours, place, ranks));
        assert!(real.abs_diff(ours) < COUNT / 100, "the {ranks} most popular: {real} of fio, {ours} here");
    }
    assert!(
        real.len().abs_diff(ours.len()) < ours.len() / 20,
        "{} blocks of fio, {}",
        real.len(),
        ours.len()
    );
}

#[test]
fn pareto_is_scattered_over_the_file_as_by_fio() {
    const COUNT: usize = 50_000;
    let Some(real) = real_fio("pareto:0.2:0.3", COUNT) else { return };
    let pareto = crate::pareto::Pareto::new(65_536, 0.2, Some(0.3), 7);
    let counts = counts(real.into_iter().take(COUNT));
    let popular = mass(&counts, |rank| pareto.block_of_rank(rank), 65_536 / 5);
    assert!(popular.abs_diff(COUNT * 8 / 10) < COUNT / 50, "{popular}");
}
