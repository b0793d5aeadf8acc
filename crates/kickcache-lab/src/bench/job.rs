//! The job of a bench, and its job file for each target, with options of the target and the bench.

use std::fs;
use std::time::Duration;

use anyhow::Context;
use kickcache_command::exit::WrongArguments;
use kickcache_engine::units::ByteExtent;
use kickcache_model::workload::Workload;
use kickcache_model::workload::fio::FioWorkload;

use crate::bench::job_options;
use crate::bench::options::Job;
use crate::bench::place::{FileKind, Place};
use crate::bench::section::{self, Section};

/// Values of `rw` that never write.
const READS: [&str; 2] = ["read", "randread"];
/// Runs of at most this known length are logged every 100 ms, others every second.
const SHORT: Duration = Duration::from_secs(120);

#[derive(Clone, Debug)]
pub(super) struct JobSource {
    sections: Vec<Section>,
    pub(super) description: String,
    /// Bytes from the start of a device that the job uses, in whole MiB; `None` if unknown.
    pub(super) bytes: Option<u64>,
    /// The reason why `bytes` is unknown; otherwise empty.
    pub(super) why_unknown: String,
    /// The time in which the jobs begin their accesses, with start delays and ramp time; `None` if unknown or
    /// without limit.
    pub(super) length: Option<Duration>,
    /// The ramp time, 0 also if it is unknown.
    pub(super) ramp: Duration,
    pub(super) caching: Caching,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Caching {
    /// Every job bypasses the page cache: `direct=1` or `buffered=0`.
    Direct,
    /// At least one job uses the page cache, unless the target is an NBD export.
    PageCache,
}

impl Caching {
    fn of(sections: &[Section]) -> Caching {
        let mut inherited = Caching::PageCache;
        for section in sections {
            let own = section.options.iter().rev().find_map(|option| of_option(option));
            match own.unwrap_or(inherited) {
                found if section.name == "global" => inherited = found,
                Caching::PageCache => return Caching::PageCache,
                Caching::Direct => {}
            }
        }
        Caching::Direct
    }
}

fn of_option(option: &str) -> Option<Caching> {
    let value = option.split_once('=').map_or("1", |(_, value)| value.trim());
    let is_off = value.starts_with('0') || value.eq_ignore_ascii_case("false");
    match Section::key(option).as_str() {
        "direct" => Some(if is_off { Caching::PageCache } else { Caching::Direct }),
        "buffered" => Some(if is_off { Caching::Direct } else { Caching::PageCache }),
        _ => None,
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Access {
    Reads,
    Writes,
}

impl JobSource {
    /// Reads a job file, or makes the job of the articles.
    ///
    /// # Errors
    /// If the file cannot be read, is not a job file, or has an option that the bench refuses.
    pub(super) fn read(job: &Job) -> anyhow::Result<JobSource> {
        match job {
            Job::Article(article) => {
                let size = kickcache_units::show_bytes(article.size);
                let description = format!("2 jobs x 8 reads of 4 KiB in flight, zipf 1.2, {size} each");
                JobSource::parse(&article.text(), description)
            }
            Job::File(path) => {
                let name = path.display();
                let text = fs::read_to_string(path).map_err(|error| {
                    WrongArguments(format!("the job file {name} cannot be read: {error}"))
                })?;
                JobSource::parse(&text, name.to_string())
                    .with_context(|| format!("the job file {name} cannot be used"))
            }
        }
    }

    fn parse(text: &str, description: String) -> anyhow::Result<JobSource> {
        let sections = section::parse(text)?;
        job_options::check(&sections)?;
        let caching = Caching::of(&sections);
        let description = match caching {
            Caching::Direct => description,
            Caching::PageCache => {
                format!("{description} (without direct=1: files and disks by the page cache)")
            }
        };
        let (bytes, length, ramp, why_unknown) = (None, None, Duration::ZERO, String::new());
        let mut source = JobSource { sections, description, bytes, why_unknown, length, ramp, caching };
        // On one device, the jobs are at their offsets, not one after the other.
        let parsed = FioWorkload::parse(&source.simulated_text(), 1);
        let why = parsed.as_ref().err().map(ToString::to_string).unwrap_or_default();
        // The simulated text has other line numbers than the file.
        let sentence = why.split_once(": ").filter(|(place, _)| place.starts_with("line "));
        source.why_unknown = sentence.map_or(why.as_str(), |(_, sentence)| sentence).to_owned();
        let known = parsed.ok();
        source.bytes = known.as_ref().map(Workload::volume_bytes);
        let ramp = known.as_ref().map_or(0, |known| known.measured_from().as_nanos());
        source.ramp = Duration::from_nanos(ramp);
        let length = known.and_then(|known| known.longest());
        source.length = length.map(|length| Duration::from_nanos(length.as_nanos()));
        Ok(source)
    }

    pub(super) fn simulated_text(&self) -> String {
        std::iter::once("[global]\nfilename=shared\n".to_owned())
            .chain(self.sections.iter().map(|section| strip(section, &[]).text()))
            .collect()
    }

    pub(super) fn access(&self) -> Access {
        let mut kinds = self.sections.iter().flat_map(|section| section.values(&["rw", "readwrite"]));
        let reads = kinds.all(|kind| READS.contains(&kind.split(':').next().unwrap_or_default()));
        if reads { Access::Reads } else { Access::Writes }
    }

    pub(super) fn interval(&self) -> Duration {
        if self.length.is_some_and(|length| length <= SHORT) {
            Duration::from_millis(100)
        } else {
            Duration::from_secs(1)
        }
    }

    pub(super) fn left_out(&self) -> Vec<&str> {
        let options = self.sections.iter().flat_map(|section| &section.options);
        options.filter(|option| job_options::is_left_out(option)).map(String::as_str).collect()
    }

    /// The job file for a place; with `log`, fio writes logs with names that begin with it.
    pub(super) fn text(&self, place: &Place, seed: u64, log: Option<&str>) -> String {
        let mut own = place.options();
        own.push(format!("randseed={seed}"));
        if let Some(log) = log {
            own.push(format!("write_iops_log={log}"));
            own.push(format!("log_avg_msec={}", self.interval().as_millis()));
            own.push("per_job_logs=1".into());
        }
        let mut left_out: Vec<String> = own.iter().map(|option| Section::key(option)).collect();
        if place.file_kind() == FileKind::OfEachJob {
            left_out.push("offset".into());
        }
        let first = Section { name: "global".into(), options: own };
        std::iter::once(first)
            .chain(self.sections.iter().map(|section| strip(section, &left_out)))
            .map(|section| section.text())
            .collect()
    }
}

/// A job that reads stale data: each block twice, in random order. `options` name the target.
pub(super) fn stale_text(options: &str, stale: ByteExtent) -> String {
    let ByteExtent { start, length } = stale;
    format!(
        "[global]\nioengine=libaio\n{options}\n[stale]\ndirect=1\nrw=randread\nbs=64k\niodepth=16\nloops=2\n\
         offset={start}\nsize={length}\n"
    )
}

/// The place of stale data on a device: behind the job's data.
pub(super) fn stale_extent(job_bytes: u64, bytes: u64) -> ByteExtent {
    ByteExtent { start: job_bytes.next_multiple_of(64 << 10), length: bytes }
}

/// A section without the options that the bench leaves out, and without options that have a key in `more`.
fn strip(section: &Section, more: &[String]) -> Section {
    let is_kept =
        |option: &&String| !job_options::is_left_out(option) && !more.contains(&Section::key(option));
    Section { name: section.name.clone(), options: section.options.iter().filter(is_kept).cloned().collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::article_job::ArticleJob;

    fn article() -> JobSource {
        let job = ArticleJob { size: 1 << 20, runtime: Duration::from_secs(2) };
        JobSource::read(&Job::Article(job)).unwrap()
    }

    #[test]
    fn the_articles_job_is_two_jobs_side_by_side() {
        let job = article();
        assert_eq!((job.bytes, job.length), (Some(2 << 20), Some(Duration::from_secs(2))));
        assert_eq!(job.access(), Access::Reads);
        let text = job.text(&Place::Disk("/dev/sd:b".into()), 7, Some("log"));
        assert!(text.contains("filename=/dev/sd\\:b\n") && text.contains("randseed=7\n"), "{text}");
        assert!(text.contains("[job]\noffset=0\n[job]\noffset=1048576\n"), "{text}");
        let text = job.text(&Place::Directory("/srv/d".into()), 7, None);
        assert!(text.contains("directory=/srv/d\n") && !text.contains("offset="), "{text}");
        assert!(!text.contains("write_iops_log"), "{text}");
    }

    #[test]
    fn a_job_through_the_page_cache_is_marked() {
        let caching = |text: &str| JobSource::parse(text, "x.fio".into()).unwrap();
        let job = "[a]\nrw=randread\nsize=1m\n";
        let found = caching(job);
        assert_eq!(found.caching, Caching::PageCache);
        assert_eq!(found.description, "x.fio (without direct=1: files and disks by the page cache)");
        for direct in ["[global]\ndirect=1\n", "[global]\ndirect\n", "[global]\nbuffered = 0\n"] {
            let found = caching(&format!("{direct}{job}"));
            assert_eq!((found.caching, found.description.as_str()), (Caching::Direct, "x.fio"), "{direct}");
        }
        let one = format!("[global]\ndirect=1\n{job}[b]\nrw=randread\nsize=1m\ndirect=0\n");
        assert_eq!(caching(&one).caching, Caching::PageCache);
        assert_eq!(article().caching, Caching::Direct);
    }

    #[test]
    fn the_reason_for_an_unknown_job_size_is_named() {
        let job = JobSource::parse("[a]\nrw=read\nsize=50%\n", String::new()).unwrap();
        assert_eq!(job.bytes, None);
        assert!(job.why_unknown.starts_with("`size`: \"50%\" was found"), "{}", job.why_unknown);
        assert_eq!(article().why_unknown, "");
    }

    #[test]
    fn the_ramp_time_of_a_job_is_known() {
        let text = "[a]\nrw=randread\nsize=1m\nruntime=3\nramp_time=2\n";
        let job = JobSource::parse(text, String::new()).unwrap();
        assert_eq!((job.length, job.ramp), (Some(Duration::from_secs(5)), Duration::from_secs(2)));
        assert_eq!(article().ramp, Duration::ZERO);
    }

    #[test]
    fn options_of_the_target_are_removed_from_a_job_file() {
        let text = "[global]\nioengine=io_uring\nfilename=/dev/sda\nrw=randread\nsize=1m\n[a]\nrw=randwrite\ngroup_reporting\n";
        let job = JobSource::parse(text, String::new()).unwrap();
        assert_eq!(job.access(), Access::Writes);
        assert_eq!(job.left_out(), ["filename=/dev/sda", "group_reporting"]);
        let uri = kickcache_daemon::plan::nbd_uri::NbdUri::parse("nbd://h/x").unwrap();
        let text = job.text(&Place::Nbd(uri), 1, None);
        assert!(
            text.contains("ioengine=nbd\nuri=nbd\\://h\\:10809/x\n")
                || text.contains("uri=nbd://h:10809/x\n"),
            "{text}"
        );
        assert!(!text.contains("/dev/sda") && !text.contains("io_uring"), "{text}");
        let text = job.text(&Place::Disk("/dev/sdb".into()), 1, None);
        assert!(text.contains("ioengine=io_uring"), "{text}");
    }
}
