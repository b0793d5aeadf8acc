//! The parameters of each run, and the figures of each job and device.

use kickcache_model::result::{JobResult, RunResult};
use kickcache_units::{show_bytes, show_count, show_rate};

use crate::html::{escape, fold, section};
use crate::measure::is_live;
use crate::plot::axis::show_nanos;
use crate::repeated_runs::RepeatedRuns;

/// The most runs of a page whose tables of jobs and devices are sections; with more runs, they are folded.
const OPEN_RUNS_MAX: usize = 5;

const MIDDLE: &str = "<p class=\"note\">Repeated runs are shown by the run with the median rate.</p>\n";
const NOTHING: &str = "\u{2013}";

pub(crate) fn table(known: &[RepeatedRuns<'_>]) -> String {
    let runs: Vec<&RunResult> = known.iter().map(|known| known.run).collect();
    let middle = if known.iter().any(|known| known.all.len() > 1) { MIDDLE } else { "" };
    let rows: String = runs.iter().map(|run| setup(run)).collect();
    let setups = format!(
        "<table class=\"facts\">\n<thead><tr><th scope=\"col\">run</th><th scope=\"col\">cache device</th>\
         <th scope=\"col\">origin</th><th scope=\"col\">load</th><th scope=\"col\">time</th>\
         <th scope=\"col\">seed</th></tr></thead>\n<tbody>\n{rows}</tbody>\n</table>\n"
    );
    let rows: String = runs.iter().flat_map(|run| run.jobs.iter().map(move |job| of_job(run, job))).collect();
    let jobs = format!(
        "{middle}<table class=\"facts numbers\">\n<thead><tr><th scope=\"col\">run, job</th><th scope=\"col\">reads</th>\
         <th scope=\"col\">writes</th><th scope=\"col\">IOPS</th><th scope=\"col\">p50</th>\
         <th scope=\"col\">p90</th><th scope=\"col\">p99</th><th scope=\"col\">p99.9</th>\
         <th scope=\"col\">longest</th></tr></thead>\n<tbody>\n{rows}</tbody>\n</table>\n"
    );
    let rows: String = runs.iter().flat_map(|run| of_devices(run)).collect();
    let devices = if rows.is_empty() {
        String::new()
    } else {
        format!(
            "{middle}<table class=\"facts numbers\">\n<thead><tr><th scope=\"col\">run, device</th>\
             <th scope=\"col\">reads</th><th scope=\"col\">read</th><th scope=\"col\">writes</th>\
             <th scope=\"col\">written</th><th scope=\"col\">flushes</th></tr></thead>\n\
             <tbody>\n{rows}</tbody>\n</table>\n"
        )
    };
    let part = if runs.len() <= OPEN_RUNS_MAX { section } else { fold };
    section("Parameters of the runs", &setups)
        + &part("Each job", &jobs)
        + &if devices.is_empty() { devices } else { part("Each device", &devices) }
}

fn cell(label: &str, value: &str) -> String {
    format!("<td data-label=\"{label}\">{}</td>", escape(value))
}

#[expect(clippy::cast_precision_loss, reason = "a run lasts far less than 2^53 ns")]
fn setup(run: &RunResult) -> String {
    let seconds = run.nanos as f64 / 1e9;
    let time = if seconds < 120.0 { format!("{seconds:.1} s") } else { format!("{:.1} min", seconds / 60.0) };
    [
        format!("<tr><th scope=\"row\">{}</th>", escape(&run.name)),
        cell("cache device", run.cache.as_deref().unwrap_or("none")),
        cell("origin", &run.origin),
        cell("load", &run.workload),
        cell("time", &time),
        // Runs with real clients draw no random numbers.
        cell("seed", &if is_live(run) { NOTHING.into() } else { run.seed.to_string() }),
        "</tr>\n".into(),
    ]
    .concat()
}

#[expect(clippy::cast_precision_loss, reason = "latencies are far below 2^53 ns")]
fn of_job(run: &RunResult, job: &JobResult) -> String {
    let latencies = job.latencies();
    let show = |nanos: u64| if latencies.count() == 0 { NOTHING.into() } else { show_nanos(nanos as f64) };
    [
        format!("<tr><th scope=\"row\">{}, {}</th>", escape(&run.name), escape(&job.name)),
        cell("reads", &show_count(job.reads.count)),
        cell("writes", &show_count(job.writes.count)),
        cell("IOPS", &show_rate(run.job_iops(job))),
        cell("p50", &show(latencies.p50())),
        cell("p90", &show(latencies.p90())),
        cell("p99", &show(latencies.p99())),
        cell("p99.9", &show(latencies.p99_9())),
        cell("longest", &show(latencies.max())),
        "</tr>\n".into(),
    ]
    .concat()
}

fn of_devices(run: &RunResult) -> Vec<String> {
    let devices = [("cache device", &run.cache_device), ("origin", &run.origin_device)];
    let rows = devices.into_iter().filter_map(|(name, device)| Some((name, device.as_ref()?)));
    let row = |(name, device): (&str, &kickcache_model::result::DeviceResult)| {
        [
            format!("<tr><th scope=\"row\">{}, {name}</th>", escape(&run.name)),
            cell("reads", &show_count(device.reads)),
            cell("read", &show_bytes(device.read_bytes)),
            cell("writes", &show_count(device.writes)),
            cell("written", &show_bytes(device.write_bytes)),
            cell("flushes", &show_count(device.flushes)),
            "</tr>\n".into(),
        ]
        .concat()
    };
    rows.map(row).collect()
}
