//! The options of a job file that the bench passes on to fio, leaves out, or refuses.

use anyhow::bail;

use crate::bench::section::Section;

/// Options that the target decides or the bench needs, and options that write to other files or remove the
/// target.
const LEFT_OUT: [&str; 20] = [
    "filename",
    "filename_format",
    "directory",
    "opendir",
    "uri",
    "unlink",
    "unlink_each_loop",
    "randseed",
    "randrepeat",
    "allrandrepeat",
    "group_reporting",
    "write_iolog",
    "write_bw_log",
    "write_lat_log",
    "write_hist_log",
    "write_iops_log",
    "log_avg_msec",
    "log_unix_epoch",
    "per_job_logs",
    "log_max_value",
];
/// Engines that only read and write the given target, or make no I/O. Others may remove files, change their size, or
/// use other destinations.
const ENGINES: [&str; 16] = [
    "cpuio",
    "io_uring",
    "io_uring_cmd",
    "libaio",
    "libpmem",
    "mmap",
    "nbd",
    "null",
    "posixaio",
    "psync",
    "pvsync",
    "pvsync2",
    "sg",
    "splice",
    "sync",
    "vsync",
];
/// The allowed values of `rw`, besides values with a `$`.
const PATTERNS: [&str; 11] = [
    "read",
    "write",
    "trim",
    "randread",
    "randwrite",
    "randtrim",
    "rw",
    "readwrite",
    "randrw",
    "trimwrite",
    "randtrimwrite",
];

pub(super) fn is_left_out(option: &str) -> bool {
    LEFT_OUT.contains(&Section::key(option).as_str())
}

/// Refuses options that are neither passed on nor left out.
///
/// # Errors
/// A sentence that names the option.
pub(super) fn check(sections: &[Section]) -> anyhow::Result<()> {
    sections.iter().flat_map(|section| &section.options).try_for_each(|option| check_one(option))
}

fn check_one(option: &str) -> anyhow::Result<()> {
    let key = Section::key(option);
    let value = option.split_once('=').map_or("", |(_, value)| value.trim());
    // The rest of the value is for the engine, or a parameter of the pattern.
    let word = value.split([':', ',']).next().unwrap_or_default();
    match key.as_str() {
        name if name.contains('$') => {
            bail!("`{option}`: the name of this option depends on the environment; write its name")
        }
        "ioengine" if !ENGINES.contains(&word) => bail!(
            "`{option}`: this engine does something else than to read and write the target; choose libaio, io_uring or psync"
        ),
        "read_iolog" => {
            bail!("`{option}`: a recording names files of its own; describe the job by rw, bs and size")
        }
        "rw" | "readwrite" if !PATTERNS.contains(&word) && !word.contains('$') => {
            bail!("`{option}`: fio knows no such pattern; write one such as rw=randread")
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::section;

    #[test]
    fn options_beyond_reads_and_writes_are_refused() {
        let checked = |option: &str| check(&section::parse(&format!("[a]\n{option}\n")).unwrap());
        for fine in ["ioengine=libaio", "ioengine = pvsync2 # x", "rw=rw", "rw=randread:8", "rw=${RW}"] {
            assert!(checked(fine).is_ok(), "{fine}");
        }
        for refused in [
            "ioengine=filedelete",
            "ioengine = filedelete:x",
            "ioengine=ftruncate",
            "ioengine=${E}",
            "read_iolog=x.log",
            "${UNLINK}=1",
            "readwrite=bogus",
        ] {
            let said = checked(refused).unwrap_err().to_string();
            assert!(said.starts_with(&format!("`{refused}`: ")), "{said}");
        }
    }

    #[test]
    fn options_that_remove_the_target_are_omitted() {
        for option in ["unlink=1", "unlink", "unlink_each_loop = 1", "write_iolog=x", "filename=/dev/sda"] {
            assert!(is_left_out(option), "{option}");
        }
        assert!(!is_left_out("rw=read"));
    }
}
