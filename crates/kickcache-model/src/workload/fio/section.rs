//! The sections of a job file: lines of `option=value`, what `[global]` says before a job applies to it.

use crate::workload::fio::error::JobFileError;

/// An option where it stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Line {
    pub(crate) number: usize,
    pub(crate) option: String,
    /// Empty for options that stand alone.
    pub(crate) value: String,
}

impl Line {
    pub(crate) fn error(&self, what: impl Into<String>) -> JobFileError {
        JobFileError { place: format!("line {}", self.number), what: what.into() }
    }
}

/// A job with its options, those of `[global]` first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Section {
    pub(crate) name: String,
    pub(crate) lines: Vec<Line>,
}

impl Section {
    pub(crate) fn error(&self, what: impl Into<String>) -> JobFileError {
        JobFileError { place: format!("job [{}]", self.name), what: what.into() }
    }
}

/// The jobs of a file.
pub(crate) fn parse(text: &str) -> Result<Vec<Section>, JobFileError> {
    let mut global: Vec<Line> = Vec::new();
    let mut sections: Vec<Section> = Vec::new();
    let mut is_global = true;
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            is_global = name.0 == "global";
            if !is_global {
                sections.push(Section { name: name.0.into(), lines: global.clone() });
            }
            continue;
        }
        let line = option(number, line)?;
        match sections.last_mut() {
            Some(section) if !is_global => section.lines.push(line),
            _ if is_global => global.push(line),
            _ => return Err(line.error("an option was found before the first section; begin with [NAME]")),
        }
    }
    if sections.is_empty() {
        let what = "no job was found; write a section such as [job] with its options";
        return Err(JobFileError { place: "the job file".into(), what: what.into() });
    }
    Ok(sections)
}

fn option(number: usize, text: &str) -> Result<Line, JobFileError> {
    let (option, value) = text.split_once('=').unwrap_or((text, ""));
    let value = value.trim().trim_matches('"').to_owned();
    let line = Line { number, option: option.trim().to_lowercase(), value };
    if line.value.contains("${") {
        return Err(line.error(format!("{:?} names a variable; write the value itself", line.value)));
    }
    Ok(line)
}
