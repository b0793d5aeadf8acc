//! A condition of the daemon, and its health: the one source of `status`, `top`, the live page, metrics, the log
//! and the status line of the service manager.

use kickcache_units::{are, counted};
use serde::{Deserialize, Serialize};

use crate::control::condition_kind::Reach;
pub use crate::control::condition_kind::{ConditionKind, Severity};

/// A condition of a volume, a device or the daemon.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Condition {
    /// Its kind.
    pub kind: ConditionKind,
    /// How urgent the condition is.
    pub severity: Severity,
    /// When the condition began, in seconds since 1970.
    pub since: u64,
    /// How long the condition has lasted.
    pub lasted_seconds: f64,
    /// The volume, if it concerns one.
    pub volume: Option<String>,
    /// The device, if it concerns one.
    pub device: Option<String>,
    /// The condition in a few words, with its figures.
    pub summary: String,
    /// The cause of the condition, if it is known.
    pub cause: Option<String>,
    /// Its figures, for programs.
    pub figures: Vec<Figure>,
    /// The action that ends the condition.
    pub remedy: String,
    /// The commands of the remedy, in their order, as a shell reads them.
    pub commands: Vec<String>,
}

/// A figure of a condition.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Figure {
    /// Its name.
    pub name: String,
    /// The value.
    pub value: f64,
    /// The unit.
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

/// The health of a daemon in a sentence.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Health {
    /// How urgent the most urgent problem is.
    pub colour: HealthColour,
    /// A sentence that there is no problem, or the most urgent problem.
    pub sentence: String,
}

impl Condition {
    /// A condition of a kind, without its time, which is added when it is reported.
    pub fn new(kind: ConditionKind, summary: impl Into<String>, remedy: impl Into<String>) -> Condition {
        Condition {
            kind,
            severity: kind.entry().severity,
            since: 0,
            lasted_seconds: 0.0,
            volume: None,
            device: None,
            summary: summary.into(),
            cause: None,
            figures: Vec::new(),
            remedy: remedy.into(),
            commands: Vec::new(),
        }
    }

    /// Adds the volume.
    #[must_use]
    pub fn of_volume(self, volume: &str) -> Condition {
        Condition { volume: Some(volume.into()), ..self }
    }

    /// Adds the device.
    #[must_use]
    pub fn of_device(self, device: &str) -> Condition {
        Condition { device: Some(device.into()), ..self }
    }

    /// Adds the cause.
    #[must_use]
    pub fn because(self, cause: impl Into<String>) -> Condition {
        Condition { cause: Some(cause.into()), ..self }
    }

    /// Adds how long the condition has lasted, if the report shows that.
    #[must_use]
    pub fn lasting(self, seconds: f64) -> Condition {
        Condition { lasted_seconds: seconds, ..self }
    }

    /// Adds a figure.
    #[must_use]
    pub fn figure(mut self, name: &str, value: f64, unit: &str) -> Condition {
        self.figures.push(Figure { name: name.into(), value, unit: unit.into() });
        self
    }

    /// Adds the commands of the remedy.
    #[must_use]
    pub fn commands(self, commands: impl IntoIterator<Item = String>) -> Condition {
        Condition { commands: commands.into_iter().collect(), ..self }
    }

    /// Whether the condition concerns a volume directly, or its cache device.
    pub fn concerns(&self, volume: &str, device: &str) -> bool {
        let is_of_device = self.volume.is_none() && self.device.as_deref() == Some(device);
        self.volume.as_deref() == Some(volume) || is_of_device && self.kind.entry().reach == Reach::Volumes
    }

    /// The condition and its remedy, a sentence each.
    pub fn sentence(&self) -> String {
        format!("{} {}", self.what(), sentence(&self.remedy))
    }

    /// The condition without its remedy.
    pub fn what(&self) -> String {
        let subject = match (&self.volume, &self.device) {
            (Some(subject), _) | (None, Some(subject)) => format!("{subject}: "),
            (None, None) => String::new(),
        };
        let cause = self.cause.as_ref().map_or_else(String::new, |cause| format!(": {cause}"));
        let text = format!("{subject}{}{cause}", self.summary);
        let end = if text.ends_with('.') { "" } else { "." };
        // Names of volumes and paths keep their case.
        if subject.is_empty() { sentence(&text) } else { format!("{text}{end}") }
    }
}

/// A text with a capital letter and a full stop.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    let end = if text.ends_with('.') { "" } else { "." };
    format!("{first}{}{end}", letters.as_str())
}

impl Health {
    /// The health of a daemon that serves these volumes; the most urgent condition is the first.
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
        let away = Condition::new(ConditionKind::OriginAway, "origin away for 40 s", "check the server")
            .of_volume("vm1")
            .because("connection refused");
        let paused = Condition::new(ConditionKind::CachingPaused, "reads are not cached", "wait");
        let stuck = Condition::new(ConditionKind::WritebackStuck, "writeback is stuck", "wait");
        let of = |conditions: &[Condition]| {
            let health = Health::new(&["a", "b", "c"], conditions);
            (health.colour, health.sentence)
        };
        assert_eq!(of(&[]), (HealthColour::Green, "All 3 volumes are healthy.".into()));
        assert_eq!(of(std::slice::from_ref(&paused)).0, HealthColour::Green);
        let expected = "vm1: origin away for 40 s: connection refused. Check the server.";
        assert_eq!(of(&[away.clone(), paused]), (HealthColour::Red, expected.into()));
        let two = "Writeback is stuck. Wait. 1 other problem is listed as well.";
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
