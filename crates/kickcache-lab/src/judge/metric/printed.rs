//! The output of a command, and the kind of report in it.

use kickcache_model::result::RunResult;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::judge::metric::fio::FioReport;

pub(super) enum Printed {
    /// fio's, of `--output-format=json` or `json+`.
    Fio(FioReport),
    /// A result of this program, such as `kickcache simulate run --json` prints.
    Run(Box<RunResult>),
    /// A JSON object that is neither fio's nor a result of a run.
    Object(Map<String, Value>),
    /// No JSON object or list, but the last line is a number.
    Number(f64),
}

impl Printed {
    /// Detects the kind of the output.
    ///
    /// # Errors
    /// A sentence, if the output is of no kind.
    pub(super) fn of(output: &str) -> Result<Printed, String> {
        let Some(json) = json(output) else {
            return last_number(output).map(Printed::Number).ok_or_else(|| {
                "it printed neither JSON nor a number as its last line (fio prints JSON with --output-format=json)".into()
            });
        };
        let object = match json {
            Value::Object(object) => object,
            Value::Array(mut all) => match (all.len(), all.pop()) {
                (1, Some(Value::Object(object))) => object,
                (count, _) => {
                    return Err(format!("it printed a list of {count} results; one can be compared"));
                }
            },
            _ => {
                return last_number(output)
                    .map(Printed::Number)
                    .ok_or_else(|| "it printed JSON without a number".into());
            }
        };
        if object.contains_key("fio version") {
            let report = FioReport::deserialize(Value::Object(object));
            return report
                .map(Printed::Fio)
                .map_err(|error| format!("fio's report is not understood: {error}"));
        }
        if object.contains_key("nanos") && object.contains_key("jobs") {
            let run = RunResult::deserialize(Value::Object(object));
            return run
                .map(Box::new)
                .map(Printed::Run)
                .map_err(|error| format!("the result is not understood: {error}"));
        }
        Ok(Printed::Object(object))
    }
}

/// The JSON in the output, from the first line that begins it: programs may print other lines before.
pub(super) fn json(output: &str) -> Option<Value> {
    let starts = std::iter::once(0).chain(output.match_indices('\n').map(|(at, _)| at + 1));
    let mut starts = starts.filter(|at| output[*at..].starts_with(['{', '[']));
    starts.find_map(|at| serde_json::Deserializer::from_str(&output[at..]).into_iter().next()?.ok())
}

pub(super) fn last_line(output: &str) -> &str {
    output.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default()
}

pub(super) fn last_number(output: &str) -> Option<f64> {
    last_line(output).parse().ok()
}
