use kickcache_engine::time::{Duration, Instant};
use kickcache_sim::result::{DeviceResult, JobResult};

use super::*;

fn run(name: &str, gap_micros: u64, jobs: usize) -> RunResult {
    let mut run = RunResult::new(name, "reads of 4 KiB", 1);
    run.nanos = 10_000_000_000;
    for _ in 0..jobs {
        let mut job = JobResult::new("job", 8);
        let mut at = Instant::ZERO;
        while at.as_nanos() < run.nanos {
            let ended = at.plus(Duration::from_micros(gap_micros));
            job.reads.record(at, ended, 4096);
            at = ended;
        }
        run.jobs.push(job);
    }
    run
}

fn with_cache(mut run: RunResult) -> RunResult {
    let at = Instant::from_nanos(500_000_000);
    run.hit_blocks.add(at, 900);
    run.miss_blocks.add(at, 100);
    let mut device = DeviceResult { writes: 3, write_bytes: 3 << 20, ..DeviceResult::default() };
    device.busy.add_span(Instant::ZERO, at);
    run.cache_device = Some(device);
    run.promoted_bytes = 2 << 20;
    run
}

fn page(runs: &[RunResult]) -> String {
    Report { title: "A <title>", introduction: "Words & more.", runs }.html()
}

#[test]
fn a_page_holds_every_section_and_loads_nothing() {
    let page = page(&[run("disk", 10_000, 2), with_cache(run("cached", 100, 2))]);
    for part in [
        "<h1>A &lt;title&gt;</h1>",
        "Words &amp; more.",
        "Operations a second",
        "Latency by percentile",
        "Blocks found in the cache",
        "Devices at work",
        "Bytes written to the cache device",
        "\u{d7} 100",
        "90.0 %",
        "1.50 a byte kept",
        "job 2",
    ] {
        assert!(page.contains(part), "{part}");
    }
    for loading in ["http://", "https://", "<link", "src=", "@import", "url("] {
        assert!(!page.contains(loading), "{loading}");
    }
    assert!(
        !page.contains("NaN") && !page.contains("inf\"") && !page.contains("Infinity\""),
        "a number went wrong"
    );
}

#[test]
fn names_cannot_break_out_of_the_page() {
    let name = "</script><script>alert(1)</script>\"'&";
    let page = page(&[with_cache(run(name, 1_000, 1))]);
    assert_eq!(page.matches("<script").count(), 2);
    assert_eq!(page.matches("</script>").count(), 2);
}

#[test]
fn the_data_of_a_page_can_be_read_again() {
    let runs = [with_cache(run("a<b", 1_000, 1))];
    let page = page(&runs);
    let start = page.find("id=\"data\">").unwrap() + "id=\"data\">".len();
    let data = page[start..].split("</script>").next().unwrap();
    assert_eq!(serde_json::from_str::<Vec<RunResult>>(data).unwrap(), runs);
}

#[test]
fn runs_without_anything_give_a_page_all_the_same() {
    let mut empty = RunResult::new("nothing", "", 1);
    empty.jobs.push(JobResult::new("idle", 1));
    assert!(page(&[empty]).contains("nothing"));
    assert!(page(&[]).contains("</html>"));
}

#[test]
fn a_long_run_gives_a_page_of_bounded_size() {
    let mut long = run("long", 100_000, 1);
    for second in 0..43_200 {
        long.jobs[0].reads.record(
            Instant::from_nanos(second * 1_000_000_000),
            Instant::from_nanos(second * 1_000_000_000 + 70_000),
            4096,
        );
    }
    long.nanos = 43_200_000_000_000;
    let size = page(&[long]).len();
    assert!(size < 400_000, "{size}");
}
