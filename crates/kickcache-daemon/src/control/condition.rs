//! Conditions, and the health of a daemon.

use std::time::Duration;

use kickcache_units::{are, counted, show_duration};
use serde::{Deserialize, Serialize};

use crate::control::condition_kind::Reach;
pub use crate::control::condition_kind::{ConditionKind, Severity};
use crate::control::remedy::{Remedy, Step};

/// A condition of a volume, a device or the daemon.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Condition {
    pub kind: ConditionKind,
    pub severity: Severity,
    /// When the condition began, in seconds since 1970.
    pub since: u64,
    pub lasted_seconds: f64,
    pub volume: Option<String>,
    pub device: Option<String>,
    /// The condition in a few words, with its figures.
    pub summary: String,
    pub cause: Option<String>,
    #[serde(default)]
    pub effect: String,
    pub figures: Vec<Figure>,
    /// The remedy: the steps in a sentence, and the text of `otherwise` if there is one.
    pub remedy: String,
    #[serde(default)]
    pub steps: Vec<Step>,
    /// Another way, or a case in which the steps do not help.
    #[serde(default)]
    pub otherwise: Option<String>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Figure {
    pub name: String,
    pub value: f64,
    pub unit: String,
}

/// The colour of the health.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HealthColour {
    /// No problem.
    #[default]
    Green,
    /// A warning.
    Amber,
    /// An error.
    Red,
}

/// The health of a daemon.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Health {
    pub colour: HealthColour,
    pub sentence: String,
}

impl Condition {
    /// A condition of a kind, without its times.
    pub fn new(kind: ConditionKind, summary: impl Into<String>, remedy: impl Into<Remedy>) -> Condition {
        let remedy = remedy.into();
        Condition {
            kind,
            severity: kind.entry().severity,
            since: 0,
            lasted_seconds: 0.0,
            volume: None,
            device: None,
            summary: summary.into(),
            cause: None,
            effect: kind.entry().effect.into(),
            figures: Vec::new(),
            remedy: remedy.sentence(),
            steps: remedy.steps,
            otherwise: remedy.otherwise,
        }
    }

    #[must_use]
    pub fn of_volume(self, volume: &str) -> Condition {
        Condition { volume: Some(volume.into()), ..self }
    }

    #[must_use]
    pub fn of_device(self, device: &str) -> Condition {
        Condition { device: Some(device.into()), ..self }
    }

    #[must_use]
    pub fn because(self, cause: impl Into<String>) -> Condition {
        Condition { cause: Some(cause.into()), ..self }
    }

    #[must_use]
    pub fn lasting(self, seconds: f64) -> Condition {
        Condition { lasted_seconds: seconds, ..self }
    }

    #[must_use]
    pub fn figure(mut self, name: &str, value: f64, unit: &str) -> Condition {
        self.figures.push(Figure { name: name.into(), value, unit: unit.into() });
        self
    }

    /// Replaces the usual effect of the kind.
    #[must_use]
    pub fn with_effect(self, effect: impl Into<String>) -> Condition {
        Condition { effect: effect.into(), ..self }
    }

    /// Whether the condition concerns the volume itself, or its cache device in a way that reaches the device's
    /// volumes.
    pub fn concerns(&self, volume: &str, device: &str) -> bool {
        let is_of_device = self.volume.is_none() && self.device.as_deref() == Some(device);
        self.volume.as_deref() == Some(volume) || is_of_device && self.kind.entry().reach == Reach::Volumes
    }

    /// The condition with its remedy, in sentences.
    pub fn sentence(&self) -> String {
        format!("{} {}", self.situation(), self.remedy_sentence())
    }

    /// [`Condition::sentence`] without the remedy.
    pub fn situation(&self) -> String {
        let effect = match self.severity.is_problem() {
            true => format!(" {}", sentence(&self.effect)),
            false => String::new(),
        };
        self.statement(self.span().as_deref()) + &effect
    }

    pub fn remedy_sentence(&self) -> String {
        sentence(&self.remedy)
    }

    pub fn subject(&self) -> &str {
        self.volume.as_deref().or(self.device.as_deref()).unwrap_or("the daemon")
    }

