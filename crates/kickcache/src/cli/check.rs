//! `kickcache check`: verifies every block on a cache device that no daemon serves.

use std::io;
use std::path::PathBuf;

use anyhow::anyhow;
use kickcache_command::bar::bar;
use kickcache_command::exit::{Exit, Failure};
use kickcache_command::options::StateOption;
use kickcache_command::table::{Align, Cell, Colour, Table, Tone};
use kickcache_command::user_text::Printer;
use kickcache_daemon::devices::offline::change::repair;
use kickcache_daemon::devices::offline::check::{Findings, Verdict, VolumeFindings, blocks_in, check};
use kickcache_daemon::devices::offline::foreign_device::with_notes;
use kickcache_daemon::shell_command::ShellCommand;
use kickcache_units::printable::printable_line;
use kickcache_units::{are, counted, show_bytes};

use crate::cli::device_state::{UnusedReason, bypassed_json, older_copy_json, print_needless, standing_json};

const BAR: &str = "checking {bar:30} {percent:>3} %  {bytes}/{total_bytes}  {bytes_per_sec}";

const EXAMPLES: &str = "\
Examples:
  kickcache check /var/cache/vm1.img
  kickcache check /dev/nvme0n1p4 --repair
  kickcache check /dev/nvme0n1p4 --repair --accept-older
  kickcache check /dev/nvme0n1p4 --json | jq '.findings.volumes[] | select(.lost != [])'

Exit codes:
  0  no damage, or the damage was repaired
  1  the check failed; see the message on standard error
  2  an argument is wrong
  4  damage that --repair mends without a loss
  5  dirty blocks are damaged: their data is lost; the list names the extents of each volume
  6  a part of the log is damaged or missing (journal, batch headers, whole segments): blocks may
     be older than the last writes (also after --repair has used the intact part of the log)
  7  no damage, but no daemon uses the cache device: it is out of service, an older copy, or was
     bypassed with dirty blocks";

/// --json has all extents.
const EXTENTS_SHOWN: usize = 16;
const BLOCK: u64 = 4096;

const WENT_ON: &str = "repaired with the intact part of the log: the dirty blocks above may be older \
                       than the last writes, and a drain writes them to the origin";

/// Verify every block on a cache device, and list damaged ones
///
/// Reads the superblock, the journal and all cached data, and compares each block with its checksum. Writes
/// only with --repair. Refused while a daemon serves the cache device.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CheckArgs {
    /// File or block device
    cache: PathBuf,
    /// Drop damaged clean blocks, which the origin has, and rewrite a damaged copy of the superblock
    ///
    /// Dirty blocks are never dropped, damaged or not.
    #[arg(long)]
    repair: bool,
    /// With --repair: use the intact part of a damaged log
    ///
    /// Every block found is used, and dirty blocks stay dirty. Blocks that were overwritten, discarded or
    /// written back since may return with older data, and a drain writes that data to the origin. `detach
    /// --lose-dirty` drops them.
    #[arg(long, requires = "repair")]
    accept_older: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    state: StateOption,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Log {
    Whole,
    Damaged,
}

impl Log {
    fn of(findings: &Findings) -> Log {
        let is_damaged = findings.rotted.is_some() || findings.verdict == Verdict::Suspect;
        if is_damaged { Log::Damaged } else { Log::Whole }
    }
}

impl CheckArgs {
    pub(crate) fn run(&self, out: &mut dyn Printer) -> Result<(), Failure> {
        let mut findings = self.check()?;
        let state = self.state.place();
        let unused = UnusedReason::look(&self.cache, &state).map_err(anyhow::Error::from)?;
        let mut repaired = None;
        let log = Log::of(&findings);
        let may_repair = log == Log::Whole || self.accept_older;
        if self.repair && may_repair && unused.standing.is_none() && findings.verdict != Verdict::Good {
            let dropped =
                repair(&self.cache, &findings.damaged_clean, &state).map_err(anyhow::Error::from)?;
            repaired = Some(dropped);
            findings = self.check()?;
        }
        if let Some(standing) = &unused.standing {
            findings.drop_needless(standing);
        }
        let shown = self.show(&findings, repaired, &unused, out);
        // The findings decide the exit code before the output does: a closed output must not hide damage.
        let repair = ShellCommand::new("check").path(&self.cache).word("--repair").word("--accept-older");
        let ended = end(&findings, &unused, &format!("`{}`", repair.state(&state)));
        if repaired.is_some()
            && log == Log::Damaged
            && !ended.as_ref().is_err_and(|end| end.exit == Exit::OutOfService)
        {
            let error = anyhow!("{WENT_ON}{}", and_lost(&findings));
            return Err(Failure { exit: Exit::Suspect, error });
        }
        ended?;
        Ok(shown?)
    }

    fn show(
        &self,
        findings: &Findings,
        repaired: Option<u64>,
        unused: &UnusedReason,
        out: &mut dyn Printer,
    ) -> io::Result<()> {
        if !self.json {
            print(out, &self.cache.display().to_string(), findings, repaired)?;
            return unused.print(out);
        }
        let json = serde_json::json!({
            "repaired_blocks": repaired,
            "out_of_service": unused.standing.as_ref().map(standing_json),
            "older_copy": unused.copy.as_ref().map(older_copy_json),
            "bypassed": bypassed_json(&unused.bypassed),
            "findings": findings,
        });
        writeln!(out, "{}", serde_json::to_string_pretty(&json)?)
    }

