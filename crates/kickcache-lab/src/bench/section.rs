//! A job file of fio as sections of lines.

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Section {
    pub(super) name: String,
    pub(super) options: Vec<String>,
}

impl Section {
    /// The name of an option: the text before its `=`, in lower case.
    pub(super) fn key(option: &str) -> String {
        option.split('=').next().unwrap_or_default().trim().to_lowercase()
    }

    pub(super) fn values<'a>(&'a self, names: &'a [&str]) -> impl Iterator<Item = &'a str> {
        self.options
            .iter()
            .filter(|option| names.contains(&Section::key(option).as_str()))
            .map(|option| option.split_once('=').map_or("", |(_, value)| value.trim()))
    }

    pub(super) fn text(&self) -> String {
        let options: String = self.options.iter().map(|option| format!("{option}\n")).collect();
        format!("[{}]\n{options}", self.name)
    }
}

/// The sections of a job file.
///
/// # Errors
/// If an option precedes the first section, another file is included, or no section is a job.
pub(super) fn parse(text: &str) -> anyhow::Result<Vec<Section>> {
    let mut sections: Vec<Section> = Vec::new();
    // `#` and `;` begin a comment at any place, also in a value.
    let lines = text.lines().map(|line| line.split(['#', ';']).next().unwrap_or_default().trim());
    for line in lines.filter(|line| !line.is_empty()) {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
            sections.push(Section { name: name.into(), options: Vec::new() });
            continue;
        }
        if line.starts_with("include") {
            anyhow::bail!("`{line}` is not followed; put that file's sections into the job file");
        }
        let Some(section) = sections.last_mut() else {
            anyhow::bail!(
                "`{line}` precedes the first section; a job file begins with a line such as [global]"
            );
        };
        section.options.push(line.into());
    }
    if sections.iter().all(|section| section.name == "global") {
        anyhow::bail!("it has no job; expected a section such as [job1]");
    }
    Ok(sections)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_keep_their_options() {
        let sections = parse("; c\n[global]\nrw = randrw\nnorandommap\n\n[a]\nbs=4k # a comment\n").unwrap();
        assert_eq!(sections.len(), 2);
        assert_eq!(sections[0].values(&["rw", "readwrite"]).collect::<Vec<_>>(), ["randrw"]);
        assert_eq!(sections[0].values(&["norandommap"]).collect::<Vec<_>>(), [""]);
        assert_eq!(sections[1].text(), "[a]\nbs=4k\n");
    }

    #[test]
    fn an_invalid_job_file_is_refused() {
        let fault = |text: &str| parse(text).unwrap_err().to_string();
        assert!(fault("bs=4k").contains("precedes the first section"));
        assert!(fault("[global]\nbs=4k").contains("no job"));
        assert!(fault("[a]\ninclude b.fio").contains("is not followed"));
        assert!(fault("[a]\ninclude\tb.fio").contains("is not followed"), "fio takes any sign behind it");
    }
}
