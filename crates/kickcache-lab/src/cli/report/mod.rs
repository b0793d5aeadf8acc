//! `kickcache report`: results of `bench`, `demo`, `simulate` and `status` in sentences, and in one page.

mod live_result;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kickcache_command::exit::Failure;
use kickcache_command::output;
use kickcache_daemon::control::report::Report;
use kickcache_model::result::RunResult;
use kickcache_report::Report as Page;
use kickcache_units::show_duration;
use serde_json::Value;

use crate::bench::{BenchResult, KIND, RESULT_VERSION, Summary};
use crate::cli::bench_table;
use crate::demo::result::{self as demo, DemoResult};

const EXAMPLES: &str = "\
Examples:
  kickcache report before.json after.json -o change.html
  kickcache bench --target d=/srv/x.img --save measured.json
  kickcache simulate compare --job mail.fio --json > simulated.json
  kickcache report measured.json simulated.json -o both.html
  kickcache status --json > live.json && kickcache report live.json -o live.html";

/// Compare results in words and in an HTML page; results of `bench`, `demo`, `simulate compare` and `status`,
/// with --json
///
/// With several files, each run's name begins with the name of its file. A run is compared with the run of
/// the same name in the first file that has it; other runs are compared with the first run of the first file.
/// The base of the ratios can be changed in the page.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ReportArgs {
    /// Results, as JSON
    #[arg(required = true)]
    results: Vec<PathBuf>,
    /// Output file: a self-contained HTML page with charts
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

struct StoredRuns {
    runs: Vec<RunResult>,
    description: String,
}

impl ReportArgs {
    pub fn run(&self, out: &mut dyn Write) -> Result<(), Failure> {
        let stored = self.results.iter().map(|path| read(path)).collect::<Result<Vec<_>, _>>()?;
        let read: Vec<&Path> = self.results.iter().map(PathBuf::as_path).collect();
        output::try_out(&[self.output.as_deref()], &read)?;
        let names = names(&self.results);
        let all: Vec<StoredRun<'_>> =
            names.iter().zip(&stored).flat_map(|(file, stored)| stored.runs(file)).collect();
        let several = stored.len() > 1;
        let shown = |run: &StoredRun<'_>| if several { run.named(&all) } else { run.result.clone() };
        let runs: Vec<RunResult> = all.iter().map(shown).collect();
        kickcache_report::answer(&runs).iter().try_for_each(|sentence| writeln!(out, "{sentence}"))?;
        let descriptions: Vec<&str> = stored.iter().map(|file| file.description.as_str()).collect();
        writeln!(out)?;
        descriptions.iter().try_for_each(|description| writeln!(out, "{description}"))?;
        if let Some(path) = &self.output {
            let introduction = descriptions.join(" ");
            let page = Page { title: "Results compared", introduction: &introduction, runs: &runs }.html();
            output::write(path, &page)?;
        }
        Ok(())
    }
}

/// The names of the files in the names of runs.
fn names(paths: &[PathBuf]) -> Vec<String> {
    let stem = |path: &PathBuf| path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let whole = |path: &PathBuf| path.display().to_string();
    let is_alone = |name: &str, of: &dyn Fn(&PathBuf) -> String| {
        paths.iter().filter(|path| of(path) == name).count() == 1
    };
    let name = |(index, path): (usize, &PathBuf)| {
        if is_alone(&stem(path), &stem) {
            return stem(path);
        }
        if is_alone(&whole(path), &whole) {
            return whole(path);
        }
        let before = paths[..index].iter().filter(|other| *other == path).count();
        format!("{} ({})", whole(path), before + 1)
    };
    paths.iter().enumerate().map(name).collect()
}

#[derive(Clone, Copy, Debug)]
struct StoredRun<'a> {
    file: &'a str,
    result: &'a RunResult,
}

impl StoredRuns {
    fn runs<'a>(&'a self, file: &'a str) -> impl Iterator<Item = StoredRun<'a>> {
        self.runs.iter().map(move |result| StoredRun { file, result })
    }
}

impl StoredRun<'_> {
    /// The run of one of several files, with the first run of the same name in an earlier file.
    fn named(&self, all: &[StoredRun<'_>]) -> RunResult {
        let full = |file: &str, name: &str| format!("{file}: {name}");
        let StoredRun { file, result } = *self;
        let first = all.iter().find(|other| other.result.name == result.name);
        RunResult {
            name: full(file, &result.name),
            predicts: result.predicts.as_ref().map(|of| full(file, of)),
            twin: first.filter(|first| first.file != file).map(|first| full(first.file, &result.name)),
            ..result.clone()
        }
    }
}

