//! Metrics as Prometheus sees them.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::daemon::{Daemon, KICKCACHE, Spec, VOLUME, guarded};
use crate::scratch::{MIB, Scratch};
use crate::{need_kickcache, need_tools, tools};

const SOON: Duration = Duration::from_secs(120);

fn contrib(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib").join(name).canonicalize().unwrap()
}

fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < SOON, "{what} takes too long");
        thread::sleep(Duration::from_millis(100));
    }
}

/// A daemon that serves metrics on a port that the system chose, and its address.
struct Scraped {
    daemon: Daemon,
    address: String,
}

impl Scraped {
    fn start(scratch: &Scratch) -> Scraped {
        let origin = scratch.random("origin", 32 * MIB, 1);
        let mut spec = Spec::new(scratch, &origin, "write-back", "16M");
        spec.extra = ["--metrics", "tcp:127.0.0.1:0"].map(OsString::from).to_vec();
        let daemon = spec.start();
        let address = wait_for("the address of the metrics", || {
            let log = daemon.log();
            let line = log.lines().find_map(|line| line.strip_prefix("metrics: http://"))?;
            line.strip_suffix("/metrics").map(str::to_owned)
        });
        Scraped { daemon, address }
    }

    fn scrape(&self) -> String {
        get(&self.address, "/metrics").expect("the daemon answers")
    }
}

/// The body of a successful reply.
fn get(address: &str, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(SOON)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let is_chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
    head.starts_with("HTTP/1.1 200").then(|| if is_chunked { unchunked(body) } else { body.to_owned() })
}

fn unchunked(body: &str) -> String {
    let (mut rest, mut text) = (body, String::new());
    while let Some((length, after)) = rest.split_once("\r\n") {
        let length = usize::from_str_radix(length, 16).unwrap();
        text += &after[..length];
        rest = after[length..].trim_start_matches("\r\n");
    }
    text
}

/// The name has all labels.
fn value(text: &str, name: &str) -> f64 {
    let found = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    found.unwrap_or_else(|| panic!("no {name} in\n{text}")).parse().unwrap()
}

fn of_volume(metric: &str) -> String {
    format!("kickcache_volume_{metric}{{volume=\"{VOLUME}\"}}")
}

#[test]
fn the_live_page_shows_five_states_without_overlaps() {
    need_kickcache!();
    need_tools!("chromium", "python3");
    let scratch = Scratch::new();
    let scraped = Scraped::start(&scratch);
    let history = wait_for("the first sample", || {
        get(&scraped.address, "/history.json?since=0&curves=1")
            .filter(|text| !text.contains("\"state\":null"))
    });
    let path = scratch.path("history.json");
    fs::write(&path, history).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/live-states");
    let said = tools::run("python3", [script.as_os_str(), "--gate".as_ref(), path.as_os_str()]);
    assert_eq!(said, "good\n");
}

#[test]
fn metrics_match_the_status_and_satisfy_promtool() {
    need_kickcache!();
    let scratch = Scratch::new();
    let scraped = Scraped::start(&scratch);
    let mut client = scraped.daemon.connect();
    for block in 0..8 {
        client.write(block * 8192, &[7; 4096]);
        client.read(block * 8192, 4096);
        client.read(MIB * (2 + block), 4096);
    }
    client.flush();
    let text = scraped.scrape();
    let status = scraped.daemon.status();
    let volume = &status["caches"][0]["volumes"][0];
    let told = |key: &str| volume["counters"][key].as_f64().unwrap();
    for (metric, expected) in [
        ("read_requests_total", told("reads")),
        ("write_requests_total", told("writes")),
        ("flush_requests_total", 1.0),
        ("read_bytes_total", told("read_bytes")),
        ("hit_bytes_total", told("hit_blocks") * 4096.0),
        ("miss_bytes_total", told("miss_blocks") * 4096.0),
        ("logged_bytes_total", 8.0 * 4096.0),
        ("size_bytes", 32.0 * 1024.0 * 1024.0),
    ] {
        assert_eq!(value(&text, &of_volume(metric)), expected, "{metric}");
    }
    let sample = |metric: &str, labels: &str| {
        value(&text, &format!("kickcache_volume_{metric}{{volume=\"{VOLUME}\",{labels}}}"))
    };
    assert_eq!(sample("sessions", "frontend=\"nbd\""), 1.0);
    for (kind, count) in [("hit", 8.0), ("miss", 8.0), ("write", 8.0), ("flush", 1.0)] {
        let labels = format!("kind=\"{kind}\"");
        assert_eq!(sample("request_duration_seconds_count", &labels), count, "{kind}");
        assert!(sample("request_duration_seconds_sum", &labels) > 0.0, "{kind}");
    }
    need_tools!("promtool");
    let mut promtool = Command::new("timeout");
    promtool.args(["-k", "2", "60", "promtool", "check", "metrics"]);
    let mut promtool =
        promtool.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    promtool.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = promtool.wait_with_output().unwrap();
    let said =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && said.is_empty(), "{}: {said}", output.status);
    scraped.daemon.stop();
}

