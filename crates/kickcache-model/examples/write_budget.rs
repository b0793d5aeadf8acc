//! The writes under a write budget, and its cost in hits: days of a load, as a Markdown table.
//!
//!     write_budget [--days N] [--accesses N] [TRACE...]

use std::error::Error;
use std::num::NonZeroU64;
use std::path::Path;
use std::sync::Mutex;

use kickcache_engine::config::{Mode, SequentialCutoff};
use kickcache_model::policy_study::load::Load;
use kickcache_model::untimed::days::{Days, LOOKS, Look};
use kickcache_model::untimed::{Fill, Scale, Trial};
use kickcache_model::workload::Kind;

/// Blocks of the cache, 256 MiB, except for traces.
const CACHE_BLOCKS: u64 = 65_536;
/// Budgets, in percent of the bytes written on the last day without a budget.
const PERCENTS: [u64; 4] = [100, 50, 25, 10];

struct Case {
    name: String,
    load: Load,
    days: Days,
}

struct DailySamples {
    looks: Vec<Look>,
    days: u64,
}

impl DailySamples {
    fn day(&self, day: u64) -> Look {
        let at = |look: u64| match usize::try_from(look) {
            Ok(0) | Err(_) => Look::default(),
            Ok(look) => self.looks[look - 1],
        };
        at((day + 1) * LOOKS).since(at(day * LOOKS))
    }

    fn most(&self) -> u64 {
        let all: Vec<u64> = [0].into_iter().chain(self.looks.iter().map(|look| look.written_bytes)).collect();
        let length = usize::try_from(LOOKS).unwrap_or(usize::MAX);
        all.windows(length + 1).map(|window| window[length] - window[0]).max().unwrap_or(0)
    }

    fn hits(&self, day: u64) -> f64 {
        100.0 * self.day(day).hit_ratio()
    }
}

impl Case {
    fn run(&self, budget: Option<NonZeroU64>) -> DailySamples {
        let trial = Trial { write_budget: budget, ..self.days.trial };
        DailySamples { looks: Days { trial, ..self.days }.run(&self.load), days: self.days.count }
    }

    fn rows(&self) -> String {
        let free = self.run(None);
        let written = |seen: &DailySamples, day| seen.day(day).written_bytes;
        let mut rows = format!(
            "| {} | none | {:.2} GiB | {:.2} GiB | - | {:.1} % | {:.1} % |\n",
            self.name,
            gib(written(&free, 0)),
            gib(written(&free, free.days - 1)),
            free.hits(0),
            free.hits(free.days - 1),
        );
        for percent in PERCENTS {
            let budget = written(&free, free.days - 1) * percent / 100;
            let seen = self.run(NonZeroU64::new(budget / self.days.trial.scale.0));
            let part = |bytes: u64| 100.0 * gib(bytes) / gib(budget);
            rows += &format!(
                "| | {:.2} GiB, {percent} % | {:.1} % | {:.1} % | {:.1} % | {:.1} % ({:+.1}) | {:.1} % ({:+.1}) |\n",
                gib(budget),
                part(written(&seen, 0)),
                part(written(&seen, seen.days - 1)),
                part(seen.most()),
                seen.hits(0),
                seen.hits(0) - free.hits(0),
                seen.hits(seen.days - 1),
                seen.hits(seen.days - 1) - free.hits(seen.days - 1),
            );
        }
        rows
    }
}

#[expect(clippy::cast_precision_loss, reason = "bytes of a day")]
fn gib(bytes: u64) -> f64 {
    bytes as f64 / (1_u64 << 30) as f64
}

fn with_writes(mut load: Load) -> Load {
    load.accesses.iter_mut().step_by(3).for_each(|access| access.kind = Kind::Write);
    load
}

fn main() -> Result<(), Box<dyn Error>> {
    let (mut count, mut accesses, mut traces) = (3, 1_500_000, Vec::new());
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value"));
        match argument.as_str() {
            "--days" => count = value()?.parse()?,
            "--accesses" => accesses = value()?.parse()?,
            _ => traces.push(argument),
        }
    }
    let fill = Fill::Adaptive { sequential_cutoff: SequentialCutoff::default() };
    let trial = Trial { cache_blocks: CACHE_BLOCKS, scale: Scale(1), fill, write_budget: None };
    let days = Days { trial, mode: Mode::WriteThrough, count, hours: 24 };
    let zipf = || Load::skewed("", 12 * CACHE_BLOCKS, count * accesses);
    let case = |name: &str, load, days| Case { name: name.into(), load, days };
    let mut cases = vec![
        case("zipf 0.9 over 12 times the cache", zipf(), days),
        case("the same, in 8 hours of the day", zipf(), Days { hours: 8, ..days }),
        case("a third writes, write-through", with_writes(zipf()), days),
        case("a third writes, write-back", with_writes(zipf()), Days { mode: Mode::WriteBack, ..days }),
    ];
    for trace in traces {
        let load = Load::read(Path::new(&trace))?;
        let cache_blocks = load.footprint / 10;
        let trial = Trial { cache_blocks, scale: Scale(4), ..trial };
        cases.push(Case { name: format!("{}, 10 %", load.name), load, days: Days { trial, ..days } });
    }
    println!(
        "| load | budget a day | written on the first day | on the last | most in 24 hours | hits on the first day | on the last |"
    );
    println!("|---|---|---|---|---|---|---|");
    let queue = Mutex::new(cases.into_iter());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let next = queue.lock().expect("nobody panics").next();
                    let Some(case) = next else { return };
                    print!("{}", case.rows());
                }
            });
        }
    });
    Ok(())
}
