use std::time::Duration;

use serde_json::json;

use super::*;

fn of(output: &str) -> Run {
    Run { output: output.into(), wall: Duration::from_millis(1500), cpu: Duration::from_millis(300) }
}

fn read(metric: &str, output: &str) -> Result<f64, String> {
    metric.parse::<Metric>().unwrap().read(&of(output))
}

fn direction(iops: f64, count: u64, bins: &Value) -> Value {
    let clat = json!({"mean": iops / 2.0, "percentile": {"99.000000": 700}, "bins": bins});
    json!({"iops": iops, "bw_bytes": iops * 4096.0, "total_ios": count, "clat_ns": clat})
}

fn fio(jobs: &[Value]) -> String {
    format!("note: both jobs at once\n{}\n", json!({"fio version": "fio-3.33", "jobs": jobs}))
}

fn job(read: &Value, write: &Value) -> Value {
    let idle = json!({"iops": 0.0, "bw_bytes": 0, "total_ios": 0, "clat_ns": {}});
    json!({"jobname": "a", "error": 0, "read": read, "write": write, "trim": idle})
}

#[test]
fn names_are_read_and_shown() {
    for name in ["iops", "bandwidth", "mean", "p50", "p99.9", "time", "cpu-time", "number", "json:/a/0/b"] {
        assert_eq!(name.parse::<Metric>().unwrap().to_string(), name);
    }
    for name in ["IOPS", "p", "p0", "p100", "pnan", "p-1", "json:", "json:a", ""] {
        assert!(name.parse::<Metric>().is_err(), "{name}");
    }
}

#[test]
fn figures_of_fio_are_of_all_jobs_and_directions() {
    let (one, two) = (
        direction(100.0, 100, &json!({"10": 99, "50": 1})),
        direction(300.0, 300, &json!({"10": 297, "90": 3})),
    );
    let none = direction(0.0, 0, &json!({}));
    let output = fio(&[job(&one, &none), job(&none, &two)]);
    assert_eq!(read("iops", &output), Ok(400.0));
    assert_eq!(read("bandwidth", &output), Ok(400.0 * 4096.0));
    assert_eq!(read("mean", &output), Ok(125.0));
    assert_eq!(read("p50", &output), Ok(10.0));
    assert_eq!(read("p99.1", &output), Ok(50.0));
    assert_eq!(read("p99.9", &output), Ok(90.0));
}

#[test]
fn percentiles_without_histograms_are_those_of_one_job_only() {
    let (one, none) = (direction(100.0, 100, &json!({})), direction(0.0, 0, &json!({})));
    assert_eq!(read("p99", &fio(&[job(&one, &none)])), Ok(700.0));
    assert!(read("p90", &fio(&[job(&one, &none)])).unwrap_err().contains("--percentile_list=90"));
    assert!(read("p99", &fio(&[job(&one, &one)])).unwrap_err().contains("json+"));
}

#[test]
fn a_job_of_fio_that_failed_gives_no_number() {
    let one = direction(100.0, 100, &json!({}));
    let mut failed = job(&one, &one);
    failed["error"] = json!(5);
    assert_eq!(read("iops", &fio(&[failed])).unwrap_err(), "fio's job `a` failed with errno 5");
}

#[test]
fn results_of_this_program_are_read() {
    let mut result = kickcache_model::result::RunResult::new("a", "b", 1);
    let mut job = kickcache_model::result::JobResult::new("j", 1);
    let at = |micros: u64| kickcache_engine::time::Instant::from_nanos(micros * 1000);
    (0..50).for_each(|_| job.reads.record(at(0), at(200), 4096));
    result.jobs.push(job);
    result.nanos = 500_000_000;
    let one = serde_json::to_string(&result).unwrap();
    assert_eq!(read("iops", &one), Ok(100.0));
    assert_eq!(read("bandwidth", &format!("[{one}]")), Ok(409_600.0));
    assert!((read("p50", &one).unwrap() - 200_000.0).abs() < 200.0);
    assert!(read("iops", &format!("[{one},{one}]")).unwrap_err().contains("a list of 2 results"));
}

#[test]
fn commands_may_print_their_own_numbers() {
    assert_eq!(read("iops", "building\n{\"iops\": 12.5}\n"), Ok(12.5));
    assert_eq!(read("iops", "warm\n 42 \n\n"), Ok(42.0));
    assert_eq!(read("number", "1\n2e3\n"), Ok(2000.0));
    assert_eq!(read("json:/a/1", "{\"a\": [1, 7]}"), Ok(7.0));
    assert_eq!((read("time", ""), read("cpu-time", "")), (Ok(1.5), Ok(0.3)));
}

#[test]
fn incomparable_output_is_refused_with_a_sentence() {
    let faults = [
        ("number", "", "the last line that it printed, ``, is not a number"),
        ("number", "42 MB/s", "the last line that it printed, `42 MB/s`, is not a number"),
        ("number", "0", "number is 0; only numbers above 0 can be compared"),
        ("number", "nan", "number is NaN; only numbers above 0 can be compared"),
        ("number", "-3", "number is -3; only numbers above 0 can be compared"),
        ("json:/a", "no", "it printed no JSON"),
        ("json:/a", "{}", "the JSON of its output has no value at /a"),
        ("json:/a", "{\"a\": \"1\"}", "the JSON of its output has no number at /a"),
        ("iops", "{\"fio version\": \"3\"}", "fio's report is not understood: missing field `jobs`"),
    ];
    for (metric, output, sentence) in faults {
        assert_eq!(read(metric, output).unwrap_err(), sentence);
    }
    assert!(read("iops", "oops").unwrap_err().starts_with("it printed neither JSON nor a number"));
    assert!(read("p99", "{\"iops\": 3}").unwrap_err().contains("no number `p99`"));
}

#[test]
fn a_loss_is_a_number_even_without_a_ratio() {
    for worse in [MetricDirection::Higher, MetricDirection::Lower] {
        assert!(worse.loss(1e-320, 1e300).is_finite() && worse.loss(1e300, 1e-320).is_finite());
        assert_eq!(worse.loss(3.0, 3.0), 0.0);
    }
}