    /// The condition without how long it has lasted, its effect and its remedy.
    pub fn what(&self) -> String {
        self.statement(None)
    }

    /// For how long it has lasted; `None` below a second.
    fn span(&self) -> Option<String> {
        (self.lasted_seconds >= 1.0).then(|| format!("for {}", show_span(self.lasted_seconds)))
    }

    fn statement(&self, span: Option<&str>) -> String {
        let subject = self.volume.as_deref().or(self.device.as_deref());
        let begin: Vec<&str> = subject.into_iter().chain(span).collect();
        let begin = if begin.is_empty() { String::new() } else { format!("{}: ", begin.join(", ")) };
        let cause = self.cause.as_ref().map_or_else(String::new, |cause| format!(": {cause}"));
        let text = format!("{begin}{}{cause}", self.summary);
        let end = if text.ends_with('.') { "" } else { "." };
        // Names of volumes and paths keep their case.
        if subject.is_none() { sentence(&text) } else { format!("{text}{end}") }
    }
}

/// A span in a sentence, such as `40 s` or `3 min 2 s`.
pub fn show_span(seconds: f64) -> String {
    let seconds = seconds.clamp(0.0, 1e12);
    match seconds {
        short if short < 119.5 => format!("{short:.0} s"),
        _ => show_duration(Duration::from_secs_f64(seconds)),
    }
}

fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    let end = if text.ends_with('.') { "" } else { "." };
    format!("{first}{}{end}", letters.as_str())
}

impl Health {
    /// The health of a daemon that serves these volumes; `conditions` begin with the most urgent one.
    pub fn new(volumes: &[&str], conditions: &[Condition]) -> Health {
        let problems = conditions.iter().filter(|condition| condition.severity.is_problem());
        let count = problems.clone().count() as u64;
        let Some(worst) = problems.into_iter().next() else {
            return Health { colour: HealthColour::Green, sentence: all_well(volumes) };
        };
        let colour = if worst.severity == Severity::Error { HealthColour::Red } else { HealthColour::Amber };
        let more = match count - 1 {
            0 => String::new(),
            more => format!(" {} {} listed as well.", counted(more, "other problem"), are(more)),
        };
        Health { colour, sentence: format!("{}{more}", worst.sentence()) }
    }
}

fn all_well(volumes: &[&str]) -> String {
    match volumes {
        [] => "No volume is served.".into(),
        [one] => format!("The volume {one} is healthy."),
        [_, _] => "Both volumes are healthy.".into(),
        all => format!("All {} volumes are healthy.", all.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_health_is_the_most_urgent_problem() {
        let away = Condition::new(ConditionKind::OriginAway, "origin away", "check the server")
            .of_volume("vm1")
            .lasting(40.2)
            .because("connection refused")
            .with_effect("clients wait");
        let paused = Condition::new(ConditionKind::CachingPaused, "reads are not cached", "wait");
        let stuck = Condition::new(ConditionKind::WritebackStuck, "writeback is stuck", "wait")
            .with_effect("clients are served");
        let of = |conditions: &[Condition]| {
            let health = Health::new(&["a", "b", "c"], conditions);
            (health.colour, health.sentence)
        };
        assert_eq!(of(&[]), (HealthColour::Green, "All 3 volumes are healthy.".into()));
        assert_eq!(of(std::slice::from_ref(&paused)).0, HealthColour::Green);
        let expected = "vm1, for 40 s: origin away: connection refused. Clients wait. Check the server.";
        assert_eq!(of(&[away.clone(), paused]), (HealthColour::Red, expected.into()));
        let two = "Writeback is stuck. Clients are served. Wait. 1 other problem is listed as well.";
        assert_eq!(of(&[stuck, away]), (HealthColour::Amber, two.into()));
    }

    #[test]
    fn all_kinds_have_names_of_their_own() {
        let names: std::collections::BTreeSet<&str> =
            ConditionKind::ALL.iter().map(|kind| kind.as_str()).collect();
        assert_eq!(names.len(), ConditionKind::ALL.len());
        for kind in ConditionKind::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
        }
        assert!(ConditionKind::ALL.is_sorted_by_key(|kind| std::cmp::Reverse(kind.entry().severity)));
    }
}
