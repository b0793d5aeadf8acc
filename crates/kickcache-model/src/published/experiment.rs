//! An experiment: a published row by name, what is simulated for it, and the columns that show the results.
//!
//! Text, JSON and the page are made from columns alone, each by one renderer that knows no row.

use crate::published::simulation::{Outcomes, RunOf, Simulation};

/// A row of a [`Table`].
pub struct Experiment {
    /// Its name.
    pub name: String,
    /// What stands behind the name in a table.
    pub mark: String,
    /// What a page says about it, in a few words.
    pub note: String,
    /// What must be simulated.
    pub run: Vec<Simulation>,
    /// Its charts on a page; none if there is nothing to chart.
    pub charts: Option<Charts>,
    /// Its columns, in the order of the table, once everything has run.
    pub columns: Columns,
}

/// Reads columns out of what all simulations gave.
pub type Columns = Box<dyn Fn(&Outcomes) -> Vec<Column>>;

/// The charts of an experiment; those of the same runs are shown once.
pub struct Charts {
    /// What they are about.
    pub title: String,
    /// The runs.
    pub runs: Vec<RunOf>,
    /// What stands below the title.
    pub note: ChartsNote,
}

/// What stands below the title of charts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChartsNote {
    /// The names of all experiments that share them.
    Names,
    /// Nothing.
    Nothing,
}

/// A figure of an experiment, and where it is shown.
#[derive(Clone, PartialEq, Debug)]
pub struct Column {
    /// Its place in JSON, from the outside in, with dots between; none if it follows from others.
    pub key: Option<String>,
    /// Its heading in a table; none if it stands in JSON alone.
    pub heading: Option<&'static str>,
    /// The figure.
    pub figure: Figure,
}

impl Column {
    /// A column of tables and of JSON.
    pub fn new(heading: &'static str, key: impl Into<String>, figure: Figure) -> Column {
        Column { key: Some(key.into()), heading: Some(heading), figure }
    }

    /// A column of tables alone.
    pub fn derived(heading: &'static str, figure: Figure) -> Column {
        Column { key: None, heading: Some(heading), figure }
    }

    /// A figure that only JSON has.
    pub fn untold(key: impl Into<String>, figure: Figure) -> Column {
        Column { key: Some(key.into()), heading: None, figure }
    }
}

/// A figure, and of which kind it is.
#[derive(Clone, PartialEq, Debug)]
pub enum Figure {
    /// There is none.
    Missing,
    /// Words.
    Words(&'static str),
    /// Something that is counted.
    Count(u64),
    /// Operations a second, or MiB a second.
    Rate(f64),
    /// A rate beside the one that is asked for.
    RateAsked {
        /// The rate.
        rate: f64,
        /// What is asked.
        asked: f64,
    },
    /// One for each job.
    ByJob(Vec<f64>),
    /// A part, in percent.
    Percent(f64),
    /// How often one is the other.
    Ratio(f64),
    /// A part of the reads, from 0 to 1; charts show what is missing, of a million.
    PartOfReads(f64),
    /// What is asked, as it was written.
    Asked(f64),
    /// The most that is asked for.
    AtMost(f64),
}

impl Figure {
    /// What `show` makes of a number, if there is one.
    pub fn of<T>(number: Option<T>, show: impl Fn(T) -> Figure) -> Figure {
        number.map_or(Figure::Missing, show)
    }

    /// What a chart shows of it; nothing for what is no single number.
    pub fn charted(&self) -> Option<f64> {
        match *self {
            Figure::Rate(number)
            | Figure::RateAsked { rate: number, .. }
            | Figure::Percent(number)
            | Figure::Ratio(number)
            | Figure::Asked(number)
            | Figure::AtMost(number) => Some(number),
            Figure::PartOfReads(part) => Some((1.0 - part) * 1_000_000.0),
            Figure::Missing | Figure::Words(_) | Figure::Count(_) | Figure::ByJob(_) => None,
        }
    }
}

/// Experiments whose columns are the same.
pub struct Table {
    /// Its place in JSON.
    pub key: &'static str,
    /// What stands above it as text; nothing for the first one.
    pub caption: Option<&'static str>,
    /// The heading of the column with names.
    pub names: &'static str,
    /// Its heading on a page.
    pub heading: &'static str,
    /// What a page says about its figures.
    pub note: &'static str,
    /// The columns that a page shows, in its order; ratios are to the first.
    pub series: &'static [Series],
    /// The rows.
    pub experiments: Vec<Experiment>,
}

/// A column as a page names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Series {
    /// What the page calls it.
    pub name: &'static str,
    /// [`Column::key`].
    pub key: &'static str,
}
