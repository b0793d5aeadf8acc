//! The sections of a man page behind the options.

use clap_mangen::roff::{Roff, bold, roman};

const EXAMPLES: &str = "EXAMPLES";
const NOTES: &str = "NOTES";
const SIGNALS: &str = "SIGNALS";
const EXIT_STATUS: &str = "EXIT STATUS";

/// The first words of a paragraph of the help, and its section; other paragraphs are notes.
const HEADINGS: [(&str, &str); 3] =
    [("Examples:", EXAMPLES), ("Signals:", SIGNALS), ("Exit codes", EXIT_STATUS)];

/// The id of the option that names another file, the default paths, the meaning.
const FILES: [(&str, &str, &str); 4] = [
    ("config", "/etc/kickcache/kickcache.toml", "Configuration file, see kickcache.toml(5)."),
    (
        "control",
        "$XDG_RUNTIME_DIR/kickcache/control.sock, /run/kickcache/control.sock",
        "Control socket of the daemon.",
    ),
    ("nbd", "$XDG_RUNTIME_DIR/kickcache/NAME.nbd.sock", "NBD socket of a volume without an address."),
    (
        "state",
        "/var/lib/kickcache, $XDG_STATE_HOME/kickcache, ~/.local/state/kickcache",
        "State directory: which cache device each origin has, and whether it may be dirty.",
    ),
];

const EXIT_CODES: &str =
    "  0  success\n  1  failure; the message on standard error has the reason\n  2  an argument is wrong";
const EXIT_CODES_OF_DAEMON: &str = "  3  no daemon answers at the control socket
  10  the daemon did not answer in time; the operation may still be running";

const REFERENCES: [&str; 4] =
    ["kickcache(1)", "kickcache-serve(1)", "kickcache-status(1)", "kickcache.toml(5)"];

pub(super) fn render(command: &clap::Command, roff: &mut Roff) {
    let help = command.get_after_long_help().or_else(|| command.get_after_help());
    let help = help.map(ToString::to_string).unwrap_or_default();
    let paragraphs: Vec<Paragraph<'_>> = help.split("\n\n").map(Paragraph::of).collect();
    for title in [EXAMPLES, NOTES, SIGNALS, EXIT_STATUS] {
        let named = paragraphs.iter().filter(|paragraph| paragraph.section == title);
        let mut bodies: Vec<&str> = named.map(|paragraph| paragraph.body).collect();
        if title == EXIT_STATUS && bodies.is_empty() {
            bodies.push(EXIT_CODES);
            bodies.extend(has_option(command, "control").then_some(EXIT_CODES_OF_DAEMON));
        }
        bodies.retain(|body| !body.trim().is_empty());
        if !bodies.is_empty() {
            roff.control("SH", [title]);
            bodies.iter().for_each(|body| render_body(body, roff));
        }
    }
    render_files(command, roff);
    render_references(command, roff);
}

struct Paragraph<'a> {
    section: &'static str,
    /// Without the heading.
    body: &'a str,
}

impl Paragraph<'_> {
    fn of(text: &str) -> Paragraph<'_> {
        match HEADINGS.iter().find(|(start, _)| text.starts_with(start)) {
            Some((_, section)) => {
                let body = text.split_once(':').map_or(text, |(_, body)| body);
                Paragraph { section, body: body.strip_prefix(' ').unwrap_or(body) }
            }
            None => Paragraph { section: NOTES, body: text },
        }
    }
}

/// Text with indented lines keeps its lines; other text is filled.
fn render_body(body: &str, roff: &mut Roff) {
    let body = body.trim_matches('\n');
    if !body.lines().any(|line| line.starts_with(' ')) {
        roff.control("PP", []).text([roman(body.split_whitespace().collect::<Vec<_>>().join(" "))]);
        return;
    }
    roff.control("nf", []);
    for line in body.lines() {
        roff.text([roman(line.strip_prefix("  ").unwrap_or(line))]);
    }
    roff.control("fi", []);
}

fn render_files(command: &clap::Command, roff: &mut Roff) {
    roff.control("SH", ["FILES"]);
    let named = FILES.iter().filter(|(option, ..)| has_option(command, option));
    let files = named.map(|(_, paths, meaning)| (*paths, *meaning));
    for (paths, meaning) in files.chain([("/usr/share/doc/kickcache", "Documentation.")]) {
        roff.control("TP", []).text([bold(paths)]).text([roman(meaning)]);
    }
}

fn render_references(command: &clap::Command, roff: &mut Roff) {
    let own = format!("{}(1)", page_name(command));
    let others: Vec<&str> = REFERENCES.into_iter().filter(|page| *page != own).collect();
    roff.control("SH", ["SEE ALSO"]).text([roman(others.join(", "))]);
}

fn has_option(command: &clap::Command, id: &str) -> bool {
    command.get_arguments().any(|argument| argument.get_id() == id)
}

pub(super) fn page_name(command: &clap::Command) -> &str {
    command.get_display_name().unwrap_or_else(|| command.get_name())
}
