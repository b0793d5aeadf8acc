//! An experiment: a published row by name, its simulations, and the columns that show the results.
//!
//! Text, JSON and the page are made from columns alone, each by one renderer without code for single rows.

use crate::published::simulation::{Outcomes, RunOf, Simulation};

/// A row of a [`Table`].
pub struct Experiment {
    /// Its name.
    pub name: String,
    /// The text behind the name in a table.
    pub mark: String,
    /// A page's note on the experiment, in a few words.
    pub note: String,
    /// The simulations that the experiment needs.
    pub run: Vec<Simulation>,
    /// Its charts on a page; none if there is no data to chart.
    pub charts: Option<Charts>,
    /// Its columns, in the order of the table, once all simulations have run.
    pub columns: Columns,
}

/// Reads columns out of the results of all simulations.
pub type Columns = Box<dyn Fn(&Outcomes) -> Vec<Column>>;

/// The charts of an experiment; charts of the same runs are shown once.
pub struct Charts {
    /// The subject of the charts.
    pub title: String,
    /// The runs.
    pub runs: Vec<RunOf>,
    /// The note below the title.
    pub note: ChartsNote,
}

/// The note below the title of charts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChartsNote {
    /// The names of all experiments that share the charts.
    Names,
    /// No note.
    Nothing,
}

/// A figure of an experiment, and where it is shown.
#[derive(Clone, PartialEq, Debug)]
pub struct Column {
    /// Its place in JSON, from the outside in, with dots between; none if it follows from others.
    pub key: Option<String>,
    /// Its heading in a table; none if the column is in JSON only.
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

/// A figure and its kind.
#[derive(Clone, PartialEq, Debug)]
pub enum Figure {
    /// The figure is missing.
    Missing,
    /// Words.
    Words(&'static str),
    /// A count.
    Count(u64),
    /// Operations a second, or MiB a second.
    Rate(f64),
    /// A rate with its required value.
    RateAsked {
        /// The rate.
        rate: f64,
        /// The required rate.
        asked: f64,
    },
    /// A rate for each job.
    ByJob(Vec<f64>),
    /// A part, in percent.
    Percent(f64),
    /// The ratio of two figures.
    Ratio(f64),
    /// A share of the reads, from 0 to 1; charts show the other reads, in a million.
    PartOfReads(f64),
    /// The required value, as it was written.
    Asked(f64),
    /// The required upper limit.
    AtMost(f64),
}

impl Figure {
    /// `show` of a value; [`Figure::Missing`] if there is none.
    pub fn of<T>(number: Option<T>, show: impl Fn(T) -> Figure) -> Figure {
        number.map_or(Figure::Missing, show)
    }

    /// The number that a chart shows; `None` for a count, and for a figure that is not a single number.
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

/// Experiments with the same columns.
pub struct Table {
    /// The key of the table in JSON.
    pub key: &'static str,
    /// The text above the table; none for the first table.
    pub caption: Option<&'static str>,
    /// The heading of the column with names.
    pub names: &'static str,
    /// The heading of the table on a page.
    pub heading: &'static str,
    /// A page's note on the figures.
    pub note: &'static str,
    /// The columns that a page shows, in its order; ratios are to the first.
    pub series: &'static [Series],
    /// The rows.
    pub experiments: Vec<Experiment>,
}

/// A column as a page names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Series {
    /// The name on the page.
    pub name: &'static str,
    /// The [`Column::key`] of the column.
    pub key: &'static str,
}
