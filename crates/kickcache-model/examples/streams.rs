//! The treatment of long streams: hits of exact fills without a cut-off, and of the adaptive fill window with
//! each cut-off, as a Markdown table.
//!
//!     streams [--scale N] [--sizes 1%,50%] TRACE...

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use kickcache_engine::config::{STREAM_BYTES, SequentialCutoff};
use kickcache_model::trace_file::survey::{Survey, survey};
use kickcache_model::untimed::{Fill, Outcome, Scale, Trial, run};

struct Case {
    name: String,
    path: PathBuf,
    survey: Survey,
    percent: u64,
}

impl Case {
    fn row(&self, scale: u64) -> Result<String, Box<dyn Error + Send + Sync>> {
        let fills = [
            SequentialCutoff::Off,
            SequentialCutoff::Above(STREAM_BYTES),
            SequentialCutoff::Auto(STREAM_BYTES),
        ]
        .map(|sequential_cutoff| Fill::Adaptive { sequential_cutoff });
        let mut row = format!("| {} {} % |", self.name, self.percent);
        let mut found_hits = Vec::new();
        for fill in [Fill::Exact].into_iter().chain(fills) {
            let cache_blocks = self.survey.footprint * self.percent / 100;
            let trial = Trial { cache_blocks, scale: Scale(scale), fill, write_budget: None };
            let found = run(&self.path, &self.survey, trial)?;
            let hits = 100.0 * (1.0 - found.miss_ratio());
            found_hits.push(hits);
            row += &format!(" {hits:.1} % | {:.2} |", written(&found));
        }
        Ok(format!("{row} {:+.1} |", found_hits[3] - found_hits[0]))
    }
}

/// Blocks written to the cache device for each requested block.
#[expect(clippy::cast_precision_loss, reason = "bytes of a trace")]
fn written(found: &Outcome) -> f64 {
    found.cache_write_bytes as f64 / 4096.0 / found.touched_blocks as f64
}

fn main() -> Result<(), Box<dyn Error>> {
    let (mut scale, mut sizes) = (4, "1%,5%,10%,20%,50%".to_owned());
    let mut cases = Vec::new();
    let mut arguments = std::env::args().skip(1);
    let mut traces = Vec::new();
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value"));
        match argument.as_str() {
            "--scale" => scale = value()?.parse()?,
            "--sizes" => sizes = value()?,
            _ => traces.push(argument),
        }
    }
    for trace in traces {
        let path = Path::new(&trace).to_owned();
        let survey = survey(&path, None)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy().replace(".csv.xz", "");
        for size in sizes.split(',') {
            let percent = size.trim_end_matches('%').parse()?;
            cases.push(Case { name: name.clone(), path: path.clone(), survey: survey.clone(), percent });
        }
    }
    println!(
        "| trace, cache | exact, no cut-off | written | window, no cut-off | written | 4M | written | auto | written | auto against exact |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    let queue = Mutex::new(cases.into_iter());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let next = queue.lock().expect("nobody panics").next();
                    let Some(case) = next else { return };
                    match case.row(scale) {
                        Ok(row) => println!("{row}"),
                        Err(error) => eprintln!("{}: {error}", case.name),
                    }
                }
            });
        }
    });
    Ok(())
}
