use kickcache_daemon::plan::cache_spec::CacheSpec;
use kickcache_daemon::serve::server::ServerHandle;

use super::*;

fn tiny() -> Scale {
    let cached = Duration::from_millis(1_200);
    Scale { job_bytes: 4 << 20, cache_bytes: 16 << 20, cached, plain: Duration::from_millis(600) }
}

#[derive(Default)]
struct Counter(std::cell::Cell<usize>);

impl RunDisplay for Counter {
    fn address(&self) -> &str {
        "nowhere"
    }

    fn show(&self, _: &ServerHandle, cache: CacheSpec) {
        assert!(cache.names().any(|name| name == "data"));
        self.0.set(self.0.get() + 1);
    }
}

fn tiny_demo<'a>(options: &'a Options, interrupt: &'a Interrupt) -> Demo<'a> {
    Demo { options, scale: tiny(), display: None, interrupt, last: None }
}

#[test]
fn a_tiny_demo_runs_and_leaves_no_files() {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let beside = tempfile::tempdir().unwrap();
    let page = beside.path().join("report.html");
    let options = Options {
        load: LoadMaker::BuiltIn,
        output: Output::Json,
        seconds: 1,
        directory: Some(directory.path().into()),
        seed: 7,
        report: Some(page.clone()),
    };
    let mut out = Vec::new();
    let interrupt = Interrupt::listen("interrupted").unwrap();
    let display = Counter::default();
    let mut demo = Demo { display: Some(&display), ..tiny_demo(&options, &interrupt) };
    demo.run(&mut out).unwrap();
    assert_eq!(display.0.get(), Phase::ALL.len());
    let (server, devices) = demo.last.take().expect("it is shown until a signal");
    assert!(server.status().is_ok(), "the last server runs");
    server.stop();
    server.join().unwrap();
    drop(devices);
    let result: DemoResult = serde_json::from_slice(&out).unwrap();
    assert_eq!(result.phases.iter().map(|phase| phase.phase).collect::<Vec<_>>(), Phase::ALL);
    for phase in &result.phases {
        assert!(phase.jobs.iter().all(|job| job.operations > 0), "{phase:?}");
        assert!(phase.operations.iter().sum::<u64>() == phase.total.operations, "{phase:?}");
        assert_eq!(phase.cache.is_some(), phase.millis == 1_200);
    }
    let cached = |phase| result.phase(phase).unwrap().cache.unwrap();
    assert!(cached(Phase::Cold).hit_blocks > 0 && cached(Phase::Cold).miss_blocks > 0);
    // All that a cold cache has was promoted in the same run; a warm one has blocks from before.
    let from_before = |phase| cached(phase).cached_blocks.saturating_sub(cached(phase).promoted_blocks);
    assert_eq!(from_before(Phase::Cold), 0, "{result:?}");
    assert!(from_before(Phase::Restart) > 0 && cached(Phase::Restart).hit_blocks > 0, "{result:?}");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    let page = std::fs::read_to_string(page).unwrap();
    assert!(Phase::ALL.iter().all(|phase| page.contains(phase.name())));
    assert!(page.contains("Hit ratio") && page.contains("written to the cache device"));
    assert!(page.contains("WARNING: runs of 1.2 s are too short") && page.contains("ratios have no spread"));
}

#[test]
fn an_unusable_directory_is_refused_with_a_sentence() {
    let options = Options {
        load: LoadMaker::BuiltIn,
        output: Output::Json,
        seconds: 1,
        directory: Some("/nowhere/at/all".into()),
        seed: 7,
        report: None,
    };
    let interrupt = Interrupt::listen("interrupted").unwrap();
    let error = tiny_demo(&options, &interrupt).run(&mut Vec::new()).unwrap_err();
    assert_eq!(error.to_string(), "/nowhere/at/all cannot be used for the demo's files");
}
