//! The sections of a job file: lines of `option=value`. The lines of `[global]` apply to the jobs after it.

use crate::quote::{quote, shorten};
use crate::workload::fio::error::JobFileError;
use crate::workload::fio::values::KbBase;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Line {
    pub(crate) number: usize,
    pub(crate) option: String,
    /// Empty for options without a value.
    pub(crate) value: String,
    /// The meaning of its units: `kb_base` of its section.
    pub(crate) kb_base: KbBase,
}

impl Line {
    pub(crate) fn error(&self, what: impl Into<String>) -> JobFileError {
        JobFileError { place: format!("line {}", self.number), what: what.into() }
    }
}

/// A section with its options; in a job, the options of the earlier `[global]` sections precede its own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Section {
    pub(crate) name: String,
    pub(crate) lines: Vec<Line>,
}

impl Section {
    pub(crate) fn error(&self, what: impl Into<String>) -> JobFileError {
        JobFileError { place: format!("job [{}]", shorten(&self.name)), what: what.into() }
    }

    /// Whether the section is global: as with fio, its name begins with `global`.
    fn is_global(&self) -> bool {
        self.name.starts_with("global")
    }
}

pub(crate) fn parse(text: &str) -> Result<Vec<Section>, JobFileError> {
    let (mut global, mut base) = (Vec::new(), KbBase::default());
    let mut jobs = Vec::new();
    for mut section in sections(text)? {
        let own = set_kb_base(&mut section, base)?;
        if section.is_global() {
            global.extend(section.lines);
            base = own;
        } else {
            jobs.push(Section { name: section.name, lines: [&global[..], &section.lines].concat() });
        }
    }
    if jobs.is_empty() {
        let what = "no job was found; write a section such as [job] with its options";
        return Err(JobFileError { place: "the job file".into(), what: what.into() });
    }
    Ok(jobs)
}

fn sections(text: &str) -> Result<Vec<Section>, JobFileError> {
    let mut sections: Vec<Section> = Vec::new();
    for (number, line) in (1..).zip(text.trim_start_matches('\u{feff}').lines()) {
        // Both signs begin a comment at any place of a line, also in a value.
        let line = line.split(['#', ';']).next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        if let Some((name, _)) = line.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            sections.push(Section { name: name.into(), lines: Vec::new() });
            continue;
        }
        let line = option(number, line)?;
        match sections.last_mut() {
            Some(section) => section.lines.push(line),
            None => {
                return Err(line.error("an option was found before the first section; begin with [NAME]"));
            }
        }
    }
    Ok(sections)
}

fn set_kb_base(section: &mut Section, inherited: KbBase) -> Result<KbBase, JobFileError> {
    let base = match section.lines.iter().rfind(|line| line.option == "kb_base") {
        Some(line) => KbBase::of(&line.value).map_err(|what| line.error(format!("`kb_base`: {what}")))?,
        None => inherited,
    };
    section.lines.iter_mut().for_each(|line| line.kb_base = base);
    Ok(base)
}

fn option(number: usize, text: &str) -> Result<Line, JobFileError> {
    let (option, value) = text.split_once('=').unwrap_or((text, ""));
    let value = value.trim().trim_matches('"').to_owned();
    let option = option.trim().to_lowercase();
    let line = Line { number, option, value, kb_base: KbBase::default() };
    if line.value.contains("${") {
        return Err(line.error(format!("{} names a variable; write the value itself", quote(&line.value))));
    }
    if line.option.starts_with("include") {
        return Err(line.error("`include` is not followed; put the lines of that file here"));
    }
    Ok(line)
}
