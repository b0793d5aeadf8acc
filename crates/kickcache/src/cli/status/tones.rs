//! The colours of severity.

use kickcache_command::table::Tone;
use kickcache_daemon::control::condition::Severity;

pub(super) fn of_severity(severity: Severity) -> Tone {
    match severity {
        Severity::Notice => Tone::Plain,
        Severity::Warning => Tone::Warning,
        Severity::Error => Tone::Bad,
    }
}