    fn check(&self) -> Result<Findings, Failure> {
        let bar = bar(1, BAR);
        let found = check(&self.cache, &mut |done, whole| {
            bar.set_length(whole);
            bar.set_position(done);
        });
        bar.finish_and_clear();
        Ok(found.map_err(|error| with_notes(error, &self.cache, &self.state.place()))?)
    }
}

fn end(findings: &Findings, unused: &UnusedReason, next: &str) -> Result<(), Failure> {
    if let Verdict::Good | Verdict::Repairable = findings.verdict {
        unused.end()?;
    }
    let (exit, sentence) = match findings.verdict {
        Verdict::Good => return Ok(()),
        Verdict::Repairable => {
            (Exit::Repairable, "damage was found, and no data is lost: --repair mends it".to_owned())
        }
        Verdict::Suspect => (
            Exit::Suspect,
            format!(
                "the log is damaged: blocks may be older than the last writes, and the device is \
                 unchanged{}; {next} drops the clean blocks and keeps the dirty ones, which a drain then \
                 writes to the origin; `detach --lose-dirty` drops the dirty ones as well",
                and_lost(findings)
            ),
        ),
        Verdict::Lost => (Exit::Lost, lost(findings).unwrap_or_default()),
    };
    Err(Failure { exit, error: anyhow!(sentence) })
}

fn and_lost(findings: &Findings) -> String {
    lost(findings).map_or_else(String::new, |lost| format!("; {lost}"))
}

fn lost(findings: &Findings) -> Option<String> {
    let blocks: u64 = findings.volumes.iter().map(|volume| blocks_in(&volume.lost)).sum();
    let (dirty, are) = (counted(blocks, "dirty block"), are(blocks));
    (blocks > 0).then(|| format!("{dirty} {are} damaged, and the data lost"))
}

fn print(out: &mut dyn Printer, path: &str, findings: &Findings, repaired: Option<u64>) -> io::Result<()> {
    let Findings { superblocks, journal, segments, .. } = findings;
    writeln!(out, "cache device {path}, {}", show_bytes(findings.device_bytes))?;
    writeln!(out, "  superblock  first copy {}; second copy {}", superblocks[0], superblocks[1])?;
    let damaged = journal.damaged_needed.len();
    writeln!(
        out,
        "  journal     {} blocks of records, {} of checkpoints; {damaged} damaged, {} damaged that are not needed",
        journal.records_blocks, journal.checkpoint_blocks, journal.damaged_unneeded
    )?;
    writeln!(
        out,
        "  segments    {} of {} in use, {} retired; {} have a summary, {} summaries are damaged",
        segments.in_use, segments.count, segments.retired, segments.with_summary, segments.damaged_summaries
    )?;
    writeln!(
        out,
        "  batches     {} headers; {} blocks without a header, {} of batches cut short",
        segments.headers, segments.without_header, segments.unfinished
    )?;
    if let Some(what) = &findings.rotted {
        writeln!(out, "  log         {what} is damaged or cannot be read: a daemon refuses the device")?;
    }
    if let Some(blocks) = repaired {
        writeln!(
            out,
            "repaired    {} dropped; the findings below are those after the repair",
            counted(blocks, "clean block")
        )?;
    }
    writeln!(out)?;
    volume_table(findings).print(out, Colour::for_stdout())?;
    for volume in &findings.volumes {
        print_damage(out, volume)?;
        print_needless(out, &volume.name, volume.needless_blocks * BLOCK)?;
    }
    Ok(())
}

fn volume_table(findings: &Findings) -> Table {
    let mut table = Table::new(&[
        ("VOLUME", Align::Left),
        ("CLEAN", Align::Right),
        ("DIRTY", Align::Right),
        ("DAMAGED", Align::Right),
        ("LOST", Align::Right),
    ]);
    for volume in &findings.volumes {
        let (damaged, lost) = (blocks_in(&volume.damaged), blocks_in(&volume.lost));
        let tone = |count: u64, tone: Tone| if count > 0 { tone } else { Tone::Plain };
        table.row(vec![
            Cell::new(if volume.name.is_empty() { "(unknown)" } else { &volume.name }),
            Cell::new(show_bytes(volume.clean_blocks * BLOCK)),
            Cell::new(show_bytes(volume.dirty_blocks * BLOCK)),
            Cell::toned(show_bytes(damaged * BLOCK), tone(damaged, Tone::Warning)),
            Cell::toned(show_bytes(lost * BLOCK), tone(lost, Tone::Warning)),
        ]);
    }
    table
}

fn print_damage(out: &mut dyn Printer, volume: &VolumeFindings) -> io::Result<()> {
    let lists =
        [(&volume.lost, "LOST: dirty and damaged"), (&volume.damaged, "damaged, and whole on the origin")];
    for (extents, what) in lists.into_iter().filter(|(extents, _)| !extents.is_empty()) {
        writeln!(out, "\n{what} in {}, as byte offset + length:", printable_line(&volume.name))?;
        for extent in extents.iter().take(EXTENTS_SHOWN) {
            writeln!(out, "  {} + {}", extent.start, extent.length)?;
        }
        if extents.len() > EXTENTS_SHOWN {
            writeln!(out, "  and {} more; --json lists them all", extents.len() - EXTENTS_SHOWN)?;
        }
    }
    if !volume.lost.is_empty() {
        writeln!(
            out,
            "reads of lost blocks fail: restore them from a backup, or overwrite each block completely"
        )?;
    }
    Ok(())
}
