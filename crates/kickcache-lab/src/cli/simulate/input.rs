//! The inputs of a simulation.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use kickcache_command::exit::Failure;
use kickcache_command::notice::notice;
use kickcache_model::trace_file::Format;
use kickcache_model::trace_file::survey::{Survey, survey};
use kickcache_units::counted;

/// The most bytes of a text that users write.
const BYTES_MAX: u64 = 1 << 20;

/// The text of a file of at most [`BYTES_MAX`].
pub(crate) fn read(what: &str, path: &Path) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(BYTES_MAX + 1).read_to_end(&mut bytes));
    let wrong = match read {
        // Comments may be in another encoding.
        Ok(_) if bytes.len() as u64 <= BYTES_MAX => return Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Ok(_) => "it has more than 1 MiB, and a few lines were expected; name another file".into(),
        Err(error) => error.to_string(),
    };
    Err(Failure::usage(format!("the {what} {} cannot be read: {wrong}", path.display())))
}

/// Surveys a trace; records that were changed or skipped are reported on standard error. A trace without reads and
/// writes is refused.
pub(crate) fn survey_trace(name: &str, path: &Path, format: Option<Format>) -> Result<Survey, Failure> {
    let survey = survey(path, format)
        .map_err(|error| Failure::usage(format!("the trace {name} cannot be read: {error}")))?;
    survey.repairs.sentences().iter().for_each(|sentence| notice(&format!("{name}: {sentence}")));
    if survey.bad_lines > 0 {
        let parts = counted(survey.bad_lines, "part");
        notice(&format!("{name}: left out {parts} that made no sense, such as:"));
        survey.first_bad_lines.iter().for_each(|line| notice(&format!("  {line}")));
    }
    if survey.touches == 0 {
        return Err(Failure::usage(format!("the trace {name} has no reads and writes")));
    }
    Ok(survey)
}
