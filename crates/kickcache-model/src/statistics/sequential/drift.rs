//! Whether a control that is run again gives its stored figures: if not, the machine has changed, and a
//! stored result cannot be compared.

use crate::statistics::median;
use crate::statistics::sequential::margin::Margin;
use crate::statistics::sequential::median_error::median_error;
use crate::statistics::sequential::pair_test::ROUNDS_MIN;

#[derive(Clone, PartialEq, Debug)]
pub struct Drift {
    stored: Vec<f64>,
    now: Vec<f64>,
    max: f64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DriftVerdict {
    /// Within the limit, or too few rounds for a decision.
    Same,
    /// Beyond the limit by the figures so far, which may still change.
    Doubtful,
    /// Beyond the limit, also if both medians are off by as much as they may be.
    Drifted,
}

impl Drift {
    pub fn new(stored: Vec<f64>, margin: Margin) -> Drift {
        Drift { stored, now: Vec::new(), max: margin.drift_max() }
    }

    pub fn add(&mut self, value: f64) {
        self.now.push(value);
    }

    /// By how much the median has changed, as a logarithm; `None` before the first run, or without stored figures.
    pub fn change(&self) -> Option<f64> {
        Some(median(&self.now)? - median(&self.stored)?)
    }

    pub fn standing(&self) -> DriftVerdict {
        let Some(change) = self.change().filter(|_| self.now.len() >= ROUNDS_MIN) else {
            return DriftVerdict::Same;
        };
        let error = median_error(&self.now) + median_error(&self.stored);
        match change.abs() {
            change if change <= self.max => DriftVerdict::Same,
            change if change - error > self.max => DriftVerdict::Drifted,
            _ => DriftVerdict::Doubtful,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(values: &[f64]) -> DriftVerdict {
        let stored: Vec<f64> = (0..15).map(|index| 5.0 + 0.01 * f64::from(index % 3 - 1)).collect();
        let mut drift = Drift::new(stored, "20%".parse().unwrap());
        values.iter().for_each(|value| drift.add(*value));
        drift.standing()
    }

    #[test]
    fn a_control_may_change_by_a_quarter_of_the_margin() {
        assert_eq!(after(&[]), DriftVerdict::Same);
        assert_eq!(after(&[9.0; 4]), DriftVerdict::Same, "four runs give no verdict");
        assert_eq!(after(&[5.04; 9]), DriftVerdict::Same);
        assert_eq!(after(&[4.96; 9]), DriftVerdict::Same);
        assert_eq!(after(&[5.2; 9]), DriftVerdict::Drifted);
        assert_eq!(after(&[4.8; 9]), DriftVerdict::Drifted, "a control that is better has drifted, too");
        assert_eq!(after(&[5.2; 5]), DriftVerdict::Doubtful, "five runs have no interval");
        assert_eq!(after(&[5.0, 5.1, 5.05, 5.06, 5.0, 5.3, 5.06]), DriftVerdict::Doubtful);
    }
}
