//! The time of processors, from /proc: the total, and the shares of processes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// The process that has the kernel's threads as its children.
const KTHREADD: u32 = 2;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct ProcessorTicks {
    /// All, idle or not.
    pub(crate) all: u64,
    /// In programs, in the kernel outside of interrupts, and time that the hypervisor took.
    pub(crate) programs: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Process {
    parent: u32,
    /// Ticks of the process, and of its ended descendants that were waited for.
    ticks: u64,
}

impl ProcessorTicks {
    pub(crate) fn parse(text: &str) -> Option<ProcessorTicks> {
        let line = text.lines().next()?.strip_prefix("cpu ")?;
        let fields: Vec<u64> = line.split_whitespace().map_while(|field| field.parse().ok()).collect();
        // user nice system idle iowait irq softirq steal; guests are a part of user and nice.
        let [user, nice, system, .., steal] = fields.get(..8)? else { return None };
        Some(ProcessorTicks { all: fields[..8].iter().sum(), programs: user + nice + system + steal })
    }
}

impl Process {
    /// Parses the text of /proc/PID/stat, with any characters between the brackets of the second field.
    pub(crate) fn parse(text: &str) -> Option<Process> {
        let rest = &text[text.rfind(')')? + 1..];
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let ticks =
            fields.get(11..15)?.iter().map(|field| field.parse::<u64>()).sum::<Result<u64, _>>().ok()?;
        Some(Process { parent: fields.get(1)?.parse().ok()?, ticks })
    }
}

/// The ticks of some processes and of all their descendants.
pub(crate) fn tree_ticks(processes: &BTreeMap<u32, Process>, roots: &BTreeSet<u32>) -> u64 {
    let is_below = |pid: u32| {
        let mut at = pid;
        // A process that ended meanwhile may leave a loop of numbers that were used again.
        for _ in 0..1_000 {
            if roots.contains(&at) {
                return true;
            }
            match processes.get(&at) {
                Some(process) if process.parent != 0 => at = process.parent,
                _ => return false,
            }
        }
        false
    };
    processes.iter().filter(|(pid, _)| is_below(**pid)).map(|(_, process)| process.ticks).sum()
}

/// Ticks since the system was started: of all processors, and of the given processes, their descendants and the kernel's threads.
pub(crate) fn look(own: &BTreeSet<u32>) -> Option<Look> {
    let processors = ProcessorTicks::parse(&fs::read_to_string("/proc/stat").ok()?)?;
    let processes = processes();
    let mut roots = own.clone();
    roots.insert(KTHREADD);
    Some(Look { processors, ours: tree_ticks(&processes, &roots) })
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Look {
    processors: ProcessorTicks,
    ours: u64,
}

impl Look {
    /// The part of all processors that others took between an earlier look and this one.
    #[expect(clippy::cast_precision_loss, reason = "ticks of a run are few")]
    pub(crate) fn others_since(&self, before: &Look) -> f64 {
        let all = self.processors.all.saturating_sub(before.processors.all).max(1);
        let programs = self.processors.programs.saturating_sub(before.processors.programs);
        programs.saturating_sub(self.ours.saturating_sub(before.ours)) as f64 / all as f64
    }
}

fn processes() -> BTreeMap<u32, Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return BTreeMap::new() };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let known =
        |pid: u32| Some((pid, Process::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?));
    pids.filter_map(known).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_is_read() {
        let stat = "cpu  10 1 5 100 7 2 3 4 9 0\ncpu0 1 1 1 1 1 1 1 1 1 1\n";
        assert_eq!(ProcessorTicks::parse(stat), Some(ProcessorTicks { all: 132, programs: 20 }));
        let process = "77 (a) b (c) S 5 77 77 0 -1 4194560 1 2 3 4 10 20 30 40 20 0 1 0 9 0 0";
        assert_eq!(Process::parse(process), Some(Process { parent: 5, ticks: 100 }));
        assert_eq!(Process::parse("x"), None);
    }

    #[test]
    fn a_tree_is_summed_and_the_rest_belongs_to_others() {
        let process = |parent, ticks| Process { parent, ticks };
        let processes = [
            (1, process(0, 50)),
            (10, process(1, 3)),
            (11, process(10, 4)),
            (12, process(11, 5)),
            (13, process(1, 100)),
        ];
        let processes: BTreeMap<u32, Process> = processes.into();
        assert_eq!(tree_ticks(&processes, &[10].into()), 12);
        assert_eq!(tree_ticks(&processes, &[10, 12].into()), 12);
        let look = |all, programs, ours| Look { processors: ProcessorTicks { all, programs }, ours };
        let (before, after) = (look(1_000, 500, 100), look(2_000, 800, 370));
        assert!((after.others_since(&before) - 0.03).abs() < 1e-9);
    }

    #[test]
    fn this_process_is_its_own() {
        let own = [std::process::id()].into();
        let before = look(&own).unwrap();
        let mut sum = 0_u64;
        let start = std::time::Instant::now();
        while start.elapsed() < std::time::Duration::from_millis(300) {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        let after = look(&own).unwrap();
        assert!(after.ours - before.ours >= 5, "{before:?} {after:?}");
    }
}
