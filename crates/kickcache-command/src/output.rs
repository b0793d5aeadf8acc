//! Files that a command writes in addition to its output.

use std::fs::{self, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use anyhow::Context;

use crate::exit::Failure;
use crate::notice::notice;
use crate::whole_file;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Identity {
    File { device: u64, inode: u64 },
    BlockDevice(u64),
}

impl Identity {
    /// `None` for files that store no data: a terminal, a pipe, /dev/null.
    fn of(metadata: &Metadata) -> Option<Identity> {
        let kind = metadata.file_type();
        if kind.is_file() {
            return Some(Identity::File { device: metadata.dev(), inode: metadata.ino() });
        }
        kind.is_block_device().then(|| Identity::BlockDevice(metadata.rdev()))
    }
}

/// Tries whether files can be written.
///
/// # Errors
/// If an output cannot be opened, or is an input or another output.
pub fn try_out(outputs: &[Option<&Path>], inputs: &[&Path]) -> Result<(), Failure> {
    let mut known: Vec<Written<'_>> = Vec::new();
    let result = outputs.iter().copied().flatten().try_for_each(|path| try_one(path, &mut known, inputs));
    known.iter().for_each(Written::forget);
    result
}

fn try_one<'a>(path: &'a Path, known: &mut Vec<Written<'a>>, inputs: &[&Path]) -> Result<(), Failure> {
    let is_new = path.symlink_metadata().is_err();
    let identity = open(path)
        .map_err(|error| Failure::usage(format!("{} cannot be written: {error}", path.display())))?;
    let twin = known.iter().find(|other| identity.is_some() && other.identity == identity);
    let wrong = match twin {
        Some(twin) => Some(format!(
            "{} and {} are one file, and each would be written over the other; name two",
            twin.path.display(),
            path.display()
        )),
        None => read_as(identity, inputs).map(|input| over(path, input)),
    };
    known.push(Written { path, identity, is_new });
    wrong.map_or(Ok(()), |wrong| Err(Failure::usage(wrong)))
}

/// Refuses an existing output file that is also an input.
///
/// # Errors
/// A sentence that names both.
pub fn check_apart(output: &Path, inputs: &[&Path]) -> Result<(), Failure> {
    let stands = if output.as_os_str() == "-" { fs::metadata("/dev/stdout") } else { fs::metadata(output) };
    let identity = stands.ok().and_then(|found| Identity::of(&found));
    read_as(identity, inputs).map_or(Ok(()), |input| Err(Failure::usage(over(output, input))))
}

struct Written<'a> {
    path: &'a Path,
    identity: Option<Identity>,
    is_new: bool,
}

impl Written<'_> {
    fn forget(&self) {
        if self.is_new {
            let _ = fs::remove_file(self.path);
        }
    }
}

fn open(path: &Path) -> io::Result<Option<Identity>> {
    let file = OpenOptions::new().create(true).append(true).open(path)?;
    Ok(Identity::of(&file.metadata()?))
}

fn read_as<'a>(identity: Option<Identity>, inputs: &[&'a Path]) -> Option<&'a Path> {
    let identity = identity?;
    let is_it = |input: &&&Path| metadata(input).is_ok_and(|found| Identity::of(&found) == Some(identity));
    inputs.iter().find(is_it).copied()
}

/// `-` is standard input.
fn metadata(path: &Path) -> io::Result<Metadata> {
    if path.as_os_str() == "-" { fs::metadata("/dev/stdin") } else { fs::metadata(path) }
}

fn over(output: &Path, input: &Path) -> String {
    let name = |path: &Path, standard: &str| match path.as_os_str() == "-" {
        true => standard.to_owned(),
        false => path.display().to_string(),
    };
    let (output, input) = (name(output, "standard output"), name(input, "standard input"));
    format!("{output} would be written over {input}, which is read; name another file")
}

/// Writes a report.
pub fn write(path: &Path, page: &str) -> anyhow::Result<()> {
    whole_file::write(path, page)
        .with_context(|| format!("the report {} cannot be written", path.display()))?;
    notice(&format!("The report is in {}.", path.display()));
    Ok(())
}

/// Writes a result in JSON.
///
/// # Errors
/// If the file cannot be written.
pub fn write_result(path: &Path, json: &str) -> anyhow::Result<()> {
    whole_file::write(path, json)
        .with_context(|| format!("the result {} cannot be written", path.display()))?;
    notice(&format!("The result is in {}.", path.display()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_try_leaves_everything_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let (new, old) = (folder.path().join("new.html"), folder.path().join("old.html"));
        fs::write(&old, "an older report").unwrap();
        for path in [&new, &old] {
            try_out(&[Some(path)], &[]).unwrap();
        }
        assert!(!new.exists(), "an interrupted run would leave it");
        assert_eq!(fs::read_to_string(&old).unwrap(), "an older report");
        assert!(try_out(&[Some(folder.path())], &[]).is_err(), "a directory is no report");
    }

    #[test]
    fn an_input_is_never_overwritten_under_any_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let (read, hard, soft, other) = (path("read"), path("hard"), path("soft"), path("other"));
        fs::write(&read, "a result").unwrap();
        fs::hard_link(&read, &hard).unwrap();
        std::os::unix::fs::symlink("read", &soft).unwrap();
        for output in [&read, &hard, &soft] {
            let refused = try_out(&[None, Some(output)], &[&other, &read]).unwrap_err().sentence();
            assert!(refused.ends_with("read, which is read; name another file"), "{refused}");
            assert_eq!(check_apart(output, &[&read]).unwrap_err().sentence(), refused);
        }
        assert_eq!(fs::read_to_string(&read).unwrap(), "a result");
        try_out(&[Some(&other)], &[&read]).unwrap();
        check_apart(&other, &[&read]).unwrap();
        let null = Path::new("/dev/null");
        try_out(&[Some(null), Some(null)], &[null]).unwrap();
    }

    #[test]
    fn two_outputs_are_two_files() {
        let folder = tempfile::tempdir().unwrap();
        let (one, soft) = (folder.path().join("one"), folder.path().join("soft"));
        std::os::unix::fs::symlink("one", &soft).unwrap();
        let refused = try_out(&[Some(&one), Some(&soft)], &[]).unwrap_err().sentence();
        assert!(refused.ends_with("are one file, and each would be written over the other; name two"));
        assert!(!one.exists(), "it was not there");
    }

    #[test]
    fn a_failed_try_leaves_no_file_either() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let (new, old, none) = (path("new"), path("old"), path("no folder/report"));
        fs::write(&old, "an older report").unwrap();
        for outputs in [[&new, &old, &none], [&old, &new, &none]] {
            let refused = try_out(&outputs.map(|output| Some(output.as_path())), &[]).unwrap_err().sentence();
            assert!(refused.contains("no folder/report cannot be written"), "{refused}");
            assert!(!new.exists(), "it was not there");
            assert_eq!(fs::read_to_string(&old).unwrap(), "an older report");
        }
    }
}
