//! The remedy of a condition.

use std::fmt::Display;

use serde::{Deserialize, Serialize};

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Step {
    pub action: String,
    /// The command for it, as a shell reads it; `None` if no command carries the action out.
    pub command: Option<String>,
}

/// The remedy of a condition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Remedy {
    pub steps: Vec<Step>,
    /// Another way, or a case in which the steps do not help.
    pub otherwise: Option<String>,
}

impl Step {
    /// An action that no command carries out.
    pub fn outside(action: impl Into<String>) -> Step {
        Step { action: action.into(), command: None }
    }

    pub fn run(action: impl Into<String>, command: impl Display) -> Step {
        Step { action: action.into(), command: Some(command.to_string()) }
    }

    /// The same step in one case only.
    #[must_use]
    pub fn only_if(self, case: &str) -> Step {
        Step { action: format!("if {case}, {}", self.action), ..self }
    }

    pub fn line(&self) -> String {
        match &self.command {
            Some(command) => format!("{}: {command}", self.action),
            None => self.action.clone(),
        }
    }

    pub fn sentence(&self) -> String {
        match &self.command {
            Some(command) => format!("{} (`{command}`)", self.action),
            None => self.action.clone(),
        }
    }
}

impl Remedy {
    #[must_use]
    pub fn or(self, otherwise: Option<String>) -> Remedy {
        Remedy { otherwise, ..self }
    }

    pub fn sentence(&self) -> String {
        let steps: Vec<String> = self.steps.iter().map(Step::sentence).collect();
        let otherwise = self.otherwise.as_ref().map_or_else(String::new, |text| format!("; {text}"));
        steps.join(", then ") + &otherwise
    }
}

impl From<Vec<Step>> for Remedy {
    fn from(steps: Vec<Step>) -> Remedy {
        Remedy { steps, otherwise: None }
    }
}

impl From<Step> for Remedy {
    fn from(step: Step) -> Remedy {
        Remedy::from(vec![step])
    }
}

impl From<String> for Remedy {
    fn from(action: String) -> Remedy {
        Remedy::from(Step::outside(action))
    }
}

impl From<&str> for Remedy {
    fn from(action: &str) -> Remedy {
        Remedy::from(action.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_a_sentence() {
        let steps = vec![Step::run("stop the daemon", "kickcache stop"), Step::outside("repair the device")];
        let remedy = Remedy::from(steps).or(Some("if it hangs, wait".into()));
        assert_eq!(
            remedy.sentence(),
            "stop the daemon (`kickcache stop`), then repair the device; if it hangs, wait"
        );
        assert_eq!(Remedy::from("wait").sentence(), "wait");
        assert_eq!(remedy.steps[0].line(), "stop the daemon: kickcache stop");
    }
}
