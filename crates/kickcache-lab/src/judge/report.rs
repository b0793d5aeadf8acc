//! The result, as a sentence and as JSON.

use serde::Serialize;

use crate::judge::failure::NoVerdict;
use crate::judge::metric::{Metric, MetricDirection};
use crate::judge::numbers::{show_ratio, show_value};
use crate::judge::rounds::{Judge, Round, Rules};
use kickcache_model::statistics::sequential::evidence::ENOUGH;
use kickcache_model::statistics::sequential::pair_test::Verdict;

const REPORT_VERSION: u32 = 1;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Names {
    pub good: String,
    pub new: String,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Report {
    version: u32,
    verdict: Option<Verdict>,
    exit_code: u8,
    sentence: String,
    metric: String,
    worse: MetricDirection,
    worse_than: f64,
    /// The median over the rounds; `None` before the first round.
    ratio: Option<f64>,
    /// Lower end of the ratio, with 99 % confidence; `None` if it is unknown.
    ratio_low: Option<f64>,
    ratio_high: Option<f64>,
    evidence_good: f64,
    evidence_bad: f64,
    evidence_needed: f64,
    rounds_max: usize,
    seed: u64,
    control_drift: Option<f64>,
    good: String,
    new: String,
    rounds: Vec<Round>,
}

struct Ratio {
    middle: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
}

impl Ratio {
    fn of(judge: &Judge) -> Ratio {
        let (test, worse) = (judge.test(), judge.rules().worse);
        let ratio = |loss: f64| Some(loss).filter(|loss| loss.is_finite()).map(|loss| worse.ratio(loss));
        let interval = test.interval();
        let (low, high) = match worse {
            MetricDirection::Higher => (ratio(interval.low), ratio(interval.high)),
            MetricDirection::Lower => (ratio(interval.high), ratio(interval.low)),
        };
        let middle = if test.rounds() == 0 { None } else { ratio(test.median_loss()) };
        Ratio { middle, low, high }
    }

    fn show(&self) -> String {
        let Some(middle) = self.middle else { return "unknown".into() };
        let middle = show_ratio(middle);
        match (self.low.map(show_ratio), self.high.map(show_ratio)) {
            (Some(low), Some(high)) => format!("{middle} ({low} to {high})"),
            (Some(low), None) => format!("{middle} (at least {low})"),
            (None, Some(high)) => format!("{middle} (at most {high})"),
            (None, None) => middle,
        }
    }
}

pub fn progress(judge: &Judge) -> String {
    let test = judge.test();
    let last = judge.rounds().last().map_or_else(String::new, |round| {
        format!("{} against {}; ", show_value(round.new), show_value(round.good))
    });
    format!(
        "round {} of at most {}: {last}ratio {}; evidence: good {}, bad {} of {ENOUGH}",
        test.rounds(),
        judge.rules().rounds_max,
        Ratio::of(judge).show(),
        show_evidence(test.evidence_good()),
        show_evidence(test.evidence_bad()),
    )
}

impl Report {
    pub fn new(judge: &Judge, metric: &Metric, names: Names, result: &Result<Verdict, NoVerdict>) -> Report {
        let (test, rules, ratio) = (judge.test(), judge.rules(), Ratio::of(judge));
        let exit_code = match result {
            Ok(Verdict::Good) => 0,
            Ok(Verdict::Bad) => 1,
            Err(none) => none.code(),
        };
        Report {
            version: REPORT_VERSION,
            verdict: result.as_ref().ok().copied(),
            exit_code,
            sentence: sentence(judge, metric, result, &ratio),
            metric: metric.to_string(),
            worse: rules.worse,
            worse_than: rules.margin.part(),
            ratio: ratio.middle,
            ratio_low: ratio.low,
            ratio_high: ratio.high,
            evidence_good: test.evidence_good(),
            evidence_bad: test.evidence_bad(),
            evidence_needed: ENOUGH,
            rounds_max: rules.rounds_max,
            seed: rules.seed,
            control_drift: judge.drift(),
            good: names.good,
            new: names.new,
            rounds: judge.rounds().to_vec(),
        }
    }

    pub fn exit_code(&self) -> u8 {
        self.exit_code
    }

    pub fn sentence(&self) -> &str {
        &self.sentence
    }
}

fn sentence(judge: &Judge, metric: &Metric, result: &Result<Verdict, NoVerdict>, ratio: &Ratio) -> String {
    let (word, end) = match result {
        Ok(Verdict::Good) => ("The new command is good", limits(judge.rules())),
        Ok(Verdict::Bad) => ("The new command is bad", limits(judge.rules())),
        Err(NoVerdict::Skip(why)) => ("The new command cannot be judged", why.clone()),
        Err(NoVerdict::Stop { why, .. }) => ("The comparison stopped", why.clone()),
    };
    let of = match (judge.drift(), judge.rounds().len()) {
        (_, 0) => return format!("{word}: {end}"),
        (Some(_), _) => "that of the stored result",
        (None, _) => "that of the known-good command",
    };
    format!("{word}: {metric} is {} {of}, {} rounds; {end}", ratio.show(), judge.rounds().len())
}

/// The limits of good and bad, as ratios.
fn limits(rules: &Rules) -> String {
    let [good, bad] = [rules.margin.good_max(), rules.margin.bad_min()].map(|loss| rules.worse.ratio(loss));
    match rules.worse {
        MetricDirection::Higher => format!("up to {good:.3}x is good, {bad:.3}x and more is bad"),
        MetricDirection::Lower => format!("down to {good:.3}x is good, {bad:.3}x and less is bad"),
    }
}

fn show_evidence(amount: f64) -> String {
    match amount {
        amount if amount >= 10.0 => format!("{amount:.0}"),
        amount if amount >= 0.1 => format!("{amount:.1}"),
        _ => "0".into(),
    }
}
