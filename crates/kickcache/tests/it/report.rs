//! Reports, and their page in a real browser.
//!
//! `KICKCACHE_REPORT_DIR` names a directory in which the page and its pictures are kept for inspection.

use std::path::{Path, PathBuf};

use kickcache_engine::time::{Duration, Instant};
use kickcache_model::result::{DeviceResult, JobResult, RunResult};
use kickcache_random::Random;
use kickcache_report::Report;

use crate::daemon::{KICKCACHE, Spec};
use crate::scratch::{MIB, Scratch};
use crate::{need_kickcache, need_tools, tools};

const SECONDS: u64 = 300;

/// Operations per second of each job at the start and at the end, and the hit ratio.
#[derive(Clone, Copy)]
struct Shape {
    name: &'static str,
    rates: [f64; 2],
    ratios: [f64; 2],
    has_cache: bool,
}

const SHAPES: [Shape; 4] = [
    Shape { name: "hard disks", rates: [470.0, 470.0], ratios: [0.0, 0.0], has_cache: false },
    Shape { name: "lvmcache, full", rates: [900.0, 1_900.0], ratios: [0.7, 0.94], has_cache: true },
    Shape { name: "kickcache, full", rates: [3_000.0, 14_000.0], ratios: [0.82, 0.985], has_cache: true },
    Shape { name: "SSD", rates: [52_000.0, 52_000.0], ratios: [1.0, 1.0], has_cache: false },
];

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "figures that are made up stay small and above 0"
)]
fn run(shape: Shape, seed: u64) -> RunResult {
    let mut random = Random::new(seed);
    let mut run =
        RunResult::new(shape.name, "2 jobs x 8 reads of 4 KiB in flight, zipf 1.2 over 4 GiB", seed);
    run.nanos = SECONDS * 1_000_000_000;
    run.origin = "two mirrored 2.5-inch drives of 5400 rpm".into();
    run.cache = shape.has_cache.then(|| "4 GiB of SSD".into());
    let (mut cache, mut origin) = (DeviceResult::default(), DeviceResult::default());
    run.jobs = (1..=2).map(|number| JobResult::new(&format!("job {number}"), 8)).collect();
    for second in 0..SECONDS {
        let at = Instant::from_nanos(second * 1_000_000_000 + 500_000_000);
        let part = 1.0 - (-(second as f64) / 60.0).exp();
        let between = |ends: [f64; 2]| ends[0] + (ends[1] - ends[0]) * part;
        let ratio = between(shape.ratios);
        for job in &mut run.jobs {
            let count = (between(shape.rates) * random.uniform(0.85, 1.15)) as u64;
            job.reads.count += count;
            job.reads.bytes += count * 4096;
            job.reads.ended.add(at, count);
            for _ in 0..40 {
                let is_hit = random.unit() < ratio;
                let micros =
                    if is_hit { random.log_normal(135.0, 0.25) } else { random.log_normal(14_000.0, 1.1) };
                job.reads.latencies.record_many(Duration::from_micros(micros as u64), count / 40);
            }
            if shape.has_cache {
                run.hit_blocks.add(at, (count as f64 * ratio) as u64);
                run.miss_blocks.add(at, (count as f64 * (1.0 - ratio)) as u64);
            }
        }
        let busy = |share: f64| Instant::from_nanos(second * 1_000_000_000 + (share * 1e9) as u64);
        cache.busy.add_span(busy(0.0), busy(ratio * 0.4 * random.uniform(0.8, 1.2)));
        origin.busy.add_span(busy(0.0), busy((1.0 - ratio * 0.2) * random.uniform(0.9, 1.0)));
    }
    if shape.has_cache {
        run.promoted_bytes = 3 << 30;
        run.logged_bytes = 200 << 20;
        (cache.writes, cache.write_bytes) = (60_000, (run.promoted_bytes + run.logged_bytes) * 5 / 4 * seed);
        run.cache_device = Some(cache);
    }
    run.origin_device = Some(origin);
    run
}

fn page() -> String {
    let runs: Vec<RunResult> = (1..).zip(SHAPES).map(|(seed, shape)| run(shape, seed)).collect();
    let introduction = "Random reads over a pair of hard disks: bare, with two caches of 4 GiB that are full of stale data \
                        at first, and on the SSD alone. These figures are made up.";
    Report { title: "A cache in front of hard disks", introduction, runs: &runs }.html()
}

fn browse(profile: &Path, page: &Path, arguments: &[&str]) -> String {
    let own = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run"];
    let profile = format!("--user-data-dir={}", profile.display());
    let page = format!("file://{}", page.display());
    tools::run(
        "chromium",
        own.into_iter().chain([profile.as_str()]).chain(arguments.iter().copied()).chain([page.as_str()]),
    )
}

