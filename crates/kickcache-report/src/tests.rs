use kickcache_engine::time::{Duration, Instant};
use kickcache_model::result::{DeviceResult, JobResult};

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
fn a_page_has_every_section_and_loads_no_resources() {
    let page = page(&[run("disk", 10_000, 2), with_cache(run("cached", 100, 2))]);
    for part in [
        "<h1>A &lt;title&gt;</h1>",
        "Words &amp; more.",
        "Operations a second",
        "Latency by percentile",
        "Hit ratio",
        "Utilisation",
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

/// Text that ends elements, attributes in either quotes, scripts, and JSON strings.
const HOSTILE: &str =
    "</script><script>alert(1)</script><img src=x onerror=alert(1)>\"' onload=\"alert(1)&lt;&amp;\u{2028}";

#[test]
fn no_text_of_a_run_becomes_a_tag_or_attribute() {
    let hostile = |seed| {
        let mut run = with_cache(run(HOSTILE, 1_000, 2));
        run.seed = seed;
        run.family = Some(HOSTILE.into());
        run.predicts = Some(HOSTILE.into());
        run.cache = Some(HOSTILE.into());
        run.cache_bytes = Some(seed << 30);
        (run.origin, run.workload) = (HOSTILE.into(), HOSTILE.into());
        run.jobs.iter_mut().for_each(|job| job.name = HOSTILE.into());
        run
    };
    let other = RunResult { name: format!("{HOSTILE} 2"), ..hostile(2) };
    let page = Report { title: HOSTILE, introduction: HOSTILE, runs: &[hostile(1), other] }.html();
    assert_eq!((page.matches("<script").count(), page.matches("</script").count()), (2, 2));
    assert!(!page.contains("<img"), "a tag");
    // The quotes of the text are entities, or the double quote is behind a backslash in the JSON.
    for (at, _) in page.match_indices(" onload=") {
        assert!(
            page[..at].ends_with("&#39;") || page[..at].ends_with("\\\"'"),
            "{}",
            &page[at - 40..at + 20]
        );
    }
}

#[test]
fn a_live_run_is_not_compared_by_its_rate() {
    let mut live = RunResult::new("live", "clients", 0);
    (live.nanos, live.pacing) = (10_000_000_000, kickcache_model::result::Pacing::Open);
    live.jobs.push(JobResult::new("clients", 1));
    live.jobs[0].reads.count = 440;
    let page = page(&[run("disk", 10_000, 1), live]);
    assert!(page.contains("disk: 100 IOPS, live: 44."), "a ratio of what cannot be compared");
    assert!(page.contains("data-measure=\"NaN\"") && !page.contains("\u{d7} 0.44"));
}

#[test]
fn a_run_is_compared_with_its_twin_naming_load_differences() {
    let twin = RunResult { twin: Some("a: warm".into()), ..run("b: warm", 40_000, 1) };
    let other = RunResult { workload: "other".into(), ..run("b: other", 40_000, 1) };
    let sentences = answer(&[run("a: cold", 10_000, 1), run("a: warm", 20_000, 1), twin, other]);
    assert!(
        sentences[1]
            .starts_with("b: warm has 0.50 times the IOPS of a: warm: 25 against 50, in one run each"),
        "{sentences:?}"
    );
    assert!(!sentences[1].contains("differ"), "{sentences:?}");
    assert!(
        sentences[2]
            .starts_with("b: other has 0.25 times the IOPS of a: cold: 25 against 100, in one run each"),
        "{sentences:?}"
    );
    assert!(sentences[2].ends_with("; the loads differ."), "{sentences:?}");
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

#[test]
fn runs_that_differ_in_their_seed_are_one_row() {
    let mut runs = [run("disk", 1_000, 1), run("disk", 2_000, 1), run("disk", 4_000, 1)];
    (1..).zip(&mut runs).for_each(|(seed, run)| run.seed = seed);
    let page = page(&runs);
    assert_eq!(page.matches("<tr data-measure").count(), 1);
    assert!(page.contains("data-measure=\"500.000\""), "the middle one stands for all");
    assert!(page.contains("250 to 1.0k (3 runs)"));
}

#[test]
fn many_jobs_are_shown_by_three() {
    let mut run = run("disk", 10_000, 40);
    (0..).zip(&mut run.jobs).for_each(|(number, job)| job.name = format!("job-{number}"));
    let page = page(&[run]);
    assert!(page.contains("Of 40 jobs the slowest, the middle one and the fastest."));
    assert!(!page.contains("<li data-line=\"4\">"), "more than three jobs and their sum");
}

fn collection(runs: &[RunResult]) -> String {
    let row = |name: &str, figures: [Option<f64>; 2]| OverviewRow {
        name: name.into(),
        note: "30 min".into(),
        figures: figures.to_vec(),
        group: Some(0),
    };
    let overview = Overview {
        heading: "Rows".into(),
        note: String::new(),
        series: vec!["published".into(), "<model>".into()],
        measure: 0,
        rows: vec![row("full", [Some(1_000.0), Some(2_500.0)]), row("empty", [Some(40_000.0), None])],
    };
    let group = Group { title: "Full".into(), note: "Rows: full".into(), runs: vec![0, 1], first: 1 };
    let (title, introduction) = ("Many", "Runs.");
    Collection { title, introduction, answer: &[], overviews: &[overview], groups: &[group], runs }.html()
}

#[test]
fn a_row_of_an_overview_leads_to_its_charts() {
    let page = collection(&[run("disk", 10_000, 1), with_cache(run("cached", 100, 1))]);
    assert!(page.contains("<a href=\"#group-0\">full</a>") && page.contains("<div id=\"group-0\">"));
    assert!(page.contains("\u{d7} 2.50"), "ratios are to the first column");
    assert!(page.contains("&lt;model&gt;") && !page.contains("<model>"));
    assert!(page.contains("class=\"mark m0\" style=\"left:0.00%\""));
    assert!(page.contains("class=\"mark m0\" style=\"left:80.10%\""));
}

#[test]
fn an_overview_without_figures_is_a_page_all_the_same() {
    let rows = vec![OverviewRow {
        name: "x".into(),
        note: String::new(),
        figures: vec![Some(0.0), None],
        group: None,
    }];
    let overview = Overview {
        heading: "Rows".into(),
        note: String::new(),
        series: vec!["a".into(), "b".into()],
        measure: 1,
        rows,
    };
    let page = Collection {
        title: "",
        introduction: "",
        answer: &[],
        overviews: &[overview],
        groups: &[],
        runs: &[],
    }
    .html();
    assert!(page.contains("</html>") && !page.contains("NaN") && !page.contains("inf"));
}

#[test]
fn curves_name_the_sizes_that_were_tried() {
    let curve = |name: &str, is_main| Curve { name: name.into(), is_main, hit_ratios: vec![0.25, 0.75] };
    let trace = TraceCurves {
        name: "vm".into(),
        note: "A trace.".into(),
        footprint_bytes: 1 << 30,
        sizes: vec![10 << 20, 512 << 20],
        curves: vec![curve("kickcache", true), curve("LRU", false)],
        written_per_byte: vec![1.1, 1.2],
        origin_factor: vec![1.0, 1.5],
    };
    let page = Curves { title: "Hits", introduction: "", traces: vec![trace] }.html();
    for part in [
        "10 MiB",
        "512 MiB",
        ">10 MiB</text>",
        ">512 MiB</text>",
        "75.0 %",
        "\u{d7} 1.50",
        "vm, a cache of 512 MiB: kickcache hits 75.0 %",
    ] {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn the_answer_is_at_the_top_in_words() {
    let page = page(&[run("disk", 10_000, 1), run("cached", 100, 1)]);
    let answer = "cached has 100 times the IOPS of disk: 10,000 against 100, in one run each; p99 100 \u{b5}s against 10 ms.";
    assert!(
        page.contains(answer),
        "{}",
        page.split("class=\"answer\"").nth(1).unwrap_or_default().split("</section>").next().unwrap()
    );
    assert!(page.find(answer) < page.find("<table"));
}

#[test]
fn the_answer_has_the_number_of_runs_behind_each_figure() {
    let disk = run("disk", 10_000, 1);
    let rounds = (1..=4).map(|seed| RunResult { seed, ..run("cached", 100, 1) });
    let runs: Vec<RunResult> = [disk].into_iter().chain(rounds).collect();
    let sentences = answer(&runs);
    let expected = ": 10,000 against 100, the median of 4 runs against one run; ";
    assert!(sentences[0].contains(expected), "{sentences:?}");
}

#[test]
fn repeated_runs_get_a_verdict_from_their_rounds() {
    let mut runs = Vec::new();
    for (seed, gap) in [(1, 1_000), (2, 1_010), (3, 990)] {
        runs.push(RunResult { seed, ..run("disk", gap, 1) });
        runs.push(RunResult { seed, ..run("twin", gap + 5, 1) });
        runs.push(RunResult { seed, ..run("cached", gap / 10, 1) });
    }
    let page = page(&runs);
    assert!(
        page.contains("twin is as fast as disk: ") && page.contains(" 3 rounds); 995 against 1,000;"),
        "no equality"
    );
    assert!(page.contains("cached is faster than disk: 10.0 times its IOPS (10.0 to 10."), "no verdict");
}

#[test]
fn a_load_at_fixed_times_is_compared_by_latency() {
    let open = |name: &str, nanos| {
        let mut run = run(name, 10_000, 1);
        run.pacing = kickcache_model::result::Pacing::Open;
        run.jobs[0].reads.latencies = kickcache_model::result::latencies::Latencies::default();
        run.jobs[0].reads.latencies.record_many(Duration::from_nanos(nanos), 1_000);
        run
    };
    let page = page(&[open("disk", 8_000_000), open("cached", 80_000)]);
    assert!(
        page.contains("cached has 0.010 times the mean latency of disk: 80 \u{b5}s against 8 ms"),
        "no mean latency"
    );
    assert!(
        page.contains("\u{d7} 0.01") && !page.contains("\u{d7} 1.00</td><td class=\"\" data-label=\"bytes")
    );
}

#[test]
fn caches_of_several_sizes_are_drawn_by_size() {
    let sized = |bytes: u64, gap| {
        let name = format!("kickcache, {}", kickcache_units::show_bytes(bytes));
        RunResult { cache_bytes: Some(bytes), ..with_cache(run(&name, gap, 1)) }
    };
    let page = page(&[run("disk", 10_000, 1), sized(4 << 30, 1_000), sized(8 << 30, 500)]);
    assert!(
        page.contains("By size of the cache")
            && page.contains(">4 GiB</text>")
            && page.contains(">8 GiB</text>")
    );
    assert!(!self::page(&[sized(4 << 30, 1_000)]).contains("By size of the cache"));
}

#[test]
fn no_latency_axis_begins_at_zero() {
    let mut fast = run("memory", 1_000, 1);
    fast.jobs[0].reads.latencies.record_many(Duration::from_nanos(0), 5_000);
    let page = page(&[fast]);
    assert!(!page.contains(">0 ns</text>"), "an axis begins at 0 ns");
}

#[test]
fn compared_runs_share_their_time_axis() {
    let mut short = run("short", 10_000, 1);
    short.nanos = 4_000_000_000;
    let page = page(&[run("long", 10_000, 1), short]);
    let part = page.split("<h2>short</h2>").nth(1).unwrap();
    assert!(
        part.split("</figure>").next().unwrap().contains(">10 s</text>"),
        "the axis ends with its own run"
    );
}

#[test]
fn the_ramp_time_is_excluded_from_charts_but_not_totals() {
    let mut run = with_cache(run("cached", 1_000, 1));
    run.hit_blocks.add(Instant::from_nanos(7_500_000_000), 100);
    let chart = |run: &RunResult| charts::side_by_side(std::slice::from_ref(run), 0);
    assert!(chart(&run).contains("\"0.5 s\"") || chart(&run).contains("&quot;0.5 s&quot;,&quot;7.5 s&quot;"));
    let per_hour = |run: &RunResult| charts::endurance(&repeated_runs::fold(std::slice::from_ref(run)));
    assert!(per_hour(&run).contains("1.1 GiB an hour"), "{}", per_hour(&run));
    run.ramp_nanos = 5_000_000_000;
    assert!(!chart(&run).contains("&quot;0.5 s&quot;,&quot;7.5 s&quot;"), "hits of the ramp time");
    assert!(per_hour(&run).contains("720 MiB an hour"), "{}", per_hour(&run));
    assert!(page(&[run]).contains("exclude the ramp time"));
}

#[test]
fn repeated_runs_show_medians_and_ratios_by_round() {
    let seeded = |name: &str, gap: u64, seed: u64| RunResult { seed, ..run(name, gap, 1) };
    let runs = [
        seeded("slow", 1_000, 1),
        seeded("slow", 2_000, 2),
        seeded("slow", 4_000, 3),
        seeded("fast", 1_000, 3),
        seeded("fast", 100, 1),
        seeded("fast", 1_000, 2),
    ];
    let page = page(&runs);
    // Of 10, 2 and 4 the geometric mean is 4.31; the ratio of the medians would be 2.
    assert!(
        page.contains(
            "fast has no verdict against slow because the rounds differ too much: 4.31 times its IOPS ("
        ),
        "the answer"
    );
    assert!(page.contains("<td class=\"ratio\" data-label=\"ratio\">\u{d7} 4.31</td>"), "the table");
    assert!(page.contains("data-rounds=\"{&quot;1&quot;:"), "what the script makes ratios of");
}

#[test]
fn a_cache_has_the_same_colour_in_all_charts() {
    let sized = |name: &str, gib: u64| RunResult {
        family: Some(name.into()),
        cache_bytes: Some(gib << 30),
        ..with_cache(run(&format!("{name}, {gib} GiB"), 1_000, 1))
    };
    let runs = [run("disk", 1_000, 1), sized("cache", 1), sized("cache", 2)];
    let by_size = by_size::section(&repeated_runs::fold(&runs));
    assert!(by_size.contains("class=\"s1") && !by_size.contains("class=\"s0"), "{by_size}");
}

#[test]
fn a_load_at_fixed_times_has_latencies_by_size_only() {
    let sized = |gib: u64| RunResult {
        family: Some("cache".into()),
        cache_bytes: Some(gib << 30),
        pacing: kickcache_model::result::Pacing::Open,
        ..with_cache(run(&format!("cache, {gib} GiB"), 1_000, 1))
    };
    let by_size = by_size::section(&repeated_runs::fold(&[sized(1), sized(2)]));
    assert!(by_size.contains("Mean latency") && !by_size.contains("Operations a second"));
}

#[test]
fn omitted_sentences_are_mentioned() {
    let runs: Vec<RunResult> = (0..11).map(|index| run(&format!("run{index}"), 10_000, 1)).collect();
    let sentences = answer(&runs);
    assert!(
        sentences.len() == 10
            && sentences[9].starts_with("run10 has 1.00 times the IOPS of run0: 100 against"),
        "each run has a sentence"
    );
    let page = page(&runs);
    assert!(page.contains("<p>2 more runs are in the table below.</p>"), "a page says what it leaves out");
    assert!(!page.contains("run10 has"), "eight sentences are enough");
}

#[test]
fn runs_that_do_not_count_get_no_verdict() {
    let void = |seed, name: &str, gap| RunResult {
        seed,
        standing: kickcache_model::result::Validity::Void,
        ..run(name, gap, 1)
    };
    let runs: Vec<RunResult> = (1..=3)
        .flat_map(|seed| [void(seed, "disk", 1_000 + seed), void(seed, "cached", 100 + seed)])
        .collect();
    let sentences = answer(&runs);
    assert!(
        sentences[0].contains("which proves nothing") && !sentences[0].contains("faster"),
        "{sentences:?}"
    );
    let page = page(&runs);
    assert!(
        !page.contains("\u{d7} 9") && page.contains("data-measure=\"NaN\""),
        "a ratio of what proves nothing"
    );
}

#[test]
fn charts_and_table_have_the_same_figures_of_repeated_runs() {
    let sized = |bytes: u64, seed, hits: u64, written: u64| {
        let mut run = with_cache(run(&format!("k, {}", kickcache_units::show_bytes(bytes)), 1_000 + seed, 1));
        (run.seed, run.cache_bytes) = (seed, Some(bytes));
        run.hit_blocks = kickcache_model::result::series::Series::default();
        run.miss_blocks = kickcache_model::result::series::Series::default();
        run.hit_blocks.add(Instant::ZERO, hits);
        run.miss_blocks.add(Instant::ZERO, 1_000 - hits);
        run.cache_device.as_mut().unwrap().write_bytes = written << 20;
        run
    };
    let runs = [
        sized(1 << 30, 1, 661, 20),
        sized(1 << 30, 2, 714, 30),
        sized(1 << 30, 3, 500, 16),
        sized(2 << 30, 1, 800, 20),
    ];
    let page = page(&runs);
    assert!(
        page.contains("data-label=\"hits\">66.1 %")
            && page.contains("data-label=\"written to cache\">20 MiB")
    );
    let by_size = page.split("By size of the cache").nth(1).unwrap().split("</section>").next().unwrap();
    assert!(by_size.contains("0.661") && !by_size.contains("0.714"), "another figure than in the table");
    let bars = page.split("Bytes written to the cache device").nth(1).unwrap();
    assert!(
        bars.contains("<p class=\"figure\">20 MiB (") && !bars.contains("<p class=\"figure\">30"),
        "bars"
    );
}

#[test]
fn unknown_figures_of_a_live_volume_are_not_drawn() {
    let mut live = RunResult::new("vm1", "clients", 0);
    (live.nanos, live.pacing) = (10_000_000_000, kickcache_model::result::Pacing::Open);
    live.jobs.push(JobResult::new("clients", 1));
    live.jobs[0].reads.count = 440;
    live.hit_blocks.add(Instant::ZERO, 40);
    let html = page(std::slice::from_ref(&live));
    assert!(!html.contains(">0 ns<") && !html.contains("<h2>vm1</h2>"), "figures of nothing");
    assert!(!html.contains("Hit ratio</"), "a chart of one dot");
    assert!(html.contains("data-label=\"seed\">\u{2013}</td>"), "a seed of clients");
    let twice = answer(&[live.clone(), RunResult { name: "vm2".into(), ..live }]);
    assert!(!twice[0].contains(" times "), "{twice:?}");
}