fn read(path: &Path) -> Result<StoredRuns, Failure> {
    let name = path.display();
    let wrong = |what: String| Failure::usage(format!("the result {name} cannot be read: {what}"));
    let text = fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    let expected =
        "expected the output of `bench --json`, `demo --json`, `simulate compare --json` or `status --json`";
    let value: Value =
        serde_json::from_str(&text).map_err(|_| wrong(format!("it is no JSON; {expected}")))?;
    let unknown = |error: serde_json::Error| wrong(format!("{error}; {expected}"));
    let stored = if value.is_array() {
        let runs = serde_json::from_value(value).map_err(unknown)?;
        StoredRuns { runs, description: format!("{name}: simulated, in virtual time.") }
    } else if value["caches"].is_array() {
        let report: Report = serde_json::from_value(value).map_err(unknown)?;
        let uptime = show_duration(Duration::from_secs_f64(report.uptime_seconds.clamp(0.0, 1e12)));
        StoredRuns {
            runs: live_result::runs(&report),
            description: format!(
                "{name}: served volumes, for {uptime}; their clients decide the rate, and the daemon \
                 reports only means and percentiles of latencies."
            ),
        }
    } else if value["kind"] == KIND {
        check_version(&value, RESULT_VERSION).map_err(wrong)?;
        of_bench(&serde_json::from_value(value).map_err(unknown)?, &name.to_string())
    } else {
        check_version(&value, demo::RESULT_VERSION).map_err(wrong)?;
        let result: DemoResult = serde_json::from_value(value).map_err(unknown)?;
        let warnings = crate::demo::warnings(&result);
        StoredRuns {
            runs: result.runs,
            description: format!("{name}: kickcache demo, on a simulated slow disk.{warnings}"),
        }
    };
    if stored.runs.is_empty() {
        return Err(wrong(format!("it has no runs; {expected}")));
    }
    check_lengths(&stored.runs).map_err(wrong)?;
    Ok(stored)
}

/// Refuses runs with operations but without a duration, because they have no rate.
fn check_lengths(runs: &[RunResult]) -> Result<(), String> {
    let is_wrong = |run: &&RunResult| run.nanos == 0 && run.count() > 0;
    runs.iter().find(is_wrong).map_or(Ok(()), |run| {
        Err(format!(
            "the run {:?} has {} operations in 0 ns (`nanos`); measure it again",
            run.name,
            run.count()
        ))
    })
}

/// Refuses results of a later version.
fn check_version(value: &Value, known: u32) -> Result<(), String> {
    match value["version"].as_u64() {
        Some(version) if version > u64::from(known) => Err(format!(
            "it is of version {version}, and this program reads up to {known}; use the kickcache that wrote it, or a later one"
        )),
        Some(_) | None => Ok(()),
    }
}

fn of_bench(result: &BenchResult, name: &str) -> StoredRuns {
    let machine = &result.machine;
    let summary = Summary::of(result);
    let caveats =
        [bench_table::same_disk(&summary, result), bench_table::footnotes(&summary, result)].concat();
    let description = format!(
        "{name}: {}, on {} processors ({}), Linux {}, {}. {}",
        result.job,
        machine.processor_count,
        machine.processor,
        machine.kernel,
        machine.fio,
        caveats.join(" ")
    );
    StoredRuns { runs: result.runs(), description }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn runs_of_two_files_have_two_names() {
        let names = |paths: &[&str]| names(&paths.iter().map(PathBuf::from).collect::<Vec<_>>());
        assert_eq!(names(&["old/b.json", "new/c.json"]), ["b", "c"]);
        assert_eq!(names(&["old/b.json", "new/b.json", "c.json"]), ["old/b.json", "new/b.json", "c"]);
        assert_eq!(names(&["b.json", "b.json"]), ["b.json (1)", "b.json (2)"]);
    }

    #[test]
    fn a_run_is_paired_by_name_with_the_first_file() {
        let run = |name: &str| RunResult::new(name, "load", 1);
        let (cold, warm, other) = (run("cold"), run("warm"), run("other"));
        let of = |file: &'static str, result| StoredRun { file, result };
        let all = [of("a", &cold), of("a", &warm), of("b", &warm), of("b", &other), of("c", &warm)];
        let twin = |at: usize| all[at].named(&all).twin;
        assert_eq!([twin(0), twin(1), twin(3)], [None, None, None]);
        assert_eq!([twin(2), twin(4)], [Some("a: warm".into()), Some("a: warm".into())]);
        assert_eq!(all[2].named(&all).name, "b: warm");
    }

    #[test]
    fn a_result_of_a_later_program_is_refused() {
        assert_eq!(check_version(&json!({ "version": 1 }), 2), Ok(()));
        assert_eq!(check_version(&json!({ "version": 2 }), 2), Ok(()));
        assert!(check_version(&json!({ "version": 3 }), 2).unwrap_err().contains("of version 3"));
    }
}
