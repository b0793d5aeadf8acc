//! Metrics of a daemon that is made up.

use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;

use super::connections::CONNECTION_COUNT_MAX;
use super::exposition::{Format, exposition};
use super::family::Family;
use super::scrape::{MetricsTarget, Scrape};
use super::server::MetricsServer;
use super::{caches, daemon, volumes};
use crate::control::ControlError;
use crate::latency::Latencies;
use crate::plan::Exposure;
use crate::plan::metrics_address::MetricsAddress;

#[derive(Default)]
struct Toy {
    is_starting: AtomicBool,
}

impl MetricsTarget for Toy {
    fn scrape(&self) -> Result<Scrape, ControlError> {
        if self.is_starting.load(Ordering::Relaxed) {
            return Err(ControlError::Refused("the daemon is still starting".into()));
        }
        Ok(scrape())
    }
}

fn scrape() -> Scrape {
    let error = json!({"count": 3, "errno": 5, "name": "EIO", "operation": "read", "offset": 0, "length": 0, "seconds_ago": 2.5});
    let kinds = json!([{"operation": "read", "name": "EIO", "count": 2}, {"operation": "write", "name": "short", "count": 1}]);
    let points = json!([{"cache_bytes": 16_777_216, "hit_ratio": 0.5, "error": 0.01}]);
    let curve = json!({"read_blocks": 10, "footprint_bytes": 8192, "points": points});
    let mut latencies = Latencies::default();
    for nanos in [20_000, 20_000, 20_000, 20_000_000_000] {
        latencies.hits.add(nanos);
    }
    let volume = json!({
        "name": "vm\"1\\", "origin": "file:/srv/vm1", "origin_last_error": error, "origin_errors_by_kind": kinds,
        "nbd": ["nbd://[::1]:1/vm1"], "mode": "write-back", "size_bytes": 1 << 30, "cached_bytes": 0, "dirty_bytes": 4096,
        "dirty_seconds": 1.5, "unflushed_bytes": 8192, "fill_window_bytes": 65_536, "requests_in_flight": 2, "draining": true,
        "sessions": {"nbd": 2}, "lru_curve": curve, "latencies": latencies, "read_ahead_hit_ratio": 0.25, "counters": {"hit_blocks": 3, "reads": 4},
    });
    let cache = json!({
        "device": "/dev/fast", "health": "out-of-service", "record": "pending", "capacity_bytes": 1 << 20, "segments": 8,
        "free_segments": 2, "probation_bytes": 0, "probation_target_bytes": 0, "main_bytes": 0, "memory_bytes": 0,
        "last_error": error, "errors_by_kind": kinds, "sample_seconds": 0.000_05, "counters": {"write_bytes": 512},
        "volumes": [volume],
    });
    let report = json!({
        "version": "0.1.0", "pid": 1, "uptime_seconds": 60.0, "io_engine": "auto", "caches": [cache],
        "unserved": [{"name": "lost", "why": "it is away"}],
    });
    Scrape { report: serde_json::from_value(report).unwrap(), silent: vec!["/dev/silent".into()] }
}

fn lines(format: Format) -> BTreeSet<String> {
    exposition(scrape(), format).lines().map(Into::into).collect()
}

