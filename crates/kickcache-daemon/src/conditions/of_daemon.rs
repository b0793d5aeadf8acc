//! Conditions of the daemon as a whole.

use crate::conditions::Surroundings;
use crate::control::condition::{Condition, ConditionKind};
use crate::control::remedy::Step;
use crate::control::report::Report;

/// Memory is short if each report of at least this many seconds has had requests that wait for memory.
pub(super) const MEMORY_WAIT_MIN: f64 = 10.0;

/// `memory_wait` is for how many seconds each report has had requests that wait for memory.
pub(super) fn find(report: &Report, around: &Surroundings<'_>, memory_wait: f64, found: &mut Vec<Condition>) {
    for device in around.silent {
        let condition = Condition::new(
            ConditionKind::LoopSilent,
            "the event loop of this cache device does not answer, or has ended",
            vec![Step::outside("see the log"), around.commands.restart_step()],
        );
        found.push(condition.of_device(device));
    }
    for volume in &report.unserved {
        let remedy: Vec<Step> = match volume.commands.as_slice() {
            [] => vec![
                Step::outside("remove the cause"),
                Step::run("have it try again", around.commands.reload())
                    .only_if("the daemon has a configuration file"),
                around.commands.restart_step().only_if("it has none"),
            ],
            commands => commands.iter().map(|command| Step::run("run this command", command)).collect(),
        };
        let condition = Condition::new(ConditionKind::VolumeNotServed, "not served", remedy);
        found.push(condition.of_volume(&volume.name).because(&volume.why));
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
            vec![Step::outside("wait for a convenient time"), around.commands.restart_step()],
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
        let summary = format!("{waiting} requests wait for memory");
        let remedy = vec![
            Step::outside("raise `memory-limit`, or a limit of clients that holds many requests back"),
            around.commands.restart_step(),
        ];
        let condition = Condition::new(ConditionKind::MemoryShort, summary, remedy);
        found.push(condition.lasting(memory_wait).figure("waiting_requests", waiting as f64, "requests"));
    }
}
