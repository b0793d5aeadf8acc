//! A stored result: the base of a comparison with a command that is not available any more, such as one on an
//! older kernel.

use std::fs;
use std::path::Path;

use kickcache_command::whole_file;
use serde::{Deserialize, Serialize};

use crate::judge::failure::NoVerdict;
use crate::judge::metric::{Metric, MetricDirection};
use kickcache_model::statistics::median;
use kickcache_model::statistics::sequential::margin::Margin;
use kickcache_model::statistics::sequential::median_error::median_error;

const STORED_VERSION: u32 = 1;

/// Runs of a known-good command, and of a control.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredResult {
    version: u32,
    kickcache: String,
    metric: String,
    worse: MetricDirection,
    good: Runs,
    /// A command that does not depend on the judged change; without one, it is the known-good command itself.
    control: Option<Runs>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Runs {
    /// The command as a shell reads it.
    pub command: String,
    /// The metric of each run, in their order; the runs of a control have the same order as those of the
    /// command.
    pub values: Vec<f64>,
}

impl StoredResult {
    pub fn new(metric: &Metric, worse: MetricDirection, good: Runs, control: Option<Runs>) -> StoredResult {
        let (version, kickcache) = (STORED_VERSION, env!("CARGO_PKG_VERSION").to_owned());
        StoredResult { version, kickcache, metric: metric.to_string(), worse, good, control }
    }

    /// Reads a stored result.
    ///
    /// # Errors
    /// If the file cannot be read, is no stored result, or has another metric.
    pub fn read(path: &Path, metric: &Metric, worse: MetricDirection) -> Result<StoredResult, NoVerdict> {
        let fault = |what: String| {
            NoVerdict::stop(format!("the stored result {} cannot be read: {what}", path.display()))
        };
        let text = fs::read_to_string(path).map_err(|error| fault(error.to_string()))?;
        let stored: StoredResult = serde_json::from_str(&text)
            .map_err(|error| fault(format!("{error}; `kickcache judge --save` writes one")))?;
        stored.check(metric, worse).map_err(fault)?;
        Ok(stored)
    }

    fn check(&self, metric: &Metric, worse: MetricDirection) -> Result<(), String> {
        if self.version != STORED_VERSION {
            return Err(format!("it has version {}, this program reads {STORED_VERSION}", self.version));
        }
        if (self.metric.as_str(), self.worse) != (metric.to_string().as_str(), worse) {
            let worse = match self.worse {
                MetricDirection::Higher => "higher",
                MetricDirection::Lower => "lower",
            };
            return Err(format!("it has another metric, {}, for which {worse} is worse", self.metric));
        }
        let mut series = std::iter::once(&self.good).chain(&self.control);
        let is_fine = |runs: &Runs| {
            runs.values.len() == self.good.values.len()
                && runs.values.iter().all(|value| *value > 0.0 && value.is_finite())
        };
        if self.good.values.is_empty() || !series.all(is_fine) {
            return Err("its values are not as many positive numbers for each command".into());
        }
        Ok(())
    }

    /// Writes the result to a file.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), NoVerdict> {
        let text = serde_json::to_string_pretty(self).expect("numbers and texts") + "\n";
        whole_file::write(path, &text)
            .map_err(|error| NoVerdict::stop(format!("{} cannot be written: {error}", path.display())))
    }

    /// The runs of the control, or of the command if there is no control.
    pub fn control(&self) -> &Runs {
        self.control.as_ref().unwrap_or(&self.good)
    }

    pub fn good(&self) -> &Runs {
        &self.good
    }

    pub(crate) fn control_logs(&self) -> Vec<f64> {
        self.control().values.iter().map(|value| value.ln()).collect()
    }

    /// The median loss of the known-good command against the control.
    pub(crate) fn offset(&self) -> f64 {
        median(&self.losses()).unwrap_or(0.0)
    }

    fn losses(&self) -> Vec<f64> {
        let pairs = self.control().values.iter().zip(&self.good.values);
        pairs.map(|(control, good)| self.worse.loss(*control, *good)).collect()
    }

    /// Checks that a difference of a quarter of the margin can be detected with the stored result.
    ///
    /// # Errors
    /// If it is too noisy, or of too few runs.
    pub(crate) fn check_noise(&self, margin: Margin) -> Result<(), NoVerdict> {
        let error = median_error(&self.losses()).max(median_error(&self.control_logs()));
        if error <= margin.drift_max() {
            return Ok(());
        }
        Err(NoVerdict::stop(format!(
            "the stored result is too noisy for a margin of {margin}: its medians may be off by {:.1}%; store one with more \
             --rounds, or on a quieter machine",
            error.exp_m1() * 100.0
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(good: &[f64], control: &[f64]) -> StoredResult {
        let runs = |values: &[f64]| Runs { command: "x".into(), values: values.to_vec() };
        let metric = "iops".parse().unwrap();
        StoredResult::new(&metric, MetricDirection::Lower, runs(good), Some(runs(control)))
    }

    #[test]
    fn the_offset_is_the_loss_of_the_good_command() {
        let stored = stored(&[50.0; 8], &[100.0; 8]);
        assert!((stored.offset() - 2.0_f64.ln()).abs() < 1e-12);
        assert_eq!(stored.check_noise("20%".parse().unwrap()), Ok(()));
    }

    #[test]
    fn noise_that_hides_a_quarter_of_the_margin_is_refused() {
        let noisy: Vec<f64> = (0..15).map(|index| 100.0 + 20.0 * f64::from(index % 3)).collect();
        let margin = "20%".parse().unwrap();
        assert!(stored(&noisy, &[100.0; 15]).check_noise(margin).is_err());
        assert!(stored(&[50.0; 5], &[100.0; 5]).check_noise(margin).is_err(), "five runs have no interval");
    }

    #[test]
    fn files_of_something_else_are_refused_with_a_sentence() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("good.json");
        let (iops, time) = ("iops".parse().unwrap(), "time".parse().unwrap());
        let good = stored(&[50.0; 8], &[100.0; 8]);
        good.write(&path).unwrap();
        assert_eq!(StoredResult::read(&path, &iops, MetricDirection::Lower).unwrap(), good);
        let fault = |metric: &Metric| StoredResult::read(&path, metric, MetricDirection::Lower).unwrap_err();
        assert!(fault(&time).to_string().contains("it has another metric, iops"));
        stored(&[50.0; 8], &[100.0; 7]).write(&path).unwrap();
        assert!(fault(&iops).to_string().contains("not as many"));
        stored(&[50.0, -1.0], &[1.0, 1.0]).write(&path).unwrap();
        assert!(fault(&iops).to_string().contains("positive numbers"));
        fs::write(&path, "{}").unwrap();
        assert_eq!(fault(&iops).code(), 128);
    }
}
