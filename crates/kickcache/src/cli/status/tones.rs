//! The colours of severity.

use kickcache_daemon::control::condition::Severity;

use crate::cli::table::Tone;

pub(super) fn of_severity(severity: Severity) -> Tone {
    match severity {
        Severity::Notice => Tone::Plain,
        Severity::Warning => Tone::Warning,
        Severity::Error => Tone::Bad,
    }
}