/// Measurements of the browser in the document, so that `--dump-dom` prints them.
const PROBE: &str = "<script>{
  const root = document.documentElement;
  const svg = [...document.querySelectorAll('svg.plot')].filter((svg) => svg.getBoundingClientRect().width > 0)[0];
  const box = svg.getBoundingClientRect();
  svg.dispatchEvent(new PointerEvent('pointermove', { clientX: box.left + box.width / 2, clientY: box.top + 50 }));
  const tip = document.getElementById('tip').textContent;
  root.dataset.probe = [root.scrollWidth, window.innerWidth, tip].join('|');
}</script>";

#[test]
fn live_volumes_are_results_like_those_of_other_commands() {
    need_kickcache!();
    let scratch = Scratch::new();
    let daemon = Spec::new(&scratch, &scratch.sparse("origin", 16 * MIB), "write-back", "16M").start();
    let mut client = daemon.connect();
    client.write(0, &[1; 8192]);
    (0..3).for_each(|_| drop(client.read(0, 4096)));
    let names = ["live.json", "simulated.json", "job.fio", "page.html"];
    let [live, simulated, job, page] = names.map(|name| scratch.path(name));
    std::fs::write(&live, daemon.control(&["status", "--json"])).unwrap();
    drop(client);
    daemon.stop();
    let alone = tools::run(KICKCACHE, ["report".into(), live.clone()]);
    assert!(alone.starts_with("v: ") && alone.contains(" IOPS"), "{alone}");
    std::fs::write(&job, "[a]\nrw=randread\nbs=4k\nsize=1m\ntime_based\nruntime=1\n").unwrap();
    let run = ["simulate", "run", "--cache", "none", "--json", "--job"].map(PathBuf::from);
    std::fs::write(&simulated, tools::run(KICKCACHE, run.into_iter().chain([job]))).unwrap();
    let before = std::fs::read_to_string(&live).unwrap();
    let over = ["report".into(), simulated.clone(), live.clone(), "-o".into(), live.clone()];
    let refused = std::process::Command::new(KICKCACHE).args(over).output().unwrap();
    assert!(refused.status.code() == Some(2) && std::fs::read_to_string(&live).unwrap() == before);
    let both = ["report".into(), simulated, live, "-o".into(), page.clone()];
    let said = tools::run(KICKCACHE, both);
    assert!(
        said.contains("live: v: ") && !said.contains("x;"),
        "no ratio of a rate that clients decide: {said}"
    );
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("100.0 %"), "three hits of three");
    assert!(page.contains("served volumes, for ") && page.contains("s; their clients decide"), "what it is");
}

#[test]
fn the_page_fits_desk_phone_and_paper_with_its_script() {
    need_tools!("chromium");
    let scratch = Scratch::new();
    let kept = std::env::var_os("KICKCACHE_REPORT_DIR").map(PathBuf::from);
    let directory = kept.clone().unwrap_or_else(|| scratch.dir().to_owned());
    let profile = scratch.path("profile");
    let (plain, probed) = (directory.join("report.html"), directory.join("probed.html"));
    std::fs::write(&plain, page()).unwrap();
    std::fs::write(&probed, page() + PROBE).unwrap();
    for width in [1280, 600] {
        let dom = browse(&profile, &probed, &["--dump-dom", &format!("--window-size={width},900")]);
        let probe = dom.split("data-probe=\"").nth(1).and_then(|rest| rest.split('"').next());
        let probe: Vec<&str> = probe.expect("the script ran").split('|').collect();
        let [scroll, inner]: [u64; 2] = [probe[0].parse().unwrap(), probe[1].parse().unwrap()];
        assert!(scroll <= inner, "the page is {scroll} wide on a screen of {inner}");
        assert!(probe[2].contains("kickcache, full") && probe[2].contains('k'), "{probe:?}");
        assert!(dom.contains("<p class=\"chooser\">"), "the chooser is shown");
    }
    let pdf = directory.join("report.pdf");
    browse(&profile, &plain, &[&format!("--print-to-pdf={}", pdf.display()), "--no-pdf-header-footer"]);
    assert!(std::fs::read(&pdf).unwrap().starts_with(b"%PDF"));
    if kept.is_some() {
        for (name, size) in [("desk", "1280,5200"), ("phone", "500,9000")] {
            let picture = format!("--screenshot={}", directory.join(format!("{name}.png")).display());
            browse(&profile, &plain, &[&picture, &format!("--window-size={size}")]);
        }
    }
}
