//! Conditions of the daemon as a whole.

use crate::conditions::{Surroundings, in_order, show_span};
use crate::control::condition::{Condition, ConditionKind};
use crate::control::report::Report;

/// A condition exists if requests have waited for memory without a pause for at least this many seconds.
pub(super) const MEMORY_WAIT_MIN: f64 = 10.0;

/// The conditions; `memory_wait` is how long requests have waited for memory without a pause.
pub(super) fn find(report: &Report, around: &Surroundings<'_>, memory_wait: f64, found: &mut Vec<Condition>) {
    for device in around.silent {
        let condition = Condition::new(
            ConditionKind::LoopSilent,
            "the event loop of this cache device does not answer, or has ended",
            "see the log; stop and start the daemon to serve its volumes again",
        );
        found.push(condition.of_device(device));
    }
    for volume in &report.unserved {
        let condition = Condition::new(
            ConditionKind::VolumeNotServed,
            "not served",
            "remove the cause, then start the daemon again",
        );
        let condition = condition.of_volume(&volume.name).because(&volume.why);
        found.push(match volume.commands.as_slice() {
            [] => condition,
            commands => Condition { remedy: in_order(commands), ..condition }.commands(commands.to_vec()),
        });
    }
    if let Some(failure) = around.state_failure {
        let condition = Condition::new(
            ConditionKind::StateUnwritable,
            "the state directory cannot be written",
            "make it writable, and make room in it",
        );
        let directory = report.state_directory.as_ref().map(|path| path.display().to_string());
        found.push(
            condition.of_device(directory.as_deref().unwrap_or("the state directory")).because(failure),
        );
    }
    if report.monitor_ended {
        found.push(Condition::new(
            ConditionKind::MonitorEnded,
            "the monitor, the part of the daemon that is root, has ended: open devices are served, and no \
             other device that needs its rights can be opened",
            "start the daemon again when convenient",
        ));
    }
    if let Some(failure) = &report.tls_failure {
        let condition = Condition::new(
            ConditionKind::CertificatesUnusable,
            "the files of the certificates changed and cannot be used; the earlier certificates are in use",
            "correct the named file before they expire",
        );
        found.push(condition.because(failure));
    }
    if memory_wait >= MEMORY_WAIT_MIN {
        let waiting = report.memory.waiting_requests;
        let summary = format!("{waiting} requests wait for memory, for {}", show_span(memory_wait));
        let condition = Condition::new(ConditionKind::MemoryShort, summary, "raise `memory-limit`");
        found.push(condition.lasting(memory_wait).figure("waiting_requests", waiting as f64, "requests"));
    }
}
