//! Tables for people: aligned columns, and colour where it is welcome.

use std::io::{self, IsTerminal};

use kickcache_units::printable::printable_line;

use crate::user_text::Printer;

/// The alignment of a column's cells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Align {
    /// Left.
    Left,
    /// Right.
    Right,
}

/// The meaning of a cell, shown as a colour.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Tone {
    /// Without a colour.
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
pub enum Colour {
    /// Cells are coloured.
    On,
    /// Cells are not coloured.
    Off,
}

impl Colour {
    /// On for a terminal, unless `NO_COLOR` has a value or the terminal is dumb.
    pub fn for_stdout() -> Colour {
        let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        if io::stdout().is_terminal() && !set("NO_COLOR") && !dumb { Colour::On } else { Colour::Off }
    }
}

/// One cell.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cell {
    text: String,
    tone: Tone,
}

impl Cell {
    /// A cell without a colour.
    pub fn new(text: impl AsRef<str>) -> Cell {
        Cell::toned(text, Tone::Plain)
    }

    /// A cell; control characters and line breaks are escaped.
    pub fn toned(text: impl AsRef<str>, tone: Tone) -> Cell {
        Cell { text: printable_line(text.as_ref()).into(), tone }
    }

    /// The cell with another tone.
    pub fn with_tone(self, tone: Tone) -> Cell {
        Cell { tone, ..self }
    }

    fn width(&self) -> usize {
        self.text.chars().count()
    }
}

/// The rank of a column that is never dropped; higher ranks are dropped first.
pub const KEEP: u8 = 0;
const GAP: &str = "  ";

/// A table.
#[derive(Clone, Debug)]
pub struct Table {
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
    pub fn new(columns: &[(&str, Align)]) -> Table {
        let ranked: Vec<_> = columns.iter().map(|(name, align)| (*name, *align, KEEP)).collect();
        Table::ranked(&ranked)
    }

    /// A table; each column has a rank.
    pub fn ranked(columns: &[(&str, Align, u8)]) -> Table {
        let headings = columns.iter().map(|(name, _, _)| Cell::toned(*name, Tone::Heading)).collect();
        let columns = columns.iter().map(|&(_, align, rank)| Column { align, rank }).collect();
        Table { columns, rows: vec![headings] }
    }

    /// Adds a row, which must have as many cells as there are headings.
    pub fn row(&mut self, cells: Vec<Cell>) {
        debug_assert_eq!(cells.len(), self.columns.len());
        self.rows.push(cells);
    }

    /// Prints all columns.
    pub fn print(&self, out: &mut dyn Printer, colour: Colour) -> io::Result<()> {
        self.print_within(out, colour, None)
    }

    /// Prints the columns that fit into a width, and the columns of the rank [`KEEP`] in any case; without a width,
    /// prints every column.
    pub fn print_within(
        &self,
        out: &mut dyn Printer,
        colour: Colour,
        width: Option<usize>,
    ) -> io::Result<()> {
        let widths: Vec<usize> = (0..self.columns.len()).map(|column| self.width_of(column)).collect();
        let shown = self.choose(&widths, width);
        for row in &self.rows {
            let last = shown.iter().rposition(|&column| !row[column].text.is_empty());
            for (index, &column) in shown.iter().enumerate().take(last.map_or(0, |last| last + 1)) {
                let (cell, align) = (&row[column], self.columns[column].align);
                let space = " ".repeat(widths[column].saturating_sub(cell.width()));
                let gap = if index == 0 { "" } else { GAP };
                let (before, after) = match align {
                    Align::Left if Some(index) == last => ("", ""),
                    Align::Left => ("", space.as_str()),
                    Align::Right => (space.as_str(), ""),
                };
                write!(out, "{gap}{before}")?;
                paint(out, &cell.text, cell.tone, colour)?;
                write!(out, "{after}")?;
            }
            writeln!(out)?;
        }
        Ok(())
    }

    fn width_of(&self, column: usize) -> usize {
        self.rows.iter().map(|row| row[column].width()).max().unwrap_or(0)
    }

    fn choose(&self, widths: &[usize], width: Option<usize>) -> Vec<usize> {
        let mut shown: Vec<usize> = (0..self.columns.len()).collect();
        let taken = |shown: &[usize]| shown.iter().map(|&column| widths[column] + GAP.len()).sum::<usize>();
        while width.is_some_and(|width| taken(&shown) > width + GAP.len()) {
            let ranks = shown.iter().map(|&column| self.columns[column].rank);
            let Some(last) = ranks.max().filter(|rank| *rank != KEEP) else { break };
            let at = shown.iter().rposition(|&column| self.columns[column].rank == last);
            shown.remove(at.expect("the rank is among them"));
        }
        shown
    }
}

/// Prints a text in the colour of its tone.
pub fn paint(out: &mut dyn Printer, text: &str, tone: Tone, colour: Colour) -> io::Result<()> {
    let sequence = match (colour, tone) {
        (Colour::Off, _) | (Colour::On, Tone::Plain) => return write!(out, "{text}"),
        (Colour::On, Tone::Heading) => "\x1b[1m",
        (Colour::On, Tone::Good) => "\x1b[32m",
        (Colour::On, Tone::Warning) => "\x1b[33m",
        (Colour::On, Tone::Bad) => "\x1b[1;31m",
    };
    out.control(sequence)?;
    write!(out, "{text}")?;
    out.control("\x1b[0m")
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
    fn a_cell_stays_in_its_line_and_column() {
        let mut table = Table::new(&[("NAME", Align::Left), ("SIZE", Align::Right)]);
        table.row(vec![Cell::new("a\n\u{1b}[2J"), Cell::new("0 B")]);
        let mut out = Vec::new();
        table.print(&mut out, Colour::Off).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "NAME          SIZE\na\\n\\u001b[2J   0 B\n");
    }

    #[test]
    fn colours_do_not_count_as_width() {
        assert!(printed(Colour::On).ends_with("\x1b[32mgrößer\x1b[0m     0 B\n"));
    }
}
