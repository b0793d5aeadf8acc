//! Tables for people: aligned columns, and colour where it is welcome.

use std::io::{self, IsTerminal, Write};

/// On which side a column's cells stand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// How a cell is meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Tone {
    /// As it is.
    #[default]
    Plain,
    /// A heading.
    Heading,
    /// All is well.
    Good,
    /// Worth a look.
    Warning,
    /// Something is broken.
    Bad,
}

/// Whether tones are shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Colour {
    /// They are.
    On,
    /// They are not.
    Off,
}

impl Colour {
    /// On for a terminal, unless `NO_COLOR` is set or the terminal is dumb.
    pub(crate) fn for_stdout() -> Colour {
        let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        if io::stdout().is_terminal() && !set("NO_COLOR") && !dumb { Colour::On } else { Colour::Off }
    }
}

/// One cell.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Cell {
    text: String,
    tone: Tone,
}

impl Cell {
    pub(crate) fn new(text: impl Into<String>) -> Cell {
        Cell { text: text.into(), tone: Tone::Plain }
    }

    pub(crate) fn toned(text: impl Into<String>, tone: Tone) -> Cell {
        Cell { text: text.into(), tone }
    }

    /// The same, meant otherwise.
    pub(crate) fn with_tone(self, tone: Tone) -> Cell {
        Cell { tone, ..self }
    }

    fn width(&self) -> usize {
        self.text.chars().count()
    }
}

/// Which columns a table can do without where there is no room: the highest go first, these never.
pub(crate) const KEEP: u8 = 0;
/// Spaces between two columns.
const GAP: usize = 2;

/// A table that is printed as a whole.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

#[derive(Clone, Copy, Debug)]
struct Column {
    align: Align,
    rank: u8,
}

impl Table {
    /// A table with these headings.
    pub(crate) fn new(columns: &[(&str, Align)]) -> Table {
        let ranked: Vec<_> = columns.iter().map(|(name, align)| (*name, *align, KEEP)).collect();
        Table::ranked(&ranked)
    }

    /// The same, with a rank for each column.
    pub(crate) fn ranked(columns: &[(&str, Align, u8)]) -> Table {
        let headings = columns.iter().map(|(name, _, _)| Cell::toned(*name, Tone::Heading)).collect();
        let columns = columns.iter().map(|&(_, align, rank)| Column { align, rank }).collect();
        Table { columns, rows: vec![headings] }
    }

    /// Adds a row; it has as many cells as there are headings.
    pub(crate) fn row(&mut self, cells: Vec<Cell>) {
        debug_assert_eq!(cells.len(), self.columns.len());
        self.rows.push(cells);
    }

    /// Prints it.
    pub(crate) fn print(&self, out: &mut dyn Write, colour: Colour) -> io::Result<()> {
        self.print_within(out, colour, None)
    }

    /// Prints as many of its columns as there is room for.
    pub(crate) fn print_within(
        &self,
        out: &mut dyn Write,
        colour: Colour,
        width: Option<usize>,
    ) -> io::Result<()> {
        let widths: Vec<usize> = (0..self.columns.len()).map(|column| self.width_of(column)).collect();
        let shown = self.choose(&widths, width);
        for row in &self.rows {
            let padded: Vec<String> = shown
                .iter()
                .map(|&column| pad(&row[column], self.columns[column].align, widths[column], colour))
                .collect();
            writeln!(out, "{}", padded.join(&" ".repeat(GAP)).trim_end())?;
        }
        Ok(())
    }

    fn width_of(&self, column: usize) -> usize {
        self.rows.iter().map(|row| row[column].width()).max().unwrap_or(0)
    }

    /// The columns that fit.
    fn choose(&self, widths: &[usize], width: Option<usize>) -> Vec<usize> {
        let mut shown: Vec<usize> = (0..self.columns.len()).collect();
        let taken = |shown: &[usize]| shown.iter().map(|&column| widths[column] + GAP).sum::<usize>();
        while width.is_some_and(|width| taken(&shown) > width + GAP) {
            let ranks = shown.iter().map(|&column| self.columns[column].rank);
            let Some(last) = ranks.max().filter(|rank| *rank != KEEP) else { break };
            let at = shown.iter().rposition(|&column| self.columns[column].rank == last);
            shown.remove(at.expect("the rank is one of those"));
        }
        shown
    }
}

fn pad(cell: &Cell, align: Align, width: usize, colour: Colour) -> String {
    let space = " ".repeat(width.saturating_sub(cell.width()));
    let text = paint(&cell.text, cell.tone, colour);
    match align {
        Align::Left => format!("{text}{space}"),
        Align::Right => format!("{space}{text}"),
    }
}

/// The text in the colour of its tone.
pub(crate) fn paint(text: &str, tone: Tone, colour: Colour) -> String {
    let code = match (colour, tone) {
        (Colour::Off, _) | (Colour::On, Tone::Plain) => return text.into(),
        (Colour::On, Tone::Heading) => "1",
        (Colour::On, Tone::Good) => "32",
        (Colour::On, Tone::Warning) => "33",
        (Colour::On, Tone::Bad) => "1;31",
    };
    format!("\x1b[{code}m{text}\x1b[0m")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(colour: Colour) -> String {
        let mut table = Table::new(&[("NAME", Align::Left), ("SIZE", Align::Right)]);
        table.row(vec![Cell::new("a"), Cell::new("10 GiB")]);
        table.row(vec![Cell::toned("größer", Tone::Good), Cell::new("0 B")]);
        let mut out = Vec::new();
        table.print(&mut out, colour).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn columns_are_aligned() {
        assert_eq!(printed(Colour::Off), "NAME      SIZE\na       10 GiB\ngrößer     0 B\n");
    }

    #[test]
    fn columns_leave_by_rank_until_the_rest_fits() {
        let columns = [("NAME", Align::Left, KEEP), ("MODE", Align::Left, 1), ("SIZE", Align::Right, 2)];
        let mut table = Table::ranked(&columns);
        table.row(vec![Cell::new("volume"), Cell::new("bypass"), Cell::new("10 GiB")]);
        let printed = |width| {
            let mut out = Vec::new();
            table.print_within(&mut out, Colour::Off, Some(width)).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(printed(22), "NAME    MODE      SIZE\nvolume  bypass  10 GiB\n");
        assert_eq!(printed(21), "NAME    MODE\nvolume  bypass\n");
        assert_eq!(printed(13), "NAME\nvolume\n");
        assert_eq!(printed(1), "NAME\nvolume\n");
    }

    #[test]
    fn colours_do_not_count_as_width() {
        assert!(printed(Colour::On).ends_with("\x1b[32mgrößer\x1b[0m     0 B\n"));
    }
}