#[test]
fn a_scrape_takes_the_curve_of_one_volume() {
    need_kickcache!();
    let scratch = Scratch::new();
    let mut file = format!(
        "control = {:?}\nmetrics = \"unix:{}\"\n[[cache]]\ndevice = {:?}\nsize = \"16M\"\n",
        scratch.path("control.sock"),
        scratch.path("metrics.sock").display(),
        scratch.path("cache")
    );
    for name in ["a", "b", VOLUME] {
        let (origin, socket) = (scratch.random(name, MIB, 1), scratch.path(&format!("{name}.sock")));
        file += &format!(
            "[[cache.volume]]\nname = \"{name}\"\norigin = {origin:?}\nnbd = [\"unix:{}\"]\n",
            socket.display()
        );
    }
    let config = scratch.path("k.toml");
    fs::write(&config, file).unwrap();
    let command = guarded(KICKCACHE, vec!["serve".into(), "--config".into(), config.into()]);
    let sockets = ["a", "b", VOLUME].map(|name| scratch.path(&format!("{name}.sock")));
    let daemon =
        Daemon::start(command, Spec::new(&scratch, &scratch.path(VOLUME), "write-through", "16M"), &sockets);
    for (name, socket) in ["a", "b", VOLUME].iter().zip(&sockets) {
        crate::client::Client::connect(socket, name).unwrap().read(0, 4096);
    }
    let mut stream = std::os::unix::net::UnixStream::connect(scratch.path("metrics.sock")).unwrap();
    // A busy daemon may answer a scrape without a new curve.
    let mut before = 0;
    let mut scrapes = 0;
    while before < 3 || scrapes < 5 {
        let mut text = String::new();
        write!(stream, "GET /metrics HTTP/1.0\r\n\r\n").unwrap();
        stream.read_to_string(&mut text).unwrap();
        stream = std::os::unix::net::UnixStream::connect(scratch.path("metrics.sock")).unwrap();
        let found =
            text.lines().filter(|line| line.starts_with("kickcache_volume_lru_read_bytes_total{")).count();
        assert!(
            (before..=before + 1).contains(&found),
            "at most one more curve a scrape, and earlier ones stay"
        );
        (before, scrapes) = (found, scrapes + 1);
        assert!(scrapes < 1_000, "{before} curves");
    }
    daemon.stop();
}

#[test]
fn prometheus_accepts_the_rules_and_each_alert_is_tested() {
    let text = |name: &str| fs::read_to_string(contrib(name)).unwrap();
    let (rules, tests) = (text("prometheus/alerts.yml"), text("prometheus/alerts_test.yml"));
    let names = |text: &str, before: &str| -> BTreeSet<String> {
        text.lines().filter_map(|line| line.trim().strip_prefix(before)).map(Into::into).collect()
    };
    let alerts = names(&rules, "- alert: ");
    assert!(alerts.len() > 10 && alerts == names(&tests, "- alertname: "), "{alerts:?}");
    let page = fs::read_to_string(contrib("../docs/reference/metrics.md")).unwrap();
    for alert in &alerts {
        assert!(page.contains(&format!("`{alert}`")), "docs/reference/metrics.md does not tell of {alert}");
        for ending in ["fires", "is silent"] {
            assert!(tests.contains(&format!("- name: {alert} {ending}\n")), "{alert} {ending} is not tested");
        }
    }
    need_tools!("promtool");
    let check = |words: [&str; 2], name: &str| {
        tools::run("promtool", [words[0].into(), words[1].into(), contrib(name).into_os_string()])
    };
    check(["check", "rules"], "prometheus/alerts.yml");
    check(["check", "config"], "prometheus/prometheus.yml");
    check(["test", "rules"], "prometheus/alerts_test.yml");
}

/// Scrapes an address each second, and has our alerts.
struct Prometheus {
    child: Child,
    address: String,
}

