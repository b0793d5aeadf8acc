//! The result of a reload, for the log and for the client.

use kickcache_units::counted;

use crate::control::ControlError;
use crate::control::wire::Reloaded;
use crate::plan::plan_change::PlanChange;

pub(crate) struct FailedReload {
    pub(crate) error: ControlError,
    pub(crate) made: ChangesMade,
}

/// The changes that a reload made before it failed.
pub(crate) enum ChangesMade {
    These(Vec<PlanChange>),
    /// The file cannot be compared with the served volumes any more.
    Unknown,
}

impl From<ControlError> for FailedReload {
    /// A reload that is refused before the first change.
    fn from(error: ControlError) -> FailedReload {
        FailedReload { error, made: ChangesMade::These(Vec::new()) }
    }
}

impl FailedReload {
    fn made(&self) -> Option<String> {
        let made = match &self.made {
            ChangesMade::These(made) if made.is_empty() => return None,
            ChangesMade::These(made) => {
                let made: Vec<String> = made.iter().map(ToString::to_string).collect();
                format!("before that, these changes were made: {}", made.join(", "))
            }
            ChangesMade::Unknown => "some changes may have been made before that".to_owned(),
        };
        Some(format!("{made}; `kickcache reload --dry-run` prints the rest"))
    }

    pub(crate) fn for_client(&self) -> ControlError {
        match (self.made(), &self.error) {
            (None, error) => error.clone(),
            (Some(made), ControlError::Running(what)) => ControlError::Running(format!("{what}; {made}")),
            (Some(made), error) => ControlError::Refused(format!("{error}; {made}")),
        }
    }
}

pub(crate) fn tell(reloaded: &Result<Reloaded, FailedReload>) {
    let changes = match reloaded {
        Ok(reloaded) => &reloaded.changes,
        Err(failed) => return tell_failed(failed),
    };
    for change in changes {
        tracing::info!(event = "plan_changed", "{change}");
    }
    let made = match changes.len() as u64 {
        0 => "no difference".to_owned(),
        count => format!("{} made", counted(count, "change")),
    };
    tracing::info!(event = "reloaded", "the configuration file was read again: {made}");
}

fn tell_failed(failed: &FailedReload) {
    let error = &failed.error;
    if let ChangesMade::These(made) = &failed.made {
        made.iter().for_each(|change| tracing::info!(event = "plan_changed", "{change}"));
    }
    match failed.made() {
        None => tracing::error!(
            event = "reload_refused",
            "a reload applies the present configuration file, which is refused; the daemon is unchanged: {error}"
        ),
        Some(made) => tracing::error!(
            event = "reload_incomplete",
            "a reload applies the present configuration file, and a step failed: {error}; {made}"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::logged::logged;

    fn failed(made: ChangesMade) -> (String, String) {
        let failed = FailedReload { error: ControlError::Refused("volume b: it stays".into()), made };
        let error = failed.for_client().to_string();
        (error, logged(|| tell(&Err(failed))))
    }

    #[test]
    fn a_failed_reload_lists_the_changes_made() {
        let removed = PlanChange::VolumeRemoved { volume: "a".into(), cache: "/c".into() };
        let made =
            "these changes were made: a: removed from /c; `kickcache reload --dry-run` prints the rest";
        let (error, log) = failed(ChangesMade::These(vec![removed]));
        assert_eq!(error, format!("volume b: it stays; before that, {made}"));
        assert!(log.contains("reload_incomplete") && log.contains(made), "{log}");
        assert!(!log.contains("unchanged"), "{log}");
        let (error, log) = failed(ChangesMade::Unknown);
        assert!(error.contains("some changes may have been made") && !log.contains("unchanged"), "{log}");
    }

    #[test]
    fn a_refused_reload_leaves_the_daemon_unchanged() {
        let (error, log) = failed(ChangesMade::These(Vec::new()));
        assert_eq!(error, "volume b: it stays");
        assert!(log.contains("the daemon is unchanged: volume b: it stays"), "{log}");
    }
}