#[test]
fn both_formats_have_the_same_content() {
    let (prometheus, open_metrics) = (lines(Format::Prometheus), lines(Format::OpenMetrics));
    let labels = r#"volume="vm\"1\\""#;
    let shared = [
        format!("kickcache_volume_read_requests_total{{{labels}}} 4"),
        format!("kickcache_volume_hit_bytes_total{{{labels}}} 12288"),
        format!("kickcache_volume_dirty_bytes{{{labels}}} 4096"),
        format!("kickcache_volume_draining{{{labels}}} 1"),
        format!("kickcache_volume_read_ahead_hit_ratio{{{labels}}} 0.25"),
        format!(r#"kickcache_volume_origin_errors_by_kind_total{{{labels},operation="read",error="EIO"}} 2"#),
        format!("kickcache_volume_dirty_for_seconds{{{labels}}} 1.5"),
        format!(r#"kickcache_volume_lru_hit_ratio{{{labels},size_bytes="16777216"}} 0.5"#),
        format!(r#"kickcache_volume_request_duration_seconds_count{{{labels},kind="hit"}} 4"#),
        format!(r#"kickcache_volume_request_duration_seconds_sum{{{labels},kind="hit"}} 20.00006"#),
        r#"kickcache_cache_in_service{cache="/dev/fast"} 0"#.into(),
        r#"kickcache_cache_unrecorded{cache="/dev/fast"} 1"#.into(),
        r#"kickcache_cache_dirty_bytes{cache="/dev/fast"} 12288"#.into(),
    ];
    for line in &shared {
        assert!(prometheus.contains(line) && open_metrics.contains(line), "{line}\n{prometheus:#?}");
    }
    let has = |lines: &BTreeSet<String>, line: &str| lines.contains(line);
    assert!(has(&prometheus, "# TYPE kickcache_volume_read_requests_total counter"));
    assert!(has(&open_metrics, "# TYPE kickcache_volume_read_requests counter"));
    assert!(has(&prometheus, r#"kickcache_volume_up{volume="lost"} 0.0"#));
    assert!(has(&prometheus, r#"kickcache_volume_up{volume="vm\"1\\",cache="/dev/fast"} 1.0"#));
    assert!(has(&prometheus, r#"kickcache_cache_up{cache="/dev/silent"} 0.0"#));
    let is_last = |line: &String| {
        line.contains("_bucket{")
            && line.contains(r#"kind="hit""#)
            && line.contains(r#"le="+Inf""#)
            && line.ends_with(" 4")
    };
    assert!(prometheus.iter().any(is_last) && open_metrics.iter().any(is_last));
    assert!(has(&open_metrics, "# EOF") && !has(&prometheus, "# EOF"));
    assert!(prometheus.iter().any(|line| line.starts_with("kickcache_info{version=\"0.1.0\"")));
}

fn serve(address: &str, toy: &Arc<Toy>) -> MetricsServer {
    let address = MetricsAddress::parse(address.as_ref()).unwrap();
    MetricsServer::start(&address, Exposure::LocalOnly, Arc::clone(toy) as Arc<dyn MetricsTarget>).unwrap()
}

fn connect(server: &MetricsServer) -> TcpStream {
    let place = server.address().strip_prefix("http://").unwrap().strip_suffix("/metrics").unwrap();
    let stream = TcpStream::connect(place).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

fn response(stream: &mut (impl Read + Write), request: &str) -> io::Result<(String, String)> {
    stream.write_all(request.as_bytes())?;
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    let length =
        head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).unwrap().parse().unwrap();
    let mut body = vec![0; if request.starts_with("HEAD") { 0 } else { length }];
    stream.read_exact(&mut body)?;
    Ok((head, String::from_utf8(body).unwrap()))
}

fn begins(response: &(String, String), status: &str) -> bool {
    response.0.starts_with(&format!("HTTP/1.1 {status}"))
}

#[test]
fn a_connection_answers_one_request_after_the_other() {
    let server = serve("tcp:127.0.0.1:0", &Arc::default());
    let mut stream = connect(&server);
    let mut ask = |request: &str| {
        response(&mut stream, &format!("{request} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")).unwrap()
    };
    let metrics = ask("GET /metrics");
    assert!(begins(&metrics, "200") && metrics.1.contains("\nkickcache_uptime_seconds 60"), "{metrics:?}");
    assert!(
        metrics.0.contains("Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"),
        "{}",
        metrics.0
    );
    let head = ask("HEAD /metrics");
    let length = format!("Content-Length: {}\r\n", metrics.1.len());
    assert!(begins(&head, "200") && head.0.contains(&length), "{head:?}");
    assert!(begins(&ask("GET /"), "200") && begins(&ask("GET /x"), "404"));
    let refused = ask("PUT /metrics");
    assert!(begins(&refused, "405") && refused.0.contains("Allow: GET, HEAD\r\n"));
    let open = response(&mut stream, "GET /metrics HTTP/1.1\r\nAccept: application/openmetrics-text\r\n\r\n")
        .unwrap();
    assert!(open.0.contains("application/openmetrics-text; version=1.0.0") && open.1.ends_with("\n# EOF\n"));
    let both = "GET / HTTP/1.1\r\n\r\nGET /x HTTP/1.1\r\nConnection: close\r\n\r\n";
    assert!(begins(&response(&mut stream, both).unwrap(), "200"));
    let last = response(&mut stream, "").unwrap();
    assert!(begins(&last, "404") && last.0.contains("Connection: close"));
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
}

#[test]
fn a_starting_daemon_reports_that_state() {
    let toy = Arc::new(Toy::default());
    let server = serve("tcp:127.0.0.1:0", &toy);
    let mut stream = connect(&server);
    let mut ask = || response(&mut stream, "GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    toy.is_starting.store(true, Ordering::Relaxed);
    let refused = ask();
    assert!(begins(&refused, "503") && refused.1.contains("still starting"), "{refused:?}");
    toy.is_starting.store(false, Ordering::Relaxed);
    assert!(begins(&ask(), "200"));
}

#[test]
fn slow_clients_do_not_delay_others() {
    let server = serve("tcp:127.0.0.1:0", &Arc::default());
    // More than may be open: half a request, no request, and requests without a reader of the responses.
    let many = "GET /metrics HTTP/1.1\r\n\r\n".repeat(300);
    let slow: Vec<TcpStream> = (0..2 * CONNECTION_COUNT_MAX)
        .map(|index| {
            let mut stream = connect(&server);
            let text = ["GET /met", "", many.as_str()][index % 3];
            // A connection that was closed meanwhile accepts no more bytes.
            let _ = stream.set_nonblocking(true).and_then(|()| stream.write_all(text.as_bytes()));
            stream
        })
        .collect();
    let answer = response(&mut connect(&server), "GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    assert!(begins(&answer, "200"));
    drop(slow);
}

#[test]
fn an_invalid_request_ends_the_connection() {
    let server = serve("tcp:127.0.0.1:0", &Arc::default());
    for request in ["nonsense\r\n\r\n", "POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc"] {
        let mut stream = connect(&server);
        assert!(begins(&response(&mut stream, request).unwrap(), "400"), "{request}");
        // Its bytes were not read: the end may arrive as a reset.
        assert!(stream.read(&mut [0]).map_or(true, |count| count == 0));
    }
}

#[test]
fn a_unix_socket_is_private_and_removed_with_the_server() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("metrics.sock");
    let address = format!("unix:{}", path.display());
    let server = serve(&address, &Arc::default());
    assert_eq!(server.address(), address);
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let mut stream = UnixStream::connect(&path).unwrap();
    assert!(begins(&response(&mut stream, "GET /metrics HTTP/1.0\r\n\r\n").unwrap(), "200"));
    drop(server);
    assert!(!path.exists());
}

#[test]
fn foreign_host_names_are_answered_only_on_public_addresses() {
    let address = MetricsAddress::parse("tcp:127.0.0.1:0".as_ref()).unwrap();
    for (exposure, status) in [(Exposure::LocalOnly, "403"), (Exposure::InsecureTcp, "200")] {
        let server = MetricsServer::start(&address, exposure, Arc::new(Toy::default())).unwrap();
        let mut stream = connect(&server);
        for path in ["/", "/metrics", "/history.json"] {
            let request = format!("GET {path} HTTP/1.1\r\nHost: evil.example\r\n\r\n");
            assert!(begins(&response(&mut stream, &request).unwrap(), status), "{path}: {status}");
        }
        assert!(begins(
            &response(&mut stream, "GET / HTTP/1.1\r\nHost: localhost:1\r\n\r\n").unwrap(),
            "200"
        ));
    }
}

#[test]
fn a_public_address_needs_an_explicit_flag() {
    let address = MetricsAddress::parse("tcp:0.0.0.0:0".as_ref()).unwrap();
    let target: Arc<dyn MetricsTarget> = Arc::new(Toy::default());
    let refused = MetricsServer::start(&address, Exposure::LocalOnly, target).err().unwrap().to_string();
    assert!(refused.contains("it can be reached from other machines"), "{refused}");
}

/// The rows of docs/reference/metrics.md about these metrics: their first three columns.
fn rows<T>(families: &[Family<T>]) -> Vec<String> {
    let row = |family: &Family<T>| {
        let metric_type = family.values.metric_type();
        let kind = metric_type.as_str();
        let ending = match kind {
            "counter" => "_total",
            "info" => "_info",
            _ => "",
        };
        let name = family.name;
        let unit = if name.contains("bytes") {
            "bytes"
        } else if name.contains("seconds") {
            "s"
        } else if name.contains("ratio") {
            "part"
        } else {
            ""
        };
        format!("| `{name}{ending}` | {kind} | {unit}")
    };
    families.iter().map(row).collect()
}

#[test]
fn the_documentation_lists_exactly_the_metrics_with_types() {
    let page = include_str!("../../../../docs/reference/metrics.md");
    let expected = [rows(daemon::FAMILIES), rows(caches::FAMILIES), rows(volumes::FAMILIES)].concat();
    let found: Vec<&str> = page.lines().filter(|line| line.starts_with("| `kickcache_")).collect();
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(&expected) {
        assert!(found.starts_with(expected), "{found}\n{expected}");
        let cells: Vec<&str> = found.split(" | ").map(str::trim).collect();
        assert!(cells.len() == 6 && cells.iter().all(|cell| !cell.is_empty()), "{found}");
    }
}

#[test]
fn every_help_is_a_sentence() {
    let helps = daemon::FAMILIES.iter().map(|it| it.help).chain(caches::FAMILIES.iter().map(|it| it.help));
    for help in helps.chain(volumes::FAMILIES.iter().map(|it| it.help)) {
        assert!(help.ends_with('.') && help.starts_with(|c: char| c.is_ascii_uppercase()), "{help}");
    }
}

#[test]
fn labels_have_no_control_characters() {
    let mut scrape = scrape();
    scrape.report.caches[0].device = "/dev/\u{1b}]0;a\u{7}\n".into();
    scrape.report.caches[0].volumes[0].name = "v\u{9b}2J\u{202e}".into();
    for format in [Format::Prometheus, Format::OpenMetrics] {
        let text = exposition(scrape.clone(), format);
        assert!(!text.chars().any(|c| c != '\n' && c.is_control() || c == '\u{202e}'), "{text:?}");
        assert!(text.contains(r#"cache="/dev/\\u001b]0;a\\u0007\\n""#), "{text}");
        assert!(text.contains(r#"volume="v\\u009b2J\\u202e""#), "{text}");
    }
}