impl Prometheus {
    fn start(scratch: &Scratch, scraped: &str) -> Prometheus {
        let config = format!(
            "global: {{scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}}\nrule_files: [{:?}]\nscrape_configs:\n\
             - {{job_name: kickcache, static_configs: [{{targets: [\"{scraped}\"]}}]}}\n",
            contrib("prometheus/alerts.yml")
        );
        fs::write(scratch.path("prometheus.yml"), config).unwrap();
        // Another process may take the chosen port first.
        wait_for("a free port for Prometheus", || {
            let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
            let log = fs::File::create(scratch.path("prometheus.log")).unwrap();
            let arguments = [
                format!("--config.file={}", scratch.path("prometheus.yml").display()),
                format!("--storage.tsdb.path={}", scratch.path("tsdb").display()),
                format!("--web.listen-address={address}"),
            ];
            let mut command = guarded("prometheus", arguments.map(OsString::from).to_vec());
            let mut child =
                command.current_dir(scratch.dir()).stdout(Stdio::null()).stderr(log).spawn().unwrap();
            while child.try_wait().unwrap().is_none() {
                if get(&address, "/-/ready").is_some() {
                    return Some(Prometheus { child, address });
                }
                thread::sleep(Duration::from_millis(100));
            }
            None
        })
    }

    fn ask(&self, path: &str) -> Value {
        let text = get(&self.address, path).unwrap_or_else(|| panic!("{path} is refused"));
        let answer: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(answer["status"], "success", "{path}: {answer}");
        answer["data"].clone()
    }

    fn query(&self, query: &str) -> Vec<Value> {
        let encoded: String = query.bytes().map(|byte| format!("%{byte:02x}")).collect();
        self.ask(&format!("/api/v1/query?query={encoded}"))["result"].as_array().unwrap().clone()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn load(daemon: &Daemon, stop: &Arc<AtomicBool>) -> JoinHandle<()> {
    let (mut client, stop) = (daemon.connect(), Arc::clone(stop));
    thread::spawn(move || {
        for turn in 0.. {
            if stop.load(Ordering::Relaxed) {
                return;
            }
            client.write(turn % 64 * 8192, &[5; 4096]);
            client.read(turn * 7 % 1024 * 16_384, 4096);
            if turn % 16 == 0 {
                client.flush();
            }
        }
    })
}

/// With the values that Grafana inserts for its variables.
fn panel_queries() -> Vec<String> {
    let dashboard: Value =
        serde_json::from_str(&fs::read_to_string(contrib("grafana/kickcache.json")).unwrap()).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter().filter(|panel| panel["type"] != "row");
    let targets = panels.flat_map(|panel| panel["targets"].as_array().unwrap());
    let filled = |target: &Value| {
        let query = target["expr"].as_str().unwrap();
        let query =
            query.replace("$__rate_interval", "10s").replace("$instance", ".*").replace("$volume", ".*");
        assert!(!query.contains('$'), "{query}");
        query
    };
    targets.map(filled).collect()
}

#[test]
fn prometheus_scrapes_a_daemon_under_load_and_answers_each_panel() {
    need_kickcache!();
    need_tools!("prometheus");
    let scratch = Scratch::new();
    let scraped = Scraped::start(&scratch);
    let stop = Arc::new(AtomicBool::new(false));
    let worker = load(&scraped.daemon, &stop);
    let prometheus = Prometheus::start(&scratch, &scraped.address);
    let is_positive = |sample: &Value| sample["value"][1].as_str().unwrap().parse::<f64>().unwrap() > 0.0;
    for query in [
        "rate(kickcache_volume_read_requests_total[10s])",
        "rate(kickcache_volume_written_bytes_total[10s])",
        "histogram_quantile(0.99, rate(kickcache_volume_request_duration_seconds_bucket{kind=\"write\"}[10s]))",
        "kickcache_volume_dirty_bytes * on (volume) group_left (mode) kickcache_volume_info{mode=\"write-back\"}",
        "count(kickcache_volume_lru_hit_ratio)",
        "sum by (cache) (kickcache_volume_dirty_bytes * on (instance, volume) group_left (cache) kickcache_volume_up)",
    ] {
        wait_for(query, || prometheus.query(query).iter().any(is_positive).then_some(()));
    }
    let queries = panel_queries();
    assert!(queries.len() > 30, "{queries:?}");
    for query in &queries {
        wait_for(query, || (!prometheus.query(query).is_empty()).then_some(()));
    }
    let rules = wait_for("the evaluation of the rules", || {
        let rules = prometheus.ask("/api/v1/rules")["groups"][0]["rules"].as_array().unwrap().clone();
        rules.iter().all(|rule| rule["health"] != "unknown").then_some(rules)
    });
    for rule in rules {
        assert_eq!((&rule["health"], &rule["state"]), (&"ok".into(), &"inactive".into()), "{rule}");
    }
    stop.store(true, Ordering::Relaxed);
    worker.join().unwrap();
    drop(prometheus);
    scraped.daemon.stop();
}
