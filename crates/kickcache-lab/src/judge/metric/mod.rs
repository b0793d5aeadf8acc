//! The number of a run that is compared.

pub mod figure;
mod fio;
mod printed;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::judge::metric::figure::Figure;
use crate::judge::metric::printed::Printed;
use crate::judge::process::Run;

#[derive(Clone, PartialEq, Debug)]
pub enum Metric {
    /// Seconds from the start of the command to its end.
    Time,
    /// Seconds of processors, of the command and of the descendants that were waited for.
    CpuTime,
    /// A figure of fio or of a stored run; else the number that the command prints with that name, or alone
    /// as its last line.
    Figure(Figure),
    /// The number in the last line, not empty, that the command prints.
    Number,
    /// A number in the JSON that the command prints, by its JSON pointer (RFC 6901).
    Json(String),
}

/// The direction of a metric that is worse.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MetricDirection {
    /// A higher value is worse, as for times.
    Higher,
    /// A lower value is worse, as for rates.
    Lower,
}

impl MetricDirection {
    /// By how much the new value is worse, as a logarithm; see [`kickcache_model::statistics::sequential`].
    pub fn loss(self, good: f64, new: f64) -> f64 {
        // The logarithms are subtracted, because the ratio of the values may be too large for a number.
        match self {
            MetricDirection::Higher => new.ln() - good.ln(),
            MetricDirection::Lower => good.ln() - new.ln(),
        }
    }

    /// The ratio of the new value to the good one for a loss.
    pub fn ratio(self, loss: f64) -> f64 {
        match self {
            MetricDirection::Higher => loss.exp(),
            MetricDirection::Lower => (-loss).exp(),
        }
    }
}

impl Metric {
    /// The direction that is worse, if the name of the metric implies it.
    pub fn worse(&self) -> Option<MetricDirection> {
        match self {
            Metric::Time | Metric::CpuTime => Some(MetricDirection::Higher),
            Metric::Figure(Figure::Mean | Figure::Percentile(_)) => Some(MetricDirection::Higher),
            Metric::Figure(Figure::Iops | Figure::Bandwidth) => Some(MetricDirection::Lower),
            Metric::Number | Metric::Json(_) => None,
        }
    }

    /// The number of a run.
    ///
    /// # Errors
    /// A sentence, if there is none, or none that can be compared.
    pub fn read(&self, run: &Run) -> Result<f64, String> {
        let value = match self {
            Metric::Time => run.wall.as_secs_f64(),
            Metric::CpuTime => run.cpu.as_secs_f64(),
            Metric::Figure(figure) => self.figure(*figure, &run.output)?,
            Metric::Number => printed::last_number(&run.output).ok_or_else(|| {
                format!(
                    "the last line that it printed, `{}`, is not a number",
                    printed::last_line(&run.output)
                )
            })?,
            Metric::Json(pointer) => number_at(&run.output, pointer)?,
        };
        if value.is_finite() && value > 0.0 {
            return Ok(value);
        }
        Err(format!("{self} is {value}; only numbers above 0 can be compared"))
    }

    fn figure(&self, figure: Figure, output: &str) -> Result<f64, String> {
        match Printed::of(output)? {
            Printed::Fio(report) => report.figure(figure),
            Printed::Run(run) => Ok(match figure {
                Figure::Iops => run.iops(),
                Figure::Bandwidth => run.bytes_per_second(),
                Figure::Mean => run.latencies().mean(),
                #[expect(clippy::cast_precision_loss, reason = "nanoseconds of a latency")]
                Figure::Percentile(percent) => run.latencies().quantile(percent / 100.0) as f64,
            }),
            Printed::Object(members) => {
                let name = self.to_string();
                let value = members.get(&name).and_then(Value::as_f64);
                value.ok_or_else(|| format!("the JSON that it printed has no number `{name}`, nor is it fio's; --metric json:/PATH names another one"))
            }
            Printed::Number(number) => Ok(number),
        }
    }
}

fn number_at(output: &str, pointer: &str) -> Result<f64, String> {
    let json = printed::json(output).ok_or("it printed no JSON")?;
    let found =
        json.pointer(pointer).ok_or_else(|| format!("the JSON of its output has no value at {pointer}"))?;
    found.as_f64().ok_or_else(|| format!("the JSON of its output has no number at {pointer}"))
}

impl FromStr for Metric {
    type Err = String;

    fn from_str(text: &str) -> Result<Metric, String> {
        let percentile =
            |digits: &str| digits.parse().ok().filter(|percent| *percent > 0.0 && *percent < 100.0);
        Ok(match text {
            "time" => Metric::Time,
            "cpu-time" => Metric::CpuTime,
            "number" => Metric::Number,
            "iops" => Metric::Figure(Figure::Iops),
            "bandwidth" => Metric::Figure(Figure::Bandwidth),
            "mean" => Metric::Figure(Figure::Mean),
            _ => {
                if let Some(pointer) = text.strip_prefix("json:").filter(|pointer| pointer.starts_with('/')) {
                    return Ok(Metric::Json(pointer.to_owned()));
                }
                let percent = text.strip_prefix('p').and_then(percentile);
                Metric::Figure(Figure::Percentile(percent.ok_or_else(|| {
                    format!("`{text}` is no metric; there are iops, bandwidth, mean, p50, p99, p99.9 and other percentiles, time, cpu-time, number, json:/PATH/TO/NUMBER")
                })?))
            }
        })
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Metric::Time => f.write_str("time"),
            Metric::CpuTime => f.write_str("cpu-time"),
            Metric::Number => f.write_str("number"),
            Metric::Figure(Figure::Iops) => f.write_str("iops"),
            Metric::Figure(Figure::Bandwidth) => f.write_str("bandwidth"),
            Metric::Figure(Figure::Mean) => f.write_str("mean"),
            Metric::Figure(Figure::Percentile(percent)) => write!(f, "p{percent}"),
            Metric::Json(pointer) => write!(f, "json:{pointer}"),
        }
    }
}

#[cfg(test)]
mod tests;
