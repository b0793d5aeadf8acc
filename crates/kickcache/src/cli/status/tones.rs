//! The colours of health and severity.

use kickcache_daemon::control::condition::{HealthColour, Severity};

use crate::cli::table::Tone;

pub(super) fn of_health(colour: HealthColour) -> Tone {
    match colour {
        HealthColour::Green => Tone::Good,
        HealthColour::Amber => Tone::Warning,
        HealthColour::Red => Tone::Bad,
    }
}

pub(super) fn of_severity(severity: Severity) -> Tone {
    match severity {
        Severity::Notice => Tone::Plain,
        Severity::Warning => Tone::Warning,
        Severity::Error => Tone::Bad,
    }
}
